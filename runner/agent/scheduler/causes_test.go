package scheduler_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses/agentruntime"
	"holon/responses/tasks"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// caused fails the test unless the newest event of a class, or a type, has the newest one of another as its cause.
func (w *world) caused(t *testing.T, effect, cause string) {
	t.Helper()
	newest := map[string]ledger.Event{}
	_, events := w.events(0)
	for _, e := range events {
		newest[e.Type], newest[e.Class] = e, e
	}
	if e := newest[effect]; e.ID == "" || newest[cause].ID == "" || e.Cause != newest[cause].ID {
		t.Errorf("%s has the cause %q, want %s, %q", effect, e.Cause, cause, newest[cause].ID)
	}
	w.valid(t)
}

func TestCausesOfTimers(t *testing.T) {
	w := open(t)
	for _, after := range []time.Duration{time.Minute, time.Minute} { // both come due in one step
		_, _, err := w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha", After: after})
		w.must(err)
	}
	w.pass(time.Hour)
	w.caused(t, rules.TimerFired, rules.TimerCreated)
	w.caused(t, rules.MessageAdmitted, rules.TimerFired)
}

// Wakes that come while a turn runs are one tick after it, which the newest of them caused.
func TestCauseOfATick(t *testing.T) {
	for name, description := range map[string]string{"with content": "news", "without": ""} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.admit(prompt("hello"))
			c := w.claim()
			for range 2 {
				_, err := w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Reason: "look", Description: description,
					Context: ledger.ControlAuthenticated})
				w.must(err)
			}
			w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted})
			w.caused(t, rules.SystemTickEmitted, rules.WakeRequested)
			w.caused(t, rules.MessageAdmitted, rules.SystemTickEmitted)
			w.caused(t, rules.TurnTerminal, rules.TurnSubmitted)
			if m := w.message(w.state().WakeMessage); strings.Contains(string(m.Body.Value), "evt_") {
				t.Errorf("the message names an event: %s", m.Body.Value)
			}
		})
	}
}

func TestCausesOfCancels(t *testing.T) {
	w := open(t)
	w.admit(prompt("hello"))
	c := w.claim()
	_, _, err := w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", By: "me"})
	w.must(err)
	w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnAborted, Reason: "aborted"})
	w.caused(t, rules.TurnTerminal, rules.CurrentRunAborted)
	w.caused(t, rules.QueueEntrySettled, rules.CurrentRunAborted)

	task, _, err := w.m.CreateTask(w.ctx, scheduler.NewTask{AgentID: "alpha", Start: tasks.Start{Cmd: "make"}})
	w.must(err)
	for _, status := range []tasks.Status{tasks.Running, tasks.Cancelling, tasks.Cancelled} {
		w.must(w.m.ReportTask(w.ctx, "alpha", report(task.ID, status, w.now)))
	}
	w.caused(t, "task.cancel_requested", "task.created")
	w.caused(t, "process.started", "task.created")
	w.caused(t, "task.cancelled", "task.cancel_requested")
	w.caused(t, "process.terminated", "task.cancel_requested")
	w.caused(t, rules.MessageAdmitted, "task.cancelled")
}

// Input that a turn takes in is caused by its interjection.
func TestCauseOfInput(t *testing.T) {
	w := open(t)
	w.admit(prompt("hello"))
	c := w.claim()
	w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
	also := prompt("and this")
	also.Priority = ledger.Interject
	id := w.admit(also).MessageID
	_, err := w.m.Offer(w.ctx, "alpha")
	w.must(err)
	w.progress(c.Attempt.ID, "holon.input.inserted", `{"input_id":"`+id+`"}`)
	w.caused(t, "holon.input.inserted", rules.OperatorInterjection)
}

// A compaction that the loss of its container cuts off ends with its trigger and round.
func TestCompactionThatIsCutOff(t *testing.T) {
	w := open(t)
	w.admit(prompt("hello"))
	c := w.claim()
	w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
	w.progress(c.Attempt.ID, "context.compaction.started", `{"trigger":"budget","round":3}`)
	w.settle(c.Attempt.ID, scheduler.End{Lost: true})
	w.caused(t, "context.compaction.failed", "context.compaction.started")
	_, events := w.events(0)
	for _, e := range events {
		if data := string(e.Data); e.Class == "context.compaction.failed" &&
			(!strings.Contains(data, `"trigger":"budget"`) || !strings.Contains(data, `"round":3`)) {
			t.Errorf("the compaction ends as %s, want its trigger and round", data)
		}
	}
}

