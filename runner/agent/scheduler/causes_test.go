package scheduler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses/agentruntime"
	"holon/responses/tasks"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// caused fails the test unless the newest event of a class, or a type, has the newest one of another as its cause.
func (w *world) caused(t *testing.T, effect, cause string) {
	t.Helper()
	if e, by := w.newest(effect), w.newest(cause); e.Cause != by.ID {
		t.Errorf("%s has the cause %q, want %s, %q", effect, e.Cause, cause, by.ID)
	}
	w.valid(t)
}

// makeTask makes a task of an agent for its operator.
func (w *world) makeTask(agent, purpose string) ledger.Task {
	w.t.Helper()
	task, _, err := w.m.CreateTask(w.ctx, scheduler.NewTask{AgentID: agent, Purpose: purpose,
		Start: tasks.Start{Cmd: "make"}})
	w.must(err)
	return task
}

// reports has the container of an agent tell what became of a task.
func (w *world) reports(agent, task string, states ...tasks.Status) {
	w.t.Helper()
	for _, status := range states {
		w.ok(w.m.ReportTask(w.ctx, agent, report(task, status, w.now)))
	}
}

// Each effect has a cause in the record: pairs of them, the newest of their kinds.
func TestCauses(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(w *world)
		pairs []string
	}{
		"timers that come due in one step": {func(w *world) {
			for range 2 {
				w.ok(w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha", After: time.Minute}))
			}
			w.pass(time.Hour)
		}, []string{record.TimerFired, record.TimerCreated, record.MessageAdmitted, record.TimerFired}},
		"an abort": {func(w *world) {
			c := w.working()
			w.ok(w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", By: "me"}))
			w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted, Reason: "aborted"}})
		}, []string{record.TurnTerminal, record.CurrentRunAborted, record.QueueEntrySettled, record.CurrentRunAborted}},
		"a task that is cancelled": {func(w *world) {
			w.reports("alpha", w.makeTask("alpha", "").ID, tasks.Running, tasks.Cancelling, tasks.Cancelled)
		}, []string{"task.cancel_requested", "task.created", "process.started", "task.created",
			"task.cancelled", "task.cancel_requested", "process.terminated", "task.cancel_requested",
			record.MessageAdmitted, "task.cancelled"}},
		"input that a turn takes in": {func(w *world) {
			c := w.working()
			id := w.admit(interject("and this")).MessageID
			w.ok(w.m.Offer(w.ctx, "alpha"))
			w.progress(c.Attempt.ID, "holon.input.inserted", `{"input_id":"`+id+`"}`)
		}, []string{"holon.input.inserted", record.OperatorInterjection}},
		"work that the operator completes": {func(w *world) {
			w.ok(w.m.CompleteWork(w.ctx, "alpha", w.item("build it").ID, "done", nil))
		}, []string{"task.started", "task.created", "task.completed", "task.created"}},
		"a message that the operator removes": {func(w *world) {
			w.ok(w.m.Remove(w.ctx, "alpha", w.admit(prompt("hello")).MessageID, "me"))
		}, []string{record.QueueEntrySettled, record.MessageAdmitted}},
		"a wait that a message in the queue triggers": {func(w *world) {
			w.working()
			w.admit(prompt("second"))
			w.sleep("call_1", 0)
		}, []string{record.WaitTriggered, record.MessageAdmitted}},
		"a setting that unblocks": {func(w *world) {
			w.tryKeyless(w.admit(prompt("x")).MessageID)
			w.ok(w.m.SetModel(w.ctx, "alpha", "p/other", ""))
		}, []string{record.QueueEntryUnblocked, record.ModelOverrideRequested}},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			c.do(w)
			for pair := range slices.Chunk(c.pairs, 2) {
				w.caused(t, pair[0], pair[1])
			}
		})
	}
}

// Wakes that come while a turn runs are one tick after it, which the newest of them caused.
func TestCauseOfATick(t *testing.T) {
	for name, description := range map[string]string{"with content": "news", "without": ""} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			c := w.working()
			for range 2 {
				w.wake(description, "coalesced")
			}
			w.completes(c)
			w.caused(t, record.SystemTickEmitted, record.WakeRequested)
			w.caused(t, record.MessageAdmitted, record.SystemTickEmitted)
			w.caused(t, record.TurnTerminal, record.TurnSubmitted)
			if m := w.message(w.state().WakeMessage); strings.Contains(string(m.Body.Value), "evt_") {
				t.Errorf("the message names an event: %s", m.Body.Value)
			}
		})
	}
}

