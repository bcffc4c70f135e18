package record

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Head is what every read model begins with.
type Head struct {
	Model           string `json:"model"`
	SchemaVersion   string `json:"schema_version"`
	AgentID         string `json:"agent_id"`
	RuntimeID       string `json:"runtime_id"`
	SessionID       string `json:"session_id"`
	ThreadID        string `json:"thread_id"`
	ThroughSequence int64  `json:"through_sequence"` // the last event that the model knows
	Degraded        bool   `json:"degraded"`         // events are missing: anything may be stale
	Unclassified    bool   `json:"unclassified"`     // it begins before events had classes: nothing is not none
	Missing         []gap  `json:"missing"`          // the first ranges
	MissingEvents   int64  `json:"missing_events"`   // of all ranges

	first int64 // the first event
}

// models are the read models by name.
var models = map[string]func(*Fold, Head) any{
	"session_snapshot":        func(f *Fold, h Head) any { return f.session(h) },
	"thread_read_model":       func(f *Fold, h Head) any { return f.threadRead(h) },
	"tool_inventory_snapshot": func(f *Fold, h Head) any { return toolInventory{h, f.inventory} },
	"queue_snapshot": func(f *Fold, h Head) any {
		return queueSnapshot{h, QueueID(h.AgentID), f.depth(), "priority_then_order", f.queued()}
	},
	"task_snapshot": func(f *Fold, h Head) any {
		blocked := f.tasks.list(func(t *Task) bool { return t.Status == "blocked" })
		return TaskSnapshot{h, f.counted().TasksByStatus, f.tasks.list(nil), f.edges.list(nil), blocked.Items}
	},
	"context_boundary_snapshot": func(f *Fold, h Head) any {
		warnings := f.incidents.list(func(i *incident) bool { return i.Level == "warning" })
		return contextBoundary{h, f.contexts.list(nil), f.compactions.list(nil), warnings.Items}
	},
	"artifact_checkpoint_summary": func(f *Fold, h Head) any { return ArtifactSummary{h, f.artifacts.list(nil), unknown} },
	"evidence_summary":            func(f *Fold, h Head) any { return f.evidenceSummary(h) },
	"permission_sandbox_summary": func(f *Fold, h Head) any {
		return permissionSummary{h, f.policy, f.actions.list(isOpen), f.decisions.list(nil), f.sandbox,
			f.violations.list(nil)}
	},
	"execution_environment_snapshot": func(f *Fold, h Head) any {
		active := f.processes.list(func(p *process) bool { return p.Status == "running" })
		return ExecutionEnvironment{Head: h, Environment: f.environment, WorkspaceID: f.workspace, Cwd: f.cwd,
			AdditionalRoots: unknown, Shell: or(f.reported.Shell), OS: or(f.reported.OS), Arch: or(f.reported.Arch),
			Sandbox: f.sandbox, ResourceLimits: f.resourceLimits(), Active: active.Items, Container: f.container}
	},
	"routing_limit_summary": func(f *Fold, h Head) any {
		return routingSummary{h, f.routing, f.usage, or(f.cost), f.budget, f.limits.list(nil)}
	},
	"subagent_job_summary": func(f *Fold, h Head) any { // there are no jobs
		return childSummary{h, f.children.list(nil), list[struct{}]{Items: []struct{}{}}}
	},
	"channel_summary": func(f *Fold, h Head) any { return ChannelSummary{h, f.channels.list(nil), notApplicable} },
}

// Names are the names of the read models, sorted.
func Names() []string { return slices.Sorted(maps.Keys(models)) }

// Model returns a read model as it is after the events that were applied. It changes nothing, and later events change
// nothing of it.
func (f *Fold) Model(name string) (any, bool) {
	build, ok := models[name]
	if !ok {
		return nil, false
	}
	head := f.head
	head.Model, head.Missing = name, slices.Clone(head.Missing)
	head.RuntimeID, head.SessionID, head.ThreadID = or(head.RuntimeID), or(head.SessionID), or(head.ThreadID)
	return build(f, head), true
}

// counts are of all turns and calls, not only of those that are kept.
type counts struct {
	Events        map[string]int64 `json:"events"` // by class; vendor classes are one
	TurnsByStatus map[string]int64 `json:"turns_by_status"`
	TasksByStatus map[string]int64 `json:"tasks_by_status"`
	Turns         int64            `json:"turns"`
	ToolCalls     int64            `json:"tool_calls"`
	FailedTools   int64            `json:"failed_tools"`
	ModelRequests int64            `json:"model_requests"`
}

