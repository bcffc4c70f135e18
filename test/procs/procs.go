// Package procs finds processes and tells what they use, for those who measure.
package procs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// InContainers finds the processes in containers, and their shims, which are
// started with the container's id.
func InContainers(ids []string) (pids []int) {
	for _, pid := range all() {
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

// Tree returns a process and all that descend from it.
func Tree(root int) []int {
	children := make(map[int][]int)
	for _, pid := range all() {
		if f := stat(pid); len(f) > 1 {
			parent, _ := strconv.Atoi(string(f[1])) // the kernel writes numbers
			children[parent] = append(children[parent], pid)
		}
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

func all() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat returns what /proc/PID/stat says after the name, nothing when the process
// has ended.
func stat(pid int) [][]byte {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return bytes.Fields(rest)
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
	const tick = 10 * time.Millisecond // of /proc, on every Linux that Go runs on
	for _, pid := range pids {
		if f := stat(pid); len(f) > 12 {
			user, _ := strconv.Atoi(string(f[11])) // the kernel writes numbers
			system, _ := strconv.Atoi(string(f[12]))
			used += time.Duration(user+system) * tick
		}
	}
	return used
}
