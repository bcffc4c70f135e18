package process

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapDelay gathers a burst of child exits into one look at the children.
const reapDelay = 100 * time.Millisecond

// birth names a process for good: pids are used again, pairs are not.
type birth struct {
	pid   int
	start uint64
}

// sweep is the outcome of ending what a command left behind.
type sweep struct {
	killed, survivors int
	status            syscall.WaitStatus // of the leader
}

// endTree kills what is left of p's tree, its leader included, and reaps it.
// Without p it ends everything this supervisor ever started. It repeats until a
// look at the children finds none, because what is being killed may still fork.
func (s *Supervisor) endTree(p *Process) (r sweep) {
	deadline := time.NewTimer(killWait)
	defer deadline.Stop()
	if p != nil {
		if !p.hasExited() {
			_ = unix.Kill(-p.pid, unix.SIGKILL)
		}
		select {
		case <-p.exited:
		case <-deadline.C:
			s.abandon(p)
			return sweep{survivors: 1, status: syscall.WaitStatus(unix.SIGKILL)}
		}
		if status, gone := s.reapLast(p); gone {
			return sweep{status: status}
		}
	}
	r.killed, r.survivors = s.endRounds(p, deadline.C)
	if p != nil {
		r.status = s.reapLeader(p)
	}
	return r
}

// reapLast reaps the exited leader p if it is the only child there is. What has
// no child has no descendant either, so the most frequent end of a command takes
// two system calls.
func (s *Supervisor) reapLast(p *Process) (_ syscall.WaitStatus, gone bool) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if len(s.orphans()) > 0 {
		return 0, false
	}
	status := reap(p.pid)
	s.forget(p)
	return status, true
}

func (s *Supervisor) reapLeader(p *Process) syscall.WaitStatus {
	s.starting.Lock()
	defer s.starting.Unlock()
	status := reap(p.pid)
	s.forget(p)
	return status
}

// abandon leaves a leader that outlived SIGKILL, so hangs in the kernel, to a
// goroutine; it stays registered until it ends.
func (s *Supervisor) abandon(p *Process) {
	s.log.Error("a command does not end", "pid", p.pid)
	go func() {
		<-p.exited
		reap(p.pid)
		s.forget(p)
	}()
}

func (s *Supervisor) endRounds(p *Process, deadline <-chan time.Time) (ended, survivors int) {
	killed := make(map[birth]bool)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		survivors = s.endRound(p, killed)
		if survivors == 0 {
			return len(killed), 0
		}
		select {
		case <-time.After(pause):
		case <-deadline:
			s.log.Error("processes left by a command do not end", "count", survivors)
			return len(killed), survivors
		}
	}
}

// endRound kills and reaps once, and returns how many were still there.
func (s *Supervisor) endRound(p *Process, killed map[birth]bool) (left int) {
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
		signalExactly(o.procStat, unix.SIGKILL)
	}
	return left
}

// signalExactly signals the process that was looked at, not one that has its
// number by now.
func signalExactly(st procStat, sig unix.Signal) {
	fd, err := unix.PidfdOpen(st.pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		_ = unix.Kill(st.pid, sig)
		return
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, err := readStat(st.pid); err == nil && now.start == st.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// reap collects the child pid if it has ended.
func reap(pid int) syscall.WaitStatus {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
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
