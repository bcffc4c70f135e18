package runner

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
	"holon/runner/workspace"
)

// unlinked returns how many bytes of the disks of dirs the files take that processes of a container hold open, or
// mapped, and that have no name any more: a walk of directories does not find them. It knows those processes by their
// control group, whose path has the container's id. So it finds none where the engine runs on another machine or in a
// virtual one, where this process may not look at theirs, and none of a program that is not in a container.
func unlinked(container string, dirs []string) (sum int64) {
	disks := make(map[uint64]bool)
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			disks[uint64(st.Dev)] = true
		}
	}
	seen := make(map[[2]uint64]bool)
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || container == "" {
		return 0
	}
	for _, process := range processes {
		group, err := procfs.ReadFile(filepath.Join(process, "cgroup"), 64<<10)
		if err != nil || !strings.Contains(string(group), container) {
			continue
		}
		for _, kind := range []string{"fd", "map_files"} {
			open, err := os.ReadDir(filepath.Join(process, kind))
			if err != nil {
				continue // it ended, or is another user's
			}
			for _, file := range open {
				var st unix.Stat_t
				if unix.Stat(filepath.Join(process, kind, file.Name()), &st) != nil ||
					st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 || !disks[uint64(st.Dev)] {
					continue
				}
				if key := [2]uint64{uint64(st.Dev), st.Ino}; !seen[key] {
					seen[key] = true
					sum += workspace.Charge(st.Blocks)
				}
			}
		}
	}
	return sum
}
