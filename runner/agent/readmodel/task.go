package readmodel

import (
	"cmp"
	"encoding/json"
	"strings"

	"holon/responses/agentruntime"
)

// Task is a piece of work with a life of its own.
type Task struct {
	TaskID          string   `json:"task_id"`
	ParentTaskID    string   `json:"parent_task_id,omitempty"`
	Status          string   `json:"status"`
	TaskKind        string   `json:"task_kind"`
	Objective       string   `json:"objective,omitempty"`
	Source          string   `json:"source,omitempty"`
	TurnID          string   `json:"turn_id,omitempty"` // that created it
	CurrentRunID    string   `json:"current_run_id,omitempty"`
	Attempts        int64    `json:"attempts"`
	FailureCategory string   `json:"failure_category,omitempty"`
	Message         string   `json:"message,omitempty"`
	RequiredAction  string   `json:"required_action,omitempty"` // of a blocked one
	WaitFor         *WaitFor `json:"wait_for,omitempty"`        // of a waiting one
	DeliveryState   string   `json:"delivery_state"`
	OutputRef       string   `json:"output_ref,omitempty"`
	CreatedAt       string   `json:"created_at,omitempty"`
	UpdatedAt       string   `json:"updated_at"`

	tried int64 // attempts that were told of
}

// WaitFor is what a task waits for.
type WaitFor struct {
	Kind string `json:"kind"` // operator, task, external
	Ref  string `json:"ref,omitempty"`
}

// Edge is a relation between tasks.
type Edge struct {
	TaskID   string `json:"task_id"`
	Kind     string `json:"kind"`
	TargetID string `json:"target_id"`
	Status   string `json:"status"`
}

func (f *Fold) applyTask(e fact) {
	id := e.id(agentruntime.Task)
	if id == "" || e.Type == "task.profile.resolved" {
		f.applyProfile(e)
		return
	}
	t := f.tasks.at(id)
	if t.TaskID == "" {
		*t = Task{TaskID: id, Status: Unknown, TaskKind: Unknown, DeliveryState: Unknown}
		f.taskStatus[Unknown]++
	}
	t.touch(e)
	switch e.Type {
	case "task.created":
		t.TaskKind, t.Objective, t.Source = or(e.text("task_kind")), e.text("objective"), e.text("source")
		t.TurnID = cmp.Or(e.id(agentruntime.Turn), clip(e.text("turn_id"), maxID))
		t.ParentTaskID = e.id(agentruntime.ParentTask)
		t.CreatedAt = cmp.Or(t.CreatedAt, t.UpdatedAt)
	case "task.started":
		t.Attempts = max(t.Attempts, 1) // which is the only one, where no attempts are told of
	case "task.attempt.started":
		t.tried++
		t.Attempts = max(t.Attempts, t.tried)
	case "task.blocked", "task.waiting", "task.updated", "task.resumed": // a blocker is another one, or none any more
		t.RequiredAction = e.text("required_action")
	case "task.delegated":
		f.edge(Edge{id, "parent", e.text("child_task_id"), "active"})
	case "task.dependency.updated":
		edge := e.in("edge")
		f.edge(Edge{id, or(edge.text("kind")), edge.text("target_id"), or(cmp.Or(edge.text("status"), e.text("op")))})
	}
	f.advance(t, e)
}

// touch takes the times and the objective of a task from its record, which an event may have: it may tell of the task
// later.
func (t *Task) touch(e fact) {
	record := e.in("work_item")
	if record.fields == nil {
		record = e.in("task")
	}
	t.CreatedAt = cmp.Or(record.time("created_at"), t.CreatedAt)
	t.UpdatedAt = cmp.Or(record.time("updated_at"), clip(e.Timestamp, maxID))
	t.Objective = cmp.Or(record.text("objective"), t.Objective) // of a work item, which may be given another one
}

// applyWork notes that the record of a work item changed of which no event of a task tells.
func (f *Fold) applyWork(e fact) {
	if t := f.tasks.find(e.in("work_item").text("id")); t != nil {
		t.touch(e)
	}
}

