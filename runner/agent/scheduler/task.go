package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// Bounds of tasks.
const (
	maxOpenTasks  = 256 // of one agent; agentd runs fewer
	maxCommand    = 8 << 10
	maxTaskOutput = 8 << 10 // bytes of a preview
	maxArtifacts  = 4
)

// NewTask is a command that the operator gives an agent's container.
type NewTask struct {
	AgentID string
	Key     string // of the request: the same makes it once; "": a new one
	Purpose string // what it is for
	Start   tasks.Start
}

// CreateTask accepts a task that is to be started. It is queued until its container reports it. The same key returns
// the task that it made, as it is now, or makes another one if that could not be started; made says whether this call
// made it. Errors: ledger.CodeInvalidTask, CodeTaskLimit, CodeKeyConflict, CodeAgentStopped, CodeAgentArchived,
// ledger.CodeNotFound.
func (m *Scheduler) CreateTask(ctx context.Context, n NewTask) (t ledger.Task, made bool, err error) {
	if strings.TrimSpace(n.Start.Cmd) == "" {
		return t, false, refused(ledger.CodeInvalidTask, "cmd", "give the command to run",
			"a task without a command does nothing")
	}
	if bad := shortTexts("summary", n.Purpose); bad != nil {
		return t, false, refused(ledger.CodeInvalidTask, bad.Param, "say it in fewer words", "%s", bad.Message)
	}
	err = m.step(ctx, n.AgentID, func(s *step) error {
		id, old, known := s.taskOf(cmp.Or(n.Key, responses.NewID("key_")))
		if known {
			if t, made = old, false; old.Made != n.digest() {
				return refused(CodeKeyConflict, "idempotency_key", "use another key for another command",
					"the key was used for task %s, which was asked for with something else", id)
			}
			return nil
		}
		if err := s.checkRunning(); err != nil {
			return err
		}
		if err := s.checkOpenTasks(); err != nil {
			return err
		}
		command := tasks.Command{Cmd: cut(n.Start.Cmd, maxCommand), Workdir: n.Start.Workdir, Shell: n.Start.Shell,
			CmdPreview: clip(strings.Join(strings.Fields(n.Start.Cmd), " ")),
			Login:      n.Start.Login, TTY: n.Start.TTY, TerminalReentry: true}
		t, made = ledger.Task{ID: id, AgentID: n.AgentID, Kind: tasks.KindCommand, Status: tasks.Queued,
			CreatedAt: s.now, UpdatedAt: s.now, Purpose: n.Purpose, Made: n.digest(),
			Result: ledger.TaskResult{Summary: "command is accepted"}, Handle: ledger.TaskHandle{Command: &command,
				TakesInput: n.Start.AcceptsInput, Runtime: m.opts.Owner}}, true
		s.emitTaskBegun(t, "operator", "", false)
		s.insert(&t)
		return nil
	})
	return t, made, err
}

func (s *step) checkOpenTasks() error {
	if n := read(s, ledger.View.CountOpenTasks, s.state.AgentID); n >= maxOpenTasks {
		return refused(CodeTaskLimit, "agent_id", "stop some of them first: holon task list --agent "+s.state.AgentID,
			"%d tasks of agent %s have not ended, and no more may run", n, s.state.AgentID)
	}
	return nil
}

// ReportTask takes what the container of an agent says of a task, which is not trusted. A task that has ended stays as
// it ended. The end of a task is recorded with the message that brings it to the agent, once. It may be called again
// with the same report. The error has ledger.CodeInvalidTask for a report that makes no sense; others may be tried
// again.
func (m *Scheduler) ReportTask(ctx context.Context, agentID string, r tasks.Report) error {
	if err := checkReport(r); err != nil {
		return err
	}
	return m.step(ctx, agentID, func(s *step) error {
		a, open := s.openAttempt()
		turn, has := &a, len(a.Open)
		if !open {
			turn = nil
		}
		known, err := s.reportTask(turn, r)
		if err == nil && len(a.Open) != has {
			s.update(&a)
		}
		if err == nil && !known {
			s.awaitTasks() // the turn that started it may be over already
		}
		return err
	})
}

// reportTask takes what a container says of a task, in its follower's stream or in the facts of the open attempt a, and
// says whether the record knew the task. Without an open attempt a is nil.
func (s *step) reportTask(a *ledger.Attempt, r tasks.Report) (known bool, err error) {
	old, known := s.task(r.Task.TaskID)
	if known && (old.Status.Terminal() || old.Child() != nil) { // a container says nothing of children
		return true, nil
	}
	if !known {
		if old, err = s.newTask(a, *r.Task); err != nil {
			return false, err
		}
	}
	s.advanceTask(a, old, r)
	return known, nil
}

