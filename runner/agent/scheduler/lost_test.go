package scheduler_test

import (
	"encoding/json"
	"testing"
	"time"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// A turn whose container was lost tells the rounds, calls and tokens that its record has, with the request that was cut
// off counted once, and so do the agent's totals and the event of the failure.
func TestLostTurnTellsItsRecord(t *testing.T) {
	w := open(t)
	c := w.working()
	w.ok(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
	seq := int64(0)
	fact := func(class, status string, kind agentruntime.ID, id, data string) {
		t.Helper()
		seq++
		e := ledger.Event{Class: class, Status: status, Data: json.RawMessage(data), ProducerSeq: seq}
		e.IDs[kind] = id
		err := w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: seq}, []scheduler.Progress{{Event: e}})
		expect.NoError(t, err)
	}
	request, call := agentruntime.ModelRequest, agentruntime.ToolCall
	fact("model.requested", "running", request, "req_1", `{"provider_name":"p","model_name":"m","attempt":1,"round":1}`)
	fact("model.completed", "completed", request, "req_1", `{"provider_attempt":{"provider":"p","model_ref":"p/m",`+
		`"round":1,"attempt":1,"outcome":"succeeded","token_usage":{"input_tokens":100,"output_tokens":5}}}`)
	fact("cost.recorded", "", request, "req_1", `{"usage":{"input_tokens":100,"output_tokens":5,"total_tokens":105}}`)
	fact("tool.started", "running", call, "call_1", `{"tool_name":"ExecCommand"}`)
	fact("tool.result", "completed", call, "call_1", `{"tool_name":"ExecCommand"}`)
	fact("tool.started", "running", call, "call_2", `{"tool_name":"ExecCommand"}`)
	w.now = w.now.Add(time.Second)
	fact("model.requested", "running", request, "req_2", `{"provider_name":"p","model_name":"m","attempt":1,"round":2,`+
		`"estimated_tokens":40}`)

	w.now = w.now.Add(time.Second)
	s := w.settle(c.Attempt.ID, scheduler.End{Lost: true})
	switch got := s.Turn; {
	case got.ModelRounds != 2, got.ToolCalls != 2, got.Model != "p/m":
		t.Errorf("%d rounds, %d calls, model %q, want 2, 2 and p/m", got.ModelRounds, got.ToolCalls, got.Model)
	case got.Usage == nil, got.Usage.InputTokens != 140, got.Usage.OutputTokens != 5, got.Usage.TotalTokens != 145:
		t.Errorf("the turn took %+v, want 140 and 5", got.Usage)
	case got.Provider == nil, len(got.Provider.Attempts) != 2, got.Provider.Attempts[1].DurationMS != 1000:
		t.Errorf("the turn tried %+v, want two attempts, the second for a second", got.Provider)
	}
	var costs, in int64
	w.view(func(v ledger.View) error {
		state, err := v.AgentState(c.Attempt.AgentID)
		if err != nil {
			return err
		}
		if state.Totals.InputTokens != 140 || state.Totals.ModelRounds != 2 || !state.Totals.Estimated {
			t.Errorf("the totals are %+v, want an estimate of 140 tokens of input, and 2 rounds", state.Totals)
		}
		page, err := v.Events(c.Attempt.AgentID, ledger.EventQuery{Limit: 1000})
		for _, e := range page.Events {
			var p struct {
				Outcome  string                  `json:"outcome"`
				Usage    record.Usage            `json:"usage"`
				Token    record.Usage            `json:"token_usage"`
				Timeline *turns.ProviderTimeline `json:"provider_attempt_timeline"`
				Rounds   int                     `json:"model_rounds"`
			}
			if len(e.Data) == 0 {
				continue
			}
			if err := json.Unmarshal(e.Data, &p); err != nil {
				return err
			}
			switch {
			case e.Class == "cost.recorded":
				costs, in = costs+1, in+p.Usage.InputTokens
			case e.Class == "model.failed" && p.Outcome != turns.OutcomeFailFast:
				t.Errorf("the outcome of the request that was cut off is %q, want %q", p.Outcome, turns.OutcomeFailFast)
			case e.Class == record.TurnFailed && (p.Rounds != 2 || p.Usage.InputTokens != 140 || !p.Usage.Estimated):
				t.Errorf("the end of the turn is %s, want 2 rounds and an estimate of 140 tokens of input", e.Data)
			case record.Of(e).Name == record.RuntimeError && (p.Timeline == nil || len(p.Timeline.Attempts) != 2 || !p.Token.Estimated):
				t.Errorf("the failure is %s, want two attempts and an estimate", e.Data)
			}
		}
		return err
	})
	w.view(func(v ledger.View) error {
		ran, err := record.Executions(v, c.Attempt.AgentID, 10)
		if len(ran) != 2 || ran[1].ID != "call_2" || ran[1].Status != "error" || ran[1].DurationMS != 2000 {
			t.Errorf("the calls of the turn are %+v, want the second one cut off", ran)
		}
		return err
	})
	if costs != 2 || in != 140 {
		t.Errorf("%d costs with %d tokens of input are recorded, want 2 and 140", costs, in)
	}
}
