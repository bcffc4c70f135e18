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
)

// Of many processes that take a dead run one gets it, and none gets a live run.
func TestTake(t *testing.T) {
	runs, home := newRuns(t)
	id := state.NewRunID()
	run := create(t, runs, files.NewRun{ID: id, Name: "n", Source: "/src"})
	if _, err := runs.Take(t.Context(), id); !state.IsCode(err, state.CodeRunLive) {
		t.Fatalf("a live run was taken: %v", err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	half, foreign := filepath.Join(home.RunDir(id), ".tmp-0123456789abcdef"),
		filepath.Join(home.RunDir(id), ".tmp-mine")
	for _, path := range []string{half, foreign} { // the holder was killed while it replaced a file
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
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
	if err := got.WriteManifest(manifest(id)); err != nil {
		t.Fatal(err)
	}
	if err := got.Remove(); err != nil {
		t.Fatal(err)
	}
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
	if err := os.Chtimes(filepath.Join(home.RunDir(run.ID()), state.LeaseFile), old, old); err != nil {
		t.Fatal(err)
	}
	if seen := open(t, runs, run.ID()).Seen; time.Since(seen) < 30*time.Minute {
		t.Fatalf("seen %v", seen)
	}
	if err := run.Beat(); err != nil {
		t.Fatal(err)
	}
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
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, ".removed-run_1/session"), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".probe-12", ".tmp-12"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
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
		if err := runs.Sweep(f); err != nil {
			t.Error(err)
		}
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
