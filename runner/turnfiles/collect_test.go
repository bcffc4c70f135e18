package turnfiles

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/responses"
	"holon/responses/stream"
	"holon/responses/turns"
	"holon/test/conform"
	"holon/test/expect"
)

// What a container left where agentd leaves it is copied without following a link or waiting for a pipe. What else
// lies there is not.
func TestCollectTurn(t *testing.T) {
	t.Parallel()
	dir, dst := t.TempDir(), t.TempDir()
	turn := filepath.Join(dir, "output/turns/turn_1")
	for _, sub := range []string{"tools/call_1", "objects/pack", "artifacts/" + strings.Repeat("d/", maxCollectDepth+2)} {
		mkdir(t, filepath.Join(turn, sub))
	}
	for name, data := range map[string]string{"turn.json": "{}", "tools/call_1/stdout.log": "out",
		"manifest.json": "planted", "objects/pack/p": "planted", "artifacts/a\xff": "raw"} {
		write(t, filepath.Join(turn, name), data)
	}
	secret := filepath.Join(dir, "secret")
	write(t, secret, "secret")
	for link, target := range map[string]string{"absolute": secret, "relative": "../../../../secret", "folder": dir} {
		expect.NoError(t, os.Symlink(target, filepath.Join(turn, "artifacts", link)))
	}
	expect.NoError(t, syscall.Mkfifo(filepath.Join(turn, "artifacts/pipe"), 0o600))
	warnings, err := collect(t, dir, dst, 0)
	expect.NoError(t, err)
	var got []string
	err = filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dst, path) // path is beneath dst
			got = append(got, rel)
		}
		return err
	})
	if want := []string{"artifacts/a\xff", "tools/call_1/stdout.log", "turn.json"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("collected %q, want %q (%v)", got, want, err)
	}
	said := strings.Join(warnings, "\n")
	for _, want := range []string{`absolute"`, `relative"`, `folder"`, `pipe"`, "nested too deep"} {
		if !strings.Contains(said, want) {
			t.Errorf("no warning says %s:\n%s", want, said)
		}
	}
}

// A turn that was never accepted left nothing; an output that cannot be opened
// costs the turn's files and nothing else.
func TestCollectNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if warnings, err := collect(t, dir, t.TempDir(), 0); err != nil || len(warnings) != 1 {
		t.Errorf("without an output: %q, %v", warnings, err)
	}
	mkdir(t, filepath.Join(dir, "output/turns"))
	if warnings, err := collect(t, dir, t.TempDir(), 0); err != nil || len(warnings) != 0 {
		t.Errorf("without a turn: %q, %v", warnings, err)
	}
	expect.NoError(t, os.Symlink("/etc", filepath.Join(dir, "output/turns/turn_2")))
	warnings, err := Collect(t.Context(), dir, "turn_2", t.TempDir(), 0)
	if err != nil || len(warnings) != 1 {
		t.Errorf("a link for a turn: %q, %v", warnings, err)
	}
}

// A record without an end gets one, with a legal stream, wherever it broke off.
func TestSettleTurn(t *testing.T) {
	t.Parallel()
	whole := openStream(t)
	lines := slices.Collect(bytes.Lines(whole))
	gone := responses.Internal("the container ended", nil)
	gone.Code = responses.CodeInterrupted
	for _, tc := range []struct {
		name   string
		events []byte // nil: no file
	}{
		{"no events", nil},
		{"an empty file", []byte{}},
		{"half of the first line", lines[0][:20]},
		{"one line", lines[0]},
		{"between lines", bytes.Join(lines[:4], nil)},
		{"within a line", whole[:len(whole)-7]},
		{"all but the end", whole},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			writeRecord(t, dir, responses.StatusInProgress)
			if tc.events != nil {
				write(t, filepath.Join(dir, turns.JournalFile), entries(begunFacts(t), string(tc.events)))
			}
			resp, err := Completion{Gone: gone}.Complete(dir)
			expect.NoError(t, err)
			if resp == nil || resp.Status != responses.StatusFailed || resp.Error.Code != responses.CodeInterrupted {
				t.Fatalf("the turn ended as %+v", resp)
			}
			checkSettled(t, dir)
			if again, err := (Completion{Gone: gone}).Complete(dir); again != nil || err != nil {
				t.Errorf("settled twice: %+v, %v", again, err)
			}
		})
	}
}

