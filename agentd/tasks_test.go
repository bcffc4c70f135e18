package agentd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/test/expect"
)

// task makes a task by a turn of the session sess_t and returns it.
func (h *harness) task(args string) tasks.Entry {
	h.t.Helper()
	model := h.scenario("task", "rounds:\n  - calls: [{tool: ExecCommand, arguments: "+args+"}]\n  - text: Started.\n")
	h.post(`{"model":"` + model + `","input":"go","holon":{"session_id":"sess_t"}}`).response(h.t)
	var list tasks.List
	h.see("/tasks?session_id=sess_t", &list)
	if len(list.Tasks) == 0 {
		h.t.Fatal("there is no task")
	}
	return list.Tasks[0]
}

// endTask gives a task the line that it waits for, and waits for its end: clients may look without the model knowing.
func (h *harness) endTask(id string) {
	h.t.Helper()
	decode(h.t, h.do(http.MethodPost, "/tasks/"+id+"/input", `{"input":"go\n"}`), &tasks.InputResult{})
	eventually(h.t, "the task ends", func() bool {
		var out tasks.OutputResult
		h.see("/tasks/"+id+"/output?block=true", &out)
		return out.RetrievalStatus == tasks.Success
	})
}

func (h *harness) see(path string, v any) {
	h.t.Helper()
	decode(h.t, h.do(http.MethodGet, path, ""), v)
}

func decode(t *testing.T, a answer, v any) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	expect.NoError(t, json.Unmarshal(a.body, v))
}

func TestTaskRoutes(t *testing.T) {
	t.Parallel()
	h := start(t)
	var empty tasks.List
	h.see("/v1/tasks", &empty)
	if empty.Tasks == nil || len(empty.Tasks) != 0 {
		t.Errorf("list %+v", empty)
	}
	entry := h.task(`{cmd: 'echo up; read x; echo got $x; sleep 600', accepts_input: true, yield_time_ms: 1}`)
	if entry.Status != tasks.Running || entry.SessionID != "sess_t" || !strings.HasPrefix(entry.Command, "echo up") {
		t.Errorf("%+v", entry)
	}
	path := "/tasks/" + entry.ID
	var status tasks.StatusResult
	h.see(path, &status)
	if !status.Task.Command.AcceptsInput || status.Task.TurnID == "" {
		t.Errorf("%+v", status.Task)
	}
	var in tasks.InputResult
	decode(t, h.do(http.MethodPost, path+"/input", `{"input":"word\n"}`), &in)
	if !in.AcceptedInput || in.BytesWritten != 5 {
		t.Errorf("%+v", in)
	}
	eventually(t, "the command answers", func() bool {
		var out tasks.OutputResult
		h.see(path+"/output", &out)
		return out.RetrievalStatus == tasks.NotReady && strings.Contains(out.Task.OutputPreview, "got word\n")
	})
	var out tasks.OutputResult
	h.see(path+"/output?block=true&timeout_ms=1&max_output_tokens=100", &out)
	if out.RetrievalStatus != tasks.Timeout {
		t.Errorf("%+v", out)
	}
	var stop tasks.StopResult
	decode(t, h.do(http.MethodPost, path+"/stop", ``), &stop)
	if !stop.StopRequested || stop.Task.Status != tasks.Cancelled {
		t.Errorf("%+v", stop)
	}
	h.see(path+"/output?block=true", &out)
	if out.RetrievalStatus != tasks.Success || out.Task.FailureArtifact == nil ||
		out.Task.FailureArtifact.Kind != "stopped" {
		t.Errorf("%+v", out)
	}
}

