package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/runner/agent/view"
	"holon/runner/daemon"
	"holon/state"
	"holon/test/expect"
)

// TestMain lets the test binary be a program that answers on a control socket as
// `holon serve` does, well or badly. The real one is started by the scripts of
// cmd/holon.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		os.Exit(serve(os.Args[2], os.Args[3:]))
	}
	goleak.VerifyTestMain(m)
}

// serve answers on a socket until it is asked to end. How is one of
//
//	well          nothing is wrong
//	dies          it ends before it listens, and says why
//	never         it is never ready
//	deaf          it does not answer, nor does it end when it is asked or told
//	stubborn      it answers, and ends only by SIGKILL
//	elsewhere     it says that it serves another home
func serve(how string, args []string) int {
	path, home, print := args[0], args[1], args[2]
	fmt.Println("serving", how)
	if how == "dies" {
		fmt.Fprintln(os.Stderr, "holon: --listen: the port is taken; choose another")
		return 4
	}
	if how == "elsewhere" {
		home = "/elsewhere"
	}
	end := make(chan os.Signal, 1)
	if how == "stubborn" || how == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(end, syscall.SIGTERM)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "holon:", err)
		return 4
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /control/runtime/status", func(w http.ResponseWriter, r *http.Request) {
		if how == "deaf" {
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(view.RuntimeStatus{OK: true, Healthy: true,
			Activity: view.Activity{State: "idle"},
			Runtime: view.RuntimeInfo{PID: os.Getpid(), HomeDir: home, SocketPath: path, ConfigFingerprint: print,
				Ready: how != "never", Version: "test"}})
	})
	mux.HandleFunc("POST /control/runtime/shutdown", func(w http.ResponseWriter, _ *http.Request) {
		if how == "well" {
			end <- syscall.SIGTERM
		}
		_, _ = w.Write([]byte(`{"ok":true,"accepted":true}`))
	})
	server := &http.Server{Handler: mux}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	<-end
	_ = server.Close()
	serving.Wait()
	return 0
}

// home is a HOLON_HOME whose path is short enough for a socket.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// environ lets processes with a race detector end at once.
func environ() []string { return append(os.Environ(), "GORACE=atexit_sleep_ms=0") }

// of returns the daemon of a home whose program behaves as how, and ends at the
// latest with the test.
func of(t *testing.T, home, how, fingerprint string) *daemon.Daemon {
	t.Helper()
	self, err := os.Executable()
	expect.NoError(t, err)
	d := daemon.New(daemon.Options{Home: home, Fingerprint: fingerprint, Program: self, Env: environ(),
		Args: []string{"serve", how, daemon.SocketPath(home), home, fingerprint}, StopWithin: 2 * time.Second,
		KillWithin: 300 * time.Millisecond, AskWithin: 2 * time.Second})
	t.Cleanup(func() {
		if _, err := d.Stop(context.Background()); err != nil && !state.IsCode(err, "daemon_socket_foreign") {
			t.Errorf("stop: %v", err)
		}
	})
	return d
}

func start(t *testing.T, d *daemon.Daemon) daemon.Started {
	t.Helper()
	started, err := d.Start(t.Context())
	expect.NoError(t, err)
	return started
}

func status(t *testing.T, d *daemon.Daemon) daemon.Status {
	t.Helper()
	s, err := d.Status(t.Context())
	expect.NoError(t, err)
	return s
}

