package turns

import "strings"

// Classes of the facts about processes.
const (
	ProcessStarted    = "process.started"
	ProcessInput      = "process.input"
	ProcessCompleted  = "process.completed"
	ProcessFailed     = "process.failed"
	ProcessTerminated = "process.terminated"
)

// Causes of the end of a process that did not end by itself.
const (
	byUser         = "user"          // it was asked for: task.cancel_requested says by whom
	ByPolicy       = "policy"        // it could not become a task
	ByParentCancel = "parent_cancel" // the turn was cancelled
	byShutdown     = "shutdown"      // the runtime ended
)

// ProcessOf is the id of the process that runs a command, which is that of the task that the command may become.
func ProcessOf(taskID string) string { return "proc_" + strings.TrimPrefix(taskID, "task_") }

// Process is the payload of process.started: a command and everything that it starts.
type Process struct {
	Command      string `json:"command" max:"512"` // the command line, cut: its call has all of it
	Cwd          string `json:"cwd"`
	TTY          bool   `json:"tty"`
	AcceptsInput bool   `json:"accepts_input"`
}

// Written is the payload of process.input. The text itself is in the arguments of the call.
type Written struct {
	Bytes    int    `json:"bytes"`
	Target   string `json:"target"` // stdin or tty
	Accepted bool   `json:"accepted"`
}

// ProcessEnd is the payload of the three classes that end a process.
type ProcessEnd struct {
	ExitCode   *int     `json:"exit_code,omitzero"` // 128+n after signal n
	Signal     int      `json:"signal,omitzero"`
	DurationMS int64    `json:"duration_ms"`
	OutputRefs []string `json:"output_refs,omitempty"` // files with what it put out, relative to the turn's directory

	FailureCategory string `json:"failure_category,omitzero"`   // of process.failed: timeout or lost
	Message         string `json:"message,omitzero" max:"2048"` // likewise
	By              string `json:"by,omitzero"`                 // of process.terminated: one of the constants
}

// ProcessEnded says how the process with the given id ended. One that exits non-zero or is killed from within the
// container has completed: its exit code says so.
func (s Scope) ProcessEnded(toolCallID, processID string, p ProcessEnd) RuntimeEvent {
	class := ProcessCompleted
	switch {
	case p.By != "":
		class = ProcessTerminated
	case p.FailureCategory != "":
		class = ProcessFailed
	}
	return s.OfProcess(class, toolCallID, processID, p)
}
