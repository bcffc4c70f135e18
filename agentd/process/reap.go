package process

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// reapDelay gathers a burst of child exits into one inspection of the children.
const reapDelay = 100 * time.Millisecond

// birth identifies a process for good: pids are used again, pairs are not.
type birth struct {
	pid   int
	start uint64
}

// sweep is the outcome of ending what a command left behind.
type sweep struct {
	killed, survivors int
	status            syscall.WaitStatus // of the leader
}

// endTree kills what is left of p's tree, its leader included, and reaps it. Without p it ends everything this
// supervisor ever started. It repeats until no children are found, because processes that are being killed may still
// fork.
func (s *Supervisor) endTree(p *Process) (r sweep) {
	deadline := time.NewTimer(killWait)
	defer deadline.Stop()
	if p != nil {
		if !isClosed(p.exited) {
			_ = unix.Kill(-p.pid, unix.SIGKILL)
		}
		select {
		case <-p.exited:
		case <-deadline.C:
			s.abandon(p)
			return sweep{survivors: 1, status: syscall.WaitStatus(unix.SIGKILL)}
		}
	}
	r.killed, r.survivors = s.endRounds(p, deadline.C)
	if p != nil {
		s.starting.Lock()
		defer s.starting.Unlock()
		r.status = reap(p.pid)
		s.forget(p)
	}
	return r
}

// abandon leaves a leader that outlived SIGKILL, because it hangs in the kernel, to a goroutine. It stays registered
// until it ends.
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
		running, changed := s.endRound(p, killed)
		if !changed {
			return len(killed), 0
		}
		survivors = running
		select {
		case <-time.After(pause):
		case <-deadline:
			if survivors > 0 {
				s.log.Error("processes left by a command do not end", "count", survivors)
			}
			return len(killed), survivors
		}
	}
}

// endRound kills and reaps once. It returns how many still ran, and whether it found anything, running or dead. Only
// after a round that did not is nothing left: a look at all processes can miss one whose parent ends meanwhile, but
// then that parent, or what made it, is our dead child.
func (s *Supervisor) endRound(p *Process, killed map[birth]bool) (running int, changed bool) {
	s.starting.Lock()
	defer s.starting.Unlock()
	first := len(killed) == 0
	left, reaped := s.leftovers(p, killed)
	changed = len(left) > 0 || reaped
	if p != nil {
		// The unreaped leader keeps the number of the group ours.
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
	if !first && fresh(left, killed) {
		look := func() map[birth]procfs.Stat {
			found, _ := s.leftovers(p, killed)
			return found
		}
		left = freeze(look, func(st procfs.Stat) { signalGroup(st, unix.SIGSTOP) })
	}
	for key, st := range left {
		killed[key] = true
		signalGroup(st, unix.SIGKILL)
	}
	return len(left), changed
}

// maxFreeze bounds the search for processes that were born while their parents were being stopped.
const maxFreeze = 64

// freeze stops processes that fork while they are killed until look finds no new one. A stopped process does
// not fork but still counts against the limit on processes, so a fork bomb runs out of either.
func freeze(look func() map[birth]procfs.Stat, stop func(procfs.Stat)) map[birth]procfs.Stat {
	frozen := make(map[birth]procfs.Stat)
	for range maxFreeze {
		grown := false
		for key, found := range look() {
			if _, ok := frozen[key]; !ok {
				frozen[key], grown = found, true
				stop(found)
			}
		}
		if !grown {
			break
		}
	}
	return frozen
}

func fresh(left map[birth]procfs.Stat, killed map[birth]bool) bool {
	for key := range left {
		if !killed[key] {
			return true
		}
	}
	return false
}

// leftovers lists running processes that are to end with p, and reaps those that have ended; reaped says that one was
// of p. The caller holds starting.
func (s *Supervisor) leftovers(p *Process, killed map[birth]bool) (left map[birth]procfs.Stat, reaped bool) {
	left = make(map[birth]procfs.Stat)
	for _, o := range s.relatives(false) {
		key := birth{o.PID, o.Start}
		switch orphaned := s.orphaned(o, p); {
		case o.Running():
			if orphaned {
				left[key] = o.Stat
			}
		case o.child && (s.exclusive || o.owner != "" || killed[key]):
			reap(o.PID)
			reaped = reaped || orphaned || killed[key]
		}
	}
	return left, reaped
}

// signalGroup signals the process that was inspected and the rest of its process group: a session belongs to one
// command, so a group within it does. A group is signalled as one, before any of it can fork again.
func signalGroup(st procfs.Stat, sig unix.Signal) {
	if signalExactly(st, sig) && st.Group > 1 && st.Group != unix.Getpgrp() {
		_ = unix.Kill(-st.Group, sig)
	}
}

// signalExactly signals the process that was inspected, not a later one with its pid. It reports whether the process
// was still there, in the same group.
func signalExactly(st procfs.Stat, sig unix.Signal) bool {
	fd, err := unix.PidfdOpen(st.PID, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		_ = unix.Kill(st.PID, sig)
		return false
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	now, err := procfs.ReadStat(st.PID)
	if err != nil || now.Start != st.Start {
		return false
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0) == nil && now.Group == st.Group
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

// startReaper collects orphans that end by themselves while commands run; as PID 1, those of any process. It waits for
// children by pid, and only for those that no command waits for: a wait for "any child" would steal exit codes.
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
	for _, o := range s.relatives(false) {
		if o.child && !o.Running() && (s.exclusive || o.owner != "") {
			reap(o.PID)
		}
	}
}
