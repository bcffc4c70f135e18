package scheduler_test

import (
	"holon/runner/agent/record"
)

// folded is what the fold of a record says.
func folded(m record.ThreadReadModel, fold *record.Fold) picture {
	p := newPicture()
	p.Status, p.Phase, p.ActiveTurn = m.Status, m.Phase, m.ActiveTurnID
	p.Outcome, p.Waiting, p.Posture = m.Outcome, m.WaitingReason, m.RuntimePosture
	p.Signal = text(m.WorkSignal)
	if m.Continuation != nil {
		c := *m.Continuation
		c.MessageID = "" // which the tables don't have
		p.Continuation = text(struct {
			record.Continuation
			At *string `json:"decided_at,omitempty"`
		}{c, nil})
	}
	p.Model, p.Effort = m.Routing.Override, m.Routing.ReasoningEffort
	for _, q := range m.QueuedTurns.Items {
		p.Queue = append(p.Queue, line(q.QueuedTurnID, q.Priority, q.Number, q.Band, q.Source, q.Kind,
			q.EnqueuedAt))
		p.Back[q.QueuedTurnID] = q.ResumeState == "requeued"
	}
	for _, t := range m.Turns.Items {
		if t.Usage != nil {
			p.Input, p.Output = p.Input+t.Usage.InputTokens, p.Output+t.Usage.OutputTokens
		}
		if t.TerminalKind == "" { // why a turn was not begun is in no table
			t.FailureCategory, t.Message = "", ""
		}
		p.Turns[t.AttemptID] = line(t.TurnID, t.Status, t.MessageID, t.TurnIndex, t.Model, t.ResponseID, t.SubmittedAt,
			t.StartedAt, t.CompletedAt, t.DurationMS, t.TerminalKind, t.FailureCategory, t.Message)
	}
	for _, w := range m.Waits.Items {
		asked := ""
		for _, a := range m.PendingRequests.Items {
			if a.ActionID == "action_"+w.WaitID {
				asked = a.Prompt
			}
		}
		p.Waits[w.WaitID] = line(w.Status, w.Owner, w.Kind, w.WaitingFor, w.At, asked)
	}
	for _, b := range m.Briefs.Items {
		p.Briefs = append(p.Briefs, line(b.BriefID, b.Kind, b.Chars, b.TurnID, b.WorkItemID, b.At))
	}
	p.LastFailure = lastFailure(m)
	addCalls(&p, m)
	addRest(&p, fold)
	return p
}

func lastFailure(m record.ThreadReadModel) (last string) {
	for _, i := range m.Incidents.Items {
		if i.Level == "error" {
			last = i.Code + ": " + i.Message
		}
	}
	return last
}

// addCalls is the calls and requests that are open.
func addCalls(p *picture, m record.ThreadReadModel) {
	for _, c := range m.ToolCalls.Items {
		if c.Status == "running" {
			p.Open[c.ToolCallID] = "tool.started"
		}
	}
	for _, q := range m.ModelRequests.Items {
		if q.Status == "running" {
			p.Open[q.ModelRequestID] = "model.requested"
		}
	}
}

func addRest(p *picture, fold *record.Fold) {
	model, _ := fold.Model("session_snapshot")
	session := model.(record.SessionSnapshot)
	model, _ = fold.Model("execution_environment_snapshot")
	if c := model.(record.ExecutionEnvironment).Container; c != nil {
		p.Container = line(c.ContainerID, c.Status)
	}
	p.Kind, p.Template, p.Created = session.Kind, session.Template, session.CreatedAt
	model, _ = fold.Model("channel_summary")
	for _, c := range model.(record.ChannelSummary).Channels.Items {
		p.Channels[c.ChannelID] = line(c.Status, c.Messages)
	}
	model, _ = fold.Model("task_snapshot")
	for _, t := range model.(record.TaskSnapshot).Tasks.Items {
		if t.TaskKind == "work_item" {
			p.Work[t.TaskID] = line(t.Status, t.Objective, t.RequiredAction, waitsFor(t), asked(fold, t.TaskID),
				t.CurrentRunID, t.DeliveryState, t.CreatedAt, t.UpdatedAt)
			continue
		}
		p.Commands[t.TaskID] = line(t.Status, t.TaskKind, t.Objective, t.TurnID, t.FailureCategory, t.Message,
			t.OutputRef, t.CreatedAt, t.UpdatedAt)
	}
}

// waitsFor is what a task waits for, "" for nothing.
func waitsFor(t record.Task) string {
	if t.WaitFor == nil {
		return ""
	}
	return t.WaitFor.Kind + " " + t.WaitFor.Ref
}

// asked reports whether a work item asks its operator. What it asked stays as it was, also when the item is renamed.
func asked(fold *record.Fold, itemID string) bool {
	model, _ := fold.Model("thread_read_model")
	for _, a := range model.(record.ThreadReadModel).PendingRequests.Items {
		if a.ActionID == "action_"+itemID {
			return a.Prompt != ""
		}
	}
	return false
}
