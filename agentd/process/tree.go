package process

import (
	"os"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// relative is a process below this one: the leader of a command, its descendant, or an orphan that was re-parented to
// us, or a descendant of an orphan.
type relative struct {
	procfs.Stat
	owner string // command id, "" if unknown
	child bool   // our own child, so ours to reap
}

// askGroup asks the processes in the group of p to end.
func (p *Process) askGroup() {
	_ = unix.Kill(-p.pid, unix.SIGTERM)
	if p.in != nil && p.in.tty {
		_ = unix.Kill(-p.pid, unix.SIGHUP) // an interactive shell ignores SIGTERM, but not the end of its terminal
	}
	_ = unix.Kill(-p.pid, unix.SIGCONT) // a stopped process acts on SIGTERM only when continued
}

// askMembers asks the processes of p that left its group, each once, and reports whether a process of p still runs.
func (s *Supervisor) askMembers(p *Process, asked map[birth]bool) (running bool) {
	for _, m := range s.members(p) {
		running = true
		if key := (birth{m.PID, m.Start}); m.Group != p.pid && !asked[key] {
			asked[key] = true
			signalExactly(m, unix.SIGTERM)
			signalExactly(m, unix.SIGCONT)
		}
	}
	return running
}

// members lists the running processes of p, and those that only p can own.
func (s *Supervisor) members(p *Process) (found []procfs.Stat) {
	s.starting.Lock()
	defer s.starting.Unlock()
	for _, r := range s.relatives(true) {
		if r.Running() && (r.owner == p.id || r.owner == "" && s.orphaned(r, p)) {
			found = append(found, r.Stat)
		}
	}
	return found
}

// relatives lists the processes below us; live leaders and the processes below them only if attached is set. The caller
// holds starting.
func (s *Supervisor) relatives(attached bool) (found []relative) {
	reg := s.register()
	byParent := make(map[int][]procfs.Stat)
	for _, st := range procfs.All() {
		byParent[st.Parent] = append(byParent[st.Parent], st)
	}
	var walk func(parent int, owner string, depth int)
	walk = func(parent int, owner string, depth int) {
		for _, st := range byParent[parent] {
			r := relative{Stat: st, child: depth == 0}
			if id := reg.leaders[st.PID]; depth == 0 && id != "" {
				if !attached {
					continue
				}
				r.owner = id
			} else {
				r.owner = reg.ownerOf(st, owner)
			}
			found = append(found, r)
			if depth < maxTreeDepth {
				walk(st.PID, r.owner, depth+1)
			}
		}
	}
	walk(os.Getpid(), "", 0)
	return found
}

// maxTreeDepth bounds the recursion. A deeper chain of processes is ended from the top, in several rounds.
const maxTreeDepth = 10_000

// register maps what identifies the processes of a running command to the command's id.
type register struct {
	own     int            // our own session, in which no command's process can be
	leaders map[int]string // by pid, which is also the session
}

func (s *Supervisor) register() register {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := register{leaders: make(map[int]string, len(s.live))}
	r.own, _ = unix.Getsid(0)
	for pid, p := range s.live {
		r.leaders[pid] = p.id
	}
	return r
}

// ownerOf returns the command that st belongs to: a session cannot be entered from outside and decides before the
// parent.
func (r register) ownerOf(st procfs.Stat, parent string) string {
	if st.Session == r.own {
		return "" // started by other code of this program
	}
	if id := r.leaders[st.Session]; id != "" {
		return id
	}
	return parent
}

// orphaned reports whether o has no owner that is still running, other than p.
func (s *Supervisor) orphaned(o relative, p *Process) bool {
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
	// The owner is unknown. A command's processes are younger than the command, so o goes with p if p can be its
	// owner and no other running command can.
	if !s.exclusive || s.firstStart == 0 || o.Start < s.firstStart || p != nil && o.Start < p.start {
		return false
	}
	for _, q := range s.live {
		if q != p && q.start <= o.Start {
			return false
		}
	}
	return true
}