// newTask records a task that the container reports for the first time, as accepted and not yet running. Its process
// caused it, if the open attempt a has recorded that.
func (s *step) newTask(a *ledger.Attempt, r tasks.Snapshot) (ledger.Task, error) {
	if err := s.checkOpenTasks(); err != nil {
		return ledger.Task{}, err
	}
	t := ledger.Task{ID: r.TaskID, AgentID: s.state.AgentID, Kind: tasks.KindCommand, Status: tasks.Queued,
		CreatedAt: s.notLater(r.CreatedAt), UpdatedAt: s.now,
		Handle: ledger.TaskHandle{Command: boundedCommand(*r.Command)}}
	s.parent(a, &t, r.TurnID)
	cause := ""
	if at := openProcess(a, t.ID); at >= 0 {
		cause = a.Open[at].Event
	}
	s.emitTaskBegun(t, "ExecCommand", cause, false)
	s.insert(&t)
	return t, nil
}

// parent notes the turn that started a task, if the agent has made it, and the work item that was current then. a is
// the open attempt, nil for none.
func (s *step) parent(a *ledger.Attempt, t *ledger.Task, turnID string) {
	if a != nil && a.TurnID == turnID {
		t.Owner.TurnID, t.Owner.MessageID, t.Owner.WorkItemID = a.TurnID, a.MessageID, s.workOf(*a, openProcess(a, t.ID))
		return
	}
	turn, ok := find(s, ledger.View.Turn, turnID)
	if !ok || turn.AgentID != t.AgentID {
		return
	}
	t.Owner.TurnID, t.Owner.MessageID, t.Owner.WorkItemID = turn.ID, turn.MessageID, turn.WorkItemID
	if a == nil && turn.Index == s.state.Turns { // what it picked is current still
		t.Owner.WorkItemID = cmp.Or(s.state.CurrentWork, turn.WorkItemID)
	}
}

// advanceTask brings a task that has not ended to what its container says.
func (s *step) advanceTask(a *ledger.Attempt, old ledger.Task, r tasks.Report) {
	t := old
	t.Status, t.UpdatedAt, t.Handle.Runtime = r.Task.Status, s.now, ""
	t.Handle.Command = fuller(*old.Command(), boundedCommand(*r.Task.Command))
	t.Result.Failure, t.Result.Summary = clip(r.Task.Failure), clip(r.Task.Summary)
	t.Handle.TakesInput = t.Handle.TakesInput || t.Command().AcceptsInput
	if old.Status == tasks.Cancelling && t.Status.Terminal() && t.Result.Failure != tasks.FailureLost {
		t.Status, t.Result.Failure = tasks.Cancelled, cmp.Or(t.Result.Failure,
			"stopped") // however it ended, that was asked for
	}
	if old.Status == tasks.Queued {
		t.Handle.ProcessEvent = s.emitProcessBegun(a, t)
		s.emitTaskBegun(t, "", "", true)
	}
	if t.Status.Terminal() {
		s.endTask(old, t, s.notLater(r.Task.UpdatedAt), r.Output)
		return
	}
	if t.Status == tasks.Cancelling && old.Status != tasks.Cancelling {
		s.emitTask(turns.Scope{}.TaskCancelling(t.ID, "stopped", "operator"), t,
			ledger.Event{Cause: createdEvent(t)})
		t.CancelEvent = s.newest()
	}
	if t.Status == old.Status && t.Command().CmdDigest == old.Command().CmdDigest ||
		old.Status == tasks.Cancelling { // which is newer than running
		return
	}
	s.update(&t)
}

