package forward_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/agentd/forward"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// proxy serves a Unix socket with handle, one goroutine a connection.
func proxy(t *testing.T, handle func(conn *net.UnixConn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fw")
	expect.NoError(t, err)
	path := filepath.Join(dir, "e.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	expect.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go handle(conn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return path
}

func listen(t *testing.T, socket string) *forward.Forwarder {
	t.Helper()
	f, err := forward.Listen(socket, slog.New(slog.DiscardHandler))
	expect.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func dial(t *testing.T, f *forward.Forwarder) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.URL(), "http://"))
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn.(*net.TCPConn)
}

// Bytes and their end pass both ways.
func TestPasses(t *testing.T) {
	f := listen(t, proxy(t, func(conn *net.UnixConn) {
		defer conn.Close()
		data, err := io.ReadAll(conn) // to the end that the client made
		if err == nil {
			_, _ = conn.Write(append([]byte("got "), data...))
		}
	}))
	if !strings.HasPrefix(f.URL(), "http://127.0.0.1:") {
		t.Errorf("listens at %s", f.URL())
	}
	data := bytes.Repeat([]byte("abc"), 1<<20)
	conn := dial(t, f)
	go func() {
		_, _ = conn.Write(data)
		_ = conn.CloseWrite()
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, append([]byte("got "), data...)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Programs are told of the proxy, and that they reach themselves without it.
func TestEnviron(t *testing.T) {
	f := listen(t, "/nowhere")
	for _, want := range []string{"HTTPS_PROXY=" + f.URL(), "https_proxy=" + f.URL(), "HTTP_PROXY=" + f.URL(),
		"http_proxy=" + f.URL(), "NO_PROXY=localhost,127.0.0.1,::1"} {
		if !slices.Contains(f.Environ(), want) {
			t.Errorf("%s is missing in %q", want, f.Environ())
		}
	}
}

// Without a host behind the socket a connection ends at once.
func TestNobodyAnswers(t *testing.T) {
	conn := dial(t, listen(t, filepath.Join(t.TempDir(), "none.sock")))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
}

// Close ends what is open and what waits; goroutines are checked by TestMain.
func TestClose(t *testing.T) {
	f := listen(t, proxy(t, func(conn *net.UnixConn) {
		defer conn.Close()
		_, _ = conn.Write([]byte("x"))
		_, _ = io.Copy(io.Discard, conn)
	}))
	var open []*net.TCPConn
	for range 70 { // some of them beyond the bound
		open = append(open, dial(t, f))
	}
	if _, err := open[0].Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	expect.NoError(t, f.Close())
	for _, conn := range open {
		if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
}
