package unixsocket_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"holon/internal/unixsocket"
)

func TestPeerPID(t *testing.T) {
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
