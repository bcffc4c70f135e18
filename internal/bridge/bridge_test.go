package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"go.uber.org/goleak"

	"holon/internal/bridge"
	"holon/internal/unixsocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair runs a bridge whose near side has near as a socket for far.
type pair struct {
	near, far string // paths of the sockets
	end       func() // of the connection
	ended     chan error
}

func newPair(t *testing.T) *pair {
	t.Helper()
	dir, err := os.MkdirTemp("", "br") // short, as paths of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{near: filepath.Join(dir, "near"), far: filepath.Join(dir, "far"), ended: make(chan error, 2)}
	a, b := net.Pipe()
	p.end = func() { a.Close() }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { p.ended <- run(ctx, a, bridge.Side{Listen: map[string]string{"s": p.near}}, true) }()
	go func() { p.ended <- run(ctx, b, bridge.Side{Dial: map[string]string{"s": p.far}}, false) }()
	t.Cleanup(func() {
		cancel()
		<-p.ended
		<-p.ended
		os.RemoveAll(dir)
	})
	return p
}

func run(ctx context.Context, conn io.ReadWriteCloser, side bridge.Side, first bool) error {
	b, err := bridge.New(conn, side, first)
	if err != nil {
		return err
	}
	return b.Run(ctx)
}

// serve answers connections to the far socket.
func (p *pair) serve(t *testing.T, answer func(*net.UnixConn)) {
	t.Helper()
	l, err := unixsocket.Listen(t.Context(), p.far)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				answer(conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
}

// dial connects to the near socket, once it is there.
func (p *pair) dial(t *testing.T) *net.UnixConn {
	t.Helper()
	for {
		conn, err := unixsocket.Dial(t.Context(), p.near)
		if err == nil {
			return conn.(*net.UnixConn)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
}

func echo(conn *net.UnixConn) {
	_, _ = io.Copy(conn, conn)
	_ = conn.CloseWrite()
}

func TestManyStreamsInBothDirections(t *testing.T) {
	p := newPair(t)
	p.serve(t, echo)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			conn := p.dial(t)
			defer conn.Close()
			want := bytes.Repeat([]byte{byte(i)}, 300<<10) // more than a window
			go func() {
				_, _ = conn.Write(want)
				_ = conn.CloseWrite()
			}()
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, want) {
				t.Errorf("stream %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
}

func TestStreamThatIsNotReadHoldsUpNoOther(t *testing.T) {
	p := newPair(t)
	p.serve(t, echo)
	stalled := p.dial(t)
	defer stalled.Close()
	filled := make(chan error, 1)
	go func() { _, err := stalled.Write(make([]byte, 64<<20)); filled <- err }()
	conn := p.dial(t)
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stalled.Close()
	if err := <-filled; err == nil {
		t.Error("64 MiB were taken from a stream that is not read")
	}
}

func TestSocketComesWithTheOtherSide(t *testing.T) {
	p := newPair(t)
	if _, err := os.Lstat(p.near); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the socket is there before the server: %v", err)
	}
	p.serve(t, echo)
	p.dial(t).Close()
	p.end()
	if err := <-p.ended; err == nil {
		t.Error("a bridge without its connection ended without an error")
	}
	if err := <-p.ended; err == nil {
		t.Error("the other side did too")
	}
	if _, err := os.Lstat(p.near); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket outlives the connection: %v", err)
	}
	p.ended <- nil
	p.ended <- nil
}

func TestServerThatHangsUp(t *testing.T) {
	p := newPair(t)
	p.serve(t, func(conn *net.UnixConn) { _, _ = io.ReadFull(conn, make([]byte, 1)) })
	conn := p.dial(t)
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes of a server that hung up", n)
	}
}

// A bridge ends with its connection, also while a server that was reached over it goes on with what it was asked for:
// such a server may itself wait for the next bridge.
func TestEndWhileAServerIsBusy(t *testing.T) {
	p := newPair(t)
	asked, release := make(chan struct{}), make(chan struct{})
	p.serve(t, func(conn *net.UnixConn) {
		if _, err := io.ReadFull(conn, make([]byte, 1)); err == nil { // else the bridge looked whether it answers
			close(asked)
			<-release
		}
	})
	t.Cleanup(func() { close(release) }) // before the server is waited for
	conn := p.dial(t)
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	<-asked
	p.end()
	for range cap(p.ended) {
		select {
		case err := <-p.ended:
			defer func() { p.ended <- err }()
		case <-time.After(20 * time.Second):
			t.Error("the bridge waits for the server")
			return
		}
	}
}

// A client gets all that came before the bridge ended, however late it reads.
func TestLastWords(t *testing.T) {
	near := filepath.Join(t.TempDir(), "near")
	a, b := net.Pipe()
	far, err := yamux.Server(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- run(t.Context(), a, bridge.Side{Listen: map[string]string{"s": near}}, true) }()
	answer := func(text []byte) {
		if stream, err := far.Accept(); err == nil {
			_, _ = io.ReadFull(stream, make([]byte, 2)) // the name
			_, _ = stream.Write(append([]byte{1}, text...))
		}
	}
	answer(nil) // the bridge looks whether it is there
	conn := (&pair{near: near}).dial(t)
	defer conn.Close()
	want := bytes.Repeat([]byte("x"), 300<<10) // more than a socket takes
	answer(want)
	far.Close()
	for {
		if _, err := os.Lstat(near); errors.Is(err, os.ErrNotExist) { // the bridge has seen that
			break
		}
		runtime.Gosched()
	}
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came of %d, %v", len(got), len(want), err)
	}
	<-ended
}