// advance notes what any event of a task may say.
func (f *Fold) advance(t *Task, e fact) {
	if status := e.TaskStatus(); status != "" {
		if _, known := agentruntime.Statuses[status]; !known {
			status = Unknown
		}
		f.taskStatus[t.Status]--
		f.taskStatus[status]++
		if t.Status = status; !strings.HasPrefix(status, "waiting_") {
			t.WaitFor = nil
		}
	}
	if wait := e.in("wait_for"); wait.fields != nil {
		t.WaitFor = &WaitFor{or(wait.text("kind")), wait.text("ref")}
	}
	t.CurrentRunID = cmp.Or(e.id(agentruntime.Run), t.CurrentRunID)
	t.FailureCategory = cmp.Or(e.text("failure_category"), t.FailureCategory)
	t.Message = cmp.Or(e.text("message"), t.Message)
	t.OutputRef = cmp.Or(e.text("output_ref"), t.OutputRef)
	t.DeliveryState = cmp.Or(e.text("delivery_state"), t.DeliveryState)
}

func (f *Fold) edge(edge Edge) {
	if edge.TargetID != "" {
		*f.edges.at(edge.TaskID + " " + edge.Kind + " " + edge.TargetID) = edge
	}
}

// Context is what the model of a turn was given.
type Context struct {
	EventID     string          `json:"event_id"`
	TurnID      string          `json:"turn_id,omitempty"`
	FrameDigest string          `json:"frame_digest"`
	Bytes       int64           `json:"bytes,omitempty"`
	Selected    json.RawMessage `json:"selected,omitempty"`
	Omissions   json.RawMessage `json:"omissions,omitempty"`
	MissingRefs json.RawMessage `json:"missing_refs,omitempty"`
	At          string          `json:"at"`
}

// Compaction is one attempt to make a conversation shorter.
type Compaction struct {
	EventID         string `json:"event_id"`
	Status          string `json:"status"`
	TurnID          string `json:"turn_id,omitempty"`
	Trigger         string `json:"trigger"`
	TokensBefore    int64  `json:"tokens_before,omitempty"`
	TokensAfter     int64  `json:"tokens_after,omitempty"`
	SummaryRef      string `json:"summary_ref,omitempty"`
	FailureCategory string `json:"failure_category,omitempty"`
	Message         string `json:"message,omitempty"`
	At              string `json:"at"`
}

func (f *Fold) applyContext(e fact) {
	id, at, turn := clip(e.EventID, maxID), clip(e.Timestamp, maxID), e.id(agentruntime.Turn)
	switch e.Type {
	case "context.resolved":
		*f.contexts.at(id) = Context{id, turn, or(cmp.Or(e.text("frame_digest"), e.text("fingerprint"))),
			e.number("bytes"), e.raw("selected"), e.raw("omissions"), e.raw("missing"), at}
	case "context.compaction.started":
		c := f.compaction(turn, id)
		c.Status, c.Trigger, c.TokensBefore, c.At = "running", or(e.text("trigger")), e.number("tokens_before"), at
	case "context.compaction.completed", "context.compaction.failed":
		c := f.compaction(turn, id)
		if c.Status = "completed"; e.Type == "context.compaction.failed" {
			c.Status = "failed"
		}
		c.Trigger = or(cmp.Or(e.text("trigger"), c.Trigger))
		c.TokensBefore = cmp.Or(e.number("tokens_before"), c.TokensBefore)
		c.TokensAfter, c.SummaryRef, c.At = e.number("tokens_after"), e.text("summary_ref"), at
		c.FailureCategory, c.Message = e.text("failure_category"), e.text("message")
	}
}

// compaction returns the one that a thread has open, or a new one.
func (f *Fold) compaction(turn, eventID string) *Compaction {
	if n := len(f.compactions.order); n > 0 {
		if last := f.compactions.find(f.compactions.order[n-1]); last.Status == "running" && last.TurnID == turn {
			return last
		}
	}
	c := f.compactions.at(eventID)
	c.EventID, c.TurnID = eventID, turn
	return c
}
