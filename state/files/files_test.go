package files_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"holon/responses/turns"
	"holon/state"
	"holon/state/files"
	"holon/test/expect"
)

// As a helper, the test binary holds a run until it is killed.
func TestMain(m *testing.M) {
	if home := os.Getenv("HOLON_TEST_HOLD_RUN_IN"); home != "" {
		hold(home, os.Getenv("HOLON_TEST_RUN"))
	}
	os.Exit(m.Run())
}

func hold(dir, id string) {
	home, err := state.MakeHome(dir, "")
	if err != nil {
		panic(err)
	}
	if _, err := files.New(home).Create(context.Background(), files.NewRun{ID: id, CreatedAt: time.Now()}); err != nil {
		panic(err)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

func newRuns(t testing.TB) (*files.Runs, state.Home) {
	t.Helper()
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	return files.New(home), home
}

func create(t testing.TB, runs *files.Runs, n files.NewRun) *files.Run {
	t.Helper()
	if n.CreatedAt.IsZero() {
		n.CreatedAt = time.Now()
	}
	run, err := runs.Create(t.Context(), n)
	expect.NoError(t, err)
	t.Cleanup(func() { run.Close() })
	return run
}

func manifest(id string) *state.Manifest {
	now := turns.At(time.Now())
	return &state.Manifest{Schema: state.ManifestSchema, RunID: id, Status: state.StatusFailed,
		Outcome: state.OutcomeFailure, ExitCode: 1, StartedAt: now, CompletedAt: now}
}

func TestLifeOfARun(t *testing.T) {
	for _, withOutput := range []bool{false, true} {
		t.Run(fmt.Sprintf("own output directory %t", withOutput), func(t *testing.T) {
			runs, home := newRuns(t)
			n := files.NewRun{ID: state.NewRunID(), Name: "a name", Source: "/src", CreatedAt: time.Now()}
			wantOutput := home.RunDir(n.ID)
			if withOutput {
				n.OutputDir = filepath.Join(t.TempDir(), "out")
				wantOutput = n.OutputDir
			}
			run := create(t, runs, n)
			if info, err := os.Lstat(home.RunDir(n.ID)); err != nil || info.Mode() != fs.ModeDir|0o700 {
				t.Fatalf("run's directory: %v, %v; want a directory with mode 0700", info, err)
			}
			if run.Dir() != home.RunDir(n.ID) || run.OutputDir() != wantOutput {
				t.Fatalf("directories %s and %s, want %s and %s", run.Dir(), run.OutputDir(), home.RunDir(n.ID),
					wantOutput)
			}
			e := wantEntry(t, runs, n.ID, true, state.StatusRunning)
			if e.Manifest != nil || e.OutputDir() != wantOutput {
				t.Fatalf("while it runs: manifest %v, output in %s; want none, %s", e.Manifest, e.OutputDir(),
					wantOutput)
			}
			want := &state.Start{Schema: state.StartSchema, RunID: n.ID, Name: "a name",
				CreatedAt: turns.At(n.CreatedAt), OutputDir: wantOutput, Source: "/src", PID: os.Getpid()}
			if diff := cmp.Diff(want, e.Start); diff != "" {
				t.Errorf("start (-want +got):\n%s", diff)
			}
			endRun(t, runs, run)
			own := readManifest(t, run.Dir())
			if other := readManifest(t, wantOutput); other != own {
				t.Errorf("the output's manifest is\n%s\nwant\n%s", other, own)
			}
		})
	}
}

// endRun writes the manifest of a run and closes it, and checks what may be written when.
func endRun(t *testing.T, runs *files.Runs, run *files.Run) {
	t.Helper()
	if err := run.WriteManifest(manifest(state.NewRunID())); !state.IsCode(err, state.CodeManifestInvalid) {
		t.Errorf("manifest of another run: %v, want %s", err, state.CodeManifestInvalid)
	}
	expect.NoError(t, run.WriteManifest(manifest(run.ID())))
	wantEntry(t, runs, run.ID(), true, state.StatusFailed)
	expect.NoError(t, errors.Join(run.Close(), run.Close()))
	wantEntry(t, runs, run.ID(), false, state.StatusFailed)
	if err := run.WriteManifest(manifest(run.ID())); !state.IsCode(err, state.CodeNotHeld) {
		t.Errorf("manifest after Close: %v, want %s", err, state.CodeNotHeld)
	}
}

// wantEntry opens a run that must be readable, and as live as wanted.
func wantEntry(t *testing.T, runs *files.Runs, id string, live bool, status state.Status) *files.Entry {
	t.Helper()
	e := open(t, runs, id)
	if e.Live != live || e.Status() != status || e.Problem != nil {
		t.Fatalf("the run is %+v, want live %v, %s", e, live, status)
	}
	return e
}

func readManifest(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, state.ManifestFile))
	expect.NoError(t, err)
	return string(data)
}

