package agentd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"holon/agentd/config"
	"holon/internal/unixsocket"
)

// listenTCP listens on a TCP address. Without a token the address that its name
// resolves to must be loopback. A peer that vanished is noticed after a minute and
// a half.
func listenTCP(ctx context.Context, address string, hasToken bool) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second,
		Interval: 15 * time.Second, Count: 4}}
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !hasToken && (!ok || !at.IP.IsLoopback()) {
		return nil, errors.Join(config.Wrong("--listen",
			fmt.Sprintf("%s is %s here, which other machines can reach", address, l.Addr()),
			"listen on 127.0.0.1, or give --token-file"), l.Close())
	}
	return l, nil
}

// listenUnix serves on a Unix socket at path, mode 0600 or, with group, 0660, in a
// directory that it creates with mode 0700 if need be.
func listenUnix(ctx context.Context, path string, group bool) (*unixsocket.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the socket's directory: %w", err)
	}
	l, err := unixsocket.Listen(ctx, path)
	if err == nil && group {
		err = os.Chmod(path, 0o660)
	}
	if errors.Is(err, unixsocket.ErrOccupied) {
		return nil, fmt.Errorf("listen on %s: %w; stop the server or remove the file that is there, "+
			"or choose another --socket", path,
			err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}
