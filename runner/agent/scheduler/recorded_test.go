package scheduler_test

import (
	"encoding/json"
	"fmt"
	"time"

	"holon/responses/agentruntime"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
)

// recordedOps are what else the record of an agent tells of.
const recordedOps = "rec-round rec-round rec-call rec-call rec-call rec-open rec-remove rec-remove rec-model " +
	"rec-model rec-image rec-archive rec-broken rec-unblock rec-wait rec-notify rec-tell " +
	"rec-container rec-container "

// recorded is what happens in a turn as its container tells it, and what else is asked of the runtime.
func (w *world) recorded(i int, o op) (err error) {
	switch o.Do {
	case "rec-round", "rec-call", "rec-open":
		if t := w.running[o.Agent]; t != nil {
			return w.act(t, i, o)
		}
	case "rec-remove":
		var queued []ledger.Entry
		w.view(func(v ledger.View) (err error) {
			queued, err = v.Queued(o.Agent, 100)
			return err
		})
		if len(queued) > 0 {
			_, err = w.m.Remove(w.ctx, o.Agent, queued[o.N%len(queued)].MessageID, "test")
		}
	case "rec-model":
		if o.N%3 == 0 {
			_, err = w.m.ClearModel(w.ctx, o.Agent)
		} else {
			_, err = w.m.SetModel(w.ctx, o.Agent, fmt.Sprint("scripted/", o.N), []string{"", "high"}[o.N%2])
		}
	case "rec-image":
		_, err = w.m.SetImage(w.ctx, o.Agent, fmt.Sprint("image:", o.N))
	case "rec-archive":
		if o.Agent != "alpha" && o.N < 3 {
			_, err = w.m.Archive(w.ctx, scheduler.Archive{AgentID: o.Agent, By: "test", Force: o.N > 0})
		}
	case "rec-broken":
		err = w.blocked(o.Agent)
	case "rec-unblock":
		err = w.m.Unblock(w.ctx, o.Agent)
	case "rec-wait":
		kinds := []ledger.WaitKind{ledger.WaitTask, ledger.WaitOperator, ledger.WaitTimer}
		at := w.now.Add(time.Minute)
		_, err = w.m.WaitFor(w.ctx, ledger.Wait{ID: fmt.Sprint("wait_rec", i), AgentID: o.Agent,
			Owner: fmt.Sprint("work_", o.N%4), Kind: kinds[o.N%3], WaitingFor: "it", ExpiresAt: &at,
			Wakes: rules.AnyWake()[o.N%5 : o.N%5+1]})
	case "rec-container": // also late, twice, and of one that another has replaced
		phases := []state.ContainerPhase{state.ContainerCreated, state.ContainerStarted, state.ContainerReady,
			state.ContainerExited, state.ContainerLost, state.ContainerRemoved}
		err = w.m.ContainerChanged(w.ctx, o.Agent, state.ContainerChange{Engine: "docker",
			HeldContainer: state.HeldContainer{ID: fmt.Sprint(o.Agent, "_container_", i/8), Phase: phases[o.N%6]}})
	case "rec-notify":
		err = w.m.Notify(w.ctx, o.Agent, "look at this")
	case "rec-tell":
		_, _, err = w.m.RevealTrigger(w.ctx, o.Agent)
	}
	return err
}

// blocked claims the next message of an agent for which no turn can be begun before a setting changes.
func (w *world) blocked(agent string) error {
	if w.running[agent] != nil {
		return nil
	}
	c, ok, err := w.m.Claim(w.ctx, agent)
	if err != nil || !ok {
		return err
	}
	_, err = w.m.Settle(w.ctx, c.Attempt.ID,
		scheduler.End{Turn: ledger.Turn{Failure: &ledger.Failure{Phase: "startup", Code: "no_key",
			Summary: "there is no key"}}, NotBegun: true, Permanent: true})
	return err
}

// act has the model of a turn answer, or a tool run.
func (w *world) act(t *turn, i int, o op) error {
	if t.newest != i+1 { // not again when it is asked again
		t.newest = i + 1
		switch o.Do {
		case "rec-round":
			t.round(i, o.N)
		case "rec-call":
			t.call(o.N)
		default: // a call that the turn leaves open
			t.tools++
			t.report("tool.started", "running", agentruntime.ToolCall, fmt.Sprintf("open_%s_%d", t.attempt, i),
				`{"tool_name":"Sleep","host":"server","safe_args":"{}","policy":"allow"}`)
		}
	}
	return w.mirrored(t)
}

