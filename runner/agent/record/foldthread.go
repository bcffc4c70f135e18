package record

import (
	"cmp"
	"encoding/json"
	"strings"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/state/ledger"
)

// Thread is the state of the agent's one thread.
type Thread struct {
	Status         string `json:"status"`
	Phase          string `json:"phase,omitempty"` // accepted, running, cancelling; of the active turn
	ActiveTurnID   string `json:"active_turn_id,omitempty"`
	LastTurnID     string `json:"last_turn_id,omitempty"` // that ended
	LastOutcome    string `json:"last_outcome"`
	Outcome        string `json:"outcome,omitempty"` // that the last closure decided
	WaitingReason  string `json:"waiting_reason,omitempty"`
	RuntimePosture string `json:"runtime_posture,omitempty"`

	WorkSignal json.RawMessage `json:"work_signal,omitempty"`      // with which work it goes on by itself
	Evidence   json.RawMessage `json:"outcome_evidence,omitempty"` // why that outcome was decided

	stopped bool // and not started since
	begun   bool // the active turn
}

// Continuation is what the newest message that was taken means for the agent.
type Continuation struct {
	Class        string          `json:"class"`
	TriggerKind  string          `json:"trigger_kind"`
	ModelReentry *bool           `json:"model_reentry"`
	PriorOutcome string          `json:"prior_closure_outcome,omitempty"` // before it was taken
	PriorWaiting string          `json:"prior_waiting_reason,omitempty"`
	MatchedWait  *bool           `json:"matched_waiting_reason"`
	Evidence     json.RawMessage `json:"evidence,omitempty"`
	MessageID    string          `json:"message_id,omitempty"`
	DecidedAt    string          `json:"decided_at"`
}

// incident is a warning or an error of the runtime.
type incident struct {
	EventID string `json:"event_id"`
	Level   string `json:"level"` // warning, error
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
	TurnID  string `json:"turn_id,omitempty"`
	At      string `json:"at"`
}

// Turn is one attempt at a message.
type Turn struct {
	TurnID          string `json:"turn_id"`
	Status          string `json:"status"`
	AttemptID       string `json:"attempt_id,omitempty"`
	MessageID       string `json:"message_id,omitempty"`
	TurnIndex       int64  `json:"turn_index,omitempty"`
	Source          string `json:"source,omitempty"`
	Model           string `json:"model,omitempty"` // that answered last; until its end the agent's own
	ResponseID      string `json:"response_id,omitempty"`
	SubmittedAt     string `json:"submitted_at,omitempty"`
	StartedAt       string `json:"started_at,omitempty"`
	CompletedAt     string `json:"completed_at,omitempty"`
	DurationMS      int64  `json:"duration_ms,omitempty"`
	ModelRequests   int64  `json:"model_requests"`
	FailedRequests  int64  `json:"failed_requests"`
	ToolCalls       int64  `json:"tool_calls"`
	FailedTools     int64  `json:"failed_tools"`
	Denials         int64  `json:"denials"`
	TerminalKind    string `json:"terminal_kind,omitempty"`
	FailureCategory string `json:"failure_category,omitempty"`
	Message         string `json:"message,omitempty"`
	Retryable       *bool  `json:"retryable,omitempty"`
	Usage           *Usage `json:"usage,omitempty"`
	Steps           []step `json:"steps"` // the newest
	StepCount       int64  `json:"step_count"`
}

// step is an ordered part of a turn.
type step struct {
	StepID string `json:"step_id"`
	Kind   string `json:"kind"` // the family of the event that named it first
}

func (f *Fold) applyThread(e fact) {
	switch e.Type {
	case "session.created":
		f.kind, f.template, f.workspace = e.text("kind"), e.text("template"), ledger.HomeWorkspace
	case "session.updated":
		f.sessionStatus = cmp.Or(e.Status, f.sessionStatus)
	case "thread.started":
		f.thread.Status = cmp.Or(e.Status, "idle")
	case "thread.updated":
		if e.Status != "" { // else another thing of the agent changed
			f.thread.Status = e.status()
		}
		if outcome := e.text("outcome"); outcome != "" { // else no closure was decided
			f.thread.Outcome, f.thread.WaitingReason = outcome, e.text("waiting_reason")
			f.thread.RuntimePosture = e.text("runtime_posture")
			f.thread.WorkSignal, f.thread.Evidence = e.raw("work_signal"), e.raw("evidence")
		}
		if now := e.text("status"); now != "" { // of the agent, which its status and closures don't tell while a turn runs
			f.thread.stopped = now == "stopped" || now == "archived"
		}
	case "run.status":
		f.applyRunStatus(e)
	case "runtime.warning", "runtime.error":
		*f.incidents.at(e.place()) = incident{clip(e.EventID, maxID), strings.TrimPrefix(e.Type, "runtime."),
			or(e.text("code")), cmp.Or(e.text("summary"), e.text("message")), e.turn(), e.at()}
	}
	if _, known := agentruntime.Statuses[f.thread.Status]; !known {
		f.thread.Status = unknown
	}
}

