package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holon/internal/transfer"
	"holon/runner/engine"
	"holon/runner/engine/link"
	"holon/state"
	"holon/test/expect"
)

// between is a proxy before the real daemon that may interfere. It returns an
// engine that goes through it.
func between(t *testing.T, real *Engine,
	interfere func(w http.ResponseWriter, r *http.Request, pass http.Handler)) *Engine {
	t.Helper()
	socket := real.socketPath()
	if socket == "" {
		t.Skip("the Docker engine is not on a socket of this machine")
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	proxy.Transport, proxy.FlushInterval = transport, -1
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		interfere(w, r, proxy)
	}), transport.CloseIdleConnections)
}

// serve returns an engine whose daemon is handler.
func serve(t *testing.T, handler http.Handler, closing func()) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d.sock")
	listener, err := net.Listen("unix", path)
	expect.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	e, err := New("unix://"+path, "")
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		closing()
		server.CloseClientConnections()
		server.Close()
	})
	return e
}

func isCreate(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/containers/create") }

// leftover counts containers with the label, and removes them.
func leftover(t *testing.T, e *Engine, labels map[string]string) int {
	t.Helper()
	found, err := e.List(t.Context(), labels)
	expect.NoError(t, err)
	for _, s := range found {
		if err := e.Remove(t.Context(), s.Handle); err != nil {
			t.Error(err)
		}
	}
	return len(found)
}

func faultSpec(image string) engine.Spec {
	return engine.Spec{Name: "enginetest-" + strings.ToLower(rand.Text()), Image: image,
		Args:   []string{"/probe", "serve"},
		Labels: map[string]string{"holon.enginetest": rand.Text()}}
}

// The daemon has made the container when the caller gives up.
func TestCreateCancelledBeforeTheAnswer(t *testing.T) {
	e := connect(t)
	spec := faultSpec(suiteImage(t, e))
	ctx, cancel := context.WithCancel(t.Context())
	slow := between(t, e, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if isCreate(r) {
			cancel()
			time.Sleep(50 * time.Millisecond) // the client has had time to hang up, if it were to
		}
		pass.ServeHTTP(w, r)
	})
	if _, err := slow.Create(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("Create = %v", err)
	}
	if n := leftover(t, e, spec.Labels); n != 0 {
		t.Errorf("%d containers left", n)
	}
}

// The daemon has made the container and its answer never comes.
func TestCreateWithLostAnswer(t *testing.T) {
	e := connect(t)
	spec := faultSpec(suiteImage(t, e))
	var lost atomic.Bool
	cut := between(t, e, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if !isCreate(r) {
			pass.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		pass.ServeHTTP(answer, r)
		lost.Store(answer.Code == http.StatusCreated)
		panic(http.ErrAbortHandler)
	})
	_, err := cut.Create(t.Context(), spec)
	if !state.IsCode(err, engine.CodeUnreachable) || !lost.Load() {
		t.Errorf("Create = %v, made by the daemon: %v", err, lost.Load())
	}
	if n := leftover(t, e, spec.Labels); n != 0 {
		t.Errorf("%d containers left", n)
	}
}

// A container that the daemon makes after Create gave up is in the register, so
// that List finds it.
func TestCreateGivesUpBeforeTheDaemonDoes(t *testing.T) {
	direct := connect(t)
	spec := faultSpec(suiteImage(t, direct))
	var late atomic.Pointer[http.Request]
	var daemon http.Handler
	cut := between(t, direct, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if !isCreate(r) {
			pass.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		held := r.Clone(context.WithoutCancel(r.Context()))
		held.Body = io.NopCloser(bytes.NewReader(body))
		daemon = pass
		late.Store(held)
		panic(http.ErrAbortHandler)
	})
	cut.register = register{t.TempDir()}
	if _, err := cut.Create(t.Context(), spec); !state.IsCode(err, engine.CodeUnreachable) {
		t.Errorf("Create = %v, want %s", err, engine.CodeUnreachable)
	}
	answer := httptest.NewRecorder()
	daemon.ServeHTTP(answer, late.Load())
	if answer.Code != http.StatusCreated {
		t.Fatalf("the daemon answered %d to the late request, want 201: %s", answer.Code, answer.Body)
	}
	if n := leftover(t, cut, spec.Labels); n != 1 {
		t.Errorf("List found %d containers, want the late one", n)
	}
	if n := leftover(t, direct, spec.Labels); n != 0 {
		t.Errorf("%d containers are left, want none", n)
	}
}

// A lost answer must not remove the container of somebody else with that name.
func TestCreateWithLostAnswerSparesOthers(t *testing.T) {
	e := connect(t)
	spec := faultSpec(suiteImage(t, e))
	first, err := e.Create(t.Context(), spec)
	expect.NoError(t, err)
	cut := between(t, e, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if isCreate(r) {
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	})
	if _, err := cut.Create(t.Context(), spec); !state.IsCode(err, engine.CodeUnreachable) {
		t.Errorf("Create = %v", err)
	}
	if _, err := e.Inspect(t.Context(), first); err != nil {
		t.Errorf("the other container: %v", err)
	}
	if n := leftover(t, e, spec.Labels); n != 1 {
		t.Errorf("%d containers, want the other one", n)
	}
}

