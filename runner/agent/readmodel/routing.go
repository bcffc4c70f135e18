package readmodel

import (
	"cmp"
	"encoding/json"
	"strings"

	"holon/responses/agentruntime"
)

// Routing is the last decision about which model answers.
type Routing struct {
	Profile        string          `json:"task_profile"`
	CandidateCount *int64          `json:"candidate_count"` // null: unknown
	Candidates     json.RawMessage `json:"candidates,omitempty"`
	State          string          `json:"state,omitempty"` // decided, single_candidate, not_possible
	Provider       string          `json:"selected_provider,omitempty"`
	Model          string          `json:"selected_model"`
	Reason         string          `json:"decision_reason,omitempty"`
	Fallbacks      int64           `json:"fallbacks"`
	LastFallback   json.RawMessage `json:"last_fallback,omitempty"`
	TurnID         string          `json:"turn_id,omitempty"`
	// the model that the operator set for the agent; "": that of the runtime
	Override        string `json:"model_override,omitempty"`
	ReasoningEffort string `json:"model_override_reasoning_effort,omitempty"`
}

// Limit is a limit that was met or changed.
type Limit struct {
	EventID string `json:"event_id"`
	Class   string `json:"class"` // limit.changed, rate_limit.hit, quota.low, quota.blocked
	Status  string `json:"limit_status"`
	Kind    string `json:"limit_kind,omitempty"`
	By      string `json:"by,omitempty"`
	Scope   string `json:"scope,omitempty"` // what it holds for: provider/model
	ResetAt string `json:"reset_at,omitempty"`
	// how long the provider says to wait; 0: it does not say
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`

	TurnID string `json:"turn_id,omitempty"`
	At     string `json:"at"`
}

func (f *Fold) applyProfile(e fact) {
	if e.Type == "task.profile.resolved" {
		f.routing.Profile = or(e.text("kind"))
	}
}

func (f *Fold) applyRouting(e fact) {
	r := &f.routing
	switch e.Type {
	case "routing.candidates.resolved":
		r.CandidateCount, r.Candidates = count(e), e.raw("candidates")
	case "routing.decided", "routing.single_candidate", "routing.not_possible":
		r.State, r.TurnID = strings.TrimPrefix(e.Type, "routing."), e.id(agentruntime.Turn)
		r.Provider, r.Model, r.Reason = e.text("selected_provider"), or(e.text("selected_model")),
			e.text("decision_reason")
		if n := count(e); n != nil {
			r.CandidateCount = n
		}
	case "routing.fallback.applied":
		r.Fallbacks++
		r.LastFallback = e.Payload
		if len(e.Payload) > 4*maxText || !json.Valid(e.Payload) {
			r.LastFallback = nil
		}
	case "limit.changed", "rate_limit.hit", "quota.low", "quota.blocked":
		*f.limits.at(f.now(e)) = Limit{EventID: clip(e.EventID, maxID), Class: e.Type, Status: limitStatus(e),
			Kind: e.text("limit_kind"), By: e.text("by"), Scope: e.text("scope"), ResetAt: e.text("reset_at"),
			RetryAfterMS: e.number("retry_after_ms"), TurnID: e.id(agentruntime.Turn), At: clip(e.Timestamp, maxID)}
	}
}

// limitStatus is the status of a limit, which its class says where nothing else does.
func limitStatus(e fact) string {
	says := map[string]string{"rate_limit.hit": "hit", "quota.low": "low", "quota.blocked": "blocked"}
	return or(cmp.Or(e.text("limit_status"), says[e.Type]))
}

func count(e fact) *int64 {
	if _, ok := e.fields["candidate_count"].(float64); !ok {
		return nil
	}
	n := e.number("candidate_count")
	return &n
}

// Subagent is a child of the agent.
type Subagent struct {
	SubagentID    string `json:"subagent_id"`
	Status        string `json:"status"`
	ChildThreadID string `json:"child_thread_id"`
	Role          string `json:"role,omitempty"`
	TaskID        string `json:"task_id,omitempty"`
	Message       string `json:"message,omitempty"`
	Recoverable   string `json:"recoverable"`
	At            string `json:"at"`
}

// Job is a batch of items.
type Job struct {
	JobID     string `json:"job_id"`
	Status    string `json:"status"`
	Pending   int64  `json:"pending"`
	Running   int64  `json:"running"`
	Completed int64  `json:"completed"`
	Failed    int64  `json:"failed"`
	At        string `json:"at"`
}

func (f *Fold) applyChild(e fact) {
	at := clip(e.Timestamp, maxID)
	if id := e.id(agentruntime.Subagent); id != "" && strings.HasPrefix(e.Type, "subagent.") {
		s := f.subagents.at(id)
		if s.SubagentID == "" {
			*s = Subagent{SubagentID: id, Status: Unknown, ChildThreadID: Unknown, Recoverable: Unknown}
		}
		s.At = at
		switch e.Type {
		case "subagent.spawned":
			s.Status, s.ChildThreadID = "running", or(e.text("child_thread_id"))
			s.Role, s.TaskID = e.text("role"), e.text("task_id")
		case "subagent.status":
			s.Status = e.status()
		case "subagent.completed", "subagent.failed", "subagent.closed":
			s.Status, s.Message = strings.TrimPrefix(e.Type, "subagent."), e.text("message")
		}
	}
	if id := e.id(agentruntime.Job); id != "" && strings.HasPrefix(e.Type, "job.") {
		j := f.jobs.at(id)
		if j.JobID == "" {
			j.Status = Unknown
		}
		j.JobID, j.At = id, at
		f.advanceJob(j, e)
	}
}

func (f *Fold) advanceJob(j *Job, e fact) {
	switch e.Type {
	case "job.created":
		j.Status, j.Pending = "queued", e.number("item_count")
	case "job.started":
		j.Status = "running"
	case "job.item.started":
		j.Pending, j.Running = max(0, j.Pending-1), j.Running+1
	case "job.item.completed":
		j.Running, j.Completed = max(0, j.Running-1), j.Completed+1
	case "job.item.failed":
		j.Running, j.Failed = max(0, j.Running-1), j.Failed+1
	case "job.completed", "job.failed", "job.cancelled":
		j.Status = strings.TrimPrefix(e.Type, "job.")
	}
}

// Channel is a remote peer of the agent.
type Channel struct {
	ChannelID        string `json:"channel_id"`
	Status           string `json:"status"` // connected, disconnected
	Transport        string `json:"transport"`
	PeerRole         string `json:"peer_role,omitempty"`
	Messages         int64  `json:"messages"`
	LastAck          *int64 `json:"last_ack_sequence"` // null: unknown
	PermissionBridge string `json:"permission_bridge"`
	At               string `json:"at"`
}

func (f *Fold) applyChannel(e fact) {
	id := e.id(agentruntime.Channel)
	if id == "" {
		return
	}
	c := f.channels.at(id)
	if c.ChannelID == "" {
		*c = Channel{ChannelID: id, Status: Unknown, Transport: Unknown, PermissionBridge: NotApplicable}
	}
	c.At = clip(e.Timestamp, maxID)
	switch e.Type {
	case "channel.connected", "channel.resumed":
		c.Status = "connected"
		c.Transport, c.PeerRole = or(e.text("transport")), e.text("peer_role")
	case "channel.disconnected":
		c.Status = "disconnected"
		if _, ok := e.fields["last_ack_sequence"].(float64); ok {
			ack := e.number("last_ack_sequence")
			c.LastAck = &ack
		}
	case "channel.message":
		c.Messages++
	case "channel.permission_forwarded":
		c.PermissionBridge = "pending"
	case "channel.permission_returned":
		c.PermissionBridge = "returned"
	}
}
