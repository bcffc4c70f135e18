package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"holon/internal/procfs"
)

// InContainers finds the processes in containers, and their shims, which are
// started with the container's id.
func InContainers(ids []string) (pids []int) {
	for _, pid := range procfs.PIDs() {
		group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)) // it may have ended
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		for _, id := range ids {
			if bytes.Contains(group, []byte(id)) || bytes.Contains(line, []byte(id)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

func Tree(root int) []int {
	children := make(map[int][]int)
	for _, st := range procfs.All() {
		children[st.Parent] = append(children[st.Parent], st.PID)
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// Proportional is the proportional set size of a process, in bytes.
func Proportional(pid int) float64 { return kilobytes(pid, "smaps_rollup", "Pss:") }

// Resident is the resident set size of a process, in bytes.
func Resident(pid int) float64 { return kilobytes(pid, "status", "VmRSS:") }

func kilobytes(pid int, file, key string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // it may have ended
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key {
			kib, _ := strconv.ParseFloat(f[1], 64) // the kernel writes numbers
			return kib * 1024
		}
	}
	return 0
}

// Time is the processor time that processes have used, to ten milliseconds.
func Time(pids []int) (used time.Duration) {
	for _, pid := range pids {
		if st, err := procfs.ReadStat(pid); err == nil { // else it has ended
			used += time.Duration(st.CPU) * time.Second / procfs.ClockTicks
		}
	}
	return used
}
