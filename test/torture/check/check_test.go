package check

import (
	"fmt"
	"holon/test/expect"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	events = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"queued"}}
{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","status":"in_progress"}}
{"type":"response.completed","sequence_number":2,"response":{"id":"resp_1","status":"completed"}}
`
	facts = `{"type":"turn.submitted","sequence":1}
{"type":"turn.completed","sequence":2}
`
	trajectory = `{"header":{"response_id":"resp_1"}}
{"started":{"call_id":"call_1"}}
{"item":{"type":"holon:tool_call","call_id":"call_1"}}
{"response":{"id":"resp_1","status":"completed"}}
`
	digest     = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae" // of "foo"
	turnRecord = `{"session_id":"sess_1","turn_id":"turn_1","response_id":"resp_1","status":"completed",` +
		`"completed_at":"2026-03-04T05:06:07.000Z","artifacts":[{"path":"made.txt","bytes":3,"sha256":"` + digest +
		`"}]}`
	runID    = "run_1"
	manifest = `{"run_id":"run_1","status":"completed","outcome":"success","exit_code":0,"turn":{"turn_id":"turn_1"}` +
		`,"artifacts":[` +
		`{"path":"a","bytes":3,"sha256":"` + digest + `"},{"path":"turn.json","bytes":%d,"sha256":"%s"}]}`
)

// A gap in the facts of a thread's turns, which no one of them shows, is found.
func TestAlone(t *testing.T) {
	dir := t.TempDir()
	fact := func(n int, class string, rest string) string {
		return fmt.Sprintf(`{"type":"%s","event_id":"evt_%d","timestamp":"2026-03-04T05:06:07Z","schema_version":"holon-profile-1",`+
			`"runtime_id":"rt","session_id":"s","thread_id":"s","sequence":%d,%s"payload":{}}`+"\n", class, n, n, rest)
	}
	put(t, filepath.Join(dir, "z", "runtime.ndjson"), fact(1, "thread.started", `"status":"idle",`))
	put(t, filepath.Join(dir, "a", "runtime.ndjson"), fact(2, "turn.submitted", `"turn_id":"t","status":"accepted",`))
	expect.NoError(t, Alone(dir))
	put(t, filepath.Join(dir, "a", "runtime.ndjson"), fact(3, "turn.submitted", `"turn_id":"t","status":"accepted",`))
	if err := Alone(dir); err == nil || !strings.Contains(err.Error(), "V5") {
		t.Errorf("a gap: %v", err)
	}
}

// journal has the events, and then the facts.
var journal = func() (all string) {
	seq := 0
	for _, kind := range []struct{ key, lines string }{{"stream", events}, {"runtime", facts}} {
		for line := range strings.Lines(kind.lines) {
			seq++
			all += fmt.Sprintf(`{"seq":%d,%q:%s}`+"\n", seq, kind.key, strings.TrimSuffix(line, "\n"))
		}
	}
	return all
}()

// newTurn lays out a directory in which every check holds: a turn, and a store.
func newTurn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, data := range map[string]string{
		"turn/turn.json": turnRecord, "turn/events.ndjson": events, "turn/runtime.ndjson": facts,
		"turn/journal.ndjson":           journal,
		"turn/made.txt":                 "foo",
		"state/responses/resp_1.ndjson": trajectory, "ran": "a\nb\n",
	} {
		put(t, filepath.Join(dir, path), data)
	}
	expect.NoError(t, os.Mkdir(filepath.Join(dir, "state/open"), 0o700))
	return dir
}

func put(t *testing.T, path, data string) {
	t.Helper()
	expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	expect.NoError(t, os.WriteFile(path, []byte(data), 0o600))
}

// Every violation of the files of a turn is found, and nothing where there is none.
func TestTurn(t *testing.T) {
	checks := map[string]func(dir string) error{
		"ended":      func(dir string) error { return Ended(dir + "/turn") },
		"numbered":   func(dir string) error { return Numbered(dir + "/turn") },
		"facts":      func(dir string) error { return Facts(dir + "/turn") },
		"journal":    func(dir string) error { return Journal(dir + "/turn") },
		"artifacts":  func(dir string) error { return Artifacts(dir + "/turn") },
		"trajectory": func(dir string) error { return Trajectory(dir+"/state", "resp_1") },
		"settled":    func(dir string) error { return Settled(dir + "/state") },
		"once":       func(dir string) error { _, err := Once(dir + "/ran"); return err },
		"heard half": func(dir string) error { return Heard(dir+"/turn", []byte(events[:90]), false) },
		"heard all":  func(dir string) error { return Heard(dir+"/turn", []byte(events), true) },
		"temporary":  NoTemporary,
	}
	for name, check := range checks {
		if err := check(newTurn(t)); err != nil {
			t.Errorf("%s finds what is not there: %v", name, err)
		}
	}
	lines := strings.SplitAfter(events, "\n")
	for _, tc := range []struct{ check, what, path, data string }{
		{"ended", "no record", "turn/turn.json", ""},
		{"ended", "a damaged record", "turn/turn.json", turnRecord[:40]},
		{"ended", "a record that goes on", "turn/turn.json",
			strings.Replace(turnRecord, `"status":"completed"`, `"status":"in_progress"`, 1)},
		{"ended", "a record without the time of its end", "turn/turn.json",
			strings.Replace(turnRecord, `"2026-03-04T05:06:07.000Z"`, "null", 1)},
		{"ended", "another end than the stream's", "turn/turn.json",
			strings.Replace(turnRecord, `"status":"completed"`, `"status":"failed"`, 1)},
		{"ended", "the record of another response", "turn/turn.json",
			strings.Replace(turnRecord, "resp_1", "resp_2", 1)},
		{"ended", "a stream without an end", "turn/events.ndjson", lines[0] + lines[1]},
		{"ended", "two ends", "turn/events.ndjson", events + lines[2]},
		{"ended", "an event after the end", "turn/events.ndjson", events + lines[1]},
		{"ended", "no stream", "turn/events.ndjson", ""},
		{"numbered", "a gap", "turn/events.ndjson", lines[0] + lines[2]},
		{"numbered", "an event twice", "turn/events.ndjson", lines[0] + lines[0] + lines[1]},
		{"numbered", "a torn line", "turn/events.ndjson", events[:len(events)-5]},
		{"numbered", "a line cut short", "turn/events.ndjson", strings.Replace(events, `0,"response"`, "0\n", 1)},
		{"numbered", "no number", "turn/events.ndjson", `{"type":"response.created"}` + "\n"},
		{"journal", "a gap", "turn/journal.ndjson", strings.Replace(journal, `{"seq":2,`, `{"seq":3,`, 1)},
		{"journal", "no journal", "turn/journal.ndjson", ""},
		{"journal", "an event that only its file has", "turn/events.ndjson", events + lines[2]},
		{"journal", "facts that only the journal has", "turn/runtime.ndjson", ""},
		{"facts", "a gap", "turn/runtime.ndjson", strings.Replace(facts, ":2}", ":3}", 1)},
		{"facts", "no end", "turn/runtime.ndjson", strings.Replace(facts, "turn.completed", "tool.started", 1)},
		{"facts", "two ends", "turn/runtime.ndjson", facts + `{"type":"turn.failed","sequence":3}` + "\n"},
		{"facts", "a torn line", "turn/runtime.ndjson", facts + "{"},
		{"artifacts", "other bytes", "turn/made.txt", "bar"},
		{"artifacts", "a missing one", "turn/made.txt", ""},
		{"artifacts", "one that is not listed", "turn/tools/out", "x"},
		{"artifacts", "one that is listed twice", "turn/turn.json",
			strings.Replace(turnRecord, `"artifacts":[`,
				`"artifacts":[{"path":"made.txt","bytes":3,"sha256":"`+digest+`"},`, 1)},
		{"trajectory", "none", "state/responses/resp_1.ndjson", ""},
		{"trajectory", "no end", "state/responses/resp_1.ndjson",
			trajectory[:strings.Index(trajectory, `{"response"`)]},
		{"trajectory", "something after the end", "state/responses/resp_1.ndjson",
			trajectory + `{"item":{"type":"message"}}` + "\n"},
		{"trajectory", "a call that began twice", "state/responses/resp_1.ndjson",
			strings.Replace(trajectory, `{"item"`, `{"started":{"call_id":"call_1"}}`+"\n"+`{"item"`, 1)},
		{"trajectory", "a call with two results", "state/responses/resp_1.ndjson",
			strings.Replace(trajectory, `{"response":`,
				`{"item":{"type":"holon:tool_call","call_id":"call_1"}}`+"\n"+`{"response":`, 1)},
		{"trajectory", "that of another", "state/responses/resp_1.ndjson",
			strings.ReplaceAll(trajectory, "resp_1", "resp_2")},
		{"settled", "an open turn", "state/open/resp_2.ndjson", trajectory},
		{"once", "a command that ran twice", "ran", "a\nb\na\n"},
		{"heard half", "another stream", "turn/events.ndjson", strings.ReplaceAll(events, "resp_1", "resp_2")},
		{"heard half", "a stream that lost events", "turn/events.ndjson", events[:50]},
		{"heard half", "no stream", "turn/events.ndjson", ""},
		{"heard all", "more than was heard", "turn/events.ndjson", events + lines[2]},
		{"temporary", "a temporary file", "turn/.tmp-12", "x"},
	} {
		dir := newTurn(t)
		if put(t, filepath.Join(dir, tc.path), tc.data); tc.data == "" {
			expect.NoError(t, os.Remove(filepath.Join(dir, tc.path)))
		}
		if err := checks[tc.check](dir); err == nil {
			t.Errorf("%s does not find %s", tc.check, tc.what)
		}
	}
}

// An end that a client was sent when nothing could be written does not count as
// lost; any other end does.
func TestHeardOfFullDisk(t *testing.T) {
	end := `{"type":"response.failed","sequence_number":2,"response":{"id":"resp_1","status":"failed",` +
		`"error":{"code":"%s"}}}` + "\n"
	begun := events[:strings.Index(events, `{"type":"response.completed"`)]
	for code, want := range map[string]bool{"disk_full": true, "interrupted": false} {
		dir := newTurn(t)
		put(t, filepath.Join(dir, "turn/events.ndjson"), begun+strings.Replace(end, "%s", "other", 1))
		if err := Heard(dir+"/turn", []byte(begun+strings.Replace(end, "%s", code, 1)), true); (err == nil) != want {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// Every violation of the results of a run is found.
func TestRun(t *testing.T) {
	newRun := func() string {
		dir := filepath.Join(t.TempDir(), runID)
		rec := strings.Replace(turnRecord, `{"path":"made.txt","bytes":3,"sha256":"`+digest+`"}`, "", 1)
		put(t, filepath.Join(dir, "turn.json"), rec)
		put(t, filepath.Join(dir, "a"), "foo")
		put(t, filepath.Join(dir, "events.ndjson"), events)
		put(t, filepath.Join(dir, "runtime.ndjson"), facts)
		list, err := Listing(dir)
		expect.NoError(t, err)
		part := func(name string) string {
			what := list[filepath.Join(dir, name)]
			return what[strings.LastIndexByte(what, ' ')+1:]
		}
		m := fmt.Sprintf(manifest, len(rec), part("turn.json"))
		more := fmt.Sprintf(`,{"path":"events.ndjson","bytes":%d,"sha256":"%s"},{"path":"runtime.ndjson","bytes":%d,`+
			`"sha256":"%s"}]}`, len(events), part("events.ndjson"), len(facts), part("runtime.ndjson"))
		put(t, filepath.Join(dir, "manifest.json"), strings.TrimSuffix(m, "]}")+more)
		return dir
	}
	if _, err := Run(newRun()); err != nil {
		t.Fatalf("it finds what is not there: %v", err)
	}
	for what, plant := range map[string]func(dir string) error{
		"no manifest":        func(dir string) error { return os.Remove(dir + "/manifest.json") },
		"a damaged manifest": func(dir string) error { return os.Truncate(dir+"/manifest.json", 20) },
		"a run that goes on": func(dir string) error {
			return edit(dir+"/manifest.json", `"completed"`, `"running"`)
		},
		"no outcome":         func(dir string) error { return edit(dir+"/manifest.json", `"success"`, `""`) },
		"another run":        func(dir string) error { return edit(dir+"/manifest.json", `"run_1"`, `"run_2"`) },
		"a changed artifact": func(dir string) error { return edit(dir+"/a", "foo", "bar") },
		"a missing artifact": func(dir string) error { return os.Remove(dir + "/a") },
		"an unlisted file":   func(dir string) error { return os.WriteFile(dir+"/b", nil, 0o600) },
	} {
		dir := newRun()
		expect.NoError(t, plant(dir))
		if _, err := Run(dir); err == nil {
			t.Errorf("it does not find %s", what)
		}
	}
}

func edit(path, old, new string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o600)
}

func TestTidy(t *testing.T) {
	expect.NoError(t, Tidy(t.TempDir()))
	for _, path := range []string{"cache/trees/x/0/claim", "runs/run_1/session.json", "runs/run_1/session/x",
		"runs/.new-1", "ipc/run_1", "local/1"} {
		home := t.TempDir()
		put(t, filepath.Join(home, path), "x")
		if Tidy(home) == nil {
			t.Errorf("it does not find %s", path)
		}
	}
}

func TestUnchanged(t *testing.T) {
	for what, plant := range map[string]func(dir string) error{
		"":                 func(string) error { return nil },
		"a changed file":   func(dir string) error { return edit(dir+"/a", "foo", "bar") },
		"a new file":       func(dir string) error { return os.WriteFile(dir+"/b", nil, 0o600) },
		"a removed file":   func(dir string) error { return os.Remove(dir + "/a") },
		"a file's mode":    func(dir string) error { return os.Chmod(dir+"/a", 0o777) },
		"a file by a link": func(dir string) error { return os.Rename(dir+"/a", dir+"/c") },
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "a"), "foo")
		before, err := Listing(dir)
		expect.NoError(t, err)
		expect.NoError(t, plant(dir))
		if err := Unchanged(dir, before); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// Leftovers on the machine are found: processes by a mark in their environment or
// by their working directory, sockets, locks, mounts.
func TestLeft(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	const mark = "HOLON_TORTURE=planted"
	for name, change := range map[string]func(*exec.Cmd){
		"marked":  func(c *exec.Cmd) { c.Dir, c.Env = elsewhere, []string{mark} },
		"working": func(c *exec.Cmd) { c.Dir = dir },
	} {
		cmd := exec.Command("sleep", "60")
		change(cmd)
		expect.NoError(t, cmd.Start())
		found := false // it takes its environment with its program
		for end := time.Now().Add(10 * time.Second); !found && time.Now().Before(end); time.Sleep(time.Millisecond) {
			found = NoProcess(mark, dir) != nil
		}
		if !found {
			t.Errorf("a %s process is not found", name)
		}
		if err := NoProcess(mark, dir, cmd.Process.Pid); err != nil {
			t.Errorf("an allowed process: %v", err)
		}
		if n, err := Files(cmd.Process.Pid); n < 3 || err != nil {
			t.Errorf("it has %d files (%v)", n, err)
		}
		expect.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		expect.NoError(t, NoProcess(mark, dir))
	}

	short, err := os.MkdirTemp("", "check") // of a path that a socket may have
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	expect.NoError(t, NoSocket(short))
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	expect.NoError(t, err)
	if NoSocket(short) == nil {
		t.Error("a socket is not found")
	}
	expect.NoError(t, l.Close())

	f, err := os.Create(filepath.Join(dir, "lock"))
	expect.NoError(t, err)
	defer f.Close()
	expect.NoError(t, NoLock(dir))
	expect.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	if NoLock(dir) == nil {
		t.Error("a lock is not found")
	}
}

func TestNoMount(t *testing.T) {
	dir := t.TempDir()
	expect.NoError(t, NoMount(dir))
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if NoMount(dir) == nil {
		t.Error("a mount is not found")
	}
	if err := NoMount(dir, dir); err != nil {
		t.Errorf("an allowed mount: %v", err)
	}
}
