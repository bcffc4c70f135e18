package sessions

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"holon/internal/folder"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/workspace"
	"holon/state"
	"holon/test/expect"
)

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadRun(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no record: %v", err)
	}
	want := &Record{
		Held: runner.Held{ID: "run_1", Engine: "docker",
			Handle: &engine.Handle{Version: 1, Engine: "docker", ID: "id1", Name: "name"},
			User:   &engine.User{UID: 1, GID: 2},
			Dir:    "/a", Sockets: "/b", Tree: &workspace.Held{Slot: "/c/0", Claim: "run_1",
				Owner: &folder.Owner{UID: 1}},
			SessionID: "sess_1", Image: "i", Model: "a/b", Fallbacks: []string{"x/y"}},
		Asked: Asked{TurnID: "turn_1"}, Run: &Run{Owner: ThisProcess(), Prompt: "do <it>", DiskBytes: 5, Keep: true,
			Manifest: &state.Manifest{Model: "a/b", Warnings: []string{"w"}}},
	}
	expect.NoError(t, want.write(dir))
	info, err := os.Stat(filepath.Join(dir, state.SessionFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	got, err := ReadRun(dir)
	expect.NoError(t, err)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Record{})); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{
		"not JSON": "{", "another schema": `{"schema":"holon.session/9"}`,
		"no manifest": `{"schema":"holon.session/1","id":"run_1","turn_id":"turn_1","dir":"/a","sockets":"/b"}`,
		"a turn that leads elsewhere": `{"schema":"holon.session/1","id":"run_1","turn_id":"../x","dir":"/a","sockets":"/b",` +
			`"manifest":{}}`,
		"relative": `{"schema":"holon.session/1","id":"run_1","turn_id":"turn_1","dir":"a","sockets":"/b","manifest":{}}`,
	} {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, state.SessionFile), []byte(text), 0o600))
		if _, err := ReadRun(dir); !state.IsCode(err, CodeDamaged) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the kernel says of a recorded process tells whether its run is held; procfs has the rule.
func TestSignal(t *testing.T) {
	other := process{PID: os.Getpid(), Start: 1, Boot: "another boot"}
	if err := other.Signal(syscall.SIGKILL); !state.IsCode(err, CodeStillRunning) {
		t.Errorf("another process with the number: %v", err)
	}
	child, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	expect.NoError(t, err)
	_, err = child.Wait()
	expect.NoError(t, err)
	expect.NoError(t, process{PID: child.Pid}.Signal(syscall.SIGKILL))
}

// A home that was moved, or restored elsewhere, has records of the directories that it had: no session takes up what they
// name, and each can be opened anew.
func TestRecordOfAnotherHome(t *testing.T) {
	home, err := state.MakeHome(t.TempDir(), "")
	expect.NoError(t, err)
	m, key := &Manager{Home: home}, OfAgent("main")
	expect.NoError(t, os.MkdirAll(m.Dir(key), 0o700))
	for dir, want := range map[string]error{"/elsewhere/agents/main/session": fs.ErrNotExist, m.SessionDir(key): nil} {
		r := &Record{Held: runner.Held{ID: "c", Dir: dir, Sockets: "/s"}, Made: &Made{}}
		expect.NoError(t, r.write(m.Dir(key)))
		if _, err := m.Record(key); !errors.Is(err, want) || state.IsCode(err, CodeDamaged) {
			t.Errorf("%s: %v, want %v", dir, err, want)
		}
	}
}