// The record of a turn that is settled ends all that was open, each with its cause, and has the usage of its attempts
// that ended and an estimate of the one that did not.
func TestSettleTurnClosesWhatIsOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeRecord(t, dir, responses.StatusInProgress)
	scope := turns.Scope{RuntimeID: "inst_1", SessionID: "sess_1", TurnID: "turn_1"}
	used := &turns.TokenUsage{InputTokens: 30, OutputTokens: 5, TotalTokens: 35}
	facts := ""
	for i, ev := range []turns.RuntimeEvent{
		scope.TurnSubmitted(turns.Submitted{ResponseID: "resp_1"}, false),
		scope.OfRequest(turns.ModelRequested, "mreq_1", turns.Requested{Round: 1}),
		scope.OfRequest(turns.ModelCompleted, "mreq_1",
			turns.Sampled{ProviderAttempt: &turns.ProviderAttempt{TokenUsage: used}}),
		scope.CostRecorded("mreq_1", *used),
		scope.ToolStarted("tc_1", turns.Begun{ToolName: "ExecCommand"}),
		scope.OfProcess(turns.ProcessStarted, "tc_1", "proc_1", turns.Process{}),
		scope.OfRequest(turns.ModelRequested, "mreq_2", turns.Requested{Round: 2, EstimatedTokens: 40}),
	} {
		ev.Sequence = int64(i) + 1
		line, err := ev.AppendLine(nil)
		expect.NoError(t, err)
		facts += string(line)
	}
	write(t, filepath.Join(dir, turns.JournalFile), entries(facts, string(openStream(t))))
	gone := responses.Internal("the container ended", nil)
	gone.Code = responses.CodeInterrupted
	if _, err := (Completion{Gone: gone}).Complete(dir); err != nil {
		t.Fatal(err)
	}
	checkSettled(t, dir)
	got := make(map[string]string)
	data, err := os.ReadFile(filepath.Join(dir, turns.RuntimeFile))
	expect.NoError(t, err)
	for line := range strings.Lines(strings.TrimPrefix(string(data), facts)) {
		ev, err := turns.DecodeRuntimeEvent([]byte(line))
		if err != nil || ev.Correlation.CausationID == "" {
			t.Errorf("%v, or no cause: %s", err, line)
		}
		got[ev.Type] = ev.ModelRequestID + ev.ToolCallID + ev.ProcessID
	}
	want := map[string]string{turns.ModelFailed: "mreq_2", turns.CostRecorded: "mreq_2", turns.ToolFailed: "tc_1",
		turns.ProcessFailed: "tc_1proc_1", turns.TurnFailed: ""}
	if !maps.Equal(got, want) {
		t.Errorf("the facts that were added are %v, want %v", got, want)
	}
	for name, want := range map[string][]string{
		turns.RuntimeFile: {`"interrupted_by":"container_end","rounds":2,"tool_calls":1,"usage":{"input_tokens":70,`},
		turns.RecordFile:  {`"input_tokens": 70,`, `"rounds": 2,`, `"ExecCommand": 1`, `"estimated": true`},
		turns.FailureFile: {`"kind": "interrupted"`},
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		expect.NoError(t, err)
		for _, text := range want {
			if !strings.Contains(string(data), text) {
				t.Errorf("%s lacks %s:\n%s", name, text, data)
			}
		}
	}
}

// entries is a journal with facts and then events, lines each. Half a line at the end stays half a line.
func entries(facts, events string) string {
	var b []byte
	seq := int64(0)
	add := func(key, lines string) {
		for line := range strings.Lines(lines) {
			seq++
			b = turns.AppendEntry(b, seq, key, []byte(strings.TrimSuffix(line, "\n")))
			if !strings.HasSuffix(line, "\n") {
				b = b[:len(b)-len("}\n")]
			}
		}
	}
	add(turns.EntryRuntime, facts)
	add(turns.EntryStream, events)
	return string(b)
}

// begunFacts are the facts of a turn that goes on.
func begunFacts(t *testing.T) string {
	t.Helper()
	ev := turns.Scope{RuntimeID: "inst_1", SessionID: "sess_1", TurnID: "turn_1"}.Event(turns.TurnStarted, turns.Started{})
	ev.Sequence = 1
	line, err := ev.AppendLine(nil)
	expect.NoError(t, err)
	return string(line)
}

