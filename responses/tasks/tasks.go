// Package tasks holds the nouns of managed commands as clients of agentd and
// models see them: the bodies of GET and POST /tasks, and the results of the
// task tools, are the same values.
//
// A task is a command that outlives the call that started it. Its record is
// authoritative: what is terminal there never becomes running again.
package tasks

import (
	"holon/responses/turns"
)

// Prefix begins the id of every task.
const Prefix = "task_"

// The kinds of tasks. Those of a container are commands; a host has those of children too.
const (
	KindCommand = "command_task"
	KindChild   = "child_agent_task"
)

// WaitBackground is the wait policy of command tasks: nothing waits for them.
const WaitBackground = "background"

// Status is the life-cycle state of a task.
type Status string

// The states of a task.
const (
	Running    Status = "running"
	Cancelling Status = "cancelling" // a stop was asked for and has not taken effect
	Completed  Status = "completed"  // the command ended with exit status 0
	Failed     Status = "failed"     // it ended with another status, by a signal or at its time limit
	Cancelled  Status = "cancelled"  // it was stopped
	// Queued is what a host says of a task that it has accepted and whose container does not have it yet.
	Queued Status = "queued"
	// Interrupted is what a host says of a child after a restart until the child is taken up again.
	Interrupted Status = "interrupted"
)

// FailureLost is the Failure of a task whose end was not observed: the runtime that watched it is gone.
const FailureLost = "lost"

// Terminal reports whether a task with status s has ended.
func (s Status) Terminal() bool {
	switch s {
	case Completed, Failed, Cancelled:
		return true
	}
	return false
}

// Targets of input.
const (
	TargetStdin = "stdin"
	TargetTTY   = "tty"
	TargetChild = "child_followup" // a message of the parent to its child
)

// Handle names a task in the result of the call that started it.
type Handle struct {
	TaskID string `json:"task_id"`
	Kind   string `json:"kind"`
	Status Status `json:"status"`
}

// Command says what a task runs. Cmd, Workdir, Shell, Login and TTY are its
// identity, of which Digest is the comparable form.
type Command struct {
	Cmd           string `json:"cmd"`
	CmdPreview    string `json:"cmd_preview"` // one short line, for people
	CmdDigest     string `json:"cmd_digest"`
	Workdir       string `json:"workdir"`
	Shell         string `json:"shell,omitempty"`
	Login         bool   `json:"login"`
	TTY           bool   `json:"tty"`
	OutputPath    string `json:"output_path,omitempty"`  // file with the output; with a TTY, of both streams
	StderrPath    string `json:"stderr_path,omitempty"`  // file with standard error, without a TTY
	AcceptsInput  bool   `json:"accepts_input"`          // input can be written now
	InputTarget   string `json:"input_target,omitempty"` // stdin or tty, where it can
	ExitStatus    *int   `json:"exit_status,omitempty"`  // 128+n after signal n
	Signal        int    `json:"signal,omitempty"`
	ResultSummary string `json:"result_summary,omitempty"` // how it ended
	DurationMS    int64  `json:"duration_ms,omitempty"`    // of the command, from its start to its end
	// TerminalReentry says that the next turn of the session gets the end.
	TerminalReentry         bool `json:"terminal_reentry"`
	PromotedFromExecCommand bool `json:"promoted_from_exec_command"`
}

// Snapshot is the state of a task: life cycle and coordination, no output.
type Snapshot struct {
	TaskID     string     `json:"task_id"`
	Kind       string     `json:"kind"`
	Status     Status     `json:"status"`
	Summary    string     `json:"summary"`
	CreatedAt  turns.Time `json:"created_at"`
	UpdatedAt  turns.Time `json:"updated_at"`
	WaitPolicy string     `json:"wait_policy"`
	SessionID  string     `json:"session_id"`
	TurnID     string     `json:"turn_id"`           // the turn that started it
	Failure    string     `json:"failure,omitempty"` // kind of the Failure of one that did not complete
	Command    *Command   `json:"command"`           // null for a task of another kind
}

// Entry is a task in a list.
type Entry struct {
	ID         string     `json:"id"`
	Kind       string     `json:"kind"`
	Status     Status     `json:"status"`
	Summary    string     `json:"summary"`
	UpdatedAt  turns.Time `json:"updated_at"`
	WaitPolicy string     `json:"wait_policy"`
	SessionID  string     `json:"session_id"`
	Command    string     `json:"command"` // preview of the command line
}

// List is the answer of GET /tasks and of TaskList: the newest task first.
type List struct {
	Tasks   []Entry `json:"tasks"`
	Omitted int     `json:"omitted,omitempty"` // older tasks that are not listed
}