func (f *Fold) applyRunStatus(e fact) {
	var begun turns.Started
	if e.into(&begun); begun.Environment != nil {
		f.reported = *begun.Environment
	}
	f.cwd = cmp.Or(e.text("work_dir"), f.cwd)
	if t := f.turns.find(e.turn()); t != nil && e.Status == "cancelling" && !ended(t.Status) {
		t.Status = e.Status
		if f.thread.ActiveTurnID == t.TurnID {
			f.thread.Phase = e.Status
		}
	}
}

// applyHost takes what the standard has no class for.
func (f *Fold) applyHost(e fact) {
	family, kind, _ := strings.Cut(strings.TrimPrefix(e.Type, "holon."), ".")
	switch family {
	case "continuation":
		c := Continuation{Class: unknown, TriggerKind: unknown}
		e.into(&c)
		c.MessageID, c.DecidedAt = e.ref("message_id"), e.at()
		f.continuation = &c
	case "brief":
		b := brief{Kind: unknown}
		e.into(&b)
		b.BriefID, b.TurnID, b.At = or(e.ref("record_id")), e.turn(), e.at()
		*f.briefs.at(e.place()) = b
	case "wait":
		f.applyWait(e, kind)
	case "container":
		f.applyContainer(e, kind)
	case "workspace":
		f.applyWorkspace(e, kind)
	case "working_directory":
		f.cwd = cmp.Or(e.text("work_dir"), f.cwd)
	}
	if t := f.tasks.find(e.in(RecordWork).text("id")); t != nil { // which changed and has no event of a task
		t.touch(e)
	}
}

// applyWorkspace takes where the agent works.
func (f *Fold) applyWorkspace(e fact, kind string) {
	switch kind {
	case "used":
		f.workspace = cmp.Or(e.in(RecordWorkspace).text("workspace_id"), unknown)
	case "exited":
		f.workspace = ledger.HomeWorkspace
	}
}

func ended(status string) bool {
	switch status {
	case "completed", "failed", "cancelled", "timed_out", "lost":
		return true
	}
	return false
}

func (f *Fold) applyTurn(e fact) {
	id := e.turn()
	if id == "" {
		return
	}
	t := f.turn(id)
	if ended(t.Status) {
		return // a turn has one end
	}
	switch e.Type {
	case "turn.submitted":
		e.into(t)
		t.Status, t.SubmittedAt = e.status(), e.at()
		f.thread.ActiveTurnID, f.thread.Phase, f.thread.begun = id, "accepted", false
	case "turn.started":
		t.StartedAt, t.TurnIndex = e.at(), cmp.Or(t.TurnIndex, e.number("turn_index"))
		if t.Status != "cancelling" { // it was to end before it began
			t.Status = "running"
		}
		f.thread.ActiveTurnID, f.thread.Phase, f.thread.begun = id, t.Status, true
		if environment := e.text("environment"); environment != "" {
			f.environment = environment
		}
	case "turn.completed", "turn.failed":
		f.artifacts.leaveOut(e.number("artifacts_omitted"))
		f.endTurn(t, e)
	}
}

// turn returns the turn of an id. It is unknown in what state it is until an event of it says so.
func (f *Fold) turn(id string) *Turn {
	t := f.turns.at(id)
	if t.TurnID == "" {
		*t = Turn{TurnID: id, Status: unknown, Steps: []step{}}
	}
	return t
}

// turnOf returns the turn that something belongs to, nil when it is not kept. Where the record lacks events, its
// beginning may be one of them.
func (f *Fold) turnOf(id string) *Turn {
	if t := f.turns.find(id); t != nil || id == "" || !f.head.Degraded {
		return t
	}
	return f.turn(id)
}

func (f *Fold) endTurn(t *Turn, e fact) {
	t.Status = strings.TrimPrefix(e.Type, "turn.")
	if e.Type == "turn.failed" && ended(e.Status) && e.Status != "completed" {
		t.Status = e.Status
	}
	status, calls := t.Status, t.ToolCalls
	e.into(t)
	t.Status, t.ToolCalls = status, calls         // those that began
	t.CompletedAt = cmp.Or(t.CompletedAt, e.at()) // it may be recorded later
	if t.TerminalKind = e.text("kind"); t.Usage != nil {
		t.Usage.TotalTokens = t.Usage.total()
	}
	f.byStatus[t.Status]++
	f.thread.LastTurnID, f.thread.LastOutcome = t.TurnID, t.Status
	if f.thread.ActiveTurnID == t.TurnID {
		f.thread.ActiveTurnID, f.thread.Phase, f.thread.begun = "", "", false
		if f.thread.Status == "running" {
			f.thread.Status = "idle"
		}
	}
}

// step notes the step of a turn that an event names first.
func (f *Fold) step(e fact) {
	id := e.id(agentruntime.Step)
	t := f.turns.find(e.turn())
	if id == "" || t == nil {
		return
	}
	for _, s := range t.Steps {
		if s.StepID == id {
			return
		}
	}
	if t.StepCount++; len(t.Steps) >= maxSteps {
		t.Steps = t.Steps[1:]
	}
	kind, _, _ := strings.Cut(e.Type, ".")
	t.Steps = append(t.Steps[:len(t.Steps):len(t.Steps)], step{id, clip(kind, maxID)}) // a model may hold the old ones
}