func checkSettled(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, turns.EventsFile))
	expect.NoError(t, err)
	if err := conform.CheckStream(data, stream.NDJSON); err != nil {
		t.Errorf("%v\n%s", err, data)
	}
	turn, err := OpenCollected(dir)
	expect.NoError(t, err)
	defer turn.Close()
	rec, err := turn.record()
	if err != nil || rec.Status != responses.StatusFailed || rec.CompletedAt.IsZero() || rec.Error == nil {
		t.Errorf("the record is %+v, %v", rec, err)
	}
	facts, err := os.ReadFile(filepath.Join(dir, turns.RuntimeFile))
	expect.NoError(t, err)
	var last turns.RuntimeEvent
	for line := range bytes.Lines(facts) {
		ev, err := turns.DecodeRuntimeEvent(line)
		if err != nil || ev.Sequence != last.Sequence+1 || last.Type == turns.TurnFailed {
			t.Errorf("%v in the facts\n%s", err, facts)
		}
		last = ev
	}
	if last.Type != turns.TurnFailed || last.Status != turns.StatusLost {
		t.Errorf("the facts have no end:\n%s", facts)
	}
}

// A file that is not the record of a turn is not changed.
func TestSettleRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if resp, err := (Completion{Gone: responses.Internal("x", nil)}).Complete(dir); resp != nil || err != nil {
		t.Errorf("no record: %+v, %v", resp, err)
	}
	writeRecord(t, dir, responses.StatusInProgress)
	write(t, filepath.Join(dir, turns.JournalFile), entries("", "not an event\n"))
	if _, err := (Completion{Gone: responses.Internal("x", nil)}).Complete(dir); !errors.Is(err, ErrUnsettled) {
		t.Errorf("garbage was taken for events: %v", err)
	}
	expect.NoError(t, os.Remove(filepath.Join(dir, turns.JournalFile)))
	expect.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, turns.JournalFile)))
	if _, err := (Completion{Gone: responses.Internal("x", nil)}).Complete(dir); err == nil {
		t.Error("a link was followed")
	}
}

// Ending any events that a container wrote gives a legal stream or
// an error, and never touches a stream that has an end.
func FuzzEndStream(f *testing.F) {
	whole := openStream(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"type":"response.created","sequence_number":0,"response":{}}` + "\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, events []byte) {
		rec := newRecord(responses.StatusInProgress)
		dir := t.TempDir()
		path := filepath.Join(dir, turns.JournalFile)
		write(t, path, entries("", string(events)))
		end := func() (data []byte, resp responses.Response, err error) {
			err = rewrite(dir, nil, func(j *journal) (err error) {
				resp, err = j.endStream(&rec, responses.Internal("gone", nil))
				return err
			})
			data, readErr := os.ReadFile(path)
			return data, resp, errors.Join(err, readErr)
		}
		ended, resp, err := end()
		if err != nil {
			return
		}
		if !resp.Status.Terminal() {
			t.Errorf("status %s", resp.Status)
		}
		again, _, err := end()
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, ended)
		}
		if !bytes.Equal(ended, again) {
			t.Errorf("a stream with an end was changed:\n%s\n%s", ended, again)
		}
	})
}

// openStream is a stream with a message and no end.
func openStream(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	rec := newRecord(responses.StatusInProgress)
	em, err := newStream(&rec, func(_ string, event []byte) error {
		b.Write(append(event, '\n'))
		return nil
	})
	for _, step := range []func() error{
		func() error { return err },
		func() error { return em.BeginMessage(responses.PhaseCommentary) },
		func() error { return em.Text("one moment") },
		em.EndItem,
		func() error { return em.BeginMessage("") },
		func() error { return em.Text("and then") },
	} {
		expect.NoError(t, step())
	}
	return b.Bytes()
}

func newRecord(status responses.Status) turns.Record {
	resp := responses.Response{ID: "resp_1", Model: "scripted/demo", Status: status}
	rec := turns.NewRecord("sess_1", "turn_1", &resp, strings.Repeat("a", 64), "inst_1", "v1",
		time.Unix(1_700_000_000, 0))
	rec.Status = status
	return rec
}

func writeRecord(t *testing.T, dir string, status responses.Status) {
	t.Helper()
	data, err := newRecord(status).Encode()
	expect.NoError(t, err)
	write(t, filepath.Join(dir, turns.RecordFile), string(data))
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	expect.NoError(t, os.MkdirAll(path, 0o700))
}

func write(t *testing.T, path, data string) {
	t.Helper()
	expect.NoError(t, os.WriteFile(path, []byte(data), 0o600))
}
