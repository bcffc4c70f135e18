package engine

import (
	"maps"
	"os"
	"slices"
)

// The defaults of a Spec, in one place. Besides these, every container has all
// capabilities dropped, no-new-privileges, the engine's default seccomp
// profile, a read-only root, a private IPC, PID and cgroup namespace, no
// devices and none of the engine's own sockets; no field makes those looser,
// except WritableRoot.
const (
	// Unlimited turns a limit off. It has to be asked for.
	Unlimited = -1

	DefaultMemory    = 2 << 30 // bytes, memory and swap together
	DefaultPids      = 512
	DefaultOpenFiles = 16384  // a daemon can only hand on what it has itself, often not much more
	NetworkNone      = "none" // a loopback interface and nothing else

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
	if s.Memory == 0 {
		s.Memory = DefaultMemory
	}
	if s.PidsLimit == 0 {
		s.PidsLimit = DefaultPids
	}
	if s.OpenFiles == 0 {
		s.OpenFiles = DefaultOpenFiles
	}
	if s.Network == "" {
		s.Network = NetworkNone
	}
	return s
}

// unmounted leaves out the default file systems where the caller mounts
// something of its own.
func unmounted(tmpfs []Tmpfs, mounts []Mount) []Tmpfs {
	return slices.DeleteFunc(tmpfs, func(t Tmpfs) bool {
		return slices.ContainsFunc(mounts, func(m Mount) bool { return m.Target == t.Target })
	})
}
