package record

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"

	"holon/responses/agentruntime"
)

var update = flag.Bool("update", false, "write the golden files")

// events reads the log that was written by hand.
func events(t testing.TB) []agentruntime.Event {
	t.Helper()
	text, err := os.ReadFile("testdata/log.ndjson")
	expect.NoError(t, err)
	var all []agentruntime.Event
	for line := range strings.Lines(string(text)) {
		var e agentruntime.Event
		expect.NoError(t, json.Unmarshal([]byte(line), &e))
		all = append(all, e)
	}
	return all
}

func fold(events []agentruntime.Event) *Fold {
	f := New("ada")
	for i := range events {
		f.Apply(&events[i])
	}
	return f
}

// everything is all models of a fold as text.
func everything(t testing.TB, f *Fold) string {
	t.Helper()
	var out strings.Builder
	for _, name := range Names() {
		model, ok := f.Model(name)
		text, err := json.Marshal(model)
		if !ok || err != nil {
			t.Fatalf("%s: %v %v", name, ok, err)
		}
		fmt.Fprintf(&out, "%s\n", text)
	}
	return out.String()
}

func TestModelsOfALog(t *testing.T) {
	f := fold(events(t))
	expect.Equal(t, "read models", len(Names()), 13)
	for _, name := range Names() {
		model, _ := f.Model(name)
		got, err := json.MarshalIndent(model, "", "  ")
		expect.NoError(t, err)
		got = append(got, '\n')
		path := filepath.Join("testdata", name+".json")
		if *update {
			expect.NoError(t, os.WriteFile(path, got, 0o644))
		}
		want, err := os.ReadFile(path)
		expect.NoError(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
	if _, ok := f.Model("turn_entry"); ok {
		t.Error("turn_entry is a read model, want a part of one")
	}
}

// What was asked for in between, and an event that comes again, change nothing.
func TestFoldingInPartsIsFoldingAtOnce(t *testing.T) {
	log := events(t)
	want := everything(t, fold(log))
	for cut := range log {
		f := fold(log[:cut])
		early := everything(t, f)
		for i := range log[:cut] {
			f.Apply(&log[i])
		}
		if again := everything(t, f); again != early {
			t.Fatalf("after %d events applied twice the models are\n%s\nwant\n%s", cut, again, early)
		}
		model, _ := f.Model("thread_read_model")
		before, _ := json.Marshal(model)
		for i := range log[cut:] {
			f.Apply(&log[cut+i])
			f.Apply(&log[cut+i])
		}
		if got := everything(t, f); got != want {
			t.Fatalf("folded in two parts at %d the models are\n%s\nwant\n%s", cut, got, want)
		}
		if after, _ := json.Marshal(model); !bytes.Equal(after, before) {
			t.Fatalf("the model after %d events changed with later ones", cut)
		}
	}
}

func TestAGapIsNamed(t *testing.T) {
	log := events(t)
	f := fold(append(log[:3:3], log[10:]...))
	f.Apply(&log[5]) // too late: it is folded again from the beginning, or not at all
	model, _ := f.Model("session_snapshot")
	head := model.(SessionSnapshot).Head
	if !head.Degraded || len(head.Missing) != 1 || head.Missing[0] != (gap{4, 10}) || head.MissingEvents != 7 {
		t.Errorf("the head is %+v, want 4 to 10 missing", head)
	}
}

// A record that began before events had classes does not show that nothing happened.
func TestARecordWithoutClassesSaysSo(t *testing.T) {
	for class, want := range map[string]bool{"session.created": false, "holon.agent_created": true} {
		d := export(t, "review", []agentruntime.Event{{Type: class, Sequence: 1}})
		model, _ := d.fold.Model("queue_snapshot")
		if got := model.(queueSnapshot).Unclassified; got != want || d.Manifest.Unclassified != want {
			t.Errorf("a record that begins with %s: %v and %v in an export, want %v", class, got,
				d.Manifest.Unclassified, want)
		}
	}
}

// An empty record is not a healthy agent.
func TestAnEmptyRecordIsUnknown(t *testing.T) {
	model, _ := New("ada").Model("thread_read_model")
	if m := model.(ThreadReadModel); m.Status != unknown || m.LastOutcome != unknown || m.SessionID != unknown {
		t.Errorf("status %s, outcome %s, session %s, want unknown", m.Status, m.LastOutcome, m.SessionID)
	}
}

// A thread is queued from the message to the start of its turn, whatever the turn before has left, unless somebody has
// to act first.
func TestThreadIsQueuedUntilItsTurnStarts(t *testing.T) {
	closed := `thread.updated failed {"outcome":"failed","runtime_posture":"awake"}`
	stopped := `thread.updated blocked {"status":"stopped"}`
	queued := `queue.changed queued {"op":"enqueue","entry":{"message_id":"m"}}`
	for _, c := range []struct {
		events []string
		want   string
	}{
		{[]string{closed}, "failed"},
		{[]string{closed, queued}, "queued"},
		{[]string{closed, queued, stopped}, "blocked"},
		{[]string{`queue.changed queued {"op":"enqueue","entry":{"message_id":"m","blocked":true}}`}, "blocked"},
		{[]string{closed, `turn.submitted accepted {}`}, "queued"},
		{[]string{closed, `turn.submitted accepted {}`, stopped}, "blocked"},
		{[]string{`turn.submitted accepted {}`, `turn.started running {}`}, "running"},
		{[]string{`turn.submitted accepted {}`, `turn.started running {}`, `thread.updated running {"status":"stopped"}`},
			"running"},
	} {
		f := New("ada")
		for i, line := range c.events {
			words := strings.SplitN(line, " ", 3)
			e := agentruntime.Event{Type: words[0], Status: words[1], Payload: json.RawMessage(words[2]),
				Sequence: int64(i) + 1}
			e.IDs[agentruntime.Turn] = "turn_1"
			f.Apply(&e)
		}
		model, _ := f.Model("thread_read_model")
		expect.Equal(t, fmt.Sprintf("after %q the thread", c.events), model.(ThreadReadModel).Status, c.want)
	}
}

// What single facts say of calls, tasks, limits and usage, also where the record lacks the beginning of the turn.
func TestFactsOfATurn(t *testing.T) {
	f := New("ada")
	for i, line := range []string{
		`model.requested running {"provider_name":"p","model_name":"m","attempt":1,"round":1}`,
		`cost.recorded  {"usage":{"input_tokens":7,"output_tokens":0,"total_tokens":7,"estimated":true}}`,
		`rate_limit.hit  {"by":"provider","scope":"p/m","retry_after_ms":1200}`,
		`tool.started running {"tool_name":"ExecCommand","policy":"allow"}`,
		`tool.result completed {"tool_name":"ExecCommand"}`,
		`task.created draft {"task_kind":"command_task"}`,
		`task.started running {}`,
		`task.failed failed {"failure_category":"nonzero_exit","delivery_state":"delivered"}`,
		`queue.changed queued {"op":"enqueue","entry":{"message_id":"a"}}`,
		`queue.changed queued {"op":"enqueue","entry":{"message_id":"b"}}`,
		`queue.changed running {"op":"dequeue","entry":{"message_id":"a"}}`,
		`turn.failed failed {"model":"p/m","usage":{"input_tokens":7,"output_tokens":0,"total_tokens":7,"estimated":true}}`,
	} {
		words := strings.SplitN(line, " ", 3)
		e := agentruntime.Event{Type: words[0], Status: words[1], Payload: json.RawMessage(words[2]), Sequence: int64(i) + 9}
		e.IDs[agentruntime.Turn], e.IDs[agentruntime.ModelRequest] = "turn_1", "req_1"
		e.IDs[agentruntime.ToolCall], e.IDs[agentruntime.Task] = "call_1", "task_1"
		f.Apply(&e)
	}
	model, _ := f.Model("thread_read_model")
	m := model.(ThreadReadModel)
	if len(m.Turns.Items) != 1 {
		t.Fatalf("there are %d turns, want 1", len(m.Turns.Items))
	}
	turn := m.Turns.Items[0]
	if turn.ModelRequests != 1 || turn.ToolCalls != 1 || turn.Model != "p/m" || !turn.Usage.Estimated {
		t.Errorf("the turn is %+v, want one request to p/m, one call, and an estimate", turn)
	}
	if !m.RecordedUsage.Estimated || m.ToolCalls.Items[0].Decision != "allow" {
		t.Errorf("the usage is %+v and the decision %q, want an estimate and allow", m.RecordedUsage,
			m.ToolCalls.Items[0].Decision)
	}
	if m.QueuedTurns.Total != 1 || m.QueueDepth != 1 {
		t.Errorf("%d of %d messages are queued, want one of one", m.QueueDepth, m.QueuedTurns.Total)
	}
	if task := f.tasks.find("task_1"); task.Attempts != 1 || task.DeliveryState != "delivered" {
		t.Errorf("the task is %+v, want one attempt, and that its end was told", task)
	}
	if l := f.limits.list(nil).Items[0]; l.Status != "hit" || l.Scope != "p/m" || l.RetryAfterMS != 1200 {
		t.Errorf("the limit is %+v, want one that was hit, of p/m, for 1,200 ms", l)
	}
}

// An export whose events are not all in the record any more cannot be made again.
func TestEvidenceExpires(t *testing.T) {
	for _, c := range []struct {
		first, from int64
		want        bool
	}{{1, 1, false}, {1, 0, false}, {5, 1, true}, {5, 0, true}, {5, 5, false}, {7, 5, true}} {
		f := New("ada")
		for i, line := range []string{"session.created {}", fmt.Sprintf(
			`evidence.changed {"op":"ready","from_sequence":%d,"through_sequence":6,"events_digest":"sha256:x"}`, c.from)} {
			class, payload, _ := strings.Cut(line, " ")
			e := agentruntime.Event{Type: class, Payload: json.RawMessage(payload), Sequence: c.first + int64(i)}
			e.IDs[agentruntime.Evidence] = "evidence_1"
			f.Apply(&e)
		}
		model, _ := f.Model("evidence_summary")
		if e := model.(evidenceSummary).Evidence.Items[0]; e.Expired != c.want || e.Through != 6 || e.Digest == "" {
			t.Errorf("of a record from %d, an export from %d is %+v, want expired %v", c.first, c.from, e, c.want)
		}
	}
}

func TestWindowsAreBounded(t *testing.T) {
	f := New("ada")
	var seq int64
	apply := func(class string, kind agentruntime.ID, id string, payload string) {
		seq++
		e := agentruntime.Event{Type: class, Sequence: seq, EventID: fmt.Sprint(seq), Payload: json.RawMessage(payload)}
		e.IDs[kind] = id
		f.Apply(&e)
	}
	apply("action.required", agentruntime.Action, "first", `{}`)
	apply("tool.started", agentruntime.ToolCall, "bad", `{}`)
	apply("tool.failed", agentruntime.ToolCall, "bad", `{"failure_category":"timeout"}`)
	for i := range 3 * maxQueue {
		id := fmt.Sprint("x", i)
		apply("turn.submitted", agentruntime.Turn, id, `{}`)
		apply("turn.completed", agentruntime.Turn, id, `{}`)
		apply("tool.started", agentruntime.ToolCall, id, `{}`)
		apply("tool.result", agentruntime.ToolCall, id, `{}`)
		apply("action.required", agentruntime.Action, id, `{}`)
		apply("action.resolved", agentruntime.Action, id, `{}`)
		apply("queue.changed", agentruntime.QueuedTurn, id, `{"op":"enqueue"}`)
	}
	model, _ := f.Model("thread_read_model")
	m := model.(ThreadReadModel)
	if len(m.Turns.Items) != maxTurns || m.Turns.Total != 3*maxQueue || m.Counts.TurnsByStatus["completed"] != 3*maxQueue {
		t.Errorf("%d turns of %d, want %d of %d", len(m.Turns.Items), m.Turns.Total, maxTurns, 3*maxQueue)
	}
	if len(m.ToolCalls.Items) != maxTools || m.ToolCalls.Items[0].ToolCallID != "bad" {
		t.Errorf("%d calls, the first %s, want %d and the one that failed", len(m.ToolCalls.Items),
			m.ToolCalls.Items[0].ToolCallID, maxTools)
	}
	if len(m.PendingRequests.Items) != 1 || m.PendingRequests.Items[0].ActionID != "first" {
		t.Errorf("%+v is open, want the first action", m.PendingRequests.Items)
	}
	if p := m.PendingRequests; p.Total != 1 || p.Omitted != 0 {
		t.Errorf("%d are open and %d left out, want the one", p.Total, p.Omitted)
	}
	if len(m.QueuedTurns.Items) != maxQueue || m.QueueDepth != 3*maxQueue {
		t.Errorf("%d queued of %d, want %d of %d", len(m.QueuedTurns.Items), m.QueueDepth, maxQueue, 3*maxQueue)
	}
	apply("queue.changed", agentruntime.QueuedTurn, "x0", `{"op":"dequeue"}`)
	expect.Equal(t, "the depth", f.depth(), 3*maxQueue-1)
}

// Whatever is in a log, a fold neither fails nor grows without bound.
func FuzzFold(f *testing.F) {
	text, err := os.ReadFile("testdata/log.ndjson")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"type":"turn.failed","sequence":9223372036854775807,"turn_id":"t","payload":[1]}`))
	f.Add([]byte(`{"type":"job.created","sequence":3,"job_id":"j","payload":{"item_count":1e400}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fold := New("ada")
		for line := range bytes.Lines(text) {
			var e agentruntime.Event
			if json.Unmarshal(line, &e) == nil {
				fold.Apply(&e)
			}
		}
		first := everything(t, fold)
		if first != everything(t, fold) {
			t.Error("asking twice gives two answers")
		}
		if len(fold.counts) > 113+2 { // the normalized classes, ours and others
			t.Errorf("%d classes are counted", len(fold.counts))
		}
	})
}

