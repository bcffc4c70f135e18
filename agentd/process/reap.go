package process

import (
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapDelay gathers a burst of child exits into one look at the children.
const reapDelay = 100 * time.Millisecond

// orphan is a process under us that is not the leader of a command: a child
// that was re-parented to us, or a descendant of one.
type orphan struct {
	procStat
	owner string // command id, "" when it cannot be told
	child bool   // our own child, so ours to reap
}

// birth names a process for good: pids are used again, pairs are not.
type birth struct {
	pid   int
	start uint64
}

// sweep is the outcome of ending what a command left behind.
type sweep struct{ killed, survivors int }

// endStrays kills the rest of p's group and everything that escaped from it,
// and reaps it. Without p it ends everything this supervisor ever started. It
// repeats until a look at the children finds none, because what is being killed
// may still fork.
func (s *Supervisor) endStrays(p *running) (r sweep) {
	deadline := time.NewTimer(killWait)
	defer deadline.Stop()
	if p != nil && !p.hasExited() {
		_ = unix.Kill(-p.pid, unix.SIGKILL)
		select {
		case <-p.exited:
		case <-deadline.C:
			r.survivors++
			return r
		}
	}
	killed := make(map[birth]bool)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		r.survivors = s.endRound(p, killed)
		r.killed = len(killed)
		if r.survivors == 0 {
			return r
		}
		select {
		case <-time.After(pause):
		case <-deadline.C:
			s.log.Error("processes left by a command do not end", "count", r.survivors)
			return r
		}
	}
}

func (p *running) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// endRound kills and reaps once, and returns how many were still there.
func (s *Supervisor) endRound(p *running, killed map[birth]bool) (left int) {
	s.starting.Lock()
	defer s.starting.Unlock()
	orphans := s.orphans()
	if p != nil {
		// The unreaped leader keeps the number of the group ours.
		defer unix.Kill(-p.pid, unix.SIGKILL)
	}
	for _, o := range orphans {
		key := birth{o.pid, o.start}
		if o.state == 'Z' {
			if o.child && (s.exclusive || o.owner != "" || killed[key]) {
				reap(o.pid)
			}
			continue
		}
		if !s.doomed(o, p) {
			continue
		}
		left++
		killed[key] = true
		kill(o.procStat)
	}
	return left
}

// doomed reports whether o has no owner that is still running, p aside.
func (s *Supervisor) doomed(o orphan, p *running) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.owner != "" {
		for _, q := range s.live {
			if q != p && q.id == o.owner {
				return false
			}
		}
		return true
	}
	// Nobody's, by its looks. A command can only have made what is younger than
	// itself, so it goes with p if p could be its origin and nobody else could.
	if !s.exclusive || s.firstStart == 0 || o.start < s.firstStart || p != nil && o.start < p.start {
		return false
	}
	for _, q := range s.live {
		if q != p && q.start <= o.start {
			return false
		}
	}
	return true
}

// orphans lists what is under us and not a command of ours. The caller holds
// starting. A look costs tens of microseconds when there are none.
func (s *Supervisor) orphans() []orphan {
	leaders := s.leaders()
	if pids, ok := ownChildren(); ok {
		known := true
		for _, pid := range pids {
			known = known && leaders[pid] != ""
		}
		if known {
			return nil
		}
	}
	byParent := make(map[int][]procStat)
	for _, st := range scan() {
		byParent[st.ppid] = append(byParent[st.ppid], st)
	}
	var found []orphan
	var walk func(parent int, owner string, depth int)
	walk = func(parent int, owner string, depth int) {
		for _, st := range byParent[parent] {
			if depth == 0 && leaders[st.pid] != "" {
				continue
			}
			o := orphan{procStat: st, owner: s.ownerOf(st, leaders, owner), child: depth == 0}
			found = append(found, o)
			if depth < maxTreeDepth {
				walk(st.pid, o.owner, depth+1)
			}
		}
	}
	walk(os.Getpid(), "", 0)
	return found
}

// maxTreeDepth bounds the recursion; a chain of processes deeper than this is
// ended from the top, a layer of parents a round.
const maxTreeDepth = 10_000

// leaders maps the pid of each live command's leader to the command's id.
func (s *Supervisor) leaders() map[int]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make(map[int]string, len(s.live))
	for pid, p := range s.live {
		ids[pid] = p.id
	}
	return ids
}

// ownerOf tells whose process st is. A session cannot be entered from outside,
// so it is the best witness; the environment is the next, the parent the last.
func (s *Supervisor) ownerOf(st procStat, leaders map[int]string, parent string) string {
	if id := leaders[st.session]; id != "" {
		return id
	}
	if id := readCommandID(st.pid); strings.HasPrefix(id, s.prefix) {
		return id
	}
	return parent
}

// kill ends exactly the process that was looked at, not one that has its number
// by now.
func kill(st procStat) {
	fd, err := unix.PidfdOpen(st.pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		_ = unix.Kill(st.pid, unix.SIGKILL)
		return
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, err := readStat(st.pid); err == nil && now.start == st.start {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

func reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// groupAlive reports whether a process of the group still runs.
func groupAlive(pgid int) bool {
	for _, st := range scan() {
		if st.pgrp == pgid && st.state != 'Z' {
			return true
		}
	}
	return false
}

// startReaper collects orphans that end by themselves while commands run, and,
// as PID 1, those of anybody. It waits for children by pid and only for ones
// that no command waits for: a wait for "any child" would steal exit codes.
func (s *Supervisor) startReaper() {
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD)
	s.reaper.Go(func() {
		defer signal.Stop(exits)
		for {
			select {
			case <-s.closing:
				return
			case <-exits:
			}
			select {
			case <-s.closing:
				return
			case <-time.After(reapDelay):
			}
			s.reapZombies()
		}
	})
}

func (s *Supervisor) reapZombies() {
	s.starting.Lock()
	defer s.starting.Unlock()
	for _, o := range s.orphans() {
		if o.child && o.state == 'Z' && (s.exclusive || o.owner != "") {
			reap(o.pid)
		}
	}
}