func (f *Fold) counted() counts {
	tasks := maps.Clone(f.taskStatus)
	maps.DeleteFunc(tasks, func(_ string, n int64) bool { return n == 0 })
	return counts{maps.Clone(f.counts), maps.Clone(f.byStatus), tasks, f.turns.total, f.tools.total, f.failedTools,
		f.requests.total}
}

// SessionSnapshot is the shell of an agent.
type SessionSnapshot struct {
	Head
	Title          string          `json:"title"`
	WorkspaceID    string          `json:"workspace_id"`
	Kind           string          `json:"kind"`
	Status         string          `json:"status"` // active, or archived: the agent was removed
	Template       string          `json:"template,omitempty"`
	CreatedAt      string          `json:"created_at"`
	UpdatedAt      string          `json:"updated_at"`
	ActiveThreadID string          `json:"active_thread_id"`
	PinnedThreadID string          `json:"pinned_thread_id"`
	Threads        []threadSummary `json:"threads"`
	RecentTurns    list[Turn]      `json:"recent_turns"`
	HistoryCursor  int64           `json:"history_cursor"` // the events after it are not in this snapshot
	Counts         counts          `json:"counts"`
	Telemetry      string          `json:"telemetry"`
}

// threadSummary is a thread in a session.
type threadSummary struct {
	ThreadID string `json:"thread_id"`
	Thread
	Queued int64 `json:"queued"`
}

func (f *Fold) session(h Head) SessionSnapshot {
	return SessionSnapshot{Head: h, Title: unknown, WorkspaceID: f.workspace, Kind: or(f.kind),
		Status: cmp.Or(f.sessionStatus, "active"), Template: f.template,
		CreatedAt: or(f.created), UpdatedAt: or(f.updated), ActiveThreadID: h.ThreadID, PinnedThreadID: notApplicable,
		Threads:     []threadSummary{{h.ThreadID, f.threadNow(f.queued()), f.depth()}},
		RecentTurns: f.turns.list(nil), HistoryCursor: h.ThroughSequence, Counts: f.counted(), Telemetry: unknown}
}

// threadNow is the thread with what its turn and its queue say of it. While a turn that was accepted has not begun, and
// before one is made for a message that can be taken, it is queued; one whose next message waits for a setting is
// blocked.
func (f *Fold) threadNow(queued list[queueEntry]) Thread {
	t := f.thread
	switch next := queued.Items; {
	case t.begun:
		t.Status = "running"
	case t.stopped:
		t.Status = "blocked"
	case t.ActiveTurnID != "":
		t.Status = "queued"
	case len(next) > 0 && next[0].Blocked:
		t.Status = "blocked"
	case len(next) > 0:
		t.Status = "queued"
	}
	return t
}

func (f *Fold) depth() int64 { return int64(len(f.queue.order)) + f.queue.omitted }

// ThreadReadModel is what the agent does now and did lately.
type ThreadReadModel struct {
	Head
	Thread
	PendingRequests list[action]       `json:"pending_requests"`
	Incidents       list[incident]     `json:"incidents"`
	QueuedTurns     list[queueEntry]   `json:"queued_turns"`
	QueueDepth      int64              `json:"queue_depth"`
	Turns           list[Turn]         `json:"turns"`
	ModelRequests   list[modelRequest] `json:"model_requests"`
	ToolCalls       list[toolCall]     `json:"tool_calls"`
	Processes       list[process]      `json:"processes"`
	Outputs         list[output]       `json:"outputs"`
	Waits           list[wait]         `json:"waits"`
	Briefs          list[brief]        `json:"recent_briefs"`
	Continuation    *Continuation      `json:"last_continuation"`
	Compaction      *compaction        `json:"latest_compaction"`
	Routing         routing            `json:"routing"`
	RecordedUsage   Usage              `json:"recorded_usage"`
	Diagnostics     string             `json:"diagnostics"`
	Counts          counts             `json:"counts"`
}