// A compaction that the loss of its container cuts off ends with its trigger and round.
func TestCompactionThatIsCutOff(t *testing.T) {
	w := open(t)
	c := w.working()
	w.progress(c.Attempt.ID, "context.compaction.started", `{"trigger":"budget","round":3}`)
	w.settle(c.Attempt.ID, scheduler.End{Lost: true})
	w.caused(t, "context.compaction.failed", "context.compaction.started")
	contains(t, "the end", string(w.newest("context.compaction.failed").Data), `"trigger":"budget"`, `"round":3`)
}

// A request that is cut off before it has said anything is a round of its own, as it is counted.
func TestRoundThatIsCutOff(t *testing.T) {
	for name, end := range map[string]scheduler.End{"lost": {Lost: true},
		"aborted": {Turn: ledger.Turn{Kind: ledger.TurnAborted, Reason: "cancelled"}}} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			c := w.working()
			w.progress(c.Attempt.ID, "routing.decided", `{"candidate_count":1}`, "model.requested",
				`{"round":1,"attempt":1,"provider_name":"p","model_name":"m","estimated_tokens":7}`)
			w.settle(c.Attempt.ID, end)
			w.caused(t, "model.failed", "model.requested")
			round := w.newest("model.failed")
			expect.Equal(t, "the request", round.IDs[agentruntime.ModelRequest], "mr_1")
			contains(t, "the round", string(round.Data), `"model_ref":"p/m"`, `"input_tokens":7`)
			expect.Equal(t, "status of the request", round.Status, "failed")
			expect.Equal(t, "rounds of the transcript", w.rounds(), "1 p/m 7")
		})
	}
}

// A round that had its answer is not a second one when its turn is cut off.
func TestRoundThatIsComplete(t *testing.T) {
	w := open(t)
	c := w.working()
	w.progress(c.Attempt.ID, "model.requested", `{"round":1,"attempt":1,"provider_name":"p","model_name":"m"}`,
		"model.completed", `{"usage":{"input_tokens":3},"provider_attempt":{"round":1,"model_ref":"p/m"}}`)
	w.settle(c.Attempt.ID, scheduler.End{Lost: true})
	expect.Equal(t, "rounds of the transcript", w.rounds(), "1 p/m 3")
}

// rounds are those of alpha's transcript: number, model and tokens of input.
func (w *world) rounds() string {
	var list []string
	w.view(func(v ledger.View) error {
		entries, err := record.Transcript(v, "alpha", 100)
		for _, e := range entries {
			var round struct {
				Model string `json:"model_ref"`
			}
			if e.Kind == record.EntryRound && json.Unmarshal(e.Data, &round) == nil {
				list = append(list, fmt.Sprint(e.Round, " ", round.Model, " ", e.InputTokens))
			}
		}
		return err
	})
	return strings.Join(list, ", ")
}

// The thread keeps its status when the image of its agent changes, and each thread.updated tells one.
func TestStatusOfAnImage(t *testing.T) {
	w := open(t)
	w.working()
	w.ok(w.m.SetImage(w.ctx, "alpha", "other"))
	expect.Equal(t, "status", w.newest("thread.updated").Status, "running")
	w.valid(t)
}

// progress records facts of a container, its first: classes and payloads in turn.
func (w *world) progress(attempt string, facts ...string) {
	var did []scheduler.Progress
	for fact := range slices.Chunk(facts, 2) {
		class := fact[0]
		e := ledger.Event{Class: class, Data: json.RawMessage(fact[1]), ProducerSeq: int64(len(did) + 1)}
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

// A task of the operator is for what the operator says, and says to whom its end is brought.
func TestTaskIsForItsObjective(t *testing.T) {
	w := open(t)
	for _, c := range []struct {
		purpose, objective, delivery string
		remove                       bool
	}{
		{"build it", "build it", "queued", false},
		{"", "make", "parent_missing", true},
	} {
		task := w.makeTask("beta", c.purpose)
		w.reports("beta", task.ID, tasks.Running)
		if c.remove {
			w.ok(w.m.Archive(w.ctx, scheduler.Archive{AgentID: "beta", By: "me"}))
		}
		w.reports("beta", task.ID, tasks.Completed)
		var end struct {
			Objective string
			Delivery  string `json:"delivery_state"`
		}
		w.view(func(v ledger.View) error {
			page, err := v.Events("beta", ledger.EventQuery{Limit: 1000})
			for _, e := range page.Events {
				if e.Ref == task.ID && (e.Class == "task.created" || e.Class == "task.completed") {
					end.Objective = ""
					w.ok(json.Unmarshal(e.Data, &end))
					expect.Equal(t, "objective in "+e.Class, end.Objective, c.objective)
				}
			}
			return err
		})
		expect.Equal(t, "delivery", end.Delivery, c.delivery)
	}
}