// The end of a task is a fact of the turn whose tool showed it; the model is not told it again.
func TestEndOfATaskThatAToolShowed(t *testing.T) {
	t.Parallel()
	h := start(t)
	entry := h.task(`{cmd: 'sleep 600', yield_time_ms: 1}`)
	model := h.scenario(
		"stop",
		"rounds:\n  - calls: [{tool: TaskStop, arguments: {task_id: "+entry.ID+", force: true}}]\n"+
			"  - text: Stopped.\n",
	)
	var begun tasks.StatusResult
	h.see("/tasks/"+entry.ID, &begun)
	resp := h.post(`{"model":"` + model + `","input":"stop it","previous_response_id":"` +
		h.record(begun.Task.TurnID).ResponseID + `","holon":{"turn_id":"turn_stop"}}`).response(t)
	facts := h.read("turn_stop", turns.RuntimeFile)
	result := strings.Index(string(facts), `"type":"tool.result"`)
	asked := strings.Index(string(facts), `"type":"task.cancel_requested"`)
	ended := strings.Index(string(facts), `"type":"task.cancelled"`)
	if result < 0 || asked < result || ended < asked || strings.Count(string(facts), entry.ID+`","run_id"`) != 3 ||
		!strings.Contains(string(facts[asked:ended]), `"type":"process.terminated"`) {
		t.Errorf("the facts of the turn are\n%s", facts)
	}
	h.post(`{"model":"` + h.scenario("next", "rounds:\n  - text: Yes.\n") + `","input":"and?",` +
		`"previous_response_id":"` + resp.ID + `","holon":{"turn_id":"turn_next"}}`).response(t)
	again, err := os.ReadFile(h.file("turn_next", turns.RuntimeFile))
	if err != nil || strings.Contains(string(again), `"type":"task.`) {
		t.Errorf("the end of the task is told twice, %v\n%s", err, again)
	}
}

func TestTaskRoutesRefuse(t *testing.T) {
	t.Parallel()
	h := start(t)
	entry := h.task(`{cmd: 'sleep 600', accepts_input: true, yield_time_ms: 1}`)
	path := "/tasks/" + entry.ID
	tests := []struct {
		method, path, body string
		status             int
		code, param        string
	}{
		{"GET", "/tasks/task_none", "", 404, responses.CodeNotFound, "task_id"},
		{"GET", "/tasks/task_none/output", "", 404, responses.CodeNotFound, "task_id"},
		{"POST", "/tasks/task_none/stop", "", 404, responses.CodeNotFound, "task_id"},
		{"POST", "/tasks/task_none/input", `{"input":"x"}`, 404, responses.CodeNotFound, "task_id"},
		{"GET", "/tasks?limit=0", "", 400, responses.CodeInvalidValue, "limit"},
		{"GET", "/tasks?limit=x", "", 400, responses.CodeInvalidValue, "limit"},
		{"GET", "/tasks?session_id=a%2Fb", "", 400, responses.CodeInvalidValue, "session_id"},
		{"GET", path + "/output?block=maybe", "", 400, responses.CodeInvalidValue, "block"},
		{"GET", path + "/output?timeout_ms=-1", "", 400, responses.CodeInvalidValue, "timeout_ms"},
		{"GET", path + "/output?max_output_tokens=9999999", "", 400, responses.CodeInvalidValue, "max_output_tokens"},
		{"POST", path + "/input", ``, 400, responses.CodeMissingParameter, "input"},
		{"POST", path + "/input", `{"input":1}`, 400, responses.CodeInvalidValue, "input"},
		{"POST", path + "/input", `{"text":"x"}`, 400, responses.CodeUnsupportedParameter, "text"},
		{"POST", path + "/input", `{"input":"x"} {}`, 400, responses.CodeInvalidJSON, ""},
		{"POST", path + "/input", `{"input":"x`, 400, responses.CodeInvalidJSON, ""},
		{"POST", path + "/input", `{"input":"` + strings.Repeat("x", 65<<10) + `"}`, 400, responses.CodeInvalidValue,
			"input"},
		{"POST", path + "/input", `{"input":"` + strings.Repeat("x", 2<<20) + `"}`, 413, responses.CodeRequestTooLarge,
			""},
		{"POST", path + "/stop", `{"force":"yes"}`, 400, responses.CodeInvalidValue, "force"},
		{"DELETE", path, ``, 405, responses.CodeMethodNotAllowed, ""},
	}
	for _, tt := range tests {
		a := h.do(tt.method, tt.path, tt.body)
		a.refused(t, tt.status, tt.code, tt.param)
	}
}

