package record

import (
	"cmp"
	"encoding/json"
	"strings"

	"holon/responses/agentruntime"
	"holon/state/ledger"
)

// routing is the last decision about which model answers.
type routing struct {
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

// limit is a limit that was met or changed.
type limit struct {
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

func (f *Fold) applyRouting(e fact) {
	r := &f.routing
	switch e.Type {
	case "routing.candidates.resolved":
		r.CandidateCount, r.Candidates = nil, nil
		e.into(r)
	case "routing.decided", "routing.single_candidate", "routing.not_possible":
		count := r.CandidateCount
		r.CandidateCount, r.Provider, r.Model, r.Reason = nil, "", unknown, ""
		e.into(r)
		r.CandidateCount = cmp.Or(r.CandidateCount, count)
		r.State, r.TurnID = strings.TrimPrefix(e.Type, "routing."), e.turn()
	case "routing.fallback.applied":
		r.Fallbacks, r.LastFallback = r.Fallbacks+1, e.Payload
	case "limit.changed", "rate_limit.hit", "quota.low", "quota.blocked":
		f.applyBudget(e)
		var l limit
		e.into(&l)
		l.EventID, l.Class, l.TurnID, l.At = clip(e.EventID, maxID), e.Type, e.turn(), e.at()
		says := map[string]string{"rate_limit.hit": "hit", "quota.low": "low", "quota.blocked": "blocked"}
		l.Status = or(cmp.Or(l.Status, says[e.Type]))
		*f.limits.at(e.place()) = l
	}
}

func (f *Fold) applyBudget(e fact) {
	if now := e.raw("budget"); now != nil {
		var t ledger.TreeAccount
		f.budget, f.cost = now, unknown
		if json.Unmarshal(now, &t) == nil {
			f.cost = t.Money().String()
		}
	}
}

// channel is a remote peer of the agent.
type channel struct {
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
		*c = channel{ChannelID: id, Status: unknown, Transport: unknown, PermissionBridge: notApplicable}
	}
	c.At = e.at()
	switch e.Type {
	case "channel.connected", "channel.resumed":
		c.Status, c.Transport, c.PeerRole = "connected", or(e.text("transport")), e.text("peer_role")
	case "channel.disconnected":
		c.Status = "disconnected"
		if ack := e.number("last_ack_sequence"); e.fields["last_ack_sequence"] != nil {
			c.LastAck = &ack
		}
	case "channel.message":
		c.Messages++
	}
}

// container is what an agent works in.
type container struct {
	ContainerID string          `json:"container_id"`
	Status      string          `json:"status"` // created, started, ready, exited, lost, removed
	Engine      string          `json:"engine"`
	Image       string          `json:"image,omitempty"`
	ImageDigest string          `json:"image_digest,omitempty"`
	Network     string          `json:"network,omitempty"`
	Mounts      string          `json:"mounts,omitempty"`
	Limits      json.RawMessage `json:"limits,omitempty"`
	ExitCode    *int64          `json:"exit_code"` // null: it runs, or that is not known
	OOMKilled   *bool           `json:"oom_killed,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	At          string          `json:"at"`
}

func (f *Fold) resourceLimits() any {
	if f.container == nil || f.container.Limits == nil {
		return unknown
	}
	return f.container.Limits
}

// applyContainer takes what became of the container. Events of one that the agent did not get are left out.
func (f *Fold) applyContainer(e fact, phase string) {
	c := container{Engine: unknown}
	if phase != "created" {
		if f.container == nil || f.container.ContainerID != e.text("container_id") {
			return
		}
		c = *f.container
		c.Reason = ""
	}
	e.into(&c)
	c.Status, c.At = phase, e.at()
	f.container = &c
}
