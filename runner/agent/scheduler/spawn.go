package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"holon/responses/agentruntime"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// Codes of errors about children.
const (
	CodeChildLimit   state.Code = "child_limit_reached" // of depth, of one agent, or of a tree; Param says which
	CodeInvalidSpawn state.Code = "invalid_spawn"       // Param names the field
)

// Spawn is an agent that another one makes in its turn: a private child, or a public agent if it has an id.
type Spawn struct {
	ParentID string
	CallID   string // the same makes it once
	Message  string // for a public agent it may be empty
	Mode     string // of a child: ledger.ChildInherits, ledger.ChildWorktree
	Named    string // id of a public agent; "": a private child
	Template string
	// Check, in ledger.ChildWorktree, is the command that decides whether what the child did is good; "": none. Paths are
	// patterns of files that it gets as they were; nil: those of common runners of tests.
	Check string
	Paths []string
}

// Spawned is what a Spawn made.
type Spawned struct {
	Agent    ledger.Agent
	Task     ledger.Task // that supervises a child; the zero value for a public agent
	Replayed bool
}

// maxLabel bounds what the task of a child is called by, in bytes.
const maxLabel = 160

// Spawn makes an agent with its first message. Of a private child that is one step with the task of its parent, which
// ends when the child does. The message has the authority of the one that the parent works on. The same call returns
// what it made. Errors: CodeInvalidSpawn, CodeChildLimit, CodeNoRun, CodeInvalidMessage, CodeInvalidAgent,
// ledger.CodeExists, CodeTaskLimit.
func (m *Scheduler) Spawn(ctx context.Context, n Spawn) (out Spawned, err error) {
	if err := n.check(); err != nil {
		return out, err
	}
	if err := n.checkCheck(); err != nil {
		return out, err
	}
	err = m.step(ctx, n.ParentID, func(s *step) error {
		out = Spawned{}
		if made, ok := s.spawned(n); ok {
			out = made
			return nil
		}
		a, open := s.openAttempt()
		if !open || a.AbortedBy != "" {
			return refused(CodeNoRun, "agent_id", "", "no turn of agent %s runs that could spawn another one", n.ParentID)
		}
		if err := s.checkSpawn(n); err != nil {
			return err
		}
		if n.Named != "" {
			out.Agent = s.spawnNamed(n, a)
			return nil
		}
		out.Agent, out.Task = s.spawnChild(n, a)
		return nil
	})
	return out, err
}

func (n Spawn) check() error {
	switch {
	case n.Named != "":
		if n.Mode != "" {
			return refused(CodeInvalidSpawn, "workspace_mode", "leave it out",
				"workspace_mode is not for the preset public_named")
		}
		if err := state.CheckNewAgentID(n.Named); err != nil {
			return err
		}
		if n.Message == "" {
			return nil
		}
	case n.Mode != ledger.ChildInherits && n.Mode != ledger.ChildWorktree:
		return refused(CodeInvalidSpawn, "workspace_mode", "use inherit or worktree", "%.40q is not a mode", n.Mode)
	}
	if bad := wrongMessage(n.Message); bad != "" {
		return refused(CodeInvalidSpawn, "initial_message", "say what the agent is to do, in at most 1 MiB",
			"initial_message %s", bad)
	}
	return nil
}

// wrongMessage says why a text is no message for another agent, "" for one that is.
func wrongMessage(text string) string {
	switch {
	case text == "":
		return "is missing, null or empty"
	case strings.TrimSpace(text) == "":
		return "is blank"
	case strings.ContainsRune(text, 0):
		return "has a NUL character"
	}
	if bad := checkBody(ledger.Body{Type: "text", Text: text}); bad != nil {
		return "cannot be taken: " + bad.Message
	}
	return ""
}

// label is what the parent sees of the delegation: its first line, in short.
func (n Spawn) label() string {
	const most = 4 << 10 // of which it is made
	return cmp.Or(cut(rules.Summary(cut(n.Message, most)), maxLabel), "delegated work")
}

// taskID is that of the task of a child.
func (n Spawn) taskID() string { return derivedID(tasks.Prefix, n.ParentID, "spawn", n.CallID) }

// digest is that of the call.
func (n Spawn) digest() string { return derivedID("", n.ParentID, n.CallID) }

// spawned finds what the call made before.
func (s *step) spawned(n Spawn) (out Spawned, ok bool) {
	id := n.Named
	if id == "" {
		if out.Task, ok = s.task(n.taskID()); !ok {
			return out, false
		}
		id = out.Task.Child().AgentID
	}
	out.Agent, ok = find(s, ledger.View.Agent, id)
	out.Replayed = ok && out.Agent.SpawnedBy == n.digest()
	return out, out.Replayed
}

