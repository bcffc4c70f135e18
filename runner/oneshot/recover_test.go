package oneshot

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"holon/runner"
	"holon/runner/engine"
	"holon/state"
	"holon/state/files"
	"holon/test/expect"
)

// A run whose holon was killed before it recorded anything has an end, and
// nothing among its results that the manifest does not list.
func TestSettleUnbegun(t *testing.T) {
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	run, err := files.New(home).Create(t.Context(),
		files.NewRun{ID: state.NewRunID(), Source: "/src", CreatedAt: time.Now()})
	expect.NoError(t, err)
	for _, name := range []string{runner.NotesFile, runner.EgressFile} {
		expect.NoError(t, os.WriteFile(filepath.Join(run.Dir(), name), nil, 0o600))
	}
	if err := run.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	recovery := &Recovery{Home: home, Version: "test"}
	m, err := recovery.Settle(t.Context(), run.ID())
	expect.NoError(t, err)
	if m.Status != state.StatusInterrupted || m.Error == nil || m.Error.Code != string(runner.CodeNotStarted) {
		t.Fatalf("it is settled as %s, %+v", m.Status, m.Error)
	}
	entries, err := os.ReadDir(home.RunDir(run.ID()))
	expect.NoError(t, err)
	for _, e := range entries {
		if name := e.Name(); name != state.ManifestFile && name != state.StartFile && name != state.LeaseFile {
			t.Errorf("%s is left", name)
		}
	}
}

// A manifest that cannot be read is reported and never replaced.
func TestDamagedManifestIsKept(t *testing.T) {
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	run, err := files.New(home).Create(t.Context(),
		files.NewRun{ID: state.NewRunID(), Source: "/src", CreatedAt: time.Now()})
	expect.NoError(t, err)
	const text = `{"schema":"holon.run/1","workspace":"x"}`
	path := filepath.Join(run.Dir(), state.ManifestFile)
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	expect.NoError(t, run.Close())
	recovery := &Recovery{Home: home, Version: "test", Engines: func(string) (engine.Engine, error) { return nil, nil }}
	if _, err := recovery.Settle(t.Context(), run.ID()); !state.IsCode(err, state.CodeManifestInvalid) {
		t.Errorf("Settle = %v, want %s", err, state.CodeManifestInvalid)
	}
	found, err := (&Collector{Recovery: *recovery, Now: time.Now(), Force: true}).Collect(t.Context())
	if err != nil || len(found) != 1 || !found[0].Kept {
		t.Errorf("Collect = %+v, %v, want the run, which is kept", found, err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("the manifest is now %s (%v), want %s", got, err, text)
	}
}
