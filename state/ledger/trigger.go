package ledger

import "time"

// Trigger is an external trigger capability. Its token is nowhere in the ledger.
type Trigger struct {
	ID              string     `json:"external_trigger_id"`
	AgentID         string     `json:"target_agent_id"`
	DeliveryMode    string     `json:"delivery_mode"` // wake_hint
	Status          string     `json:"status"`        // active, revoked
	TokenHash       string     `json:"-"`             // hex SHA-256
	CreatedAt       time.Time  `json:"created_at"`
	RotatedAt       *time.Time `json:"rotated_at,omitempty"`
	RevokedAt       *time.Time `json:"revoked_at,omitempty"`
	LastDeliveredAt *time.Time `json:"last_delivered_at,omitempty"`
	DeliveryCount   int64      `json:"delivery_count"`
	Told            bool       `json:"told,omitempty"`    // to its agent
	ToldIn          string     `json:"told_in,omitempty"` // the newest attempt whose turn it was told in
}

// Values of Trigger.
const (
	DeliverWakeHint = "wake_hint"
	TriggerActive   = "active"
	TriggerRevoked  = "revoked"
)

// TriggerView reads external triggers.
type TriggerView interface {
	Trigger(id string) (Trigger, error)
	Triggers(agentID string) ([]Trigger, error)
	// TriggerByHash finds a trigger by the hash of its token.
	TriggerByHash(hash string) (t Trigger, ok bool, err error)
}

// TriggerTx writes external triggers.
type TriggerTx interface {
	InsertTrigger(t Trigger) error
	UpdateTrigger(t Trigger) error
}
