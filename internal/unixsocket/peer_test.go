package unixsocket_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/unixsocket"
	"holon/test/expect"
)

// shortDir is a directory whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "us")
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestPeerPID(t *testing.T) {
	unixSocket, err := net.Listen("unix", filepath.Join(shortDir(t), "s"))
	expect.NoError(t, err)
	defer unixSocket.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	defer tcp.Close()
	for _, tc := range []struct {
		l  net.Listener
		ok bool
	}{{unixSocket, true}, {tcp, false}} {
		client, err := net.Dial(tc.l.Addr().Network(), tc.l.Addr().String())
		expect.NoError(t, err)
		defer client.Close()
		server, err := tc.l.Accept()
		expect.NoError(t, err)
		defer server.Close()
		for name, conn := range map[string]net.Conn{"client": client, "server": server} {
			pid, err := unixsocket.PeerPID(conn)
			if got := err == nil; got != tc.ok {
				t.Errorf("the peer of the %s on %s: got the error %v", name, tc.l.Addr().Network(), err)
			}
			if tc.ok && pid != os.Getpid() {
				t.Errorf("the peer of the %s: got %d, want %d", name, pid, os.Getpid())
			}
		}
	}
}

// A symbolic link in place of the socket is refused, even if a server answers at its end.
func TestSocketIsNoLink(t *testing.T) {
	dir := shortDir(t)
	real := filepath.Join(dir, "real")
	l, err := net.Listen("unix", real)
	expect.NoError(t, err)
	defer l.Close()
	if conn, err := unixsocket.Dial(t.Context(), real); err != nil {
		t.Fatal(err)
	} else if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	expect.NoError(t, errors.Join(os.Symlink(real, link), os.WriteFile(file, nil, 0o600)))
	for _, path := range []string{link, file, filepath.Join(dir, "none")} {
		conn, err := unixsocket.Dial(t.Context(), path)
		op, ok := errors.AsType[*net.OpError](err)
		if conn != nil || !ok || op.Op != "dial" || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v, want an error of dial", path, conn, err)
		}
	}
}