// endTask records how a task ended, and queues the message for the agent. The end of its process is recorded if its
// beginning was: one that was never started has none.
func (s *step) endTask(old, t ledger.Task, at time.Time, out *tasks.Output) {
	agent := s.agentRow()
	t.EndedAt, t.UpdatedAt, t.Handle.Runtime = &at, s.now, ""
	t.Result.Output = boundedOutput(out, outputLimit(t))
	delivery := ""
	switch {
	case t.Result.Failure == ledger.TaskNotStarted:
		delivery = "not_applicable" // the agent gets no message
	case agent.ArchivedAt != nil:
		delivery = "parent_missing"
	}
	ends := turns.Scope{}.TaskEnded(t.ID, turns.TaskEnd{DeliveryState: cmp.Or(delivery, "queued"),
		NativeStatus: string(t.Status), FailureCategory: t.Result.Failure,
		Message: t.Result.Summary, Objective: objective(t), ExitStatus: t.Command().ExitStatus,
		OutputRef:  t.Command().OutputRef(t.Owner.TurnID, ""),
		DurationMS: max(0, cmp.Or(t.Command().DurationMS, at.Sub(t.CreatedAt).Milliseconds()))})
	if old.Status == tasks.Cancelling && ends[0].Type == turns.TaskCancelAsked {
		ends = ends[1:]
	}
	ended := "" // the event of the end of its process
	for _, ev := range ends {
		switch {
		case ev.Type == turns.TaskCancelAsked:
			s.emitTask(ev, t, ledger.Event{Cause: createdEvent(t)})
			t.CancelEvent = s.newest()
		case !strings.HasPrefix(ev.Type, "process."):
			s.emitTask(ev, t,
				ledger.Event{Cause: cmp.Or(t.CancelEvent, ended, createdEvent(t)), CreatedAt: at})
			s.cause = s.newest() // of the message
		case t.Handle.ProcessEvent != "":
			s.emitProcess(t, ev, cmp.Or(t.CancelEvent, t.Handle.ProcessEvent), at)
			ended = s.newest()
		}
	}
	if s.update(&t); delivery == "" {
		s.admitResult(t)
	}
}

// outputLimit bounds what the record of a task keeps of its output, in bytes.
func outputLimit(t ledger.Task) int {
	if t.Child() != nil {
		return maxChildText
	}
	return maxTaskOutput
}

// SettleTasks ends the tasks of an agent that its container does not know: known are the ids of those that it knew at
// the time at. One that this process has accepted and not started yet is left, and one that was reported since. why is
// for a person.
func (m *Scheduler) SettleTasks(ctx context.Context, agentID string, known []string, at time.Time, why string) error {
	return m.step(ctx, agentID, func(s *step) error {
		open := read(s, ledger.View.OpenTasks, agentID)
		for _, t := range open {
			if t.Child() != nil || slices.Contains(known, t.ID) || t.UpdatedAt.After(at) ||
				t.Status == tasks.Queued && t.Handle.Runtime != "" && t.Handle.Runtime == m.opts.Owner {
				continue
			}
			s.loseTask(t, tasks.FailureLost, why)
		}
		return nil
	})
}

func (s *step) loseTask(old ledger.Task, failure, why string) {
	t := old
	t.Status, t.Result.Failure, t.Result.Summary = tasks.Failed, failure, clip(why)
	if old.Status == tasks.Cancelling {
		t.Result.Failure = tasks.FailureLost
	}
	if old.Status == tasks.Queued {
		s.emitTaskBegun(t, "", "", true)
	}
	s.endTask(old, t, s.now, nil)
}

// createdEvent is the id of the event with which a task came to be, which is the cause of what follows.
func createdEvent(t ledger.Task) string { return derivedID(responses.PrefixEvent, t.AgentID, t.ID) }

// causeOfTask is the event that causes what becomes of a task: that its end was asked for, or that it was made.
func causeOfTask(t ledger.Task) string { return cmp.Or(t.CancelEvent, createdEvent(t)) }

// objective is what a task is for: what the operator says, or its command.
func objective(t ledger.Task) string { return cmp.Or(clip(t.Purpose), t.Command().CmdPreview) }

// emitTaskBegun records that a task exists, for the cause, and is accepted, or that it runs.
func (s *step) emitTaskBegun(t ledger.Task, source, cause string, runs bool) {
	events := turns.Scope{}.TaskBegun(t.ID, turns.TaskBegun{TaskKind: t.Kind, Objective: objective(t),
		Source: source})
	if runs {
		events = events[2:]
	} else {
		events = events[:2]
	}
	for _, ev := range events {
		if ev.Type == turns.TaskCreated {
			s.emitTask(ev, t, ledger.Event{ID: createdEvent(t), Cause: cause})
			continue
		}
		s.emitTask(ev, t, ledger.Event{Cause: createdEvent(t)})
	}
}

