package engine

import (
	"maps"
	"os"
	"slices"
)

// The defaults of a Spec, in one place. Besides these, every container has all
// capabilities dropped, no-new-privileges, the engine's default seccomp
// profile, a read-only root, a private IPC, PID and cgroup namespace, no
// devices, no core dumps and none of the engine's own sockets; no field makes
// those looser, except WritableRoot. There is no limit on a user's processes:
// the kernel counts those of all containers and of the host together, so
// PidsLimit does it for each container.
const (
	// Unlimited turns a limit off. It has to be asked for.
	Unlimited = -1

	DefaultMemory    = 2 << 30 // bytes, memory and swap together
	DefaultPids      = 512
	DefaultOpenFiles = 16384    // a daemon can only hand on what it has itself, often not much more
	DefaultFileSize  = 10 << 30 // bytes of one file; a larger one can't be collected either
	// DefaultNanoCPUs is four CPUs, or all of a smaller machine: one agent, or
	// what it left running, can't take a large machine for itself.
	DefaultNanoCPUs = 4e9
	ShmSize         = 64 << 20 // bytes of /dev/shm
	NetworkNone     = "none"   // a loopback interface and nothing else

	minFileSize = 1 << 20
	MinMemory   = 6 << 20 // what the docker engine accepts
	MinNanoCPUs = 1e7

	// Home is a writable directory for any user: a tmpfs by default, since the
	// root is read-only. Set HOME to it, images differ.
	Home = "/home/agent"
)

// DefaultTmpfs is what a Spec with nil Tmpfs gets. Programs may be run from
// /tmp and Home, because building and testing code does so.
func DefaultTmpfs() []Tmpfs {
	return []Tmpfs{
		{Target: "/tmp", Size: 1 << 30},
		{Target: "/run", Size: 64 << 20, NoExec: true},
		{Target: Home, Size: 512 << 20},
	}
}

// withDefaults copies what it fills in or passes on, so that neither side sees
// a later change of the other.
func (s Spec) withDefaults() Spec {
	s.Labels = maps.Clone(s.Labels)
	s.Args, s.Env, s.Mounts = slices.Clone(s.Args), slices.Clone(s.Env), slices.Clone(s.Mounts)
	user := User{UID: os.Getuid(), GID: os.Getgid()}
	if s.User != nil {
		user = *s.User
	}
	s.User = &user
	if s.WorkDir == "" {
		s.WorkDir = "/"
	}
	if s.Tmpfs == nil {
		s.Tmpfs = unmounted(DefaultTmpfs(), s.Mounts)
	}
	s.Tmpfs = slices.Clone(s.Tmpfs)
	for i := range s.Tmpfs {
		if t := &s.Tmpfs[i]; t.Inodes == 0 {
			t.Inodes = max(t.Size/bytesPerInode, minInodes)
		}
	}
	if s.Memory == 0 {
		s.Memory = DefaultMemory
	}
	if s.PidsLimit == 0 {
		s.PidsLimit = DefaultPids
	}
	if s.OpenFiles == 0 {
		s.OpenFiles = DefaultOpenFiles
	}
	if s.FileSize == 0 {
		s.FileSize = DefaultFileSize
	}
	if s.Network == "" {
		s.Network = NetworkNone
	}
	return s
}

// A file system in memory may have a file for every page of it: what is beyond
// would be empty files, which cost the kernel more than they hold.
const (
	bytesPerInode = 4 << 10
	minInodes     = 16
)

// unmounted leaves out the default file systems where the caller mounts
// something of its own.
func unmounted(tmpfs []Tmpfs, mounts []Mount) []Tmpfs {
	return slices.DeleteFunc(tmpfs, func(t Tmpfs) bool {
		return slices.ContainsFunc(mounts, func(m Mount) bool { return m.Target == t.Target })
	})
}