// StatusResult is the answer of GET /tasks/{id} and of TaskStatus.
type StatusResult struct {
	Task Snapshot `json:"task"`
}

// Retrieval says what a read of output found.
type Retrieval string

// The outcomes of a read of output.
const (
	Success  Retrieval = "success"   // the task has ended; this is its final output
	Timeout  Retrieval = "timeout"   // it has not ended within the wait that was asked for
	NotReady Retrieval = "not_ready" // it has not ended, and no wait was asked for
)

// Artifact is a file on agentd's disk that a result refers to by its index.
type Artifact struct {
	Path string `json:"path"`
}

// Failure is the evidence of a task that did not complete.
type Failure struct {
	Category   string `json:"category"` // task
	Kind       string `json:"kind"`     // nonzero_exit, signal, time_limit, stopped, lost
	Summary    string `json:"summary"`
	TaskID     string `json:"task_id"`
	ExitStatus *int   `json:"exit_status,omitempty"`
}

// Output is a bounded view of what a task printed so far.
type Output struct {
	TaskID          string     `json:"task_id"`
	Kind            string     `json:"kind"`
	Status          Status     `json:"status"`
	Summary         string     `json:"summary"`
	OutputPreview   string     `json:"output_preview"` // one stream, or both under their names
	OutputTruncated bool       `json:"output_truncated"`
	OutputBytes     int64      `json:"output_bytes"` // printed so far, shown or not
	Artifacts       []Artifact `json:"artifacts"`
	OutputArtifact  *int       `json:"output_artifact,omitempty"` // the file with all of the output
	StdoutArtifact  *int       `json:"stdout_artifact,omitempty"` // where there are two
	StderrArtifact  *int       `json:"stderr_artifact,omitempty"`
	Notes           []string   `json:"notes,omitempty"` // what the files lack of the output
	ResultSummary   string     `json:"result_summary,omitempty"`
	ExitStatus      *int       `json:"exit_status,omitempty"`
	FailureArtifact *Failure   `json:"failure_artifact,omitempty"`
}

// OutputResult is the answer of GET /tasks/{id}/output and of TaskOutput.
type OutputResult struct {
	RetrievalStatus Retrieval `json:"retrieval_status"`
	Task            Output    `json:"task"`
}

// Input is the body of POST /tasks/{id}/input.
type Input struct {
	Input string `json:"input,omitempty"`       // written as it is; end a line with \n
	Close bool   `json:"close_input,omitempty"` // end of input, after Input
	Rows  uint16 `json:"rows,omitempty"`        // new size of a terminal
	Cols  uint16 `json:"cols,omitempty"`
}

// InputResult is the receipt for input. A task that cannot take it is not an
// error: AcceptedInput is false and SummaryText says why.
type InputResult struct {
	Task          Snapshot `json:"task"`
	AcceptedInput bool     `json:"accepted_input"`
	InputTarget   string   `json:"input_target,omitempty"`
	BytesWritten  int      `json:"bytes_written"`
	SummaryText   string   `json:"summary_text"`
}

// Stop is the body of POST /tasks/{id}/stop.
type Stop struct {
	Force bool `json:"force,omitempty"` // do not ask first
}

// StopResult is the receipt for a stop.
type StopResult struct {
	Task               Snapshot `json:"task"`
	StopRequested      bool     `json:"stop_requested"`       // false: the task had ended before
	ForceStopRequested bool     `json:"force_stop_requested"` // it did not end when asked
	SummaryText        string   `json:"summary_text"`
}

// Report is a line of GET /tasks/follow: a task as it is now or, once, that all were told that there were when the
// stream began.
type Report struct {
	Task     *Snapshot `json:"task,omitempty"`
	Output   *Output   `json:"output,omitempty"` // of a task that has ended, a preview
	Complete bool      `json:"complete,omitempty"`
}

// Start is the body of POST /tasks: a command that is a task from its beginning.
type Start struct {
	TaskID       string `json:"task_id"`                 // chosen by the caller: the same starts it once
	SessionID    string `json:"session_id"`              // owner of the task
	Cmd          string `json:"cmd"`                     // of a shell
	Workdir      string `json:"workdir,omitempty"`       // below the working tree, which is the default
	WorkspaceDir string `json:"workspace_dir,omitempty"` // the working tree, as of a turn; "": the server's own
	Shell        string `json:"shell,omitempty"`
	Login        bool   `json:"login,omitempty"`
	TTY          bool   `json:"tty,omitempty"`
	AcceptsInput bool   `json:"accepts_input,omitempty"`
}