// A limit says what it holds for and what the provider wants.
func TestALimitKeepsItsScope(t *testing.T) {
	f := fold([]agentruntime.Event{{Type: "rate_limit.hit", EventID: "evt_1", Sequence: 1,
		Payload: []byte(`{"by":"provider","scope":"acme/m","retry_after_ms":1000}`)}})
	model, _ := f.Model("routing_limit_summary")
	got := model.(routingSummary).Limits.Items
	if len(got) != 1 || got[0].Scope != "acme/m" || got[0].RetryAfterMS != 1000 {
		t.Errorf("the limits are %+v, want one of acme/m with a wait of 1000 ms", got)
	}
}

// A call whose arguments are in a file of its turn says so, also once the file is gone.
func TestArgumentsInAFile(t *testing.T) {
	f := New("ada")
	apply := func(n int64, class, status, payload string) {
		e := agentruntime.Event{Type: class, Sequence: n, Status: status, Timestamp: "2026-03-01T10:00:00.000Z",
			Payload: json.RawMessage(payload)}
		if class == "tool.started" {
			e.IDs[agentruntime.Turn], e.IDs[agentruntime.ToolCall] = "turn_1", "call_1"
		}
		f.Apply(&e)
	}
	apply(1, "tool.started", "running", `{"tool_name":"Write","host":"server","args_truncated":true,`+
		`"args_digest":"sha256:a","input_ref":"tools/call_1/arguments.json"}`)
	apply(2, "output.expired", "", `{"turn_id":"turn_1","expires_at":"2026-03-02T10:00:00.000Z"}`)
	const want = `"args_truncated":true,"args_digest":"sha256:a","input_ref":"tools/call_1/arguments.json",` +
		`"output_expired_at":"2026-03-02T10:00:00.000Z"`
	if got := everything(t, f); !strings.Contains(got, want) {
		t.Errorf("no model has %s: %s", want, got)
	}
}

