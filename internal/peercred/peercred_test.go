package peercred_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"holon/internal/peercred"
)

func TestPID(t *testing.T) {
	dir, err := os.MkdirTemp("", "pc") // t.TempDir's paths are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	unixSocket, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer unixSocket.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, tc := range []struct {
		l  net.Listener
		ok bool
	}{{unixSocket, true}, {tcp, false}} {
		client, err := net.Dial(tc.l.Addr().Network(), tc.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := tc.l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		for name, conn := range map[string]net.Conn{"client": client, "server": server} {
			if pid, err := peercred.PID(conn); tc.ok && (err != nil || pid != os.Getpid()) {
				t.Errorf("the peer of the %s on %s: %d, %v", name, tc.l.Addr().Network(), pid, err)
			} else if !tc.ok && err == nil {
				t.Errorf("TCP has the peer %d", pid)
			}
		}
	}
}
