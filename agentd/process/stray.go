package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// Trace is recorded for a command so that a later program can find what is left of it after this one was killed. It
// holds no secret and is not trusted: see [EndStrays].
type Trace struct {
	ID    string `json:"command_id"`    // of the command, which its processes have in their environment
	Boot  string `json:"boot_id"`       // of the kernel
	Space string `json:"pid_namespace"` // in which PID counts
	PID   int    `json:"pid"`           // of the leader, and of its session; 0: it has not started yet
	Start uint64 `json:"start_ticks"`   // when the leader started, in the kernel's clock
}

// Trace returns the trace of a command. It is the zero Trace, which finds nothing, once the command has ended.
func (p *Process) Trace() Trace {
	st, err := procfs.ReadStat(p.pid)
	if err != nil || isClosed(p.done) {
		return Trace{}
	}
	return Trace{ID: p.id, Boot: p.s.boot, Space: p.s.space, PID: p.pid, Start: st.Start}
}

// place names the kernel and the pid namespace that this program runs in.
func place() (boot, space string) {
	boot, err := procfs.BootID()
	if err != nil {
		return "", ""
	}
	space, err = os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", ""
	}
	return boot, space
}

// Strays counts what was left of a command.
type Strays struct {
	Ended     int // processes that were killed
	Survivors int // processes that could not be killed
}

// EndStrays ends what is left of commands whose supervisor was killed, and returns for each trace how much that was. A
// process is taken for a stray of a command only by evidence that no other process can have by accident: it has the id
// of the command in its environment, or it is the leader, by pid and time of start, or it is in the session or below
// the living leader. A pid that is used again is not enough. This program, its ancestors and its descendants are
// spared, and so is every process if the machine has been restarted or the pid namespace differs.
func EndStrays(traces []Trace) []Strays {
	return endStrays(traces, relation(procfs.All(), os.Getpid()))
}

func endStrays(traces []Trace, spare map[int]bool) []Strays {
	s := search{spare: spare, leaders: leaders(traces), ids: ids(traces), asked: make(map[birth]string),
		seen: make(map[birth]int)}
	return s.end(len(traces))
}

// relation lists a process, its ancestors and its descendants.
func relation(all []procfs.Stat, pid int) map[int]bool {
	related := make(map[int]bool)
	parents := make(map[int]int, len(all))
	for _, st := range all {
		parents[st.PID] = st.Parent
	}
	for _, down := range below(all, pid) {
		related[down] = true
	}
	for up := pid; up > 0 && !related[up]; up = parents[up] {
		related[up] = true
	}
	return related
}

// below lists the descendants of a process.
func below(all []procfs.Stat, pid int) (list []int) {
	children := make(map[int][]int)
	for _, st := range all {
		children[st.Parent] = append(children[st.Parent], st.PID)
	}
	for next := children[pid]; len(next) > 0; next = next[1:] {
		list = append(list, next[0])
		next = append(next, children[next[0]]...)
	}
	return list
}

// leaders maps the leaders of commands that ran on this machine, since its start and in this pid namespace, to the
// indexes of their traces.
func leaders(traces []Trace) map[birth]int {
	found := make(map[birth]int)
	boot, space := place()
	for i, t := range traces {
		if boot != "" && t.Boot == boot && t.Space == space && t.PID > 1 {
			found[birth{t.PID, t.Start}] = i
		}
	}
	return found
}

// ids maps the ids of commands to the indexes of their traces.
func ids(traces []Trace) map[string]int {
	found := make(map[string]int)
	for i, t := range traces {
		if t.ID != "" {
			found[t.ID] = i
		}
	}
	return found
}

// search is one search for strays.
type search struct {
	spare   map[int]bool
	leaders map[birth]int    // indexes of traces
	ids     map[string]int   // the same by command
	asked   map[birth]string // the command in the environment of a process, "" for none
	seen    map[birth]int    // strays that were found, which may lose their leader before they end
}

// end kills the strays until none is left, and returns the counts of n traces.
func (s search) end(n int) []Strays {
	result := make([]Strays, n)
	killed := make(map[birth]bool)
	deadline := time.Now().Add(killWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		// Stopped, none forks or outlives its leader unseen.
		left := freeze(s.look, func(s stray) { signalExactly(s.Stat, unix.SIGSTOP) })
		if len(left) == 0 {
			return result
		}
		for key, s := range left {
			if !killed[key] {
				killed[key] = true
				result[s.trace].Ended++
			}
			signalExactly(s.Stat, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			for _, s := range left {
				result[s.trace].Ended--
				result[s.trace].Survivors++
			}
			return result
		}
		time.Sleep(pause)
	}
}

// stray is a process and the trace that it belongs to.
type stray struct {
	procfs.Stat
	trace int
}

// command is the id of a command in the environment of a process, "" for none.
func (s search) command(st procfs.Stat) string {
	key := birth{st.PID, st.Start}
	id, ok := s.asked[key]
	if !ok && len(s.ids) > 0 {
		id = procfs.Environ(st.PID, idVariable)
		s.asked[key] = id
	}
	return id
}

// look lists the running strays: living leaders, what is in their sessions or below them, and what names their command.
func (s search) look() map[birth]stray {
	all := procfs.All()
	owner := make(map[int]int) // by pid
	for _, leader := range all {
		i, ok := s.leaders[birth{leader.PID, leader.Start}]
		if !ok {
			continue
		}
		owner[leader.PID] = i
		for _, pid := range below(all, leader.PID) {
			owner[pid] = i
		}
		for _, st := range all {
			if st.Session == leader.PID {
				owner[st.PID] = i
			}
		}
	}
	found := make(map[birth]stray)
	for _, st := range all {
		key := birth{st.PID, st.Start}
		i, ok := owner[st.PID]
		if !ok {
			i, ok = s.ids[s.command(st)]
		}
		if ok && st.PID > 1 && !s.spare[st.PID] {
			s.seen[key] = i
		}
		if i, ok := s.seen[key]; ok && st.Running() {
			found[key] = stray{st, i}
		}
	}
	return found
}
