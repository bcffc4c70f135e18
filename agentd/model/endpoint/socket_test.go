package endpoint

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holon/test/expect"
)

// serve answers on a Unix socket until the function it returns is called, which
// leaves the socket's file as a killed process does.
func serve(t *testing.T, path string) (end func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	expect.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	return func() { _ = server.Close(); <-done }
}

// A host that was killed and comes back is waited for; one that never was there
// is not.
func TestHostComesBack(t *testing.T) {
	dir, err := os.MkdirTemp("", "holon-endpoint-")
	expect.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.sock")
	e, err := New(Options{Provider: "lab", BaseURL: "http://model/lab", SocketPath: path,
		KeyOptional: true})
	expect.NoError(t, err)
	defer e.Close()
	post := func(ctx context.Context) error {
		resp, err := e.post(ctx, Request{Path: "/x", Body: nil})
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	if post(t.Context()) == nil {
		t.Fatal("a host answered that is not there")
	}
	end := serve(t, path)
	expect.NoError(t, post(t.Context()))
	end()

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if post(short) == nil {
		t.Fatal("a host answered that is gone")
	}
	answered := make(chan error, 1)
	go func() { answered <- post(t.Context()) }()
	select {
	case err := <-answered:
		t.Fatalf("the host was not waited for: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := os.Remove(path); err != nil { // as who serves it again does
		t.Fatal(err)
	}
	defer serve(t, path)()
	expect.NoError(t, <-answered)
}
