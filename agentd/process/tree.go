package process

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// relative is a process under us: the leader of a command, a descendant of one,
// or an orphan, which was re-parented to us or descends from such a one.
type relative struct {
	procStat
	owner string // command id, "" when it cannot be told
	child bool   // our own child, so ours to reap
}

// askTree asks every process of p to end.
func (s *Supervisor) askTree(p *Process) {
	_ = unix.Kill(-p.pid, unix.SIGTERM)
	if p.in != nil && p.in.tty {
		_ = unix.Kill(-p.pid, unix.SIGHUP) // an interactive shell ignores SIGTERM, but not the end of its terminal
	}
	_ = unix.Kill(-p.pid, unix.SIGCONT) // a stopped process acts on SIGTERM only when continued
	for _, m := range s.members(p) {
		if m.pgrp != p.pid {
			signalExactly(m, unix.SIGTERM)
			signalExactly(m, unix.SIGCONT)
		}
	}
}

// treeAlive reports whether a process of p still runs.
func (s *Supervisor) treeAlive(p *Process) bool { return len(s.members(p)) > 0 }

// members lists the processes of p that run.
func (s *Supervisor) members(p *Process) (found []procStat) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if p.group != nil {
		return p.group.members()
	}
	for _, r := range s.relatives(true) {
		if r.owner == p.id && r.state != 'Z' {
			found = append(found, r.procStat)
		}
	}
	return found
}

// orphans lists what is under us and not under a live leader. The caller holds
// starting.
func (s *Supervisor) orphans() []relative {
	if !s.strangers(ownChildren) {
		return nil
	}
	return s.relatives(false)
}

// strangers reports whether this program has a child, among those that list
// finds, that leads no command. The caller holds starting.
func (s *Supervisor) strangers(list func() (pids []int, ok bool)) bool {
	if childless() {
		return false
	}
	pids, ok := list()
	if !ok {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range pids {
		if s.live[pid] == nil {
			return true
		}
	}
	return false
}

// relatives lists the processes under us; those under a live leader and the
// leader itself only if attached is set. The caller holds starting.
func (s *Supervisor) relatives(attached bool) (found []relative) {
	reg := s.register()
	byParent := make(map[int][]procStat)
	for _, st := range scan() {
		byParent[st.ppid] = append(byParent[st.ppid], st)
	}
	var walk func(parent int, owner string, depth int)
	walk = func(parent int, owner string, depth int) {
		for _, st := range byParent[parent] {
			r := relative{procStat: st, child: depth == 0}
			if id := reg.leaders[st.pid]; depth == 0 && id != "" {
				if !attached {
					continue
				}
				r.owner = id
			} else {
				r.owner = s.ownerOf(st, reg, owner)
			}
			found = append(found, r)
			if depth < maxTreeDepth {
				walk(st.pid, r.owner, depth+1)
			}
		}
	}
	walk(os.Getpid(), "", 0)
	return found
}

// maxTreeDepth bounds the recursion; a chain of processes deeper than this is
// ended from the top, a layer of parents a round.
const maxTreeDepth = 10_000

// register is who is who among the commands that run: their ids by what their
// processes are known by.
type register struct {
	leaders map[int]string // by pid, which is also the session
	marks   map[mark]string
}

func (s *Supervisor) register() register {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := register{make(map[int]string, len(s.live)), make(map[mark]string, len(s.live))}
	for pid, p := range s.live {
		r.leaders[pid] = p.id
		if p.mark != 0 {
			r.marks[p.mark] = p.id
		}
	}
	return r
}

// ownerOf tells whose process st is. A session cannot be entered from outside,
// so it is the best witness; a mark is not lost by accident; the environment is
// the next, and the parent the last.
func (s *Supervisor) ownerOf(st procStat, reg register, parent string) string {
	if id := reg.leaders[st.session]; id != "" {
		return id
	}
	if len(reg.marks) > 0 {
		if id := reg.marks[readMark(st.pid)]; id != "" {
			return id
		}
	}
	if id := readCommandID(st.pid); strings.HasPrefix(id, s.prefix) {
		return id
	}
	return parent
}

// doomed reports whether o has no owner that is still running, p aside.
func (s *Supervisor) doomed(o relative, p *Process) bool {
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
