package engine

import (
	"fmt"
	"os"

	"holon/state"
)

// The defaults of a Spec, in one place. Besides these, every container has all
// capabilities dropped, no-new-privileges, the engine's default seccomp
// profile, a read-only root, a private IPC, PID and cgroup namespace, no
// devices, no core dumps and none of the engine's own sockets; no field makes
// those looser. There is no limit on a user's processes:
// the kernel counts those of all containers and of the host together, so
// MaxPids does it for each container.
const (
	// Unlimited turns a limit off. It has to be asked for.
	Unlimited = -1

	DefaultMemory = 2 << 30  // bytes, memory and swap together
	MaxPids       = 512      // processes and threads
	MaxOpenFiles  = 16384    // of a process; a daemon can only hand on what it has itself, often not much more
	MaxFileSize   = 10 << 30 // bytes of one file; a larger one can't be collected either
	// DefaultNanoCPUs is four CPUs, or all of a smaller machine: one agent, or
	// what it left running, can't take a large machine for itself.
	DefaultNanoCPUs = 4e9
	ShmSize         = 64 << 20 // bytes of /dev/shm
	NetworkNone     = "none"   // a loopback interface and nothing else

	MinMemory   = 6 << 20 // what the docker engine accepts
	MinNanoCPUs = 1e7

	// Home is a writable directory for any user: a tmpfs by default, since the
	// root is read-only. Set HOME to it, images differ.
	Home = "/home/agent"
)

// Tmpfs is a file system in memory at Target, mode 1777, which counts against
// the memory limit. It may have a file for every page: what is beyond would be
// empty files, which cost the kernel more than they hold.
type Tmpfs struct {
	Target string
	Size   int64 // bytes
	NoExec bool
}

// Inodes bounds the files.
func (t Tmpfs) Inodes() int64 { return t.Size / (4 << 10) }

// AllTmpfs lists those of every container. Programs may be run from /tmp and
// Home, because building and testing code does so.
func AllTmpfs() []Tmpfs {
	return []Tmpfs{
		{Target: "/tmp", Size: 1 << 30},
		{Target: "/run", Size: 64 << 20, NoExec: true},
		{Target: Home, Size: 512 << 20},
	}
}

func (s Spec) withDefaults() Spec {
	if s.User == nil && s.Service == nil {
		s.User = &User{UID: os.Getuid(), GID: os.Getgid()}
	}
	if s.Memory == 0 {
		s.Memory = DefaultMemory
	}
	if s.Network == "" {
		s.Network = NetworkNone
	}
	return s
}

// Isolation is what the engine says is in force for one program, as the record of a run shows it.
type (
	Isolation = state.Isolation
	Axis      = state.Axis
	Level     = state.Level
)

// The levels of an Axis.
const (
	HardEnforced  = state.HardEnforced
	RuntimeShaped = state.RuntimeShaped
	NotEnforced   = state.NotEnforced
)

// Weak names the axes of i, by JSON name, that are not hard_enforced although spec
// asks for nothing looser there.
func Weak(i Isolation, spec Spec) (names []string) {
	asked := map[string]bool{
		"user": spec.User != nil && spec.User.UID == 0, "network": spec.Network != "" && spec.Network != NetworkNone,
		"memory": spec.Memory == Unlimited, "privilege_separation": spec.Server == nil,
	}
	for name, axis := range i.Axes() {
		if axis.Level != HardEnforced && !asked[name] {
			names = append(names, name)
		}
	}
	return names
}

// Unconfined is the isolation of a program that runs on the host as user.
func Unconfined(user User) Isolation {
	as := func(value string) Axis { return Axis{Level: NotEnforced, Value: value} }
	return Isolation{
		User: as(fmt.Sprintf("%d:%d", user.UID, user.GID)), Separation: as("none"), Capabilities: as("host"),
		NoNewPrivileges: as("false"), Seccomp: as("none"), ReadOnlyRoot: as("false"), Network: as("host"),
		Pids:   as("unlimited"),
		Memory: as("unlimited"), CPU: as("unlimited"), OpenFiles: as("host"), FileSize: as("host"),
		CoreDumps: as("host"), Tmpfs: as("host"), IPC: as("host"), Cgroup: as("host"), MaskedPaths: as("host"),
		Init: as("host"), Devices: as("host"), Mounts: as("host"),
	}
}
