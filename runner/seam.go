package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"holon/internal/unixsocket"
	"holon/state/files"
)

// LongestSocket is the length of the longest name within the socket directory,
// with its slash.
const LongestSocket = len("/" + agentDir + "/agent.sock.12345678")

// The directory of the sockets has two: one with those of the host, which the
// container can only read, and one in which agentd makes its own.
const (
	hostDir  = "host"
	agentDir = "ipc"
)

// Names of the host's sockets.
const (
	agentSocket  = "agent.sock" // in agentDir
	modelSocket  = "model.sock"
	toolSocket   = "host.sock"
	egressSocket = "egress.sock"
)

// seam is the way to a container: it dials the service inside, names where services of the host listen for it, and puts
// files where it reads them. What it wrote is read by package turnfiles, beneath the session's directory. This seam is
// directories that host and container share; an engine that shares none needs another one, and nothing else.
type seam struct {
	sockets string // "" before it is made
}

// dial connects to agentd.
func (m seam) dial(ctx context.Context) (net.Conn, error) { return unixsocket.Dial(ctx, m.agent()) }

func (m seam) agent() string { return filepath.Join(m.sockets, agentDir, agentSocket) }

// service is where a service of the host listens for the container.
func (m seam) service(name string) string { return filepath.Join(m.sockets, hostDir, name) }

// maxPut bounds a file that is put, in bytes.
const maxPut = 64 << 20

// put copies a file of the user to a place that the container's user can read, and replaces what is there.
func (m seam) put(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, maxPut+1))
	if n > maxPut {
		err = fmt.Errorf("it has more than %d MiB", maxPut>>20)
	}
	return errors.Join(err, out.Chmod(0o644), out.Close())
}

// make makes the directories of the sockets in place of the proper one.
func (m *seam) make(proper string) error {
	dir, isProper, err := SocketPlace(proper)
	if err != nil {
		return err
	}
	mkdir := os.Mkdir // elsewhere it must be ours
	if isProper {
		mkdir = os.MkdirAll
	}
	if err := mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make the socket directory: %w", err)
	}
	m.sockets = dir
	return m.makeDirs()
}

func (m seam) makeDirs() error {
	for _, sub := range []string{hostDir, agentDir} {
		if err := os.MkdirAll(filepath.Join(m.sockets, sub), 0o700); err != nil {
			return fmt.Errorf("make the socket directory: %w", err)
		}
	}
	return nil
}

// remove removes them.
func (m *seam) remove() error {
	if m.sockets == "" {
		return nil
	}
	dir := m.sockets
	m.sockets = ""
	return files.RemoveAll(dir)
}

// SocketPlace returns the directory for the sockets whose proper one is given:
// another when the path would exceed the bytes that a socket's may have. The
// name of the other follows from the run, so that it is found again.
func SocketPlace(dir string) (place string, proper bool, err error) {
	if len(dir)+LongestSocket <= unixsocket.MaxPath {
		return dir, true, nil
	}
	other := OtherSocketDir(dir)
	if len(other)+LongestSocket > unixsocket.MaxPath {
		return "", false, &Error{Code: CodeUsage, Param: "HOLON_HOME",
			Message: fmt.Sprintf("neither %.200q nor %.200q can hold a socket: the path may have %d bytes", dir, other,
				unixsocket.MaxPath),
			Hint: "set HOLON_HOME or TMPDIR to a shorter path"}
	}
	return other, false, nil
}

// OtherSocketDir is where the sockets go whose proper directory is too long.
func OtherSocketDir(proper string) string {
	sum := sha256.Sum256([]byte(proper))
	return filepath.Join(os.TempDir(), "holon-ipc-"+hex.EncodeToString(sum[:6]))
}
