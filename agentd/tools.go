package agentd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"holon/agentd/mcp"
	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/agentd/tools/command"
	"holon/agentd/tools/image"
	"holon/agentd/tools/patch"
	"holon/agentd/turn"
	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
)

// toolEnv is where the turn's tools run, and what they may use up.
func (s *Server) toolEnv(j *job) tools.Env {
	return tools.Env{
		TurnID: j.turnID, SessionID: j.sessionID, ThreadID: j.scope.ThreadID, WorkDir: j.workDir,
		LogDir: filepath.Join(j.turnDir, turns.ToolsDir), Environ: s.environ(j.plan),
		Policy:  tools.Policy{OutputTokens: s.cfg.Tools.OutputTokens, MaxOutputTokens: s.cfg.Tools.MaxOutputTokens},
		Images:  model.CapabilitiesOf(j.Transport, j.Name).Images,
		Secrets: s.parts.Secrets, Users: s.parts.Users,
		Disk: s.logs.turn(s.cfg.Commands.TurnLogBytes),
	}
}

// families are the kinds of results that there are. Those of servers come first, since a server's tool may have the
// name of one of ours.
func families() tools.Families {
	return tools.Families{mcp.Family{}, command.Family{}, patch.Family{}, image.Family{}}
}

// notices tells the turn's thread, and unless a tool showed it also the model, of the tasks
// that have ended since it last heard of them (runtime specification, "Background Task Recovery"). They are said as
// what they are, facts of the runtime: nothing that a task printed is in them. A thread without the beginning of a task
// may be the only one of the session that goes on; the one with it is told all the same when it does.
func (s *Server) notices(j *job) func() ([]turn.Notice, func()) {
	if !s.cfg.Commands.TaskNotices {
		return nil
	}
	return func() ([]turn.Notice, func()) {
		ended := s.parts.Tasks.Ended(j.sessionID, j.scope.ThreadID)
		list := make([]turn.Notice, len(ended))
		for i, t := range ended {
			if !t.Recorded {
				list[i].Events = endedTask(j.scope, t.Snapshot, t.Elsewhere)
			}
			if !t.Seen {
				list[i].Item = taskNotice(t.Snapshot)
			}
		}
		return list, func() {
			for _, t := range ended {
				if t.Elsewhere {
					s.parts.Tasks.ReportedElsewhere(t.TaskID)
				} else {
					s.parts.Tasks.Reported(t.TaskID)
				}
			}
		}
	}
}

// endedTask are the facts of the end of a task, whose beginning another thread may have.
func endedTask(scope turns.Scope, t tasks.Snapshot, elsewhere bool) []turns.RuntimeEvent {
	end := portable(t, scope.TurnID)
	switch {
	case elsewhere:
		return scope.TaskHeard(t.TaskID, end)
	case t.TurnID == "": // no turn has told that the operator started it
		return append(begunTask(scope, t, "operator"), scope.TaskEnded(t.TaskID, end)...)
	}
	return scope.TaskEnded(t.TaskID, end)
}

// untold are the facts of tasks that those of a turn lack, by the newest that they have of the process of each, and
// noted marks them as recorded. A task has its record before its turn has a fact of it, and an end is marked as
// reported after that: the process may die in between, and each is recorded once all the same.
func (s *Server) untold(scope turns.Scope, known map[string]string) (facts []turns.RuntimeEvent, noted func()) {
	var ended []string
	add := func(all []turns.RuntimeEvent, begins bool) (has bool) {
		newest := slices.IndexFunc(all, func(ev turns.RuntimeEvent) bool { return ev.Type == known[ev.ProcessID] })
		has = newest >= 0 || begins && known[all[0].ProcessID] == ""
		if has {
			facts = append(facts, all[newest+1:]...)
		}
		return has
	}
	for _, t := range s.parts.Tasks.Of(scope.TurnID) {
		add(begunTask(scope, t, "recovery"), true)
	}
	for _, t := range s.parts.Tasks.Ended(scope.SessionID, scope.ThreadID) {
		if !t.Elsewhere && !t.Recorded && add(endedTask(scope, t.Snapshot, false), false) {
			ended = append(ended, t.TaskID)
		}
	}
	return facts, func() {
		for _, id := range ended {
			s.parts.Tasks.Recorded(id)
		}
	}
}

// begunTask are the facts of the beginning of a task and its process.
func begunTask(scope turns.Scope, t tasks.Snapshot, source string) []turns.RuntimeEvent {
	p := turns.Process{Command: t.Command.CmdPreview, Cwd: t.Command.Workdir, TTY: t.Command.TTY,
		AcceptsInput: t.Command.AcceptsInput}
	process := scope.OfProcess(turns.ProcessStarted, "", turns.ProcessOf(t.TaskID), p)
	return append([]turns.RuntimeEvent{process}, scope.TaskBegun(t.TaskID, turns.TaskBegun{TaskKind: t.Kind,
		Objective: t.Command.CmdPreview, Source: source, Process: &p})...)
}

func taskNotice(t tasks.Snapshot) responses.Item {
	text := fmt.Sprintf("Notice of the runtime, not of the user: the task %s has ended with the status %s: %s.\nIts "+
		"command was: %s\nTaskOutput shows what it printed.",
		t.TaskID, t.Status, t.Summary, t.Command.CmdPreview)
	return &responses.Message{
		ID: responses.NewID(responses.PrefixMessage), Status: responses.ItemCompleted, Role: responses.RoleDeveloper,
		Content: []responses.Part{responses.InputText(text)},
	}
}

// portable is the end of a task in the terms of runtime events, those of the given turn.
func portable(t tasks.Snapshot, turnID string) turns.TaskEnd {
	return turns.TaskEnd{
		NativeStatus: string(t.Status), FailureCategory: t.Failure, Message: t.Summary, Objective: t.Command.CmdPreview,
		ExitStatus: t.Command.ExitStatus, OutputRef: t.Command.OutputRef(t.TurnID, turnID),
		DurationMS: cmp.Or(t.Command.DurationMS, t.UpdatedAt.Sub(t.CreatedAt).Milliseconds()),
	}
}
