// Package report is what the suite's program says of its surroundings, shared
// by the program and the suite.
package report

// Report is the output of "probe report".
type Report struct {
	PID, UID, GID int
	Groups        []int
	Env           []string
	WorkDir       string
	Status        map[string]string // /proc/self/status
	Interfaces    []string          // network interfaces
	Writable      map[string]bool   // by directory
	OpenFiles     uint64
	CoreSize      uint64
	FileSize      uint64
	Inodes        map[string]uint64 // of the file system at a directory
	Devices       []string          // names in /dev
}
