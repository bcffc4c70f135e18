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

// Who ended a process that did not end by itself.
const (
	ByUser         = "user"          // it was asked for: task.cancel_requested says by whom
	ByPolicy       = "policy"        // it could not become a task
	ByParentCancel = "parent_cancel" // the turn was cancelled
	ByShutdown     = "shutdown"      // the runtime ended
)

// ProcessOf is the id of the process that runs a command, which is that of the task that the command may become.
func ProcessOf(taskID string) string { return "proc_" + strings.TrimPrefix(taskID, "task_") }

// Process is the payload of process.started: a command and everything that it starts.
type Process struct {
	Command      string `json:"command"` // the command line, cut
	Cwd          string `json:"cwd"`
	TTY          bool   `json:"tty"`
	AcceptsInput bool   `json:"accepts_input"`
}

// maxCommand bounds the command line of a process: its call has all of it.
const maxCommand = 512

// ProcessStarted opens the process with the given id, which a tool call started; "" for none.
func (s Scope) ProcessStarted(toolCallID, processID string, p Process) RuntimeEvent {
	return s.process(ProcessStarted, StatusRunning, toolCallID, processID, p.bounded())
}

func (p *Process) bounded() *Process {
	if p == nil {
		return nil
	}
	return &Process{clip(p.Command, maxCommand), clip(p.Cwd, maxName), p.TTY, p.AcceptsInput}
}

// Written is the payload of process.input. The text itself is in the arguments of the call.
type Written struct {
	Bytes    int    `json:"bytes"`
	Target   string `json:"target"` // stdin or tty
	Accepted bool   `json:"accepted"`
}

// ProcessWritten says that a tool call wrote to the process with the given id.
func (s Scope) ProcessWritten(toolCallID, processID string, p Written) RuntimeEvent {
	return s.process(ProcessInput, "", toolCallID, processID, p)
}

// ProcessEnd is the payload of the three classes that end a process.
type ProcessEnd struct {
	ExitCode   *int     `json:"exit_code,omitempty"` // 128+n after signal n
	Signal     int      `json:"signal,omitempty"`
	DurationMS int64    `json:"duration_ms"`
	OutputRefs []string `json:"output_refs,omitempty"` // files with what it put out, relative to the turn's directory

	FailureCategory string `json:"failure_category,omitempty"` // of process.failed: timeout or lost
	Message         string `json:"message,omitempty"`          // likewise
	By              string `json:"by,omitempty"`               // of process.terminated: one of the constants
}

// ProcessEnded says how the process with the given id ended. One that exits non-zero or is killed from within the
// container has completed: its exit code says so.
func (s Scope) ProcessEnded(toolCallID, processID string, p ProcessEnd) RuntimeEvent {
	p.OutputRefs = append([]string(nil), p.OutputRefs...)
	for i, ref := range p.OutputRefs {
		p.OutputRefs[i] = clip(ref, maxName)
	}
	p.Message = clip(p.Message, maxMessage)
	class, status := ProcessCompleted, StatusCompleted
	switch {
	case p.By != "":
		class, status = ProcessTerminated, StatusCancelled
	case p.FailureCategory != "":
		class, status = ProcessFailed, StatusFailed
	}
	return s.process(class, status, toolCallID, processID, p)
}

func (s Scope) process(class, status, toolCallID, processID string, payload any) RuntimeEvent {
	e := s.event(class, status, payload)
	if e.ProcessID = processID; toolCallID != "" {
		e.ToolCallID, e.StepID = toolCallID, stepOf(toolCallID)
	}
	return e
}