// checkSpawn refuses an agent that would be one too many.
func (s *step) checkSpawn(n Spawn) error {
	id := s.state.AgentID
	limit := func(param, hint, format string, args ...any) error {
		return refused(CodeChildLimit, param, hint, format, args...)
	}
	if n.Named != "" {
		if state.IsChild(id) {
			return refused(CodeInvalidSpawn, "preset", "use private_child, or ask your parent",
				"a private child makes no public agents")
		}
		if made := s.namedBy(id); made >= rules.MaxTree {
			return limit("preset", "your operator can remove some of them", "you have made %d public agents", made)
		}
		return nil
	}
	if state.AgentDepth(id) >= state.MaxDepth {
		return limit("depth", "do it yourself",
			"the depth is the reason: an agent %d levels below a public one has no children", state.MaxDepth)
	}
	if err := s.checkOpenTasks(); err != nil {
		return err
	}
	if has := len(read(s, ledger.View.OpenChildren, id)); has >= rules.MaxChildren {
		return limit("children", "wait for one to end, or stop one with TaskStop",
			"you have %d children, and no more may go on at a time", has)
	}
	if all := s.treeSize(state.RootAgent(id)); all >= rules.MaxTree {
		return limit("tree", "wait for one to end, or stop one with TaskStop",
			"there are %d agents below %s, and no more may go on at a time", all, state.RootAgent(id))
	}
	return nil
}

// treeSize is how many private agents there are below an agent.
func (s *step) treeSize(agentID string) int {
	n := 0
	for _, t := range read(s, ledger.View.OpenChildren, agentID) {
		n += 1 + s.treeSize(t.Child().AgentID)
	}
	return n
}

// namedBy is how many public agents an agent has made.
func (s *step) namedBy(id string) (n int) {
	for _, a := range ask(s, ledger.View.Agents) {
		if a.LineageParentID == id {
			n++
		}
	}
	return n
}

// spawnNamed makes a public agent with what its creator says to it.
func (s *step) spawnNamed(n Spawn, a ledger.Attempt) ledger.Agent {
	agent := ledger.Agent{ID: n.Named, Kind: ledger.KindNamed, Visibility: ledger.Public, Ownership: ledger.SelfOwned,
		Preset: ledger.PresetPublicNamed, LineageParentID: n.ParentID, SpawnedBy: n.digest(), Template: n.Template,
		CreatedAt: s.now, UpdatedAt: s.now}
	made := s.transaction.newAgent(agent, "main")
	made.newTrigger(NewTriggerID(), "")
	made.attachAll(s)
	s.emit(record.AgentSpawned, ledger.Event{Ref: agent.ID, TurnID: a.TurnID, MessageID: a.MessageID},
		fields{"agent_id": agent.ID, "template": clip(n.Template)})
	if n.Message == "" {
		return agent
	}
	msg := made.own(ledger.Message{Key: "bootstrap", Kind: ledger.KindInternalFollowup, Surface: ledger.SurfaceSystem,
		Origin:     ledger.Origin{Kind: ledger.OriginSystem, Subsystem: rules.BootstrapSubsystem},
		SourceRefs: map[string]string{"creator_agent_id": n.ParentID},
		Body:       ledger.Body{Type: "text", Text: n.Message}})
	from := ledger.FromRuntime
	rules.As(&msg, s.message(a.MessageID))
	if msg.Authority == ledger.ExternalEvidence || msg.Authority == ledger.IntegrationSignal {
		from = ledger.FromOutside
	}
	made.admit(msg, from)
	return agent
}

// attachAll attaches what another agent has attached. In none of it the agent works yet.
func (s *step) attachAll(of *step) {
	for _, a := range of.state.Workspaces {
		s.state.Workspaces = append(s.state.Workspaces, ledger.Attachment{WorkspaceID: a.WorkspaceID, AttachedAt: s.now})
		s.emitWorkspace(record.WorkspaceAttached, a.WorkspaceID, fields{
			record.RecordWorkspace: read(s, ledger.View.Workspace, a.WorkspaceID), "by": "agent " + of.state.AgentID})
	}
}