// A request that is cut off before it has said anything is a round of its own, as it is counted.
func TestRoundThatIsCutOff(t *testing.T) {
	for name, end := range map[string]scheduler.End{"lost": {Lost: true},
		"aborted": {Kind: ledger.TurnAborted, Reason: "cancelled"}} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.admit(prompt("hello"))
			c := w.claim()
			w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
			w.progress(c.Attempt.ID, "routing.decided", `{"candidate_count":1}`, "model.requested",
				`{"round":1,"attempt":1,"provider_name":"p","model_name":"m","estimated_tokens":7}`)
			w.settle(c.Attempt.ID, end)
			w.caused(t, rules.AssistantRound, "model.failed")
			rounds := 0
			_, events := w.events(0)
			for _, e := range events {
				data := string(e.Data)
				if e.Type == rules.AssistantRound {
					rounds++
					equal(t, "the request", e.IDs[agentruntime.ModelRequest], "mr_1")
					if !strings.Contains(data, `"model_ref":"p/m"`) || !strings.Contains(data, `"input_tokens":7`) {
						t.Errorf("the round is %s, want its model and tokens", data)
					}
				}
				if e.Class == "model.failed" && e.Status != "failed" {
					t.Errorf("the request ends with the status %q", e.Status)
				}
			}
			equal(t, "events of rounds", rounds, 1)
		})
	}
}

// A round of which the recorder told is not told again.
func TestRoundThatWasTold(t *testing.T) {
	w := open(t)
	w.admit(prompt("hello"))
	c := w.claim()
	w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
	w.progress(c.Attempt.ID, "model.requested", `{"round":1,"attempt":1,"provider_name":"p","model_name":"m"}`)
	told := scheduler.Progress{Event: ledger.Event{Type: rules.AssistantRound, Data: json.RawMessage(`{"round":1}`)}}
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 2}, []scheduler.Progress{told}))
	w.settle(c.Attempt.ID, scheduler.End{Lost: true})
	_, events := w.events(0)
	events = slices.DeleteFunc(events, func(e ledger.Event) bool { return e.Type != rules.AssistantRound })
	equal(t, "events of rounds", len(events), 1)
}

// The thread keeps its status when the image of its agent changes, and each thread.updated tells one.
func TestStatusOfAnImage(t *testing.T) {
	w := open(t)
	w.admit(prompt("hello"))
	c := w.claim()
	w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
	_, err := w.m.SetImage(w.ctx, "alpha", "other")
	w.must(err)
	_, events := w.events(0)
	if e := events[len(events)-1]; e.Class != "thread.updated" || e.Status != "running" {
		t.Errorf("the newest event is %s with the status %q", e.Class, e.Status)
	}
	w.valid(t)
}

// progress records facts of a container, its first: classes and payloads in turn.
func (w *world) progress(attempt string, facts ...string) {
	var did []scheduler.Progress
	for i := 0; i < len(facts); i += 2 {
		class := facts[i]
		e := ledger.Event{Type: class, Class: class, Data: json.RawMessage(facts[i+1]), ProducerSeq: int64(i/2 + 1)}
		if strings.HasSuffix(class, ".started") || class == "model.requested" {
			e.Status = "running"
		}
		if class == "model.requested" {
			e.IDs[agentruntime.ModelRequest] = "mr_1"
		}
		did = append(did, scheduler.Progress{Event: e})
	}
	w.must(w.m.Progress(w.ctx, attempt, scheduler.Through{Facts: int64(len(did))}, did))
}

// What the operator does with a work item, or with a message in the queue, has a cause: at least that it came to be.
func TestCausesOfWhatTheOperatorDoes(t *testing.T) {
	w := open(t)
	item := w.item("build it")
	w.caused(t, "task.started", "task.created")
	_, err := w.m.CompleteWork(w.ctx, "alpha", item.ID, "done", nil)
	w.must(err)
	w.caused(t, "task.completed", "task.created")

	id := w.admit(prompt("hello")).MessageID
	_, err = w.m.Remove(w.ctx, "alpha", id, "me")
	w.must(err)
	w.caused(t, rules.QueueEntrySettled, rules.MessageAdmitted)
}