func TestStartIsIdempotent(t *testing.T) {
	t.Parallel()
	dir := home(t)
	d := of(t, dir, "well", "a")
	first := start(t, d)
	if s := first.Status; first.Already || s.State != daemon.Running || s.PID == 0 || !*s.ConfigMatch {
		t.Fatalf("the first start made %+v", first)
	}
	second := start(t, d)
	if !second.Already || second.Status.PID != first.Status.PID {
		t.Errorf("the second start made %+v", second)
	}
	other := of(t, dir, "well", "b")
	if _, err := other.Start(t.Context()); !state.IsCode(err, "daemon_config_differs") {
		t.Errorf("with other options: %v", err)
	}
	if s := status(t, other); s.PID != first.Status.PID || *s.ConfigMatch {
		t.Errorf("%+v", s)
	}
	again, err := other.Restart(t.Context())
	if err != nil || again.Already || again.Status.PID == first.Status.PID || !*again.Status.ConfigMatch {
		t.Errorf("the restart made %+v, %v", again, err)
	}
	stopped, err := other.Stop(t.Context())
	if err != nil || stopped.How != daemon.Graceful || stopped.PID != again.Status.PID {
		t.Errorf("%+v, %v", stopped, err)
	}
	if stopped, err := other.Stop(t.Context()); err != nil || stopped.How != daemon.NotRunning {
		t.Errorf("%+v, %v", stopped, err)
	}
	if s := status(t, other); s.State != daemon.Ended || s.PID != 0 || len(s.Stale) > 0 {
		t.Errorf("%+v", s)
	}
}

// Many that start at once make one.
func TestOneStartAtATime(t *testing.T) {
	t.Parallel()
	dir := home(t)
	var group sync.WaitGroup
	var mu sync.Mutex
	pids, fresh := map[int]bool{}, 0
	for range 8 {
		d := of(t, dir, "well", "a")
		group.Go(func() {
			s, err := d.Start(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			pids[s.Status.PID] = true
			if !s.Already {
				fresh++
			}
		})
	}
	group.Wait()
	if len(pids) != 1 || fresh != 1 {
		t.Errorf("%d processes, %d of them new", len(pids), fresh)
	}
}

// The next start clears up after a killed daemon; asking for the status does not.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := home(t)
	d := of(t, dir, "well", "a")
	pid := start(t, d).Status.PID
	kill(t, pid)
	before := tree(t, dir)
	s := status(t, d)
	if s.State != daemon.Ended || len(s.Stale) != 2 {
		t.Errorf("%+v", s)
	}
	if _, err := d.Logs(80); err != nil {
		t.Error(err)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("a look changed\n%s\nto\n%s", before, after)
	}
	again := start(t, d)
	if again.Already || again.Status.PID == pid || again.Status.State != daemon.Running {
		t.Errorf("the start after a kill made %+v", again)
	}
	kill(t, again.Status.PID)
	if stopped, err := d.Stop(t.Context()); err != nil || stopped.How != daemon.NotRunning {
		t.Errorf("%+v, %v", stopped, err)
	}
	if s := status(t, d); len(s.Stale) > 0 {
		t.Errorf("%+v", s)
	}
}

// kill ends a process of ours and waits for it.
func kill(t *testing.T, pid int) {
	t.Helper()
	expect.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// tree lists what lies in a directory, with the content of files.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(filepath.Join(dir, "run"))
	expect.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		expect.NoError(t, err)
		fmt.Fprintln(&b, e.Name(), info.Mode(), info.Size(), info.ModTime())
	}
	return b.String()
}

// A process whose number is that of a daemon that is gone is left alone.
func TestReusedNumber(t *testing.T) {
	t.Parallel()
	dir := home(t)
	d := of(t, dir, "well", "a")
	pid := start(t, d).Status.PID
	kill(t, pid)
	sleeper := exec.Command("sleep", "60")
	expect.NoError(t, sleeper.Start())
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	path := filepath.Join(dir, "run", "daemon.json")
	data, err := os.ReadFile(path)
	expect.NoError(t, err)
	changed := strings.Replace(string(data), `"pid": `+strconv.Itoa(pid), `"pid": `+strconv.Itoa(sleeper.Process.Pid),
		1)
	if changed == string(data) {
		t.Fatalf("%s has no number", data)
	}
	expect.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	if s := status(t, d); s.State != daemon.Ended {
		t.Errorf("%+v", s)
	}
	if stopped, err := d.Stop(t.Context()); err != nil || stopped.How != daemon.NotRunning {
		t.Errorf("%+v, %v", stopped, err)
	}
	if err := sleeper.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process is gone: %v", err)
	}
}

