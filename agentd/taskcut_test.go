package agentd_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/test/expect"
)

// cut is a server that was killed during a turn: what was on disk when the turn had told of something.
type cut struct {
	*harness
	turn, state, output string
	facts               []byte // the journal of the turn
}

// cutOff begins a turn, and keeps what is on disk when it has told of a class n times, after which it must have nothing
// to do: facts and state are not read at once. Then the server ends.
func (h *harness) cutOff(turn, class string, n int, body string) cut {
	h.t.Helper()
	c := cut{harness: h, turn: turn, state: h.t.TempDir(), output: h.t.TempDir()}
	_ = h.later(h.t.Context(), body)
	eventually(h.t, class+" is told", func() bool {
		c.facts, _ = os.ReadFile(h.file(turn, turns.JournalFile))
		return strings.Count(string(c.facts), `"type":"`+class+`"`) == n
	})
	expect.NoError(h.t, errors.Join(os.CopyFS(c.state, os.DirFS(h.cfg.Dirs.State)),
		os.CopyFS(c.output, os.DirFS(h.cfg.Dirs.Output)), h.stop()))
	return c
}

// after serves what was on disk, without the facts of the turn after the last one of a class, until the turn is
// settled.
func (c cut) after(t *testing.T, last string) *harness {
	t.Helper()
	end := bytes.LastIndex(c.facts, []byte(`"type":"`+last+`"`))
	end += bytes.IndexByte(c.facts[end:], '\n') + 1
	expect.NoError(t, errors.Join(os.RemoveAll(c.cfg.Dirs.State), os.RemoveAll(c.cfg.Dirs.Output),
		os.CopyFS(c.cfg.Dirs.State, os.DirFS(c.state)), os.CopyFS(c.cfg.Dirs.Output, os.DirFS(c.output)),
		os.Truncate(c.file(c.turn, turns.JournalFile), int64(end))))
	again := startIn(t, c.dir)
	eventually(t, "the turn is settled", func() bool { return again.record(c.turn).Status.Terminal() })
	return again
}

// A turn whose end cannot be written when agentd starts is settled when it can, without another start or request.
func TestSettledLater(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.cutOff("turn_cut", turns.ModelRequested, 1, `{"input":"go","holon":{"turn_id":"turn_cut"}}`)
	end := bytes.LastIndexByte(c.facts, '\n') + 1
	if err := errors.Join(os.RemoveAll(c.cfg.Dirs.State), os.RemoveAll(c.cfg.Dirs.Output),
		os.CopyFS(c.cfg.Dirs.State, os.DirFS(c.state)), os.CopyFS(c.cfg.Dirs.Output, os.DirFS(c.output)),
		os.Truncate(c.file(c.turn, turns.JournalFile), int64(end)),
		os.Mkdir(c.file(c.turn, turns.RecordFile), 0o700)); err != nil { // no file replaces a directory
		t.Fatal(err)
	}
	again := startIn(t, c.dir)
	open := func() int {
		left, err := os.ReadDir(filepath.Join(c.cfg.Dirs.State, "open"))
		expect.NoError(t, err)
		return len(left)
	}
	if open() != 1 {
		t.Fatal("the turn was settled, although its record cannot be written")
	}
	expect.NoError(t, os.Remove(c.file(c.turn, turns.RecordFile)))
	eventually(t, "the turn is settled", func() bool { return open() == 0 })
	rec := again.record(c.turn)
	if rec.Status != responses.StatusFailed || rec.Error == nil || rec.Error.Code != responses.CodeInterrupted {
		t.Errorf("the record is %+v", rec)
	}
	if resp := again.do(http.MethodGet, "/responses/"+rec.ResponseID, "").response(t); resp.Status != rec.Status {
		t.Errorf("the response is %s", resp.Status)
	}
}

// once expects one fact of each class in turns.
func (h *harness) once(t *testing.T, classes []string, ids ...string) {
	t.Helper()
	var facts []byte
	for _, id := range ids {
		data := h.read(id, turns.RuntimeFile)
		facts = append(facts, data...)
	}
	for _, class := range classes {
		if n := bytes.Count(facts, []byte(`"type":"`+class+`"`)); n != 1 {
			t.Errorf("%d %s, want 1", n, class)
		}
	}
}

// A turn that a kill cuts off while it tells of a task that it began tells the rest when it is settled: checkFacts
// judges each.
func TestTaskOfATurnThatWasCutOff(t *testing.T) {
	t.Parallel()
	h := start(t)
	model := h.scenario("task", `rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: sleep 600, yield_time_ms: 1}}]
  - {delay: 2m, text: Late.}
`)
	c := h.cutOff("turn_cut", turns.ModelRequested, 2,
		`{"model":"`+model+`","input":"go","holon":{"session_id":"sess_t","turn_id":"turn_cut"}}`)
	for _, last := range []string{turns.ToolStarted, turns.ProcessStarted, turns.ToolResult, turns.TaskCreated,
		turns.TaskAccepted, turns.TaskStarted} {
		t.Run(last, func(t *testing.T) {
			c.after(t, last).once(t, []string{turns.ProcessStarted, turns.TaskCreated, turns.TaskAccepted,
				turns.TaskStarted}, "turn_cut")
		})
	}
}

// The end of a task is told once, also when a kill cuts off the turn that tells it before the task's record says so.
func TestEndOfATaskInATurnThatWasCutOff(t *testing.T) {
	t.Parallel()
	h := start(t)
	model := h.scenario("task", "rounds:\n  - calls: [{tool: ExecCommand, arguments: "+
		"{cmd: 'read x', accepts_input: true, yield_time_ms: 1}}]\n  - text: Started.\n")
	begun := h.post(`{"model":"` + model + `","input":"go","holon":{"session_id":"sess_t"}}`).response(t)
	var list tasks.List
	if h.see("/tasks", &list); len(list.Tasks) != 1 {
		t.Fatalf("there are %d tasks, want 1", len(list.Tasks))
	}
	task := "/tasks/" + list.Tasks[0].ID
	h.endTask(list.Tasks[0].ID)
	long := h.scenario("long",
		"rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: sleep 600, yield_time_ms: 30000}}]\n")
	answer := h.scenario("answer", "rounds:\n  - text: Yes.\n")
	c := h.cutOff("turn_cut", turns.ProcessStarted, 1,
		`{"model":"`+long+`","input":"and?","previous_response_id":"`+begun.ID+
			`","holon":{"turn_id":"turn_cut"}}`)
	record := c.state + task + ".json"
	data, err := os.ReadFile(record)
	if err != nil || !bytes.Contains(data, []byte(`"reported":true`)) {
		t.Fatalf("%v: the record does not say that the end is told: %s", err, data)
	}
	data = bytes.Replace(data, []byte(`"reported":true`), []byte(`"reported":false`), 1)
	expect.NoError(t, os.WriteFile(record, data, 0o600))
	for _, last := range []string{turns.TurnStarted, turns.ProcessCompleted, turns.TaskCompleted} {
		t.Run(last, func(t *testing.T) {
			again := c.after(t, last)
			again.post(`{"model":"` + answer + `","input":"now?","previous_response_id":"` + again.record("turn_cut").ResponseID +
				`","holon":{"turn_id":"turn_next"}}`).response(t)
			again.once(t, []string{turns.ProcessCompleted, turns.TaskCompleted}, "turn_cut", "turn_next")
		})
	}
}