func (f *Fold) threadRead(h Head) ThreadReadModel {
	queued := f.queued()
	m := ThreadReadModel{Head: h, Thread: f.threadNow(queued), PendingRequests: f.actions.list(isOpen),
		Incidents: f.incidents.list(nil), QueuedTurns: queued, QueueDepth: f.depth(),
		Turns: f.turns.list(nil), ModelRequests: f.requests.list(nil), ToolCalls: f.tools.list(nil),
		Processes: f.processes.list(nil), Outputs: f.outputs.list(nil), Waits: f.waits.list(nil),
		Briefs: f.briefs.list(nil), Continuation: f.continuation,
		Routing: f.routing, RecordedUsage: f.usage, Diagnostics: unknown, Counts: f.counted()}
	if n := len(f.compactions.order); n > 0 {
		last := *f.compactions.find(f.compactions.order[n-1])
		m.Compaction = &last
	}
	return m
}

func isOpen(a *action) bool { return a.Status == "open" }

// toolInventory is the surface of tools.
type toolInventory struct {
	Head
	inventory
}

// queueSnapshot is what waits for a turn.
type queueSnapshot struct {
	Head
	QueueID string           `json:"queue_id"`
	Depth   int64            `json:"depth"`
	Policy  string           `json:"policy"`
	Entries list[queueEntry] `json:"entries"`
}

// TaskSnapshot is the tasks with their graph.
type TaskSnapshot struct {
	Head
	ByStatus map[string]int64 `json:"by_status"`
	Tasks    list[Task]       `json:"tasks"`
	Graph    list[edge]       `json:"graph"`
	Blocked  []Task           `json:"blocked"`
}

// contextBoundary is what the model was given, and where it was made shorter.
type contextBoundary struct {
	Head
	Contexts    list[givenContext] `json:"contexts"`
	Compactions list[compaction]   `json:"compactions"`
	Warnings    []incident         `json:"warnings"`
}

// ArtifactSummary refers to deliverables.
type ArtifactSummary struct {
	Head
	Artifacts        list[artifact] `json:"artifacts"`
	ValidationIssues string         `json:"validation_issues"`
}

// evidenceSummary refers to what was exported.
type evidenceSummary struct {
	Head
	Evidence      list[evidence] `json:"evidence"`
	Verifications string         `json:"verification_outcomes"`
	KnownGaps     []gap          `json:"known_gaps"` // of the record
}

func (f *Fold) evidenceSummary(h Head) evidenceSummary {
	list := f.evidence.list(nil)
	for i, e := range list.Items {
		list.Items[i].Expired = e.Through > 0 && f.head.Degraded && f.head.first > max(1, e.From)
	}
	return evidenceSummary{h, list, unknown, h.Missing}
}

// permissionSummary is what was allowed and denied, and the boundary of execution.
type permissionSummary struct {
	Head
	policy
	Pending    list[action]    `json:"pending_approvals"`
	Decisions  list[decision]  `json:"decisions"`
	Sandbox    sandbox         `json:"sandbox"`
	Violations list[violation] `json:"violations"`
}

// ExecutionEnvironment is where commands run.
type ExecutionEnvironment struct {
	Head
	Environment     string    `json:"environment_ref"`
	WorkspaceID     string    `json:"workspace_id"`
	Cwd             string    `json:"cwd"`
	AdditionalRoots string    `json:"additional_roots"`
	Shell           string    `json:"shell"`
	OS              string    `json:"os"`
	Arch            string    `json:"arch"`
	Sandbox         sandbox   `json:"sandbox"`
	ResourceLimits  any       `json:"resource_limits"` // of the newest container: memory, cpu, pids; else unknown
	Active          []process `json:"active_processes"`

	Container *container `json:"container"` // the newest; null: none yet
}

// routingSummary is how the model was chosen, and which limits there are.
type routingSummary struct {
	Head
	routing
	RecordedUsage Usage           `json:"recorded_usage"`
	Cost          string          `json:"cost"`             // of the agent and its children, for a person
	Budget        json.RawMessage `json:"budget,omitempty"` // of the agent and its children, as the gateway counts
	Limits        list[limit]     `json:"limits"`
}

// childSummary is the children and jobs of the agent.
type childSummary struct {
	Head
	Subagents list[subagent] `json:"subagents"`
	Jobs      list[struct{}] `json:"jobs"`
}

// ChannelSummary is the remote peers of the agent.
type ChannelSummary struct {
	Head
	Channels list[channel] `json:"channels"`
	Resume   string        `json:"resume_cursors"`
}
