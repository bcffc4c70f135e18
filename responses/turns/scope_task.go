package turns

import (
	"cmp"
	"strings"
)

// TaskBegun is the payload of task.created: a command became a
// task, which outlives the call that started it.
type TaskBegun struct {
	TaskKind   string `json:"task_kind"`
	Objective  string `json:"objective" max:"2048"` // the command line, cut
	Source     string `json:"source"`               // the tool that started it
	ToolCallID string `json:"cause_tool_call_id,omitzero"`

	Process *Process `json:"process,omitzero"` // that runs it
}

// TaskBegun says that the task with the given id exists, was taken on, and runs.
func (s Scope) TaskBegun(taskID string, p TaskBegun) []RuntimeEvent {
	type worker struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
	}
	return []RuntimeEvent{
		s.task(TaskCreated, taskID, p),
		s.task(TaskAccepted, taskID, map[string]string{"owner": "agentd"}),
		s.task(TaskStarted, taskID, map[string]worker{"worker": {"process", ProcessOf(taskID)}}),
	}
}

// TaskEnd is the payload of the events that end a task. A turn records the end
// when it hears of it, which may be later.
type TaskEnd struct {
	// of the task's record: completed, failed, cancelled
	NativeStatus string `json:"native_status"`
	// nonzero_exit, signal, time_limit, stopped, shutdown, lost
	FailureCategory string `json:"failure_category,omitzero"`
	Message         string `json:"message" max:"2048"`   // how it ended, for a person
	Objective       string `json:"objective" max:"2048"` // the command line, cut
	ExitStatus      *int   `json:"exit_status,omitzero"`
	// file with the output, as in Result; turns/TURN_ID/… of another turn, tasks/TASK_ID/… of none
	OutputRef  string `json:"output_ref,omitzero" max:"2048"`
	DurationMS int64  `json:"duration_ms"`

	Evidence      string `json:"evidence,omitzero"`       // of a lost task: what was checked
	DeliveryState string `json:"delivery_state,omitzero"` // "": delivered

	ExternalIDs []string `json:"external_ids,omitempty"` // ids of the event that another log introduces
}

// taskCancellation is the payload of task.cancel_requested.
type taskCancellation struct {
	Reason string `json:"reason"`
	By     string `json:"by"`

	ExternalIDs []string `json:"external_ids,omitempty"` // as in TaskEnd
}

// TaskCancelling says that by ended the task with the given id, which has not ended yet.
func (s Scope) TaskCancelling(taskID, reason, by string) RuntimeEvent {
	return s.task(TaskCancelAsked, taskID, taskCancellation{Reason: reason, By: by})
}

// TaskEnded says how the task with the given id and its process ended, and before that, where it did not end by itself,
// the cause.
func (s Scope) TaskEnded(taskID string, p TaskEnd) []RuntimeEvent {
	before, process, end := s.taskEnd(taskID, p)
	return append(before, s.TaskProcess(taskID, s.ProcessEnded("", ProcessOf(taskID), process)), end)
}

// TaskHeard is TaskEnded for a thread that does not have the beginning of the task. It tells nothing of the process,
// which the thread that does ends.
func (s Scope) TaskHeard(taskID string, p TaskEnd) []RuntimeEvent {
	p.ExternalIDs = []string{taskID, runOf(taskID), ProcessOf(taskID)}
	before, _, end := s.taskEnd(taskID, p)
	return append(before, end)
}

func (s Scope) taskEnd(taskID string, p TaskEnd) (before []RuntimeEvent, process ProcessEnd, end RuntimeEvent) {
	process = ProcessEnd{ExitCode: p.ExitStatus, DurationMS: p.DurationMS}
	class := TaskFailed
	p.DeliveryState = cmp.Or(p.DeliveryState, "delivered") // the model is told it
	switch {
	case p.NativeStatus == "completed":
		class = TaskCompleted
	case p.NativeStatus == "cancelled":
		class, process.By = TaskCancelled, byUser
		by := "agent"
		if p.FailureCategory == "shutdown" {
			by, process.By = "runtime", byShutdown
		}
		before = append(before, s.task(TaskCancelAsked, taskID,
			taskCancellation{p.FailureCategory, by, p.ExternalIDs}))
	case p.NativeStatus == "interrupted", p.FailureCategory == "lost":
		class, p.Evidence = TaskLost, "the processes that an earlier runtime left"
		process.FailureCategory, process.Message = "lost", p.Message
	case p.FailureCategory == "time_limit":
		class = TaskTimedOut
		process.FailureCategory, process.Message = "timeout", p.Message
	}
	return before, process, s.task(class, taskID, p)
}

// TaskProcess gives an event of a process the ids of the task that it runs for.
func (s Scope) TaskProcess(taskID string, e RuntimeEvent) RuntimeEvent {
	e.TaskID, e.RunID = taskID, runOf(taskID)
	return e
}

// task fills in the ids. A task of ours is one process and its descendants, which run once.
func (s Scope) task(class, taskID string, payload any) RuntimeEvent {
	e := s.Event(class, payload)
	e.TaskID, e.RunID, e.ProcessID = taskID, runOf(taskID), ProcessOf(taskID)
	return e
}

func runOf(taskID string) string { return "run_" + strings.TrimPrefix(taskID, "task_") }
