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

// Waiting for a host that served a socket and was killed or restarted: the limit
// before a request fails, and the pause between attempts. Nothing has been sent at
// that point, so no request is repeated.
const (
	returnPatience = 2 * time.Minute
	returnPause    = 200 * time.Millisecond
)

// socketDialer connects to the Unix socket of a host. If the host never answered, a
// failure is immediate: it does not exist.
type socketDialer struct {
	net.Dialer
	path     string
	answered atomic.Bool
}

// DialContext connects to the socket and ignores network and address.
func (d *socketDialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	for begin := time.Now(); ; {
		conn, err := d.Dialer.DialContext(ctx, "unix", d.path)
		if err == nil {
			d.answered.Store(true)
			return conn, nil
		}
		away := (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)) && d.answered.Load()
		busy := errors.Is(err, syscall.EAGAIN) // its queue is full of connections of commands, which it closes
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