// Files and processes of others are never taken over.
func TestForeign(t *testing.T) {
	t.Parallel()
	for name, occupy := range map[string]func(t *testing.T, dir, path string){
		"a file": func(t *testing.T, _, path string) {
			expect.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
		},
		"another server": func(t *testing.T, _, path string) {
			listener, err := net.Listen("unix", path)
			expect.NoError(t, err)
			server := &http.Server{Handler: http.NotFoundHandler()}
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(listener) })
			t.Cleanup(func() { _ = server.Close(); serving.Wait() })
		},
		"the daemon of another home": func(t *testing.T, dir, path string) {
			self, err := os.Executable()
			expect.NoError(t, err)
			other := exec.Command(self, "serve", "elsewhere", path, dir, "a")
			expect.NoError(t, other.Start())
			t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
			for {
				if conn, err := net.Dial("unix", path); err == nil {
					_ = conn.Close()
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := home(t)
			d := of(t, dir, "well", "a")
			expect.NoError(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
			occupy(t, dir, daemon.SocketPath(dir))
			before, err := os.Lstat(daemon.SocketPath(dir))
			expect.NoError(t, err)
			for what, do := range map[string]func() error{
				"start":   func() error { _, err := d.Start(t.Context()); return err },
				"stop":    func() error { _, err := d.Stop(t.Context()); return err },
				"restart": func() error { _, err := d.Restart(t.Context()); return err },
			} {
				if err := do(); !state.IsCode(err, "daemon_socket_foreign") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if s := status(t, d); s.State != daemon.Foreign || s.Control.Problem == "" {
				t.Errorf("%+v", s)
			}
			after, err := os.Lstat(daemon.SocketPath(dir))
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("what was there is gone: %v", err)
			}
		})
	}
}

// Why a start failed is kept until one succeeds.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	dir := home(t)
	_, err := of(t, dir, "dies", "a").Start(t.Context())
	if !state.IsCode(err, "daemon_not_started") || !strings.Contains(err.Error(), "the port is taken") {
		t.Fatalf("%v", err)
	}
	d := of(t, dir, "well", "a")
	s := status(t, d)
	if f := s.LastFailure; s.State != daemon.Ended || f == nil || f.Phase != "startup" ||
		!strings.Contains(f.Summary, "the port is taken") {
		t.Errorf("%+v with the failure %+v", s, f)
	}
	logs, err := d.Logs(80)
	if err != nil || logs.Failure == nil || len(logs.Lines) != 2 || logs.Lines[0] != "serving dies" {
		t.Errorf("%+v, %v", logs, err)
	}
	if info, err := os.Stat(logs.LogPath); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if s := start(t, d).Status; s.LastFailure != nil {
		t.Errorf("%+v", s.LastFailure)
	}
}

// A daemon that is not ready in time does not stay.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	dir := home(t)
	self, err := os.Executable()
	expect.NoError(t, err)
	d := daemon.New(daemon.Options{Home: dir, Program: self, Env: environ(),
		Args: []string{"serve", "never", daemon.SocketPath(dir), dir, "a"}, StartWithin: 200 * time.Millisecond,
		KillWithin: 2 * time.Second})
	if _, err := d.Start(t.Context()); !state.IsCode(err, "daemon_not_started") {
		t.Errorf("%v", err)
	}
	if s := status(t, d); s.State != daemon.Ended || s.LastFailure == nil {
		t.Errorf("%+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Start(ctx); err == nil {
		t.Error("an interrupted start succeeded")
	}
	if s := status(t, d); s.State != daemon.Ended {
		t.Errorf("%+v", s)
	}
}
