package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// marked is a process that carries the environment of a program.
type marked struct {
	pid    int
	id     string
	labels map[string]string
}

// findMarked looks at all processes that this user may look at.
func findMarked() []marked {
	var found []marked
	for _, pid := range procfs.PIDs() {
		if m, ok := readMark(pid); ok {
			found = append(found, m)
		}
	}
	return found
}

func readMark(pid int) (marked, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return marked{}, false
	}
	m := marked{pid: pid}
	for pair := range bytes.SplitSeq(data, []byte{0}) {
		key, value, _ := bytes.Cut(pair, []byte{'='})
		switch string(key) {
		case idVariable:
			m.id = string(value)
		case labelsVariable:
			if json.Unmarshal(value, &m.labels) != nil {
				m.labels = nil // the program changed it: found by ID only
			}
		}
	}
	return m, m.id != ""
}

// killMarked kills every process with the mark id, until a look finds none: a
// process may fork while its siblings are being killed.
func killMarked(id string) {
	for range 100 {
		found := false
		for _, m := range findMarked() {
			if m.id == id {
				found = killIfMarked(m) || found
			}
		}
		if !found {
			return
		}
	}
}

// killIfMarked looks again through a descriptor, so that the process that is
// killed is the one that has the mark. It reports whether it killed.
func killIfMarked(m marked) bool {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if again, ok := readMark(m.pid); !ok || again.id != m.id {
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}
