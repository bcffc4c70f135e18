package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/internal/procfs"
	"holon/runner/engine"
	"holon/runner/workspace"
	"holon/runner/workspace/folder"
	"holon/state"
	"holon/state/files"
)

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadRecord(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no record: %v", err)
	}
	want := &Record{
		Held: Held{ID: "run_1", Engine: "docker",
			Handle: &engine.Handle{Version: 1, Engine: "docker", ID: "id", Name: "name"},
			User:   &engine.User{UID: 1, GID: 2},
			Dir:    "/a", Sockets: "/b", Tree: &workspace.Held{Slot: "/c/0", Claim: "run_1",
				Owner: &folder.Owner{UID: 1}},
			SessionID: "sess_1", Image: "i", Model: "a/b", Fallbacks: []string{"x/y"}},
		RunRecord: &RunRecord{Owner: thisProcess(), TurnID: "turn_1", Prompt: "do <it>", DiskBytes: 5, Keep: true,
			Manifest: &state.Manifest{Model: "a/b", Warnings: []string{"w"}}},
	}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, state.SessionFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	got, err := ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{
		"not JSON": "{", "another schema": `{"schema":"holon.session/9"}`,
		"no manifest":                 `{"schema":"holon.session/1","turn_id":"turn_1","dir":"/a","sockets":"/b"}`,
		"a turn that leads elsewhere": `{"schema":"holon.session/1","turn_id":"../x","dir":"/a","sockets":"/b","manifest":{}}`,
		"relative":                    `{"schema":"holon.session/1","turn_id":"turn_1","dir":"a","sockets":"/b","manifest":{}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, state.SessionFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecord(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(RemoveRecord(dir), RemoveRecord(dir)); err != nil {
		t.Error(err)
	}
}

// Records that earlier versions wrote are read.
func TestRecordOfEarlierVersions(t *testing.T) {
	run := `"turn_id":"turn_1","dir":"/a","sockets":"/b","manifest":{"run_id":"run_1","image":"i","model":"m"}`
	held := Held{ID: "run_1", Dir: "/a", Sockets: "/b", Image: "i", Model: "m"}
	for name, test := range map[string]struct {
		text string
		want Record
	}{
		"a run's": {`{"schema":"holon.session/1",` + run + `}`,
			Record{Schema: RecordSchema, Held: held, RunRecord: &RunRecord{TurnID: "turn_1",
				Manifest: &state.Manifest{RunID: "run_1", Image: "i", Model: "m"}}}},
		"an agent's": {`{"schema":"holon.agent-session/1","made":{"image":"j","model":"","version":"1"},` +
			`"held":{"id":"run_1","dir":"/a","sockets":"/b","image":"i","model":"m"}}`,
			Record{Schema: agentRecordSchema, Held: held, Made: &Made{Image: "j", Version: "1"}}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, state.SessionFile), []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadRecord(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A process that has another's number gets no signal for it.
func TestSignalReachesOnlyTheRecorded(t *testing.T) {
	child, err := os.StartProcess("/bin/sleep", []string{"sleep", "600"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := procfs.Identify(child.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := Process(found)
	for _, other := range []Process{{p.PID, p.Start + 1, p.Boot}, {p.PID, p.Start, "another boot"}, {PID: p.PID}} {
		if err := other.signal(syscall.SIGKILL); !state.IsCode(err, CodeStillRunning) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if err := p.signal(syscall.Signal(0)); err != nil {
		t.Fatalf("the process got a signal that was not for it: %v", err)
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = child.Wait() // it was signalled
	if err := p.signal(syscall.SIGTERM); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// A run whose holon was killed before it recorded anything has an end, and
// nothing among its results that the manifest does not list.
func TestSettleUnbegun(t *testing.T) {
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	if err != nil {
		t.Fatal(err)
	}
	run, err := files.New(home).Create(t.Context(),
		files.NewRun{ID: state.NewRunID(), Source: "/src", CreatedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{NotesFile, EgressFile} {
		if err := os.WriteFile(filepath.Join(run.Dir(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	recovery := &Recovery{Home: home, Version: "test"}
	m, err := recovery.Settle(t.Context(), run.ID())
	if err != nil || m.Status != state.StatusInterrupted || m.Error == nil || m.Error.Code != string(CodeNotStarted) {
		t.Fatalf("%+v, %v", m, err)
	}
	entries, err := os.ReadDir(home.RunDir(run.ID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != state.ManifestFile && name != state.StartFile && name != state.LeaseFile {
			t.Errorf("%s is left", name)
		}
	}
}
