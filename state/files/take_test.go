package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holon/state"
	"holon/state/files"
	"holon/test/expect"
)

// Of many processes that take a dead run one gets it, and none gets a live run.
func TestTake(t *testing.T) {
	runs, home := newRuns(t)
	id := state.NewRunID()
	run := create(t, runs, files.NewRun{ID: id, Name: "n", Source: "/src"})
	if _, err := runs.Take(t.Context(), id); !state.IsCode(err, state.CodeRunLive) {
		t.Fatalf("a live run was taken: %v", err)
	}
	expect.NoError(t, run.Close())
	half, foreign := filepath.Join(home.RunDir(id), ".tmp-0123456789abcdef"),
		filepath.Join(home.RunDir(id), ".tmp-mine")
	for _, path := range []string{half, foreign} { // the holder was killed while it replaced a file
		expect.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	var taken atomic.Int64
	var group sync.WaitGroup
	winners := make(chan *files.Run, 1)
	for range 16 {
		group.Go(func() {
			got, err := runs.Take(t.Context(), id)
			if err == nil {
				taken.Add(1)
				winners <- got
			} else if !state.IsCode(err, state.CodeRunLive) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if taken.Load() != 1 {
		t.Fatalf("%d took the run", taken.Load())
	}
	got := <-winners
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a temporary file of the former holder is left: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("another file is gone: %v", err)
	}
	if !open(t, runs, id).Live || got.ID() != id || got.OutputDir() != home.RunDir(id) ||
		got.Start().Source != "/src" {
		t.Errorf("what was taken is %+v", got)
	}
	expect.NoError(t, got.WriteManifest(manifest(id)))
	expect.NoError(t, got.Remove())
	if _, err := os.Stat(home.RunDir(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the run is still there")
	}
	if _, err := runs.Take(t.Context(), id); !state.IsCode(err, state.CodeRunNotFound) {
		t.Errorf("a run that was removed: %v", err)
	}
	if err := got.Remove(); !state.IsCode(err, state.CodeNotHeld) {
		t.Errorf("second removal: %v", err)
	}
}

func TestBeat(t *testing.T) {
	runs, home := newRuns(t)
	run := create(t, runs, files.NewRun{ID: state.NewRunID()})
	old := time.Now().Add(-time.Hour)
	expect.NoError(t, os.Chtimes(filepath.Join(home.RunDir(run.ID()), state.LeaseFile), old, old))
	if seen := open(t, runs, run.ID()).Seen; time.Since(seen) < 30*time.Minute {
		t.Fatalf("seen %v", seen)
	}
	expect.NoError(t, run.Beat())
	if seen := open(t, runs, run.ID()).Seen; time.Since(seen) > 30*time.Minute {
		t.Errorf("seen %v", seen)
	}
}

// Files that a crash left half made are found and removed; those of live processes are not.
func TestUserLeftovers(t *testing.T) {
	runs, home := newRuns(t)
	run := create(t, runs, files.NewRun{ID: state.NewRunID()})
	dir := home.RunsDir()
	for _, name := range []string{".new-1/session/x", ".removed-run_1/session/closed", "keep/x"} {
		expect.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	expect.NoError(t, os.Chmod(filepath.Join(dir, ".removed-run_1/session"), 0))
	for _, name := range []string{".probe-12", ".tmp-12"} {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	if err := os.Symlink(run.Dir(), filepath.Join(dir, ".new-live")); err != nil { // one whose lease is held
		t.Fatal(err)
	}
	young, err := runs.Leftovers(t.Context(), time.Now(), time.Hour)
	if err != nil || len(young) != 1 {
		t.Fatalf("%v, %v; want only what was being removed", young, err)
	}
	found, err := runs.Leftovers(t.Context(), time.Now().Add(2*time.Hour), time.Hour)
	if err != nil || len(found) != 4 && len(found) != 5 {
		t.Fatalf("%v, %v", found, err)
	}
	for _, f := range found {
		expect.NoError(t, runs.Sweep(f))
	}
	left, err := os.ReadDir(dir)
	if err != nil || open(t, runs, run.ID()).Start == nil {
		t.Fatalf("%v, %v", left, err)
	}
	for _, e := range left {
		if n := e.Name(); n != run.ID() && n != "keep" && n != ".new-live" {
			t.Errorf("%s is left", n)
		}
	}
}
