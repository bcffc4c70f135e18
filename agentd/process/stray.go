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
	Boot  string `json:"boot_id"`       // of the kernel
	Space string `json:"pid_namespace"` // in which PID counts
	PID   int    `json:"pid"`           // of the leader, and of its session; 0: not known yet
	Start uint64 `json:"start_ticks"`   // when the leader started, in the kernel's clock
	Mark  uint64 `json:"mark,omitempty"`
}

// Trace returns the trace of a command. It is the zero Trace, which finds nothing, once the command has ended.
func (p *Process) Trace() Trace {
	st, err := procfs.ReadStat(p.pid)
	if err != nil || isClosed(p.done) {
		return Trace{}
	}
	return Trace{Boot: p.s.boot, Space: p.s.space, PID: p.pid, Start: st.Start, Mark: uint64(p.mark)}
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
// process is taken for a stray of a command only by evidence that no other process can have by accident: it is the
// leader, by pid and time of start; it is in the session of the living leader; or it has inherited the command's mark.
// A pid that is used again is not enough. This program, its ancestors and its descendants are spared, and so is every
// process if the machine has been restarted or the pid namespace differs.
func EndStrays(traces []Trace) []Strays {
	h := hunt{spare: relation(procfs.All(), os.Getpid())}
	return h.end(traces)
}

// relation lists a process, its ancestors and its descendants.
func relation(all []procfs.Stat, pid int) map[int]bool {
	parents, children := make(map[int]int, len(all)), make(map[int][]int)
	for _, st := range all {
		parents[st.PID] = st.Parent
		children[st.Parent] = append(children[st.Parent], st.PID)
	}
	related := make(map[int]bool)
	for up := pid; up > 0 && !related[up]; up = parents[up] {
		related[up] = true
	}
	for next := children[pid]; len(next) > 0; next = next[1:] {
		if !related[next[0]] {
			related[next[0]] = true
			next = append(next, children[next[0]]...)
		}
	}
	return related
}

// hunt is one search for strays.
type hunt struct {
	spare map[int]bool

	leaders map[birth]int // indexes of traces
	marks   map[mark]int
}

func (h *hunt) end(traces []Trace) []Strays {
	result := make([]Strays, len(traces))
	if !h.know(traces) {
		return result
	}
	killed := make(map[birth]bool)
	deadline := time.Now().Add(killWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		// Stopped, none forks or outlives its leader unseen.
		left := freeze(func() map[birth]stray { return h.look(traces) },
			func(s stray) { signalExactly(s.Stat, unix.SIGSTOP) })
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

// know takes in the traces of commands that ran on this machine, since its start and in this pid namespace. It reports
// false if there are none.
func (h *hunt) know(traces []Trace) bool {
	h.leaders, h.marks = make(map[birth]int), make(map[mark]int)
	boot, space := place()
	for i, t := range traces {
		if boot == "" || t.Boot != boot || t.Space != space {
			continue
		}
		if t.PID > 1 {
			h.leaders[birth{t.PID, t.Start}] = i
		}
		if t.Mark != 0 {
			h.marks[mark(t.Mark)] = i
		}
	}
	return len(h.leaders)+len(h.marks) > 0
}

// stray is a process and the trace that it belongs to.
type stray struct {
	procfs.Stat
	trace int
}

// look lists the running strays.
func (h *hunt) look(traces []Trace) map[birth]stray {
	found := make(map[birth]stray)
	all := procfs.All()
	sessions := make(map[int]int) // of living leaders
	for _, st := range all {
		if i, ok := h.leaders[birth{st.PID, st.Start}]; ok {
			sessions[st.PID] = i
		}
	}
	for _, st := range all {
		if !st.Running() || st.PID <= 1 || h.spare[st.PID] {
			continue
		}
		i, ok := sessions[st.Session]
		if !ok {
			i, ok = h.marks[readMark(st.PID)]
		}
		if ok && st.Start >= traces[i].Start {
			found[birth{st.PID, st.Start}] = stray{st, i}
		}
	}
	return found
}
