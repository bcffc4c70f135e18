package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// StartFile is the name of the file in the volume that holds the Program as JSON. It may hold secrets and is removed
// before the program runs.
const StartFile = "start.json"

// Errors of Start that the host tells apart.
var (
	ErrStarted   = errors.New("the program was started before")
	ErrCannotRun = errors.New("the program cannot be run")
)

// holdPatience is how long a container that runs may take to listen.
const (
	holdPatience = 30 * time.Second
	holdPause    = 5 * time.Millisecond
)

// Start has Hold start the program of the StartFile in the volume. Of several calls one succeeds.
func Start(ctx context.Context, volume string) error {
	file := filepath.Join(volume, StartFile)
	taken := file + ".taken"
	// Only one call can rename it.
	err := os.Rename(file, taken)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrStarted
	}
	var program Program
	if err == nil {
		var data []byte
		if data, err = os.ReadFile(taken); err == nil {
			err = json.Unmarshal(data, &program)
		}
		err = errors.Join(err, os.Remove(taken))
	}
	if err != nil {
		return fmt.Errorf("read what to start: %w", err)
	}
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var a answer
	err = json.NewEncoder(conn).Encode(request{Program: &program})
	if err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	if err != nil {
		return fmt.Errorf("start the program: %w", err)
	}
	if a.Error != "" {
		return fmt.Errorf("%w: %s", ErrCannotRun, a.Error)
	}
	return nil
}

// Stop has Hold end the program: by SIGTERM, and after the grace by SIGKILL. It returns when it is gone.
func Stop(ctx context.Context, grace time.Duration) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", holder)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil // it is gone
	}
	if err != nil {
		return fmt.Errorf("reach the program: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	err = json.NewEncoder(conn).Encode(request{Grace: grace})
	if err == nil {
		_, err = io.Copy(io.Discard, conn)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("stop the program: %w", err)
	}
	return nil
}

// dial connects to Hold, whose container may be about to run.
func dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, holdPatience, errors.New("the container does not listen"))
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", holder)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("reach the container: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(holdPause):
		}
	}
}