// A task of the operator is for what the operator says, and says to whom its end is brought.
func TestTaskIsForItsObjective(t *testing.T) {
	w := open(t)
	for _, c := range []struct {
		agent, purpose, objective, delivery string
		remove                              bool
	}{
		{"beta", "build it", "build it", "delivered", false},
		{"beta", "", "make", "parent_missing", true},
	} {
		task, _, err := w.m.CreateTask(w.ctx, scheduler.NewTask{AgentID: c.agent, Purpose: c.purpose,
			Start: tasks.Start{Cmd: "make"}})
		w.must(err)
		w.must(w.m.ReportTask(w.ctx, c.agent, report(task.ID, tasks.Running, w.now)))
		if c.remove {
			_, err := w.m.Archive(w.ctx, scheduler.Archive{AgentID: c.agent, By: "me"})
			w.must(err)
		}
		w.must(w.m.ReportTask(w.ctx, c.agent, report(task.ID, tasks.Completed, w.now)))
		var end struct {
			Objective string
			Delivery  string `json:"delivery_state"`
		}
		w.view(func(v ledger.View) error {
			page, err := v.Events(c.agent, ledger.EventQuery{Limit: 1000})
			for _, e := range page.Events {
				if e.Ref == task.ID && (e.Class == "task.created" || e.Class == "task.completed") {
					end.Objective = ""
					if err := json.Unmarshal(e.Data, &end); err != nil {
						t.Fatal(err)
					}
					equal(t, "objective in "+e.Class, end.Objective, c.objective)
				}
			}
			return err
		})
		equal(t, "delivery", end.Delivery, c.delivery)
	}
}

// A task that an older version began has no process on record, which cannot end there.
func TestTaskOfAnOlderVersion(t *testing.T) {
	w := open(t)
	task, _, err := w.m.CreateTask(w.ctx, scheduler.NewTask{AgentID: "alpha", Start: tasks.Start{Cmd: "make"}})
	w.must(err)
	task.Status = tasks.Running
	w.must(w.store.Update(w.ctx, func(tx ledger.Tx) error { return tx.UpdateTask(task) }))
	w.must(w.m.ReportTask(w.ctx, "alpha", report(task.ID, tasks.Completed, w.now)))
	types, _ := w.events(0)
	for _, typ := range types {
		if strings.HasPrefix(typ, "process.") {
			t.Errorf("the record has %s of a process that it does not know", typ)
		}
	}
}

// A wait for which a message is in the queue already is triggered by that.
func TestCauseOfAWaitThatAQueuedMessageTriggers(t *testing.T) {
	w := open(t)
	w.admit(prompt("first"))
	w.claim()
	w.admit(prompt("second"))
	w.sleep("call_1", 0)
	w.caused(t, rules.WaitTriggered, rules.MessageAdmitted)
}

// A setting that changes is why blocked messages are tried again.
func TestCauseOfAnUnblocking(t *testing.T) {
	w := open(t)
	w.tryKeyless(w.admit(prompt("x")).MessageID)
	_, err := w.m.SetModel(w.ctx, "alpha", "p/other", "")
	w.must(err)
	w.caused(t, rules.QueueEntryUnblocked, rules.ModelOverrideRequested)
}

// A message that comes back because no turn could be begun for it ends its wait anew, as its admission did.
func TestCauseOfAWaitThatIsTriggeredAgain(t *testing.T) {
	w := open(t)
	w.admit(prompt("rest"))
	c := w.claim()
	w.sleep("1", time.Hour)
	w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted, Last: "ok", ResponseID: "resp_1"})
	w.admit(prompt("again"))
	c = w.claim()
	before := w.state().EventSeq
	w.settle(c.Attempt.ID, scheduler.End{NotBegun: true,
		Failure: &ledger.Failure{Phase: "startup", Code: "engine_unreachable", Summary: "no engine answers"}})
	if types, _ := w.events(before); !slices.Contains(types, rules.WaitTriggered) {
		t.Fatalf("the events %v trigger no wait", types)
	}
	w.caused(t, rules.WaitTriggered, rules.MessageAdmitted)
}
