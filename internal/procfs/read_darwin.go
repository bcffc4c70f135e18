package procfs

import "holon/internal/platform"

// SinceBoot is 0: there are no times of processes to compare it with.
func SinceBoot() uint64 { return 0 }

// ReadFile fails. The error is not os.ErrNotExist, which would say of a process that it has ended.
func ReadFile(path string, _ int) ([]byte, error) {
	return nil, platform.NeedsLinux{What: "reading " + path}
}
