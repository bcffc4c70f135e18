package record

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"holon/responses/agentruntime"
)

// artifact refers to a deliverable.
type artifact struct {
	ArtifactID string `json:"artifact_id"`
	Op         string `json:"op"` // the last: created, updated, removed, exported
	Kind       string `json:"kind"`
	ReadRef    string `json:"read_ref,omitempty"`
	VersionID  string `json:"version_id,omitempty"`
	DiffRef    string `json:"diff_ref,omitempty"`
	PreviewRef string `json:"preview_ref,omitempty"`
	SizeBytes  int64  `json:"size_bytes,omitempty"`
	Digest     string `json:"digest,omitempty"`
	TurnID     string `json:"turn_id,omitempty"`
	At         string `json:"at"`
}

// evidence refers to a trace, a replay or a review.
type evidence struct {
	EvidenceID string          `json:"evidence_id"`
	Op         string          `json:"op"`
	PackRef    string          `json:"pack_ref,omitempty"`
	ReplayRef  string          `json:"replay_ref,omitempty"`
	ReviewRef  string          `json:"review_ref,omitempty"`
	TraceRef   string          `json:"trace_ref,omitempty"`
	Outcomes   json.RawMessage `json:"verification_outcomes,omitempty"`
	From       int64           `json:"from_sequence,omitempty"` // the events that it has
	Through    int64           `json:"through_sequence,omitempty"`
	Digest     string          `json:"events_digest,omitempty"`
	Expired    bool            `json:"expired,omitempty"` // the record has not all of them any more: pack_ref gives others
	At         string          `json:"at"`
}

// output is what happened to an output that is kept elsewhere.
type output struct {
	Op         string `json:"op"` // spilled, truncated, redacted, expired
	OutputRef  string `json:"output_ref,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
	ProcessID  string `json:"process_id,omitempty"`
	SizeBytes  int64  `json:"size_bytes,omitempty"`
	KeptBytes  int64  `json:"kept_bytes,omitempty"`
	Reason     string `json:"reason,omitempty"`
	TurnID     string `json:"turn_id,omitempty"`
	At         string `json:"at"`
}

// brief is a report of the agent to its operator.
type brief struct {
	BriefID    string `json:"brief_id"` // its row has the whole text
	Kind       string `json:"kind"`     // result, ack, failure
	Summary    string `json:"summary,omitempty"`
	Chars      int64  `json:"chars,omitempty"`
	TurnID     string `json:"turn_id,omitempty"`
	WorkItemID string `json:"work_item_id,omitempty"`
	At         string `json:"at"`
}

func (f *Fold) applyReference(e fact) {
	switch e.Type {
	case "artifact.changed":
		if id := e.id(agentruntime.Artifact); id != "" {
			a := artifact{Op: unknown, Kind: unknown}
			e.into(&a)
			a.ArtifactID, a.TurnID, a.At = id, e.turn(), e.at()
			*f.artifacts.at(id) = a
		}
	case "evidence.changed":
		if id := e.id(agentruntime.Evidence); id != "" {
			x := evidence{Op: unknown}
			e.into(&x)
			x.EvidenceID, x.At = id, e.at()
			*f.evidence.at(id) = x
		}
	default:
		var o output
		e.into(&o)
		o.Op, o.OutputRef = strings.TrimPrefix(e.Type, "output."), cmp.Or(e.id(agentruntime.OutputRef), o.OutputRef)
		o.ToolCallID, o.ProcessID = e.id(agentruntime.ToolCall), e.id(agentruntime.Process)
		o.TurnID, o.At = cmp.Or(e.turn(), o.TurnID), e.at()
		*f.outputs.at(e.place()) = o
	}
	if e.Type == OutputExpired {
		f.expireOutputs(e)
	}
}

// expireOutputs says of the calls of a turn whose directory is gone that their files went with it.
func (f *Fold) expireOutputs(e fact) {
	turn := e.text("turn_id")
	for _, c := range f.tools.byKey {
		files := c.OutputRef != "" || c.InputRef != "" && c.Host != "client" // a client's input is in the conversation
		if c.TurnID == turn && files && turn != "" {
			c.OutputExpiredAt = cmp.Or(e.text("expires_at"), e.at())
		}
	}
}

// place is the key of something that has no id but the place of its event.
func (e fact) place() string { return strconv.FormatInt(e.Sequence, 10) }

// decision is one of the policy about a call, a process or an action.
type decision struct {
	EventID    string `json:"event_id"`
	Decision   string `json:"decision"`
	Source     string `json:"decision_source"`
	Reason     string `json:"decision_reason,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
	ActionID   string `json:"action_id,omitempty"`
	TurnID     string `json:"turn_id,omitempty"`
	At         string `json:"at"`
}

// violation is an attempt to leave the sandbox.
type violation struct {
	EventID    string `json:"event_id"`
	Axis       string `json:"axis"`
	Outcome    string `json:"outcome"`
	Ref        string `json:"violation_ref,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
	TurnID     string `json:"turn_id,omitempty"`
	At         string `json:"at"`
}

// policy is the mode of permission, as far as decisions tell it.
type policy struct {
	Mode      string          `json:"mode"`
	Rules     json.RawMessage `json:"rules,omitempty"`
	ChangedAt string          `json:"changed_at,omitempty"`
}

// sandbox is the boundary that was applied last.
type sandbox struct {
	Mode        string          `json:"mode"`
	Profile     json.RawMessage `json:"sandbox_profile,omitempty"`
	Enforcement json.RawMessage `json:"enforcement,omitempty"`
	At          string          `json:"at,omitempty"`
}

func (f *Fold) applyPolicy(e fact) {
	id, call := clip(e.EventID, maxID), e.id(agentruntime.ToolCall)
	switch e.Type {
	case "permission.evaluated", "permission.resolved":
		d := decision{Decision: unknown, Source: unknown}
		e.into(&d)
		d.EventID, d.ToolCallID, d.ActionID, d.TurnID, d.At = id, call, e.id(agentruntime.Action), e.turn(), e.at()
		*f.decisions.at(e.place()) = d
		if t := f.turns.find(d.TurnID); t != nil && d.Decision == "deny" {
			t.Denials++
		}
		if c := f.tools.find(toolKey(d.TurnID, call)); c != nil {
			c.Decision = d.Decision
		}
	case "policy.changed":
		if e.text("scope") == "session" { // of the agent, which has a model of its own and no permissions
			f.routing.Override, f.routing.ReasoningEffort = e.text("model"), e.text("reasoning_effort")
			return
		}
		f.policy = policy{Mode: or(e.text("permission_mode")), Rules: e.raw("rules"), ChangedAt: e.at()}
	case "sandbox.applied":
		f.sandbox = sandbox{or(e.in("sandbox_profile").text("mode")), e.raw("sandbox_profile"), e.raw("enforcement"), e.at()}
	case "sandbox.violation":
		v := violation{Axis: unknown, Outcome: unknown}
		e.into(&v)
		v.EventID, v.ToolCallID, v.TurnID, v.At = id, call, e.turn(), e.at()
		*f.violations.at(e.place()) = v
	}
}
