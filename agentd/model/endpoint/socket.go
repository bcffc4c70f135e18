package endpoint

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// A host that served a socket and is gone, killed or restarted, may come back:
// how long that is waited for before a request fails, and how often it is tried.
// Nothing was sent by then, so nothing is asked twice.
const (
	returnPatience = 2 * time.Minute
	returnPause    = 200 * time.Millisecond
)

// socketDialer connects to the Unix socket of a host. One that never answered
// fails at once: it is not there, or not meant to be.
type socketDialer struct {
	net.Dialer
	path     string
	answered atomic.Bool
}

// DialContext connects to the socket, whatever network and address are asked for.
func (d *socketDialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	for begin := time.Now(); ; {
		conn, err := d.Dialer.DialContext(ctx, "unix", d.path)
		if err == nil {
			d.answered.Store(true)
			return conn, nil
		}
		away := (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)) && d.answered.Load()
		busy := errors.Is(err, syscall.EAGAIN) // its queue is full, of connections of commands, which it closes
		if !away && !busy || time.Since(begin) > returnPatience {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(returnPause):
		}
	}
}
