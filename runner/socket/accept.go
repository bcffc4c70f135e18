package socket

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// AcceptAll has each connection of a listener served by a goroutine of group, until ctx ends, which closes the listener
// and the connections.
func AcceptAll(ctx context.Context, l net.Listener, log *slog.Logger, group *sync.WaitGroup, serve func(net.Conn)) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })() // the error is that of a listener that is closed
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the process has no descriptor left, for one, which passes
			log.Warn("a connection was not accepted", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		group.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			serve(conn)
		})
	}
}
