package scheduler_test

import (
	"cmp"
	"strings"

	"holon/responses/tasks"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// all is more than a script makes of anything.
const all = 10_000

// kept is what the tables say. Of attempts and waits there are no lists: those that the record tells of are read.
func kept(v ledger.View, id string, from picture) (picture, error) {
	p := newPicture()
	agent, err := v.Agent(id)
	if err != nil {
		return p, err
	}
	l, err := v.AgentState(id)
	if err != nil {
		return p, err
	}
	p.Kind, p.Template, p.Created = string(agent.Kind), agent.Template, line(agent.CreatedAt)
	p.Model, p.Effort = agent.Model, agent.ReasoningEffort
	p.Input, p.Output = l.Totals.InputTokens, l.Totals.OutputTokens
	if c := l.Container; c != nil {
		p.Container = line(c.ID, string(c.Phase))
	}
	if f := l.LastFailure; f != nil {
		p.LastFailure = f.Code + ": " + f.Summary
	}
	steps := []func(ledger.View, ledger.AgentState, picture, *picture) error{keptThread, keptQueue, keptBriefs,
		keptTurns, keptWaits, keptChannels, keptWork, keptTasks}
	for _, step := range steps {
		if err := step(v, l, from, &p); err != nil {
			return p, err
		}
	}
	return p, nil
}

// keptThread is the state of the agent as holon status shows it, and the turn that it has open.
func keptThread(v ledger.View, l ledger.AgentState, _ picture, p *picture) error {
	shown, err := view.New(v, view.Facts{}).Summary(l.AgentID)
	if err != nil {
		return err
	}
	next, queued, err := v.Head(l.AgentID)
	if err != nil {
		return err
	}
	a, open, err := v.OpenAttempt(l.AgentID)
	if err != nil {
		return err
	}
	if c := shown.Closure; c != nil {
		p.Outcome, p.Waiting, p.Posture = string(c.Outcome), string(c.WaitingReason), string(c.Posture)
		p.Signal = text(c.WorkSignal)
	}
	if c := shown.Agent.LastContinuation; c != nil {
		p.Continuation = text(c)
	}
	switch {
	case open && a.BegunAt != nil:
		p.Status = "running"
	case l.Stopped:
		p.Status = "blocked"
	case open:
		p.Status = "queued"
	case queued && next.Blocked():
		p.Status = "blocked"
	case queued:
		p.Status = "queued"
	case shown.Closure != nil:
		p.Status = record.ThreadStatus(*shown.Closure, false)
	default:
		p.Status = "idle"
	}
	if open {
		keptOpen(a, p)
	}
	return nil
}

// keptOpen is the turn that is open, with what it has not ended.
func keptOpen(a ledger.Attempt, p *picture) {
	p.ActiveTurn, p.Phase = a.TurnID, "accepted"
	if a.BegunAt != nil {
		p.Phase = "running"
	}
	if a.AbortedBy != "" {
		p.Phase = "cancelling"
	}
	for _, u := range a.Open {
		for _, id := range u.IDs {
			if strings.HasPrefix(id, "open_") || strings.HasPrefix(id, "request_") || strings.HasPrefix(id, "call_") {
				p.Open[id] = u.Class
			}
		}
	}
}

// keptQueue is the queue in its order. That a message came back leaves no trace in its entry if its turn did not take
// it in.
func keptQueue(v ledger.View, l ledger.AgentState, from picture, p *picture) error {
	queued, err := v.Queued(l.AgentID, all)
	for _, e := range queued {
		m, err := v.Message(e.MessageID)
		if err != nil {
			return err
		}
		p.Back[e.MessageID] = e.Reason != "" || e.Readmitted > 0 || e.Failed > 0 || from.Back[e.MessageID]
		p.Queue = append(p.Queue, line(e.MessageID, string(e.Priority), e.Number, e.Band(), string(e.Sender),
			string(m.Kind), e.CreatedAt))
	}
	return err
}

func keptBriefs(v ledger.View, l ledger.AgentState, _ picture, p *picture) error {
	briefs, err := v.Briefs(l.AgentID, 100)
	for _, b := range briefs {
		p.Briefs = append(p.Briefs, line(b.ID, string(b.Kind), len(b.Text), b.TurnID, b.WorkItemID, b.CreatedAt))
	}
	return err
}

// keptTurns is the attempts that the record tells of, and those that the tables list.
func keptTurns(v ledger.View, l ledger.AgentState, from picture, p *picture) error {
	ids := map[string]bool{}
	for id := range from.Turns {
		ids[id] = true
	}
	ended, err := v.Turns(l.AgentID, 40)
	for _, t := range ended {
		ids[t.AttemptID] = true
	}
	for id := range ids {
		a, err := v.Attempt(id)
		if err != nil {
			return err
		}
		t, err := v.Turn(a.TurnID)
		if err != nil && !state.IsCode(err, ledger.CodeNotFound) {
			return err
		}
		p.Turns[id] = turnLine(a, t)
	}
	return err
}

func turnLine(a ledger.Attempt, t ledger.Turn) string {
	status, began, ended, category, message := "accepted", a.BegunAt, a.SettledAt, "", ""
	switch {
	case a.Status == ledger.AttemptFailed:
		status = "failed"
		if a.AbortedBy != "" || a.Reason == "requeued" {
			status = "cancelled"
		}
	case t.ID != "":
		_, status = record.TurnEnd(a.Status, t.Kind,
			t.Kind == ledger.TurnAborted && a.AbortedBy != "" || a.Reason == record.TurnSuspended)
		began, ended = &t.StartedAt, &t.CompletedAt
	case a.AbortedBy != "":
		status = "cancelling"
	case a.BegunAt != nil:
		status = "running"
	}
	if t.Failure != nil {
		category, message = t.Failure.Code, t.Failure.Summary
	}
	return line(a.TurnID, status, a.MessageID, a.TurnIndex, cmp.Or(t.Model, a.Model), t.ResponseID, a.StartedAt,
		began, ended, t.DurationMS, string(t.Kind), category, message)
}

func keptWaits(v ledger.View, l ledger.AgentState, from picture, p *picture) error {
	open, err := v.UnresolvedWaits(l.AgentID)
	ids := map[string]bool{}
	for _, w := range open {
		ids[w.ID] = true
	}
	for id := range from.Waits {
		ids[id] = true
	}
	for id := range ids {
		w, err := v.Wait(id)
		if err != nil {
			return err
		}
		status, asked := string(w.Status), ""
		if w.Status == ledger.WaitActive {
			status = "registered"
		}
		if w.Kind == ledger.WaitOperator && (w.Status == ledger.WaitActive || w.Status == ledger.WaitTriggered) {
			asked = w.WaitingFor
		}
		p.Waits[id] = line(status, w.Owner, string(w.Kind), w.WaitingFor, w.UpdatedAt, asked)
	}
	return err
}

func keptChannels(v ledger.View, l ledger.AgentState, _ picture, p *picture) error {
	triggers, err := v.Triggers(l.AgentID)
	for _, t := range triggers {
		status := "connected"
		if t.Status == ledger.TriggerRevoked {
			status = "disconnected"
		}
		p.Channels[record.ChannelID(t.ID)] = line(status, t.DeliveryCount)
	}
	return err
}

func keptWork(v ledger.View, l ledger.AgentState, _ picture, p *picture) error {
	items, err := v.OpenWork(l.AgentID)
	if err != nil {
		return err
	}
	completed, err := v.CompletedWork(l.AgentID, all)
	if err != nil {
		return err
	}
	items = append(items, completed...)
	waits, err := v.UnresolvedWaits(l.AgentID)
	for _, w := range items {
		status, run, delivery, waitsFor, asked := "accepted", "", "unknown", "", false
		if w.PickedAt != nil {
			status, run = "running", "run_"+w.ID
		}
		switch rules.Scheduling(w, waits) {
		case rules.WorkBlocked:
			status = "blocked"
		case rules.WorkWaitingOperator:
			status, waitsFor, asked = "waiting_input", "operator "+w.ID, true
		case rules.WorkWaitingTask:
			status, waitsFor = "waiting_resource", "task "+subject(waits, w.ID)
		}
		if w.State == ledger.WorkCompleted {
			status, delivery = "completed", "queued"
		}
		p.Work[w.ID] = line(status, w.Objective, w.BlockedBy, waitsFor, asked, run, delivery, w.CreatedAt, w.UpdatedAt)
	}
	return err
}

// subject is what an item waits for.
func subject(waits []ledger.Wait, itemID string) string {
	for _, w := range waits {
		if w.Owner == itemID && w.Status == ledger.WaitActive {
			return w.SubjectRef
		}
	}
	return ""
}

func keptTasks(v ledger.View, l ledger.AgentState, _ picture, p *picture) error {
	list, err := v.Tasks(l.AgentID, all)
	for _, t := range list {
		status, message := string(t.Status), ""
		switch {
		case t.Status == tasks.Queued:
			status = "accepted"
		case t.Status.Terminal() && t.Result.Failure == tasks.FailureLost:
			status = "lost"
		}
		if t.Status.Terminal() {
			message = t.Result.Summary
		}
		p.Commands[t.ID] = line(status, t.Kind, cmp.Or(t.Purpose, t.Command().CmdPreview), t.Owner.TurnID, t.Result.Failure, message,
			t.Command().OutputPath, t.CreatedAt, t.UpdatedAt)
	}
	return err
}
