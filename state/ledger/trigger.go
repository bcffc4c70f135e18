package ledger

import "time"

// Trigger is an external trigger capability. Its token is nowhere in the ledger.
type Trigger struct {
	ID              string     `json:"external_trigger_id"`
	AgentID         string     `json:"target_agent_id"`
	DeliveryMode    string     `json:"delivery_mode"`       // wake_hint
	Signature       string     `json:"signature,omitempty"` // scheme by which deliveries are signed; "": they are not
	Seen            []string   `json:"seen,omitempty"`      // keys of the newest signed deliveries, oldest first
	Status          string     `json:"status"`              // active, revoked
	TokenHash       string     `json:"-"`                   // hex SHA-256
	CreatedAt       time.Time  `json:"created_at"`
	RotatedAt       *time.Time `json:"rotated_at,omitempty"`
	RevokedAt       *time.Time `json:"revoked_at,omitempty"`
	LastDeliveredAt *time.Time `json:"last_delivered_at,omitempty"`
	DeliveryCount   int64      `json:"delivery_count"`
	Revealed        bool       `json:"revealed,omitempty"`    // its agent was shown the URL
	RevealedIn      string     `json:"revealed_in,omitempty"` // the newest attempt in whose turn that was
}

// Values of Trigger.
const (
	DeliverWakeHint = "wake_hint"
	TriggerActive   = "active"
	TriggerRevoked  = "revoked"
)

func (t *Trigger) Row() Row {
	return Row{"triggers", "trigger", 1, []Column{{"id", &t.ID}, {"agent_id", &t.AgentID}, {"token_hash", &t.TokenHash}}}
}

// Trigger returns a trigger.
func (v View) Trigger(id string) (Trigger, error) { return get[Trigger](v, id) }

// Triggers returns the triggers of an agent, by id.
func (v View) Triggers(agentID string) ([]Trigger, error) {
	return list[Trigger](v, "triggers", agentID)
}

// TriggerByHash finds a trigger by the hash of its token.
func (v View) TriggerByHash(hash string) (t Trigger, ok bool, err error) {
	return first[Trigger](v, "trigger by hash", hash)
}
