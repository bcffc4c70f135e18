package socket_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holon/runner/socket"
	"holon/state"
	"holon/test/memory"
)

const strangerEnv = "HOLON_SOCKET_STRANGER"

// TestMain makes of the test a process that opens and holds more connections than the
// listener of TestPeer has slots, and says so on standard output.
func TestMain(m *testing.M) {
	path := os.Getenv(strangerEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	closed := 0
	for range 50 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("let me in")) // it may be closed by now
		if n, err := conn.Read(make([]byte, 1)); n == 0 && err != nil {
			closed++
		}
	}
	if closed != 50 {
		panic("a connection was served")
	}
	_, _ = os.Stdout.WriteString("refused")
}

// A listener for one process serves no other, whose connections take no slot, and
// serves none before that is known.
func TestPeer(t *testing.T) {
	path := filepath.Join(memory.Dir(t), "s")
	s, err := socket.Listen(t.Context(), path, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	peer := socket.NewPeer()
	l := s.BoundedFor(peer, 1)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "welcome")
			_ = conn.Close()
		}
	}()
	early, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	if err := peer.Check(early); !state.IsCode(err, "socket_peer_unexpected") {
		t.Errorf("before it is known: %v", err)
	}
	peer.Identify(os.Getpid())
	peer.Identify(1) // which is too late
	peer.Serve()
	peer.Serve()
	stranger := exec.CommandContext(t.Context(), os.Args[0])
	stranger.Env = append(os.Environ(), strangerEnv+"="+path)
	if out, err := stranger.CombinedOutput(); err != nil || string(out) != "refused" {
		t.Errorf("a stranger: %v\n%s", err, out)
	}
	if err := early.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(early); err != nil || string(said) != "welcome" {
		t.Errorf("the peer is told %q, %v", said, err)
	}
	if err := peer.Check(early); err != nil {
		t.Errorf("what the peer itself serves: %v", err)
	}
	if err := errors.Join(l.Close(), s.Remove()); err != nil {
		t.Error(err)
	}
	<-served
	for _, pid := range []int{0, os.Getppid()} {
		other := socket.NewPeer()
		other.Identify(pid)
		if err := other.Check(early); !state.IsCode(err, "socket_peer_unexpected") {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

// A listener whose peer never comes to be known can be closed.
func TestPeerUnknown(t *testing.T) {
	s, err := socket.Listen(t.Context(), filepath.Join(memory.Dir(t), "s"), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	l := s.BoundedFor(socket.NewPeer(), 1)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := errors.Join(l.Close(), s.Remove()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
}
