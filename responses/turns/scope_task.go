package turns

import "strings"

// TaskBegun is the payload of task.created and task.started: a command became a
// task, which outlives the call that started it.
type TaskBegun struct {
	TaskKind   string `json:"task_kind"`
	Objective  string `json:"objective"` // the command line, cut
	Source     string `json:"source"`    // the tool that started it
	ToolCallID string `json:"cause_tool_call_id,omitempty"`
}

// TaskCreated says that the task with the given id exists.
func (s Scope) TaskCreated(taskID string, p TaskBegun) RuntimeEvent {
	return s.task(TaskCreated, StatusAccepted, taskID, p.clipped())
}

// TaskStarted says that the task with the given id runs.
func (s Scope) TaskStarted(taskID string, p TaskBegun) RuntimeEvent {
	return s.task(TaskStarted, StatusRunning, taskID, p.clipped())
}

func (p TaskBegun) clipped() TaskBegun {
	p.TaskKind, p.Objective, p.Source = clip(p.TaskKind, maxName), clip(p.Objective, maxMessage),
		clip(p.Source, maxName)
	p.ToolCallID = clip(p.ToolCallID, maxName)
	return p
}

// TaskEnd is the payload of the events that end a task. A turn records the end
// when it hears of it, which may be later.
type TaskEnd struct {
	// of the task's record: completed, failed, cancelled, interrupted
	NativeStatus string `json:"native_status"`
	// nonzero_exit, signal, time_limit, stopped, shutdown, lost
	FailureCategory string `json:"failure_category,omitempty"`
	Message         string `json:"message"`   // how it ended, for a person
	Objective       string `json:"objective"` // the command line, cut
	ExitStatus      *int   `json:"exit_status,omitempty"`
	OutputRef       string `json:"output_ref,omitempty"` // file with the output, a path on agentd's disk
	DurationMS      int64  `json:"duration_ms"`
}

// TaskEnded says how the task with the given id ended.
func (s Scope) TaskEnded(taskID string, p TaskEnd) RuntimeEvent {
	class, status := TaskFailed, StatusFailed
	switch {
	case p.NativeStatus == "completed":
		class, status = TaskCompleted, StatusCompleted
	case p.NativeStatus == "cancelled":
		class, status = TaskCancelled, StatusCancelled
	case p.NativeStatus == "interrupted":
		class, status = TaskLost, StatusLost
	case p.FailureCategory == "time_limit":
		class, status = TaskTimedOut, StatusTimedOut
	}
	p.NativeStatus, p.FailureCategory = clip(p.NativeStatus, maxName), clip(p.FailureCategory, maxName)
	p.Message, p.Objective, p.OutputRef = clip(p.Message, maxMessage), clip(p.Objective, maxMessage),
		clip(p.OutputRef, maxMessage)
	return s.task(class, status, taskID, p)
}

// task fills in the ids. A task of ours is one process and its descendants.
func (s Scope) task(class, status, taskID string, payload any) RuntimeEvent {
	e := s.event(class, status, payload)
	e.TaskID = taskID
	e.ProcessID = "proc_" + strings.TrimPrefix(taskID, "task_")
	return e
}