// A command of the operator is a task from its beginning, once for its id, and every reader of the tasks is told of it.
func TestStartTask(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.sh("mkdir other")
	body := `{"task_id":"task_own","session_id":"sess_t","workspace_dir":"other","cmd":"echo one; pwd >&2; exit 3"}`
	for range 2 {
		var begun tasks.StatusResult
		decode(t, h.do(http.MethodPost, "/tasks", body), &begun)
		if c := begun.Task.Command; begun.Task.TaskID != "task_own" || c.PromotedFromExecCommand || !c.TerminalReentry {
			t.Errorf("it is %+v", begun.Task)
		}
	}
	var out tasks.OutputResult
	h.see("/tasks/task_own/output?block=true", &out)
	if out.Task.ExitStatus == nil || *out.Task.ExitStatus != 3 || !strings.Contains(out.Task.OutputPreview, "/other\n") {
		t.Errorf("it printed %+v", out.Task)
	}
	for _, a := range out.Task.Artifacts {
		expect.Contains(t, "an output file", a.Path, "/tasks/task_own/")
	}
	var list tasks.List
	if h.see("/tasks", &list); len(list.Tasks) != 1 {
		t.Errorf("there are %d tasks, want the one of its id", len(list.Tasks))
	}
	for _, tt := range []struct{ body, param string }{
		{`{"task_id":"task_x","session_id":"sess_t"}`, "cmd"},
		{`{"task_id":"other","session_id":"sess_t","cmd":"true"}`, "task_id"},
		{`{"session_id":"sess_t","cmd":"true"}`, "task_id"},
		{`{"task_id":"task_x","cmd":"true"}`, "session_id"},
		{`{"task_id":"task_x","session_id":"sess_t","cmd":"true","workdir":"../.."}`, "workdir"},
		{`{"task_id":"task_x","session_id":"sess_t","cmd":"true","workspace_dir":"../.."}`, "workspace_dir"},
		{`{"task_id":"task_x","session_id":"sess_t","cmd":"true","shell":"perl"}`, "shell"},
		{`{"task_id":"task_x","session_id":"sess_t","cmd":"true","yield_time_ms":1}`, "yield_time_ms"},
	} {
		a := h.do(http.MethodPost, "/tasks", tt.body)
		if e := a.failure(t); a.status != http.StatusBadRequest || e.Param != tt.param {
			t.Errorf("%s: %d, param %q, want 400 and %q: %s", tt.body, a.status, e.Param, tt.param, e.Message)
		}
	}
}

// A host that tells the agent of its tasks itself has agentd say nothing of them to the model.
func TestTaskNotices(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Commands.TaskNotices = false })
	entry := h.task(`{cmd: 'read x', accepts_input: true, yield_time_ms: 1}`)
	h.endTask(entry.ID)
	answer := h.scenario("answer", "rounds:\n  - text: Yes.\n")
	h.post(`{"model":"` + answer + `","input":"and?","holon":{"session_id":"sess_t","turn_id":"turn_untold"}}`).
		response(t)
	facts := h.read("turn_untold", turns.RuntimeFile)
	if strings.Contains(string(facts), `"task.completed"`) {
		t.Errorf("the turn tells of the end of the task:\n%s", facts)
	}
}

// The next turn of the session is told of a task that has ended, once, and the
// turn's facts say so; what the task printed is not in the notice.
func TestSessionIsToldOfEndedTasks(t *testing.T) {
	t.Parallel()
	h := start(t)
	entry := h.task(`{cmd: 'read x; echo SECRET; exit 3', accepts_input: true, yield_time_ms: 1}`)
	h.endTask(entry.ID)
	answer := h.scenario("answer", "rounds:\n  - text: Yes.\n")
	first := h.post(`{"model":"` + answer +
		`","input":"and?",` +
		`"holon":{"session_id":"sess_t","turn_id":"turn_told"}}`).response(t)
	facts := h.read("turn_told", turns.RuntimeFile)
	if n := strings.Count(string(facts), `"type":"task.failed"`); n != 1 ||
		!strings.Contains(string(facts), `"task_id":"`+entry.ID+`"`) {
		t.Errorf("%d facts about the task:\n%s", n, facts)
	}
	if !strings.Contains(string(facts), `"output_ref":"turns/turn_`) {
		t.Errorf("the file with the output of a task of another turn is not named within that turn:\n%s", facts)
	}
	h.post(`{"model":"` + answer + `","input":"and now?","previous_response_id":"` + first.ID +
		`","holon":{"turn_id":"turn_later"}}`).response(t)
	facts = h.read("turn_later", turns.RuntimeFile)
	if strings.Contains(string(facts), "task.failed") {
		t.Error("the session is told twice")
	}
}

