package process

import (
	"os"
	"strconv"
	"strings"

	"holon/internal/procfs"
)

// ownChildren lists our children without scanning all processes. ok is false if the kernel was built without these
// files.
func ownChildren() (pids []int, ok bool) {
	tasks, err := os.Open("/proc/self/task")
	if err != nil {
		return nil, false
	}
	defer tasks.Close()
	names, _ := tasks.Readdirnames(-1)
	for _, tid := range names {
		of, ok := childrenOf(tid)
		if !ok {
			if _, gone := os.Stat("/proc/self/task/" + tid); gone != nil {
				continue // the thread ended in between
			}
			return nil, false
		}
		pids = append(pids, of...)
	}
	return pids, true
}

// adopted lists the children of our first thread: those that it started itself and all that were re-parented to us. The
// kernel gives orphans to the first thread of a process that has not ended, and that of a Go program never ends. This
// saves reading a file for every thread, of which there may be dozens.
func adopted() (pids []int, ok bool) { return childrenOf(strconv.Itoa(os.Getpid())) }

// childrenOf lists the children of one of our threads.
func childrenOf(tid string) (pids []int, ok bool) {
	data, err := procfs.ReadFile("/proc/self/task/"+tid+"/children", 1<<20)
	if err != nil {
		return nil, false
	}
	for f := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, true
}
