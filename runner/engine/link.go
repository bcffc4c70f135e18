package engine

import (
	"context"
	"io"

	"holon/runner/engine/transfer"
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
// bridge); it runs as the program's server.
type Sockets struct {
	Host    []string // where the host listens
	Program []string // where the program does
	Dirs    []string // that hold them, and no files that a program leaves
	Bridge  []string
}

// Linker is what an engine has that can do without directories that it shares with this process. Then Create copies the
// sources of the mounts, and a handle whose Link is LinkStream needs Link and Fetch.
type Linker interface {
	// Streams reports whether Create makes programs with LinkStream.
	Streams(ctx context.Context) (bool, error)

	// Link joins the sockets of spec with those of a running program until the link is closed or the program ends. A
	// link that breaks is made anew. Of spec the mounts, sockets and users count.
	Link(ctx context.Context, h Handle, spec Spec) (io.Closer, error)

	// Usage returns how many bytes of the disk what a running program wrote to its mounts takes, but for those that
	// hold sockets. A command that runs next to the program prints it for the directories that are its last arguments;
	// processes of Spec.User can neither stop nor deceive it where there is a Server.
	Usage(ctx context.Context, h Handle, spec Spec, command []string) (int64, error)

	// Fetch brings the sources of the mounts that the program can write up to date with what it wrote, but for those
	// that hold sockets. The program may run. More than limits is a *transfer.TooMuchError.
	Fetch(ctx context.Context, h Handle, spec Spec, limits transfer.Limits) error
}
