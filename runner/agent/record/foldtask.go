package record

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
	WaitFor         *waitFor `json:"wait_for,omitempty"`        // of a waiting one
	DeliveryState   string   `json:"delivery_state"`
	OutputRef       string   `json:"output_ref,omitempty"`
	CreatedAt       string   `json:"created_at,omitempty"`
	UpdatedAt       string   `json:"updated_at"`

	tried int64 // recorded attempts
}

// waitFor is what a task waits for.
type waitFor struct {
	Kind string `json:"kind"` // operator, task, external
	Ref  string `json:"ref,omitempty"`
}

// edge is a relation between tasks.
type edge struct {
	TaskID   string `json:"task_id"`
	Kind     string `json:"kind"`
	TargetID string `json:"target_id"`
	Status   string `json:"status"`
}

func (f *Fold) applyTask(e fact) {
	id := e.id(agentruntime.Task)
	if id == "" || e.Type == "task.profile.resolved" {
		if e.Type == "task.profile.resolved" {
			f.routing.Profile = or(e.text("kind"))
		}
		return
	}
	t := f.tasks.at(id)
	if t.TaskID == "" {
		*t = Task{TaskID: id, Status: unknown, TaskKind: unknown, DeliveryState: unknown}
		f.taskStatus[unknown]++
	}
	turn := t.TurnID
	switch e.Type {
	case "task.started":
		t.Attempts = max(t.Attempts, 1) // the only one, if no attempts are recorded
	case "task.attempt.started":
		t.tried++
		t.Attempts = max(t.Attempts, t.tried)
	case "task.blocked", "task.waiting", "task.updated", "task.resumed": // a blocker is another one, or none any more
		t.RequiredAction = ""
	case "task.delegated":
		f.edge(edge{id, "parent", e.text("child_task_id"), "active"})
	case "task.dependency.updated":
		edge := edge{TaskID: id, Kind: unknown}
		e.in("edge").into(&edge)
		edge.Status = or(cmp.Or(edge.Status, e.text("op")))
		f.edge(edge)
	}
	if status := e.TaskStatus(); status != "" {
		f.move(t, status)
	}
	if e.fields["wait_for"] != nil {
		t.WaitFor = nil
	}
	e.into(t)
	t.touch(e)
	if t.CurrentRunID = cmp.Or(e.id(agentruntime.Run), t.CurrentRunID); e.Type == "task.created" {
		turn = cmp.Or(e.turn(), t.TurnID)
		t.ParentTaskID, t.CreatedAt = e.id(agentruntime.ParentTask), cmp.Or(t.CreatedAt, t.UpdatedAt)
	}
	t.TurnID = turn
}

// move gives a task another status.
func (f *Fold) move(t *Task, status string) {
	if _, known := agentruntime.Statuses[status]; !known {
		status = unknown
	}
	f.taskStatus[t.Status]--
	f.taskStatus[status]++
	if t.Status = status; !strings.HasPrefix(status, "waiting_") {
		t.WaitFor = nil
	}
}

// touch takes the times and the objective of a task from its record, which an event may have: it may tell of the task
// later.
func (t *Task) touch(e fact) {
	record := e.in("work_item")
	if record.fields == nil {
		record = e.in("task")
	}
	t.CreatedAt = cmp.Or(record.time("created_at"), t.CreatedAt)
	t.UpdatedAt = cmp.Or(record.time("updated_at"), e.at())
	t.Objective = cmp.Or(record.text("objective"), t.Objective) // of a work item, which may be given another one
}

func (f *Fold) edge(edge edge) {
	if edge.TargetID != "" {
		*f.edges.at(edge.TaskID + " " + edge.Kind + " " + edge.TargetID) = edge
	}
}

// givenContext is what the model of a turn was given.
type givenContext struct {
	EventID      string          `json:"event_id"`
	TurnID       string          `json:"turn_id,omitempty"`
	PromptDigest string          `json:"frame_digest"`
	Bytes        int64           `json:"bytes,omitempty"`
	Selected     json.RawMessage `json:"selected,omitempty"`
	Omissions    json.RawMessage `json:"omissions,omitempty"`
	MissingRefs  json.RawMessage `json:"missing_refs,omitempty"`
	At           string          `json:"at"`
}

// compaction is one attempt to make a conversation shorter.
type compaction struct {
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
	id := clip(e.EventID, maxID)
	if e.Type == "context.resolved" {
		c := givenContext{MissingRefs: e.raw("missing")}
		e.into(&c)
		c.EventID, c.TurnID, c.At = id, e.turn(), e.at()
		c.PromptDigest = or(cmp.Or(c.PromptDigest, e.text("fingerprint")))
		*f.contexts.at(id) = c
		return
	}
	status, ok := map[string]string{"started": "running", "completed": "completed",
		"failed": "failed"}[strings.TrimPrefix(e.Type, "context.compaction.")]
	if !ok {
		return
	}
	var c *compaction // that is open, or a new one
	if n := len(f.compactions.order); n > 0 {
		c = f.compactions.find(f.compactions.order[n-1])
	}
	if c == nil || c.Status != "running" || c.TurnID != e.turn() {
		c = f.compactions.at(id)
		*c = compaction{EventID: id, Trigger: unknown}
	}
	e.into(c)
	c.Status, c.TurnID, c.At = status, e.turn(), e.at()
}
