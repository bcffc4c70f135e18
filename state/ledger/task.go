package ledger

import (
	"time"

	"holon/responses/tasks"
	"holon/state"
)

// CodeInvalidTask is the code of what cannot be a task. Param names the field.
const CodeInvalidTask state.Code = "invalid_task"

// Task is a command that goes on in the container of an agent, turn or no turn (runtime specification, "Background Task
// Recovery"). The record is the authority for its state: what has ended here never runs again.
type Task struct {
	ID              string       `json:"id"`
	AgentID         string       `json:"agent_id"`
	Kind            string       `json:"kind"` // tasks.KindCommand
	Status          tasks.Status `json:"status"`
	CreatedAt       time.Time    `json:"created_at"`
	UpdatedAt       time.Time    `json:"updated_at"`
	EndedAt         *time.Time   `json:"ended_at,omitempty"`
	TurnID          string       `json:"turn_id,omitempty"`           // that started it; "": the operator did
	ParentMessageID string       `json:"parent_message_id,omitempty"` // of that turn
	WorkItemID      string       `json:"work_item_id,omitempty"`      // the agent's current one when it began
	Purpose         string       `json:"purpose,omitempty"`           // what the operator says that it is for
	Summary         string       `json:"summary"`                     // how it is, or how it ended
	Failure         string       `json:"failure,omitempty"`           // kind of a tasks.Failure

	// Command is what the task runs, and how it ended; Output a preview of what it printed, kept when it ended.
	Command tasks.Command `json:"command"`
	Output  *tasks.Output `json:"output,omitempty"`

	// TakesInput says that it was started with its input open.
	TakesInput bool `json:"takes_input,omitempty"`

	// Made is a digest of what the operator asked for, to tell a repeated request from another one under the same key.
	Made string `json:"made,omitempty"`

	// ProcessEvent is the event with which its process began, CancelEvent that with which its end was asked for; "": the
	// record does not have it.
	ProcessEvent string `json:"process_event,omitempty"`
	CancelEvent  string `json:"cancel_event,omitempty"`

	// Owner is the process that accepted a task which its container has not been told of.
	Owner string `json:"owner,omitempty"`
}

// TaskNotStarted is the failure of a command of the operator that no container has taken.
const TaskNotStarted = "not_started"

// Row implements Record.
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

// TaskAgents returns the agents that have such tasks.
func (v View) TaskAgents() ([]string, error) { return values[string](v, "agents with open tasks") }
