package turns

import "time"

// Place is what a process in a container sees of it: what `agentd debug
// container` prints, one JSON object. It is the container's word: a host compares
// it with what it asked for and believes nothing else of it.
type Place struct {
	Version string    `json:"version"` // of agentd
	OS      string    `json:"os"`
	Arch    string    `json:"arch"`
	Time    time.Time `json:"time"` // the clock
	UID     int       `json:"uid"`
	GID     int       `json:"gid"`

	Capabilities    string `json:"capabilities"` // effective, in hex as the kernel prints it
	NoNewPrivileges bool   `json:"no_new_privileges"`
	Seccomp         int    `json:"seccomp"` // 0 none, 2 a filter

	CgroupVersion int     `json:"cgroup_version"` // 0: not seen
	Memory        int64   `json:"memory_bytes"`   // 0 none or not seen, as those below
	Pids          int64   `json:"pids"`
	CPUs          float64 `json:"cpus"`

	Programs map[string]string `json:"programs"` // paths of git, a shell and what projects need, as far as it is there
	Shared   *SharedFiles      `json:"exchange"` // null: none was asked for
}

// SharedFiles is the state of files in a directory that host and container share.
type SharedFiles struct {
	Read  string `json:"read"`  // what the host's file says, of which the container's writes are copies
	Error string `json:"error"` // "": all could be done
}

// Names of the shared files. The container reads SharedFromHost, writes, reads back
// and deletes SharedSentinel, and leaves SharedFromContainer.
const (
	SharedFromHost      = "from-host"
	SharedSentinel      = "sentinel"
	SharedFromContainer = "from-container"
)
