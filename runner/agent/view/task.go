package view

import (
	"fmt"
	"slices"

	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/state"
	"holon/state/ledger"
)

// TaskRecord is a task as its record has it (runtime specification, "Background Task Recovery").
type TaskRecord struct {
	ID              string        `json:"id"`
	AgentID         string        `json:"agent_id"`
	Kind            string        `json:"kind"`
	Status          tasks.Status  `json:"status"`
	CreatedAt       turns.Time    `json:"created_at"`
	UpdatedAt       turns.Time    `json:"updated_at"`
	EndedAt         turns.Time    `json:"ended_at,omitzero"`
	TurnID          string        `json:"turn_id,omitempty"` // that started it; absent: the operator did
	ParentMessageID string        `json:"parent_message_id,omitempty"`
	WorkItemID      string        `json:"work_item_id,omitempty"`
	Purpose         string        `json:"purpose,omitempty"`
	Summary         string        `json:"summary"`
	Failure         string        `json:"failure,omitempty"`
	WaitPolicy      string        `json:"wait_policy"`
	Recovery        taskRecovery  `json:"recovery"`
	Command         tasks.Command `json:"command,omitzero"`
	ChildAgentID    string        `json:"child_agent_id,omitempty"` // that carries it out
	WorkspaceMode   string        `json:"workspace_mode,omitempty"`
}

// taskRecovery is by what a task is found again after a restart: a command by what it runs, a child by its task.
type taskRecovery struct {
	Kind          string      `json:"kind"`
	Summary       string      `json:"summary"`
	Spec          commandSpec `json:"spec,omitzero"`
	Prompt        string      `json:"prompt,omitempty"` // its label
	WorkspaceMode string      `json:"workspace_mode,omitempty"`
	Trust         string      `json:"trust"`
}

// commandSpec is what a task runs.
type commandSpec struct {
	Cmd             string `json:"cmd"`
	Workdir         string `json:"workdir,omitempty"`
	Shell           string `json:"shell,omitempty"`
	Login           bool   `json:"login"`
	TTY             bool   `json:"tty"`
	AcceptsInput    bool   `json:"accepts_input"`
	TerminalReentry bool   `json:"terminal_reentry"`
}

// OfTask is a task as it is listed.
func OfTask(t ledger.Task) TaskRecord {
	c := t.Command()
	r := TaskRecord{ID: t.ID, AgentID: t.AgentID, Kind: t.Kind, Status: t.Status, CreatedAt: turns.At(t.CreatedAt),
		UpdatedAt: turns.At(t.UpdatedAt), EndedAt: turns.AtOptional(t.EndedAt),
		TurnID: t.Owner.TurnID, ParentMessageID: t.Owner.MessageID,
		WorkItemID: t.Owner.WorkItemID, Purpose: t.Purpose, Summary: t.Result.Summary, Failure: t.Result.Failure,
		WaitPolicy: tasks.WaitBackground, Command: *c,
		Recovery: taskRecovery{Kind: t.Kind, Summary: t.Result.Summary, Trust: string(ledger.TrustedSystem),
			Spec: commandSpec{c.Cmd, c.Workdir, c.Shell, c.Login, c.TTY, t.Handle.TakesInput, c.TerminalReentry}}}
	if child := t.Child(); child != nil {
		r.ChildAgentID, r.WorkspaceMode = child.AgentID, child.Mode
		r.Recovery.Spec, r.Recovery.Prompt, r.Recovery.WorkspaceMode = commandSpec{}, t.Purpose, child.Mode
	}
	return r
}

// TaskStatus is the answer of GET /agents/{id}/tasks/{task_id}: state, and no output.
type TaskStatus struct {
	Task taskSnapshot `json:"task"`
}

// taskSnapshot is a task with what the host knows of it.
type taskSnapshot struct {
	tasks.Snapshot
	AgentID         string `json:"agent_id"`
	ParentMessageID string `json:"parent_message_id,omitempty"`
	WorkItemID      string `json:"work_item_id,omitempty"`
	Purpose         string `json:"purpose,omitempty"`
	PatchFile       string `json:"patch_file,omitempty"` // what a child has changed, on the host
	ChildTask
}

