package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

var visibilities = [...]string{"", "action_required", "work_done", "turn_result", "progress", "trace"}

// display makes an event readable for a person.
func display(e ledger.Event, label record.Label, p eventPayload) eventDisplay {
	d := eventDisplay{Level: e.Level, Category: label.Category, SourceEventKind: label.Name,
		Title: strings.NewReplacer("_", " ", ".", " ").Replace(strings.TrimPrefix(label.Name, "holon."))}
	if d.Level < 1 || d.Level > record.LevelTrace {
		d.Level = label.Level
	}
	d.Visibility = visibilities[d.Level]
	switch {
	case p.Message != nil:
		d.Title, d.Body = sender(p.Message), p.Message.Body.Text
	case p.Turn != nil:
		d.Title, d.Body = "turn "+string(p.Turn.Kind), cmp.Or(failureOf(e), p.Turn.Reason)
	case p.Brief != nil:
		d.Title, d.Body = string(p.Brief.Kind), p.Brief.Text
	case p.Notification != nil:
		d.Title, d.Body = "for the operator", p.Notification.Message
	case p.Wait != nil:
		d.Body = p.Wait.WaitingFor
	case p.Timer != nil:
		d.Body = p.Timer.Summary
	default:
		d.describe(e, label.Name)
	}
	if d.Summary = d.Title; d.Body != "" {
		d.Summary = fmt.Sprintf("%s: %s", d.Title, rules.Summary(d.Body))
	}
	return d
}

// eventDetails are the keys of an event's data that are displayed.
type eventDetails struct {
	Tool    string `json:"tool_name"`
	Call    string `json:"call"`
	Summary string `json:"summary"`
	Delta   string `json:"delta"`

	Messages    []string `json:"message_ids"`
	Tools       []string `json:"tool_names"`
	Code        string   `json:"code"`
	Message     string   `json:"message"`
	Reason      string   `json:"reason"`
	Disposition string   `json:"disposition"`
	Status      string   `json:"status"`
	Binding     string   `json:"binding_id"`
	Action      string   `json:"action"`
	By          string   `json:"by"`
	Bound       string   `json:"bound"`
	Op          string   `json:"op"`
	Outcome     string   `json:"outcome"`
	Model       string   `json:"model"`

	Attempt turns.ProviderAttempt `json:"provider_attempt"`

	Work      ledger.WorkItem  `json:"work_item"`
	Task      ledger.Task      `json:"task"`
	Workspace ledger.Workspace `json:"workspace"`
	Worktree  ledger.Tree      `json:"worktree"`
	Tree      string           `json:"tree"`

	Enforcement map[string]string `json:"enforcement"`
}

// maxLine bounds what is displayed of a summary, in bytes.
const maxLine = 300

// bodies are what is displayed of events of which one thing is, below the title that their label makes.
var bodies = map[string]func(t eventDetails) string{
	record.RuntimeError:          eventDetails.problem,
	record.QueueEntryQuarantined: eventDetails.problem,
	record.QueueEntryBlocked:     eventDetails.problem,
	record.SchedulerDiagnostic:   eventDetails.problem,
	record.RuntimeWarning:        func(t eventDetails) string { return visible.OneLine(t.Message, maxLine) },
	record.WakeRequested: func(t eventDetails) string {
		return strings.TrimSuffix(t.Reason+", "+t.Disposition, ", ")
	},
	record.DeliverySubmitted:      eventDetails.delivery,
	record.DeliveryCompleted:      eventDetails.delivery,
	record.TransportBound:         func(t eventDetails) string { return t.Binding + " " + t.Status },
	record.QueueEntrySettled:      func(t eventDetails) string { return t.Status },
	record.AgentStateChanged:      func(t eventDetails) string { return t.Status },
	record.ClosureDecided:         func(t eventDetails) string { return t.Outcome },
	record.ModelOverrideRequested: func(t eventDetails) string { return t.Model },
	record.WorktreeRetained: func(t eventDetails) string {
		return strings.TrimPrefix(cmp.Or(t.Worktree.Name, t.Tree)+", review or cleanup pending: "+t.Reason, ", ")
	},
}

func (t eventDetails) problem() string {
	return cmp.Or(t.Message, t.Summary, t.Reason, strings.ReplaceAll(t.Code, "_", " "))
}

func (t eventDetails) delivery() string {
	return strings.ReplaceAll(strings.TrimSuffix(t.Binding+" "+t.Status+": "+t.Summary, ": "), "_", " ")
}

// describe displays the data of an event that refers to no record.
func (d *eventDisplay) describe(e ledger.Event, label string) {
	var t eventDetails
	if json.Unmarshal(e.Data, &t) != nil {
		return // the title says what there is
	}
	if body := bodies[label]; body != nil {
		d.Body = body(t)
		return
	}
	switch label {
	case record.ToolExecuted:
		d.Title, d.Body = cmp.Or(t.Call, t.Tool, d.Title), visible.OneLine(cmp.Or(t.Message, t.Summary), maxLine)
	case record.ModelDelta:
		d.Title, d.Body = "Assistant progress", t.Delta
	case record.AssistantRound:
		if d.Title = "Model round completed"; len(t.Messages) == 0 && len(t.Tools) > 0 {
			d.Title, d.Body = "Model requested tools", strings.Join(t.Tools, ", ")
		}
	case record.ProviderRound:
		if d.Body = t.Attempt.ModelRef; e.Status == "failed" {
			d.Title, d.Body = "provider round failed", strings.TrimPrefix(t.Attempt.ModelRef+": "+t.Message, ": ")
		}
	case record.ControlApplied:
		switch d.Body = t.Action; t.Action {
		case "start":
			d.Title, d.Body = "agent started", ""
		case "stop":
			d.Title, d.Body = "agent stopped", "it takes no messages until: "+rules.StartHint(e.AgentID)
		}
	case record.CurrentRunAborted:
		d.Title, d.Body = "turn is ended", t.By
	case record.BudgetSpent:
		d.Body = t.Bound + "; no turn is begun until: holon agent budget " + e.AgentID
	case turns.SandboxApplied:
		d.Title, d.Body = "isolation", unenforced(t.Enforcement)
	default:
		if label == record.WorkItemWritten && t.Op == "create" {
			d.Title = "work item created"
		}
		d.Body = cmp.Or(t.Work.Objective, t.Task.Command().CmdPreview, t.Task.Purpose, t.Workspace.Alias,
			t.Worktree.Name, t.Tree)
		if label == record.TaskResultReceived && t.Task.Result.Summary != "" {
			d.Body += ": " + t.Task.Result.Summary
		}
	}
}

// failureOf is why a turn failed, "" for one that did not.
func failureOf(e ledger.Event) string {
	var t eventDetails
	_ = json.Unmarshal(e.Data, &t) // then the reason is what there is
	return t.Message
}

// unenforced are the axes of a sandbox that nothing enforces.
func unenforced(axes map[string]string) string {
	return executionPolicy{ProcessExecution: axes}.Unenforced()
}

// sender names the sender of a message, for a title.
func sender(m *ledger.Message) string {
	switch m.Origin.Kind {
	case ledger.OriginOperator:
		return "operator"
	case ledger.OriginChannel:
		return "channel " + m.Origin.ChannelID
	case ledger.OriginWebhook:
		return "webhook " + m.Origin.Source
	}
	return strings.ReplaceAll(string(m.Kind), "_", " ")
}
