package gateway

import (
	"io"
	"net"
	"testing"
)

// What is written between cork and uncork arrives in one piece, and in order
// with what is written before and after.
func TestCork(t *testing.T) {
	ours, theirs := net.Pipe() // a write arrives as it was made
	defer theirs.Close()
	conn := &corkedConn{Conn: ours}
	go func() {
		defer ours.Close()
		conn.Write([]byte("a"))
		for range 2 {
			conn.cork()
			conn.Write([]byte("b"))
			conn.Write([]byte("c"))
			if err := conn.uncork(); err != nil {
				t.Error(err)
			}
		}
		conn.Write([]byte("d"))
	}()
	for _, want := range []string{"a", "bc", "bc", "d"} {
		buffer := make([]byte, 10)
		if n, err := theirs.Read(buffer); err != nil || string(buffer[:n]) != want {
			t.Fatalf("%q, %v; want %q", buffer[:n], err, want)
		}
	}
	if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(err)
	}
	conn.cork()
	conn.Write([]byte("e"))
	if err := conn.uncork(); err == nil {
		t.Fatal("a write to a closed connection passed")
	}
	if err := conn.uncork(); err != nil {
		t.Fatalf("nothing was held: %v", err)
	}
}
