package scheduler_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// What a call of a tool does is caused by the fact that the call began, which comes on another connection.
func TestCallIsTheCause(t *testing.T) {
	w := open(t)
	c := w.working()
	id := c.Attempt.TurnID + "/call_1"
	ready := make(chan context.Context)
	go func() { ready <- w.m.Calling(t.Context(), "alpha", id) }()
	begun := ledger.Event{Class: turns.ToolStarted, ProducerSeq: 1,
		Data: json.RawMessage(`{"tool_name":"Sleep","call_id":"call_1","policy":"allow"}`)}
	begun.IDs[agentruntime.ToolCall], begun.IDs[agentruntime.Step] = "tc_1", "step_1"
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 1}, []scheduler.Progress{{Event: begun}}))
	calling := <-ready
	w.ok(w.m.Sleep(calling, "alpha", id, time.Minute, "rest"))
	expect.Equal(t, "cause of the wait", w.newest(record.WaitRegistered).Cause, w.newest(turns.ToolStarted).ID)

	w.ok(w.m.Create(w.ctx, scheduler.NewAgent{ID: "other"})) // whose log does not have that fact
	_, _, err := w.m.Attach(calling, "other", ledger.Workspace{Anchor: "/srv/app"}, "me")
	w.must(err)
	w.must(w.store.View(w.ctx, func(v ledger.View) error {
		page, err := v.Events("other", ledger.EventQuery{Limit: 100})
		expect.Equal(t, "cause of the attachment", page.Events[len(page.Events)-1].Cause, "")
		return err
	}))
}

// A fact that another one of the turn caused names that one's event.
func TestFactsKeepTheirCauses(t *testing.T) {
	w := open(t)
	c := w.working()
	fact := func(class string, seq, cause int64) scheduler.Progress {
		e := ledger.Event{Class: class, ProducerSeq: seq, Data: json.RawMessage(`{}`)}
		e.IDs[agentruntime.ModelRequest] = "mr_1"
		return scheduler.Progress{Event: e, Cause: cause}
	}
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 9}, []scheduler.Progress{
		fact(turns.ModelRequested, 4, 0), fact(turns.CostRecorded, 9, 4)}))
	asked, cost := w.newest(turns.ModelRequested), w.newest(turns.CostRecorded)
	if cost.Cause != asked.ID || !strings.HasPrefix(asked.Cause, "evt_") {
		t.Errorf("the cost is caused by %q, and what it is of, %q, by %q; want the request, and that by the turn", cost.Cause,
			asked.ID, asked.Cause)
	}
}