// The lease of a killed process is free at once; its run is interrupted.
func TestCrash(t *testing.T) {
	runs, home := newRuns(t)
	id := state.NewRunID()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOLON_TEST_HOLD_RUN_IN="+home.Dir(), "HOLON_TEST_RUN="+id)
	_, err := cmd.StdinPipe()
	expect.NoError(t, err)
	out, err := cmd.StdoutPipe()
	expect.NoError(t, err)
	expect.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Errorf("helper said %q, %v", line, err)
	}
	if e := open(t, runs, id); !e.Live || e.Status() != state.StatusRunning {
		t.Errorf("held by another process: %+v", e)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if e := open(t, runs, id); e.Live || e.Status() != state.StatusInterrupted || e.Problem != nil ||
		e.Start == nil {
		t.Errorf("after the kill: %+v", e)
	}
}

// A program that the holder starts does not keep the lease.
func TestLeaseIsNotInherited(t *testing.T) {
	runs, _ := newRuns(t)
	run := create(t, runs, files.NewRun{ID: state.NewRunID()})
	cmd := exec.Command("sleep", "60")
	expect.NoError(t, cmd.Start())
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	expect.NoError(t, run.Close())
	if e := open(t, runs, run.ID()); e.Live {
		t.Error("the run is live while only a program it started is")
	}
}