// The end of a task is told in the thread that told its beginning, also when a fork of it hears of it first, which says
// that the task is not its own: checkFacts judges each.
func TestTaskThatAForkHearsOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, end, class string }{
		{"completed", "", turns.TaskCompleted}, {"cancelled", "/stop", turns.TaskCancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := start(t)
			answer := h.scenario("answer", "rounds:\n  - text: Yes.\n")
			first := h.post(`{"model":"` + answer + `","input":"hello"}`).response(t)
			model := h.scenario("task", "rounds:\n  - calls: [{tool: ExecCommand, arguments: "+
				"{cmd: 'read x; read y', accepts_input: true, yield_time_ms: 1}}]\n  - text: Started.\n")
			begun := h.post(`{"model":"` + model + `","input":"go","previous_response_id":"` + first.ID + `"}`).response(t)
			var list tasks.List
			if h.see("/tasks", &list); len(list.Tasks) != 1 {
				t.Fatalf("there are %d tasks, want 1", len(list.Tasks))
			}
			id := list.Tasks[0].ID
			if tt.end != "" {
				decode(t, h.do(http.MethodPost, "/tasks/"+id+tt.end, ""), &tasks.StopResult{})
			} else { // a fork writes to it, and it ends when that turn has
				write := h.scenario("write", "rounds:\n  - calls: [{tool: TaskInput, arguments: {task_id: "+id+
					`, input: "go\n"}}]`+"\n  - text: Written.\n")
				h.post(`{"model":"` + write + `","input":"write","previous_response_id":"` + first.ID +
					`","holon":{"turn_id":"turn_write"}}`).response(t)
				h.endTask(id)
			}
			for _, turn := range []struct{ id, previous, facts string }{
				{"turn_fork", first.ID, `"external_ids":["` + id}, {"turn_more", first.ID, ""},
				{"turn_main", begun.ID, `"type":"process.`},
			} {
				h.post(`{"model":"` + answer + `","input":"and?","previous_response_id":"` + turn.previous +
					`","holon":{"turn_id":"` + turn.id + `"}}`).response(t)
				facts, err := os.ReadFile(h.file(turn.id, turns.RuntimeFile))
				want := turn.facts
				if told := bytes.Contains(facts, []byte(tt.class)); err != nil || told != (want != "") ||
					!strings.Contains(string(facts), want) {
					t.Errorf("%s (%v) does not have %q, or has what it should not:\n%s", turn.id, err, want, facts)
				}
			}
		})
	}
}

// A restart reports what ran as interrupted, and the session hears of it.
func TestTasksAfterAKill(t *testing.T) {
	t.Parallel()
	h := start(t)
	entry := h.task(`{cmd: 'sleep 600', yield_time_ms: 1}`)
	state, output := t.TempDir(), t.TempDir()
	expect.NoError(t, errors.Join(os.CopyFS(state, os.DirFS(h.cfg.Dirs.State)),
		os.CopyFS(output, os.DirFS(h.cfg.Dirs.Output))))
	again := start(t, func(c *config.Config, p *agentd.Parts) {
		expect.NoError(t, errors.Join(os.CopyFS(c.Dirs.State, os.DirFS(state)),
			os.CopyFS(c.Dirs.Output, os.DirFS(output))))
	})
	var status tasks.StatusResult
	again.see("/tasks/"+entry.ID, &status)
	if status.Task.Status != tasks.Failed || status.Task.Failure != "lost" {
		t.Errorf("%+v", status.Task)
	}
	answer := again.scenario("answer", "rounds:\n  - text: Yes.\n")
	again.post(`{"model":"` + answer + `","input":"and?",` +
		`"holon":{"session_id":"sess_t","turn_id":"turn_told"}}`).response(t)
	facts, err := os.ReadFile(again.file("turn_told", turns.RuntimeFile))
	if err != nil || !strings.Contains(string(facts), `"type":"task.lost"`) {
		t.Errorf("%v\n%s", err, facts)
	}
}

// A task ends with the server, and its record says so.
func TestTasksEndWithTheServer(t *testing.T) {
	t.Parallel()
	h := start(t)
	entry := h.task(`{cmd: 'sleep 600', yield_time_ms: 1}`)
	expect.NoError(t, h.stop())
	data, err := os.ReadFile(h.cfg.Dirs.State + "/tasks/" + entry.ID + ".json")
	if err != nil || !strings.Contains(string(data), `"status":"cancelled"`) ||
		!strings.Contains(string(data), `"failure":"shutdown"`) {
		t.Errorf("%v\n%s", err, data)
	}
}