// spawnChild makes a private child and the task that supervises it.
func (s *step) spawnChild(n Spawn, a ledger.Attempt) (ledger.Agent, ledger.Task) {
	parent := s.agentRow()
	t := ledger.Task{ID: n.taskID(), AgentID: n.ParentID, Kind: tasks.KindChild, Status: tasks.Running,
		CreatedAt: s.now, UpdatedAt: s.now, Purpose: n.label(),
		Result: ledger.TaskResult{Summary: "the child is at work"},
		Handle: ledger.TaskHandle{TakesInput: true, Runtime: s.m.opts.Owner,
			Child: &ledger.ChildHandle{AgentID: s.childID(n), Mode: n.Mode}}}
	t.Owner.TurnID, t.Owner.MessageID, t.Owner.WorkItemID = a.TurnID, a.MessageID, s.state.CurrentWork
	if n.Mode == ledger.ChildWorktree {
		t.Handle.Child.Worktree = &ledger.Worktree{Cleanup: ledger.WorktreeActive, ChangedFiles: []string{}}
	}
	if n.Check != "" {
		t.Handle.Child.Check = &ledger.ChildCheck{Command: n.Check, Paths: n.Paths}
	}
	child := ledger.Agent{ID: t.Handle.Child.AgentID, Kind: ledger.KindChild, Visibility: ledger.Private,
		Ownership: ledger.ParentSupervised, Preset: ledger.PresetPrivateChild, ParentID: n.ParentID,
		DelegatedFromTask: t.ID, SpawnedBy: n.digest(), Template: n.Template, Image: parent.Image, Model: parent.Model,
		ReasoningEffort: parent.ReasoningEffort, CreatedAt: s.now, UpdatedAt: s.now}
	s.emitChildBegun(t, a)
	s.insert(&t)
	made := s.transaction.newAgent(child, "child")
	msg := made.fromParent("delegation", n.Message)
	rules.As(&msg, s.message(a.MessageID))
	made.admit(msg, ledger.FromParent)
	return child, t
}

// fromParent is a message of the parent of a child.
func (s *step) fromParent(key, text string) ledger.Message {
	return s.own(ledger.Message{Key: key, Kind: ledger.KindInternalFollowup, Surface: ledger.SurfaceSystem,
		Origin: ledger.Origin{Kind: ledger.OriginSystem, Subsystem: rules.ParentSubsystem},
		Body:   ledger.Body{Type: "text", Text: text}})
}

// childID is an id for the child of a call that no agent has.
func (s *step) childID(n Spawn) string {
	for i := 0; ; i++ {
		id := state.ChildID(n.ParentID, derivedID("", n.ParentID, n.CallID, fmt.Sprint(i)))
		if _, taken := find(s, ledger.View.Agent, id); !taken || s.err != nil {
			return id
		}
	}
}

// newAgent begins the log and the queue of an agent. Its thread has a kind if another agent makes it.
func (t *transaction) newAgent(a ledger.Agent, threadKind string) *step {
	s := t.begin(ledger.AgentState{AgentID: a.ID, UpdatedAt: t.now})
	if _, taken := find(s, ledger.View.Agent, a.ID); taken {
		s.fail(refused(ledger.CodeExists, "agent_id", "choose another id; one that was removed is not used again",
			"there is an agent %s already", a.ID))
	}
	s.insert(&a, &s.state)
	s.emit(record.AgentCreated, ledger.Event{Status: "idle"}, fields{"kind": string(a.Kind), "template": clip(a.Template),
		"parent_agent_id": a.ParentID, "lineage_parent_agent_id": a.LineageParentID,
		"delegated_from_task_id": a.DelegatedFromTask})
	s.emit(record.ThreadStarted, ledger.Event{Status: "idle"}, fields{"kind": threadKind})
	return s
}

// emitChildBegun records at the parent that a child exists and works on a task.
func (s *step) emitChildBegun(t ledger.Task, a ledger.Attempt) {
	child := t.Child().AgentID
	for i, ev := range (turns.Scope{}).TaskBegun(t.ID, turns.TaskBegun{TaskKind: t.Kind, Objective: objective(t),
		Source: "SpawnAgent"}) {
		e := ledger.Event{TurnID: a.TurnID, MessageID: a.MessageID, Cause: createdEvent(t)}
		switch i {
		case 0:
			e.ID, e.Cause = createdEvent(t), s.cause
		case 1:
			ev.Payload = mustJSON(fields{"owner": "holon"})
		default:
			s.emitSubagent("subagent.spawned", t, e, fields{"child_thread_id": record.ThreadID(child), "role": "delegate",
				"isolation": fields{"workspace": t.Child().Mode}, "task_id": t.ID})
			ev.Payload = mustJSON(fields{"worker": fields{"kind": "subagent", "id": child}})
		}
		s.emitTask(ev, t, e)
	}
}

// emitSubagent records at the parent what its child does.
func (s *step) emitSubagent(class string, t ledger.Task, e ledger.Event, f fields) int64 {
	e.Ref, e.IDs[agentruntime.Subagent], e.IDs[agentruntime.Task] = t.ID, t.Child().AgentID, t.ID
	return s.emit(class, e, f)
}