// SnapshotOf is the state of a task in the terms in which its container tells of it.
func SnapshotOf(t ledger.Task) tasks.Snapshot {
	s := tasks.Snapshot{TaskID: t.ID, Kind: t.Kind, Status: t.Status, Summary: t.Result.Summary,
		CreatedAt: turns.At(t.CreatedAt), UpdatedAt: turns.At(t.UpdatedAt), WaitPolicy: tasks.WaitBackground,
		TurnID: t.Owner.TurnID, Failure: t.Result.Failure}
	if t.Child() == nil {
		s.Command = t.Command()
	}
	return s
}

// TaskOutput is the answer of GET /agents/{id}/tasks/{task_id}/output.
type TaskOutput struct {
	RetrievalStatus tasks.Retrieval `json:"retrieval_status"`
	Task            Output          `json:"task"`
}

// Output is what a task printed, or what a child said at its end.
type Output struct {
	tasks.Output
	ChildSupervision *ChildSupervision `json:"child_supervision,omitempty"`
}

// OutputOf is what the record of a task has of its output. waited says that its end was waited for.
func OutputOf(t ledger.Task, waited bool) TaskOutput {
	out := TaskOutput{RetrievalStatus: tasks.NotReady, Task: Output{tasks.Output{Artifacts: []tasks.Artifact{}},
		Supervision(t)}}
	if t.Result.Output != nil {
		out.Task.Output = *t.Result.Output
	}
	out.Task.TaskID, out.Task.Kind, out.Task.Status, out.Task.Summary = t.ID, t.Kind, t.Status, t.Result.Summary
	switch {
	case !t.Status.Terminal():
		if waited {
			out.RetrievalStatus = tasks.Timeout
		}
		return out
	case t.Result.Output != nil || t.Command().OutputPath != "" || t.Child() != nil:
		out.RetrievalStatus = tasks.Success
	}
	out.Task.ExitStatus, out.Task.ResultSummary = t.Command().ExitStatus, t.Result.Summary
	if t.Status != tasks.Completed {
		out.Task.FailureArtifact = &tasks.Failure{Category: "task", Kind: t.Result.Failure, Summary: t.Result.Summary,
			TaskID:     t.ID,
			ExitStatus: t.Command().ExitStatus}
	}
	return out
}

// With is the output with what the task's container shows of it. How the task ended is the record's to say.
func (o TaskOutput) With(live tasks.Output) TaskOutput {
	o.Task.OutputPreview, o.Task.OutputTruncated = live.OutputPreview, live.OutputTruncated
	o.Task.OutputBytes, o.Task.Artifacts, o.Task.Notes = live.OutputBytes, live.Artifacts, live.Notes
	o.Task.OutputArtifact, o.Task.StdoutArtifact = live.OutputArtifact, live.StdoutArtifact
	o.Task.StderrArtifact = live.StderrArtifact
	return o
}

// Tasks returns the tasks of an agent that have not ended, and at most limit of the newest, the oldest first.
func (s Snapshot) Tasks(agentID string, limit int) ([]TaskRecord, error) {
	if _, err := s.shown(agentID); err != nil {
		return nil, err
	}
	list, err := s.ledger.OpenTasks(agentID)
	if err != nil {
		return nil, err
	}
	newest, err := s.ledger.Tasks(agentID, clamp(limit))
	seen := make(map[string]bool, len(newest))
	for _, t := range newest {
		seen[t.ID] = true
	}
	list = slices.DeleteFunc(list, func(t ledger.Task) bool { return seen[t.ID] }) // which are older
	records := make([]TaskRecord, 0, len(list)+len(newest))
	for _, t := range append(list, newest...) {
		records = append(records, OfTask(t))
	}
	return records, err
}

// Task returns the state of a task of an agent.
func (s Snapshot) Task(agentID, id string) (TaskStatus, error) {
	t, err := s.ledger.Task(agentID, id)
	if isNotFound(err) {
		err = NoTask(agentID, id)
	}
	if err != nil {
		return TaskStatus{}, err
	}
	patch := ""
	if c := t.Child(); c != nil && c.Worktree != nil {
		patch = c.Worktree.Patch
	}
	child, err := s.Child(t)
	return TaskStatus{taskSnapshot{SnapshotOf(t), agentID, t.Owner.MessageID, t.Owner.WorkItemID, t.Purpose, patch,
		child}}, err
}

// NoTask says that an agent has no task with an id.
func NoTask(agentID, id string) error {
	return &state.Error{Code: ledger.CodeNotFound, Param: "task_id",
		Message: fmt.Sprintf("agent %.64s has no task %.80q", agentID, id),
		Hint:    "holon task list --all --agent " + agentID + " shows its tasks"}
}