// round is a request to the model, tried again when it fails, with its answer and its cost.
func (t *turn) round(i, n int) {
	round := int(t.usage.OutputTokens)/2 + 1
	request := fmt.Sprintf("request_%s_%d", t.attempt, i)
	asked := `{"provider_name":"scripted","model_name":"one","attempt":%d,"round":%d}`
	if round == 1 {
		t.report("routing.decided", "", agentruntime.ModelRequest, "", `{"candidate_count":1,"selected_model":"one",`+
			`"selected_provider":"scripted","decision_reason":"only","fallback_available":false}`)
	}
	attempt := 1
	if n%3 == 0 {
		t.report("model.requested", "running", agentruntime.ModelRequest, request+"_failed", fmt.Sprintf(asked, 1, round))
		t.report("model.failed", "failed", agentruntime.ModelRequest, request+"_failed", `{"http_status":503,`+
			`"failure_category":"overloaded","message":"later","retryable":true,"outcome":"retrying"}`)
		attempt = 2
	}
	usage := fmt.Sprintf(`{"input_tokens":%d,"output_tokens":2,"total_tokens":%d}`, n, n+2)
	t.report("model.requested", "running", agentruntime.ModelRequest, request, fmt.Sprintf(asked, attempt, round))
	t.report("model.completed", "completed", agentruntime.ModelRequest, request,
		fmt.Sprintf(`{"usage":%s,"stop_reason":"end_turn","duration_ms":5,"provider_attempt":{"round":%d}}`, usage, round))
	t.report("cost.recorded", "", agentruntime.ModelRequest, request, `{"usage":`+usage+`}`)
	t.usage.InputTokens, t.usage.OutputTokens = t.usage.InputTokens+int64(n), t.usage.OutputTokens+2
	t.usage.TotalTokens = t.usage.InputTokens + t.usage.OutputTokens
}

// call is a call of a tool that ends.
func (t *turn) call(n int) {
	t.tools++
	id := fmt.Sprintf("call_%s_%d", t.attempt, t.tools)
	t.report("tool.started", "running", agentruntime.ToolCall, id,
		`{"tool_name":"ExecCommand","host":"server","safe_args":"{}","policy":"allow"}`)
	if n%2 == 0 { // a command
		t.begin("proc_"+t.attempt+id, id)
		t.report("process.completed", "completed", agentruntime.Process, "proc_"+t.attempt+id, `{"exit_code":0}`)
	}
	class, status := "tool.result", "completed"
	data := fmt.Sprintf(`{"tool_name":"ExecCommand","preview":"printed","success":true,"duration_ms":%d,`+
		`"output_ref":"out/%s.txt"}`, n, id)
	if n%3 == 0 {
		class, status = "tool.failed", "failed"
		data = fmt.Sprintf(`{"tool_name":"ExecCommand","failure_category":"timeout","message":"late",`+
			`"retryable":false,"duration_ms":%d,"output_ref":"out/%s.txt"}`, n, id)
	}
	t.report(class, status, agentruntime.ToolCall, id, data)
}

// begin tells that a process began, of a call or of what becomes a task.
func (t *turn) begin(process, call string) {
	t.report("sandbox.applied", "", agentruntime.ToolCall, "", `{"sandbox_profile":{"mode":"external_sandbox"},`+
		`"enforcement":{"filesystem":"enforced","network":"enforced","process":"enforced","secret":"enforced"}}`)
	t.report("process.started", "running", agentruntime.Process, process, `{"command":"make","cwd":"/tree"}`)
	t.facts[len(t.facts)-1].Event.IDs[agentruntime.ToolCall] = call
}

// tell adds a fact of the container.
func (t *turn) report(class, status string, kind agentruntime.ID, id, data string) {
	e := ledger.Event{Class: class, Status: status, Data: json.RawMessage(data),
		ProducerSeq: int64(len(t.facts)) + 1}
	if id != "" {
		e.IDs[kind] = id
	}
	if kind == agentruntime.ToolCall {
		e.IDs[agentruntime.Step] = "step_" + id
	}
	t.facts = append(t.facts, scheduler.Progress{Event: e})
}