func TestOnlyWhatDialNamesIsReached(t *testing.T) {
	p := newPair(t)
	dir := t.TempDir()
	a, b := net.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	both := make(chan error, 2)
	asked := filepath.Join(dir, "s")
	go func() {
		both <- run(ctx, a, bridge.Side{Listen: map[string]string{p.far: asked, "../far": asked}}, true)
	}()
	go func() { both <- run(ctx, b, bridge.Side{Dial: map[string]string{"s": p.far}}, false) }()
	p.serve(t, echo)
	<-both
	<-both
	if _, err := os.Lstat(asked); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a socket that the other side does not name was reached: %v", err)
	}
}

// A function of the other side is called by its name, and its stream ends with it. Another name is reached by nothing.
func TestFunction(t *testing.T) {
	a, b := net.Pipe()
	double := func(_ context.Context, stream io.ReadWriter) {
		word := make([]byte, 2)
		_, _ = io.ReadFull(stream, word)
		_, _ = stream.Write(append(word, word...))
	}
	far, err := bridge.New(b, bridge.Side{Serve: map[string]func(context.Context, io.ReadWriter){"double": double}}, false)
	if err != nil {
		t.Fatal(err)
	}
	near, err := bridge.New(a, bridge.Side{}, true)
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() { _ = far.Run(t.Context()) })
	ctx, cancel := context.WithCancel(t.Context())
	both.Go(func() { _ = near.Run(ctx) })
	for name, want := range map[string]string{"double": "abab", "treble": ""} {
		stream, err := near.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = stream.Write([]byte("ab"))
		got, err := io.ReadAll(stream)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s answers %q, %v", name, got, err)
		}
		stream.Close()
	}
	if near.Broken() {
		t.Error("the bridge ended with a call")
	}
	cancel()
	both.Wait()
	if _, err := near.Open("double"); err == nil || !near.Broken() {
		t.Errorf("a bridge that ended calls: %v", err)
	}
}

// FuzzOtherSide sends what no bridge would.
func FuzzOtherSide(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 2, 's', 's'})
	f.Fuzz(func(t *testing.T, sent []byte) {
		a, b := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- run(t.Context(), a, bridge.Side{Dial: map[string]string{"s": "/nowhere"}}, false) }()
		go func() { _, _ = io.Copy(io.Discard, b) }()
		_, _ = b.Write(sent)
		b.Close()
		if err := <-done; err == nil {
			t.Error("Run returned no error when the connection ended")
		}
	})
}