// emitTask records a task as the step leaves it, in the terms of agentd. e has the id and the cause.
func (s *step) emitTask(ev turns.RuntimeEvent, t ledger.Task, e ledger.Event) {
	f := fields{}
	e.From = s.taskFrom(t)
	if ev.Type == turns.TaskCreated {
		f["turn_id"] = t.Owner.TurnID
	}
	t.Result.Output, t.Made = nil, ""
	if c := t.Child(); c != nil {
		ev.ProcessID, e.IDs[agentruntime.Subagent] = "", c.AgentID
	} else {
		t.Handle.Command = t.Command()
		t.Handle.Command.Cmd = clip(t.Handle.Command.Cmd)
	}
	s.emitReported(ev, t.ID, e, f.with(record.RecordTask, t))
}

// emitReported records an event that is about a task, in the terms of agentd, with further data.
func (s *step) emitReported(ev turns.RuntimeEvent, taskID string, e ledger.Event, more fields) {
	e.Ref, e.Class, e.Status = taskID, ev.Type, ev.Status
	e.IDs[agentruntime.Task], e.IDs[agentruntime.Run], e.IDs[agentruntime.Process] = ev.TaskID, ev.RunID, ev.ProcessID
	f := fields{}
	_ = json.Unmarshal(ev.Payload, &f) // it was encoded just now
	maps.Copy(f, more)
	s.emit(ev.Type, e, f)
}

// checkReport bounds what a container says of a task.
func checkReport(r tasks.Report) error {
	invalid := func(format string, args ...any) error {
		return refused(ledger.CodeInvalidTask, "task", "", format, args...)
	}
	switch t := r.Task; {
	case t == nil || t.Command == nil:
		return invalid("a report without a task")
	case responses.CheckID("task_id", t.TaskID) != nil || !strings.HasPrefix(t.TaskID, tasks.Prefix):
		return invalid("%.80q is not the id of a task", t.TaskID)
	case t.Status != tasks.Running && t.Status != tasks.Cancelling && !t.Status.Terminal():
		return invalid("task %.80s has the unknown status %.40q", t.TaskID, t.Status)
	}
	return nil
}

// notLater is a time of a container, which may be wrong about it.
func (s *step) notLater(t turns.Time) time.Time {
	if at := t.Time().UTC(); !t.IsZero() && at.Before(s.now) {
		return at
	}
	return s.now
}

// fuller is what is known of a command after a further report. The facts of a turn say less of it than the
// container's list of tasks, and can come later; and the list no longer says where the input went of a command that
// has ended.
func fuller(old tasks.Command, now *tasks.Command) *tasks.Command {
	if now.CmdDigest == "" && old.CmdDigest != "" {
		old.AcceptsInput, old.ExitStatus, old.Signal = now.AcceptsInput, now.ExitStatus, now.Signal
		old.ResultSummary, old.DurationMS = now.ResultSummary, now.DurationMS
		return &old
	}
	for kept, text := range map[*string]string{&now.OutputPath: old.OutputPath, &now.StderrPath: old.StderrPath,
		&now.InputTarget: old.InputTarget} {
		*kept = cmp.Or(*kept, text)
	}
	return now
}

func boundedCommand(c tasks.Command) *tasks.Command {
	c.Cmd = cut(c.Cmd, maxCommand)
	for _, text := range []*string{&c.CmdPreview, &c.CmdDigest, &c.Workdir, &c.Shell, &c.OutputPath, &c.StderrPath,
		&c.InputTarget, &c.ResultSummary} {
		*text = clip(*text)
	}
	return &c
}

// boundedOutput is what is kept of what an ended task printed; nil for nothing.
func boundedOutput(o *tasks.Output, limit int) *tasks.Output {
	if o == nil {
		return nil
	}
	b := tasks.Output{OutputPreview: cut(o.OutputPreview, limit), OutputBytes: max(o.OutputBytes, 0),
		OutputTruncated: o.OutputTruncated || len(o.OutputPreview) > limit, Artifacts: []tasks.Artifact{}}
	for _, a := range o.Artifacts[:min(len(o.Artifacts), maxArtifacts)] {
		b.Artifacts = append(b.Artifacts, tasks.Artifact{Path: clip(a.Path)})
	}
	index := func(i *int) *int {
		if i == nil || *i < 0 || *i >= len(b.Artifacts) {
			return nil
		}
		return i
	}
	b.OutputArtifact, b.StdoutArtifact, b.StderrArtifact = index(o.OutputArtifact), index(o.StdoutArtifact),
		index(o.StderrArtifact)
	for _, note := range o.Notes[:min(len(o.Notes), maxArtifacts)] {
		b.Notes = append(b.Notes, clip(note))
	}
	return &b
}
