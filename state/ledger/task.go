package ledger

import (
	"time"

	"holon/responses/tasks"
	"holon/state"
)

// CodeInvalidTask is the code of what cannot be a task. Param names the field.
const CodeInvalidTask state.Code = "invalid_task"

// Task is work of an agent with a life of its own, turn or no turn (runtime specification, "Background Task Recovery").
// The record is the authority for its state: what has ended here never runs again.
type Task struct {
	ID        string       `json:"id"`
	AgentID   string       `json:"agent_id"`
	Kind      string       `json:"kind"` // which handle it has: tasks.KindCommand, tasks.KindChild
	Owner     taskOwner    `json:"owner,omitzero"`
	Status    tasks.Status `json:"status"`
	Result    TaskResult   `json:"result"`
	Handle    TaskHandle   `json:"handle"`
	CreatedAt time.Time    `json:"created_at"`
	UpdatedAt time.Time    `json:"updated_at"`
	EndedAt   *time.Time   `json:"ended_at,omitempty"`
	Purpose   string       `json:"purpose,omitempty"` // what the operator says that it is for

	// Made is a digest of what the operator asked for, to tell a repeated request from another one under the same key.
	Made string `json:"made,omitempty"`
	// CancelEvent is the event with which its end was asked for; "": the record does not have it.
	CancelEvent string `json:"cancel_event,omitempty"`
}

// taskOwner is what a task was started for: a turn of its agent, or, when it is zero, the operator.
type taskOwner struct {
	TurnID     string `json:"turn_id,omitempty"`
	MessageID  string `json:"message_id,omitempty"`   // of that turn
	WorkItemID string `json:"work_item_id,omitempty"` // the agent's current one when it began
}

// TaskResult is how a task is, or how it ended.
type TaskResult struct {
	Summary string        `json:"summary"`
	Failure string        `json:"failure,omitempty"` // kind of a tasks.Failure
	Output  *tasks.Output `json:"output,omitempty"`  // a preview, kept when it ended
}

// TaskHandle is what carries a task out, by its kind: a command in the agent's container, or a private child.
type TaskHandle struct {
	Command    *tasks.Command `json:"command,omitempty"` // and how it ended
	Child      *ChildHandle   `json:"child,omitempty"`
	TakesInput bool           `json:"takes_input,omitempty"`
	// Runtime is the process that accepted a command which its container does not have yet, or that supervises a child.
	Runtime string `json:"runtime,omitempty"`
	// ProcessEvent is the event with which its process began; "": the record does not have it.
	ProcessEvent string `json:"process_event,omitempty"`
}

// Command returns a copy of the command that carries a task out, an empty one for a task of another kind.
func (t Task) Command() *tasks.Command {
	var c tasks.Command
	if t.Handle.Command != nil {
		c = *t.Handle.Command
	}
	return &c
}

// TaskNotStarted is the failure of a command of the operator that no container has taken.
const TaskNotStarted = "not_started"

func (t *Task) Row() Row {
	return Row{"tasks", "task", 2, []Column{{"agent_id", &t.AgentID}, {"id", &t.ID}, {"created_at", millis(t.CreatedAt)},
		{"open", !t.Status.Terminal()}}}
}

// Task returns a task of an agent.
func (v View) Task(agentID, id string) (Task, error) { return get[Task](v, agentID, id) }

// Tasks returns the newest tasks of an agent.
func (v View) Tasks(agentID string, limit int) ([]Task, error) {
	return newest[Task](v, "tasks", agentID, limit)
}

// OpenTasks returns those of an agent that have not ended, the oldest first.
func (v View) OpenTasks(agentID string) ([]Task, error) { return list[Task](v, "open tasks", agentID) }

// CountOpenTasks returns how many those are.
func (v View) CountOpenTasks(agentID string) (int, error) {
	return count(v, "count open tasks", agentID)
}

// TaskAgents returns the agents that have such tasks in their containers.
func (v View) TaskAgents() ([]string, error) { return values[string](v, "agents with open tasks") }
