package websocket

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
)

// writes is a connection that notes each write.
type writes struct {
	net.Conn
	list []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.list = append(w.list, string(p))
	return len(p), nil
}

func TestWireGathersFrames(t *testing.T) {
	under := &writes{}
	w := &wire{Conn: under}
	write := func(s string) {
		t.Helper()
		if n, err := io.WriteString(w, s); n != len(s) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	big := strings.Repeat("x", maxGathered)
	write("a")
	w.hold(1)
	write("b")
	write("c")
	write(big) // has no room: what waits goes first
	write("d")
	if err := w.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	write("e")
	if want := "a|bc|" + big + "|d|e"; strings.Join(under.list, "|") != want {
		t.Errorf("%d writes: %.80q", len(under.list), under.list)
	}
	if w.buf != nil {
		t.Error("a wire that waits holds a buffer")
	}
}

// A write that hangs ends with its context.
func TestWireThatHangsIsBroken(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	w := &wire{Conn: here}
	w.hold(1)
	if _, err := w.Write(bytes.Repeat([]byte("x"), 100)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.release(ctx); err == nil {
		t.Error("the peer does not read, and the write succeeded")
	}
}
