package gateway_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/runner/gateway"
	"holon/runner/socket"
	"holon/test/expect"
	"holon/test/memory"
)

func TestSocketOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket away")
	}
	options := openAI("http://127.0.0.1:9")
	options.Owner = &socket.Owner{UID: 12345, GID: 23456}
	g := serve(t, options)
	info, err := os.Lstat(g.server.Path())
	expect.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t)
	expect.Equal(t, "st.Uid", st.Uid, 12345)
	expect.Equal(t, "st.Gid", st.Gid, 23456)
	expect.Equal(t, "info.Mode().Perm()", info.Mode().Perm(), 0o600)
}

// Close does not remove a file that the container put in the place of the socket.
func TestCloseLeavesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	g, err := gateway.New(openAI("http://127.0.0.1:9"))
	expect.NoError(t, err)
	path := filepath.Join(memory.Dir(t), "ipc", "m.sock")
	server, err := g.Serve(t.Context(), path, nil)
	expect.NoError(t, err)
	expect.NoError(t, errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)))
	expect.NoError(t, server.Close(t.Context()))
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the file is gone: %v", err)
	}
}

// Close lets a running request end, refuses new ones, and cuts off what does
// not end; no goroutine is left, which TestMain checks.
func TestClose(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		ends  bool // the provider's answer
		whole bool // what the client must see
	}{{"waits for a request", true, true}, {"cuts a request off", false, false}} {
		t.Run(tc.name, func(t *testing.T) {
			end := make(chan struct{})
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "begun ")
				http.NewResponseController(w).Flush()
				select {
				case <-end:
					io.WriteString(w, "ended")
				case <-r.Context().Done():
				}
			})
			g := serve(t, openAI(up.URL))
			resp, err := g.client.Post("http://model/openai/responses", "", strings.NewReader(`{"model":"m"}`))
			expect.NoError(t, err)
			defer resp.Body.Close()
			if _, err := io.ReadFull(resp.Body, make([]byte, len("begun "))); err != nil {
				t.Fatal(err)
			}

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			closed := make(chan error, 1)
			go func() { closed <- g.server.Close(ctx) }()
			waitForRefusal(t, g)
			if tc.ends {
				close(end)
			} else {
				cancel()
			}
			rest, err := io.ReadAll(resp.Body)
			expect.Equal(t, "the client saw", err == nil && string(rest) == "ended", tc.whole)
			expect.NoError(t, <-closed)
		})
	}
}

// A container that floods and does not read can't keep the host from closing.
func TestCloseWithStalledReader(t *testing.T) {
	t.Parallel()
	blocked := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; r.Context().Err() == nil; i++ {
			if i == 1000 { // far beyond what sockets hold, were it read up to here
				t.Error("the gateway read the whole answer although the container does not read it")
			}
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		close(blocked)
		<-r.Context().Done()
	})
	g := serve(t, openAI(up.URL))
	conn, err := net.Dial("unix", g.server.Path())
	expect.NoError(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /openai/responses HTTP/1.1\r\nHost: m\r\nContent-Type: "+
		"application/json\r\nAuthorization: Bearer "+g.token+
		"\r\nContent-Length: 13\r\n\r\n{\"model\":\"m\"}"); err != nil {
		t.Fatal(err)
	}
	<-blocked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.NoError(t, g.server.Close(ctx))
}

// waitForRefusal returns when the closing server refuses a new request.
func waitForRefusal(t *testing.T, g *served) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		resp, err := g.client.Post("http://model/openai/files", "", nil) // never reaches the provider
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			return
		}
	}
	t.Fatal("the closing server goes on accepting")
}

// Connections beyond the limit wait; they are served when others end.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 128
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	g := serve(t, openAI(up.URL))
	held := make([]net.Conn, limit)
	for i := range held {
		conn, err := net.Dial("unix", g.server.Path())
		expect.NoError(t, err)
		defer conn.Close()
		held[i] = conn
		// An answer proves that the connection was accepted; it stays open.
		if _, err := io.WriteString(conn, "POST /openai/responses HTTP/1.1\r\nHost: m\r\nContent-Type: "+
			"application/json\r\nAuthorization: Bearer "+g.token+
			"\r\nContent-Length: 13\r\n\r\n{\"model\":\"m\"}"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	extra, err := net.Dial("unix", g.server.Path())
	expect.NoError(t, err)
	defer extra.Close()
	if _, err := io.WriteString(extra, "GET / HTTP/1.1\r\nHost: m\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	extra.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := extra.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection beyond the limit was answered: %d, %v", n, err)
	}
	held[0].Close()
	extra.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := extra.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the waiting connection was not served: %v", err)
	}
}
