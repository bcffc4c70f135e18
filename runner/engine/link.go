package engine

import (
	"context"
	"io"
	"strings"
)

// The ways between the host and a program that Spec.Link asks for.
const (
	LinkAuto   = "auto"   // mounts where the engine shares directories with this process, else a stream
	LinkMounts = "mounts" // the program sees the sources of its mounts
	LinkStream = "stream" // it has copies of them, and sockets go over a stream of the engine
)

// Links are the values that a user can choose.
func Links() []string { return []string{LinkAuto, LinkMounts, LinkStream} }

// Sockets are those by which host and program reach each other, as paths that the program sees, each in a mounted
// directory. Bridge is the command that joins them over its standard streams where no directory is shared (package
// bridge), and that moves files (package transfer); it runs as Spec.Helper.
type Sockets struct {
	Host    []string // where the host listens
	Program []string // where the program does
	Dirs    []string // that hold them, and no files of either side
	Bridge  []string
}

// Linker is what an engine has that can do without directories that it shares with this process. Then Create copies the
// sources of the mounts, and a handle whose Link is LinkStream is reached by package link.
type Linker interface {
	// Streams reports whether Create makes programs with LinkStream.
	Streams(ctx context.Context) (bool, error)

	// Exec runs a command next to a running program, as a user; its standard input and output are the result. What it
	// prints to standard error is part of the error that the last Read returns. It lasts until Close, also when ctx ends.
	Exec(ctx context.Context, h Handle, user User, command []string) (io.ReadWriteCloser, error)

	// Read reads a directory of a program, which may have ended, as a tar whose names begin with one directory. It may
	// have the mounts beneath that one, or not. The last Read returns an error if it may not be whole.
	Read(ctx context.Context, h Handle, dir string) (io.ReadCloser, error)
}

// Helper is the user of a command that has to do with the files of commands and of the program: root, which has few
// capabilities and which they cannot signal, where the program has two users, and else the only one.
func (s Spec) Helper() User {
	switch {
	case s.Server != nil:
		return User{}
	case s.User != nil:
		return *s.User
	}
	return User{}
}

// ComesLate reports whether files with holes of a mount are not among the copies that a program is made with.
func (s Spec) ComesLate(m Mount) bool { return s.Late && (!m.ReadOnly || m.Updated) }

// Beneath are the mounts within that of target, as paths in it.
func (s Spec) Beneath(target string) (inner []string) {
	for _, m := range s.Mounts {
		if rel, ok := strings.CutPrefix(m.Target, target+"/"); ok {
			inner = append(inner, rel)
		}
	}
	return inner
}
