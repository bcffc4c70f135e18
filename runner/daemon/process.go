package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"holon/internal/procfs"
	"holon/internal/unixsocket"
)

// signal sends a signal to the process, unless it has ended.
func signal(p procfs.Process, sig os.Signal) error {
	err := p.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, procfs.ErrOther) {
		return nil
	}
	return err
}

// gone waits until a process has ended, at most within, and reports whether it did.
func gone(ctx context.Context, p procfs.Process, within time.Duration) bool {
	deadline := time.Now().Add(within)
	for p.Running() {
		if time.Now().After(deadline) || !pause(ctx) {
			return !p.Running()
		}
	}
	return true
}

// pause waits between two polls. It returns false when ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(20 * time.Millisecond):
		return true
	}
}

// listener returns the process that serves the socket at path.
func listener(ctx context.Context, path string) (pid int, err error) {
	conn, err := unixsocket.Dial(ctx, path)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return unixsocket.PeerPID(conn)
}