// Many at once, also with the same id: each id has one winner, and a reader meanwhile sees whole runs only.
func TestConcurrentCreate(t *testing.T) {
	runs, _ := newRuns(t)
	const ids, rivals = 20, 4
	var won sync.Map
	var writers sync.WaitGroup
	for i := range ids {
		for range rivals {
			writers.Go(func() {
				id := fmt.Sprintf("run_%02d", i)
				run, err := runs.Create(t.Context(), files.NewRun{ID: id, CreatedAt: time.Now()})
				switch {
				case err == nil:
					if _, twice := won.LoadOrStore(id, run); twice {
						t.Errorf("%s was made twice", id)
					}
				case !state.IsCode(err, state.CodeRunExists):
					t.Error(err)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		default:
		}
		entries, err := runs.List(t.Context())
		expect.NoError(t, err)
		for _, e := range entries {
			if e.Problem != nil || !e.Live || e.Start == nil {
				t.Fatalf("half a run: %+v", e)
			}
		}
	}
	entries, err := runs.List(t.Context())
	if err != nil || len(entries) != ids {
		t.Fatalf("%d runs, %v", len(entries), err)
	}
	won.Range(func(_, run any) bool {
		if err := run.(*files.Run).Close(); err != nil {
			t.Error(err)
		}
		return true
	})
	left, err := os.ReadDir(filepath.Dir(entries[0].Dir))
	if err != nil || len(left) != ids {
		t.Errorf("%d directories left, %v", len(left), err)
	}
}

func TestCreateRefuses(t *testing.T) {
	runs, home := newRuns(t)
	full := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	existing := create(t, runs, files.NewRun{ID: state.NewRunID()})
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, tc := range []struct {
		name string
		n    files.NewRun
		code state.Code
	}{
		{"id", files.NewRun{ID: "../x"}, state.CodeInvalidRunID},
		{"id in use", files.NewRun{ID: existing.ID(), OutputDir: fresh}, state.CodeRunExists},
		{"relative output", files.NewRun{ID: "run_1", OutputDir: "out"}, state.CodeOutputUnusable},
		{"output with files", files.NewRun{ID: "run_1", OutputDir: full}, state.CodeOutputUnusable},
		{"output is a file", files.NewRun{ID: "run_1", OutputDir: filepath.Join(full, "x")}, state.CodeOutputUnusable},
		{"output without parent", files.NewRun{ID: "run_1", OutputDir: filepath.Join(full, "a", "b")},
			state.CodeOutputUnusable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := runs.Create(t.Context(), tc.n)
			e, ok := errors.AsType[*state.Error](err)
			if !ok || e.Code != tc.code || e.Param == "" || e.Hint == "" {
				t.Fatalf("the error is %v", err)
			}
		})
	}
	if _, err := os.Lstat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the output directory of a refused run is left: %v", err)
	}
	if entries, err := os.ReadDir(home.RunsDir()); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestFind(t *testing.T) {
	runs, home := newRuns(t)
	if _, err := runs.Find(t.Context(), "last", "/"); !state.IsCode(err, state.CodeRunNotFound) {
		t.Fatalf("without runs: %v", err)
	}
	ws := t.TempDir()
	plain, repo := filepath.Join(ws, "plain"), filepath.Join(ws, "plain", "repo")
	expect.NoError(t, errors.Join(os.MkdirAll(filepath.Join(repo, ".git"), 0o700),
		os.MkdirAll(filepath.Join(plain, "sub"), 0o700), os.Symlink(plain, filepath.Join(ws, "link"))))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, run := range []files.NewRun{ // the oldest first; ids do not sort by age
		{ID: "run_0b0", Source: plain, Name: "both"}, {ID: "run_0aab", Source: plain, Name: "a name"},
		{ID: "run_0b", Source: ws, Name: "elsewhere"}, {ID: "run_0aaa", Source: "/other", Name: "both"},
		{ID: "run_0c", Source: "/another", Name: "elsewhere"},
	} {
		at = at.Add(time.Second)
		run.CreatedAt = at
		create(t, runs, run)
	}
	// Entries that are not runs.
	for _, name := range []string{".new-1", "other", "run_"} {
		expect.NoError(t, os.Mkdir(filepath.Join(home.RunsDir(), name), 0o700))
	}
	expect.NoError(t, errors.Join(os.WriteFile(filepath.Join(home.RunsDir(), "run_9file"), nil, 0o600),
		os.Symlink("/", filepath.Join(home.RunsDir(), "run_9link"))))
	for _, tc := range []struct {
		ref, dir, want string
		code           state.Code
		hint           string
	}{
		{ref: "last", dir: plain, want: "run_0aab"},
		{ref: "last", dir: filepath.Join(plain, "sub"), want: "run_0aab"},
		{ref: "last", dir: filepath.Join(ws, "link"), want: "run_0aab"},
		{ref: "last", dir: ws, want: "run_0b"},
		{ref: "last", dir: repo, code: state.CodeRunNotFound, hint: `run_0c, of "/another"`},
		{ref: "last", dir: "/", code: state.CodeRunNotFound},
		{ref: "a name", want: "run_0aab"},
		{ref: "both", dir: plain, want: "run_0b0"},
		{ref: "both", dir: repo, code: state.CodeRunAmbiguous, hint: "run_0aaa, run_0b0"},
		{ref: "elsewhere", dir: ws, want: "run_0b"},
		{ref: "run_0aaa", want: "run_0aaa"},
		{ref: "0aaa", want: "run_0aaa"},
		{ref: "run_0b", want: "run_0b"},
		{ref: "0aab", want: "run_0aab"},
		{ref: "run_0b0", want: "run_0b0"},
		{ref: "run_0aa", code: state.CodeRunAmbiguous, hint: "run_0aaa, run_0aab"},
		{ref: "run_", code: state.CodeRunAmbiguous, hint: "run_0c, run_0aaa, run_0b, …"},
		{ref: "zzz", code: state.CodeRunNotFound, hint: "run_0c"},
		{ref: "run_9file", code: state.CodeRunNotFound},
		{ref: "run_9link", code: state.CodeRunNotFound},
		{ref: "", code: state.CodeInvalidRunID},
		{ref: "../runs", code: state.CodeInvalidRunID},
		{ref: "run_0aaa/../run_0b", code: state.CodeInvalidRunID},
		{ref: strings.Repeat("x", 500), code: state.CodeInvalidRunID},
	} {
		t.Run(tc.ref[:min(len(tc.ref), 20)], func(t *testing.T) {
			e, err := runs.Find(t.Context(), tc.ref, tc.dir)
			if tc.code == "" {
				if err != nil || e.ID != tc.want {
					t.Fatalf("%v, %v; want %s", e, err, tc.want)
				}
				return
			}
			se, ok := errors.AsType[*state.Error](err)
			if !ok || se.Code != tc.code || !strings.Contains(se.Hint, tc.hint) || se.Hint == "" {
				t.Fatalf("the error is %v", err)
			}
		})
	}
	entries, err := runs.List(t.Context())
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	if err != nil || !slices.Equal(ids, []string{"run_0c", "run_0aaa", "run_0b", "run_0aab", "run_0b0"}) {
		t.Errorf("list = %v, %v", ids, err)
	}
}

// Looking for runs in a home that does not exist makes nothing.
func TestReadingWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	home, err := state.FindHome(dir, "")
	expect.NoError(t, err)
	if entries, err := files.New(home).List(t.Context()); err != nil || len(entries) > 0 {
		t.Errorf("list = %v, %v", entries, err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the home was made: %v", err)
	}
}

// What stands in the place of the host's files is neither followed nor waited
// for, and does not hide the other runs.
func TestHostileRunDirectory(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.json")
	for name, plant := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(outside, path) },
		"fifo":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"socket":    func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"huge": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, state.MaxManifest+1))
		},
		"garbage": func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"other run": func(path string) error {
			text, err := manifest("run_other").Encode()
			return errors.Join(err, os.WriteFile(path, text, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			runs, _ := newRuns(t)
			good := create(t, runs, files.NewRun{ID: "run_good"})
			bad := create(t, runs, files.NewRun{ID: "run_hostile"})
			text, err := manifest(bad.ID()).Encode()
			expect.NoError(t, err)
			if err := os.WriteFile(outside, text, 0o600); err != nil { // would be valid if followed
				t.Fatal(err)
			}
			path := filepath.Join(bad.Dir(), state.ManifestFile)
			expect.NoError(t, plant(path))
			e := open(t, runs, bad.ID())
			if e.Manifest != nil || e.Problem == nil || e.Status() != state.StatusRunning {
				t.Errorf("the run is %+v, want one that runs, with a problem", e)
			}
			if entries, err := runs.List(t.Context()); err != nil || len(entries) != 2 {
				t.Errorf("list = %v, %v", entries, err)
			}
			expect.NoError(t, good.WriteManifest(manifest(good.ID())))
			// Writing replaces the name and does not touch what a link names.
			if err := bad.WriteManifest(manifest(bad.ID())); err != nil && name != "directory" {
				t.Error(err)
			}
			if kept, err := os.ReadFile(outside); err != nil || string(kept) != string(text) {
				t.Errorf("the link's target was written: %v", err)
			}
		})
	}
}

func open(t testing.TB, runs *files.Runs, ref string) *files.Entry {
	t.Helper()
	e, err := runs.Open(t.Context(), ref)
	expect.NoError(t, err)
	return e
}
