package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"holon/internal/unixsocket"
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
	modelSocket  = "model.sock"
	toolSocket   = "host.sock"
	egressSocket = "egress.sock"
)

func (s *Session) hostSocket(name string) string { return filepath.Join(s.sockets, hostDir, name) }

func (s *Session) agentSocket() string { return filepath.Join(s.sockets, agentDir, "agent.sock") }

// makeSocketDir makes the directories for the sockets.
func (s *Session) makeSocketDir() error {
	dir, proper, err := SocketPlace(s.cfg.SocketDir)
	if err != nil {
		return err
	}
	mkdir := os.Mkdir // elsewhere it must be ours
	if proper {
		mkdir = os.MkdirAll
	}
	if err := mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make the socket directory: %w", err)
	}
	s.sockets = dir
	return s.makeSocketDirs()
}

func (s *Session) makeSocketDirs() error {
	for _, sub := range []string{hostDir, agentDir} {
		if err := os.MkdirAll(filepath.Join(s.sockets, sub), 0o700); err != nil {
			return fmt.Errorf("make the socket directory: %w", err)
		}
	}
	return nil
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