// The connection of a wait drops, as it does when a daemon restarts.
func TestWaitAfterALostConnection(t *testing.T) {
	e := connect(t)
	spec := faultSpec(suiteImage(t, e))
	spec.Args = []string{"/probe", "exit", "9"}
	h, err := e.Create(t.Context(), spec)
	expect.NoError(t, err)
	var waits atomic.Int32
	again := make(chan struct{})
	flaky := between(t, e, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/wait") {
			switch waits.Add(1) {
			case 1: // lost while waiting: the headers are out
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			case 2: // lost at once
				panic(http.ErrAbortHandler)
			case 3:
				close(again)
			}
		}
		pass.ServeHTTP(w, r)
	})
	done := make(chan error, 1)
	go func() {
		exit, err := flaky.Wait(t.Context(), h)
		if err == nil && exit.Code != 9 {
			err = fmt.Errorf("the exit code is %d, want 9", exit.Code)
		}
		done <- err
	}()
	<-again
	if err := errors.Join(e.Start(t.Context(), h), <-done); err != nil {
		t.Error(err)
	}
	if n := leftover(t, e, spec.Labels); n != 1 {
		t.Errorf("%d containers, want 1", n)
	}
}

// The daemon drops the connection in the middle of the files of a container. None is removed or half written, and the
// next try brings them all.
func TestFetchThatIsCut(t *testing.T) {
	e := connect(t)
	e.SetLink(engine.LinkStream)
	dir, data := t.TempDir(), []byte(strings.Repeat("x", 1<<20))
	for _, name := range []string{"a", "b"} {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	spec := faultSpec(suiteImage(t, e))
	spec.Mounts = []engine.Mount{{Source: dir, Target: "/data"}}
	h, err := e.Create(t.Context(), spec)
	expect.NoError(t, err)
	for _, name := range []string{"a", "b"} { // the host's are older
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600))
	}
	var cut atomic.Bool
	cutting := between(t, e, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/archive") && !cut.Swap(true) {
			w = &shortWriter{w, len(data) + len(data)/2}
		}
		pass.ServeHTTP(w, r)
	})
	files := link.Open(cutting, h, nil, false, "")
	err = files.Fetch(t.Context(), spec, transfer.Limits{})
	if !state.IsCode(err, engine.CodeUnreachable) {
		t.Errorf("Fetch = %v, want %s", err, engine.CodeUnreachable)
	}
	sizes := map[int64]int{}
	entries, err := os.ReadDir(dir)
	expect.NoError(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		expect.NoError(t, err)
		sizes[info.Size()]++
	}
	if sizes[1<<20] != 1 || sizes[3] != 1 || len(entries) != 2 {
		t.Errorf("files by size: %v", sizes)
	}
	expect.NoError(t, files.Fetch(t.Context(), spec, transfer.Limits{}))
	for _, name := range []string{"a", "b"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s has %d bytes, %v", name, len(got), err)
		}
	}
	if n := leftover(t, e, spec.Labels); n != 1 {
		t.Errorf("%d containers, want 1", n)
	}
}

// A container is removed with its files while they are read. What the host has of them stays.
func TestFetchWhileItIsRemoved(t *testing.T) {
	e := connect(t)
	e.SetLink(engine.LinkStream)
	dir := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600))
	spec := faultSpec(suiteImage(t, e))
	spec.Mounts = []engine.Mount{{Source: dir, Target: "/data"}}
	h, err := e.Create(t.Context(), spec)
	expect.NoError(t, err)
	removing := between(t, e, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/archive") {
			pass.ServeHTTP(w, r)
			return
		}
		expect.NoError(t, e.Remove(context.WithoutCancel(r.Context()), h))
		w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte(`{"name":"data","mode":2147484141}`)))
		tw := tar.NewWriter(w) // of what is left
		expect.NoError(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o755}))
		expect.NoError(t, tw.Close())
	})
	err = link.Open(removing, h, nil, false, "").Fetch(t.Context(), spec, transfer.Limits{})
	if !state.IsCode(err, engine.CodeNotFound) {
		t.Errorf("Fetch = %v, want %s", err, engine.CodeNotFound)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a")); string(data) != "a" {
		t.Errorf("the host has %q, %v", data, err)
	}
}

// shortWriter ends the connection after some bytes.
type shortWriter struct {
	http.ResponseWriter
	left int
}

func (w *shortWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *shortWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(p)
}

func TestMountOfTheDockerSocketIsRefused(t *testing.T) {
	e := connect(t)
	socket := e.socketPath()
	if socket == "" {
		t.Skip("the Docker engine is not on a socket of this machine")
	}
	for _, source := range []string{socket, filepath.Dir(socket), "/"} {
		for _, readOnly := range []bool{true, false} {
			spec := faultSpec("holon-enginetest:none")
			spec.Mounts = []engine.Mount{{Source: source, Target: "/data", ReadOnly: readOnly}}
			_, err := e.Create(t.Context(), spec)
			if typed, ok := errors.AsType[*engine.Error](err); !ok || typed.Param != "mounts" {
				t.Errorf("mount of %s = %v", source, err)
			}
		}
	}
}