// The read models have the machine, the limits of the container and the budget of the agent as events report them.
func TestFactsOfLimits(t *testing.T) {
	f := New("ada")
	for i, line := range []string{
		`run.status {"environment":{"os":"linux","arch":"arm64","shell":"/bin/sh"}}`,
		`holon.container.created {"container_id":"c"}`,
		`holon.container.started {"container_id":"c","limits":{"memory":"1 GiB"}}`,
		`cost.recorded {"tokens":5,"budget":{"tokens":5}}`,
		`quota.blocked {"limit_kind":"budget","limit_status":"blocked","budget":{"tokens":9}}`,
	} {
		class, payload, _ := strings.Cut(line, " ")
		f.Apply(&agentruntime.Event{Type: class, Payload: json.RawMessage(payload), Sequence: int64(i + 1)})
	}
	model, _ := f.Model("execution_environment_snapshot")
	e := model.(ExecutionEnvironment)
	if limits, _ := e.ResourceLimits.(json.RawMessage); e.OS+e.Arch+e.Shell != "linuxarm64/bin/sh" ||
		string(limits) != `{"memory":"1 GiB"}` {
		t.Errorf("the environment is %+v", e)
	}
	model, _ = f.Model("routing_limit_summary")
	if r := model.(routingSummary); string(r.Budget) != `{"tokens":9}` || r.Limits.Items[0].Status != "blocked" {
		t.Errorf("the limits are %+v with the budget %s", r.Limits, r.Budget)
	}
}
