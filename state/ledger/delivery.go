package ledger

import (
	"encoding/json"
	"time"
)

// OperatorBinding is a way by which notifications reach the operator outside of this host, and, with Ingress, by which
// the operator's messages come back. No secret of it is in the ledger: what signs or authenticates deliveries, and the
// whole URL, are in the credentials file; of the token of its ingress there is a hash.
type OperatorBinding struct {
	ID               string          `json:"binding_id"`
	Transport        string          `json:"transport"` // webhook, command, desktop
	ActorID          string          `json:"operator_actor_id"`
	AgentID          string          `json:"target_agent_id"`
	RouteID          string          `json:"default_route_id"`
	CallbackURL      string          `json:"delivery_callback_url,omitempty"` // scheme and host; the rest may be secret
	Auth             DeliveryAuth    `json:"delivery_auth"`
	AllowPrivate     bool            `json:"allow_private_addresses,omitempty"`
	Ingress          bool            `json:"ingress,omitempty"`
	TokenHash        string          `json:"-"` // hex SHA-256 of the token of the ingress; "" without one
	Capabilities     Capabilities    `json:"capabilities"`
	Provider         string          `json:"provider,omitempty"`
	ProviderIdentity string          `json:"provider_identity_ref,omitempty"`
	Status           string          `json:"status"` // active, revoked
	CreatedAt        time.Time       `json:"created_at"`
	UpdatedAt        time.Time       `json:"updated_at"`
	LastSeenAt       *time.Time      `json:"last_seen_at,omitempty"` // when its newest message came
	Metadata         json.RawMessage `json:"metadata,omitempty"`
}

// DeliveryAuth says how deliveries to a binding are authenticated.
type DeliveryAuth struct {
	Kind  string `json:"kind"` // hmac, bearer; "" for what is on this host
	KeyID string `json:"key_id,omitempty"`
}

// Capabilities are what a transport can show.
type Capabilities struct {
	Text        bool `json:"text"`
	Markdown    bool `json:"markdown,omitempty"`
	Attachments bool `json:"attachments,omitempty"`
}

// Values of OperatorBinding.
const (
	TransportWebhook = "webhook"
	TransportCommand = "command" // only of the settings of this host, as is desktop
	TransportDesktop = "desktop"
	AuthHMAC         = "hmac"
	AuthBearer       = "bearer"
	BindingActive    = "active"
	BindingRevoked   = "revoked"
)

// Delivery is the delivery of a notification to a binding: an entry of the outbox while it is pending.
type Delivery struct {
	ID             string     `json:"delivery_intent_id"`
	EventID        string     `json:"output_event_id"`
	NotificationID string     `json:"notification_id"`
	AgentID        string     `json:"agent_id"`
	RouteID        string     `json:"route_id"`
	BindingID      string     `json:"binding_id"`
	TriggerKind    string     `json:"trigger_kind"` // operator_notification
	Status         string     `json:"status"`
	Attempts       int        `json:"attempts"`                  // that were begun
	NextAt         *time.Time `json:"next_attempt_at,omitempty"` // while it is pending
	TransportID    string     `json:"transport_delivery_id,omitempty"`
	Failure        string     `json:"failure_summary,omitempty"` // of the newest attempt that failed
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
}

// Values of Delivery.
const (
	OperatorNotification = "operator_notification"
	DeliveryPending      = "pending"
	DeliveryAccepted     = "accepted_by_transport"
	DeliveryFailed       = "failed_to_submit"
)

func (b *OperatorBinding) Row() Row {
	return Row{"operator_bindings", "operator_binding", 1, []Column{{"id", &b.ID}, {"agent_id", &b.AgentID},
		{"token_hash", &b.TokenHash}}}
}

func (d *Delivery) Row() Row {
	return Row{"deliveries", "delivery", 1, append(kept(&d.ID, &d.AgentID, d.CreatedAt),
		Column{"notification_id", d.NotificationID}, Column{"due_at", millisOrNil(d.NextAt)})}
}

// OperatorBinding returns a binding.
func (v View) OperatorBinding(id string) (b OperatorBinding, ok bool, err error) {
	return ifAny[OperatorBinding](v, id)
}

// OperatorBindings returns the bindings of an agent, by id.
func (v View) OperatorBindings(agentID string) ([]OperatorBinding, error) {
	return list[OperatorBinding](v, "operator bindings", agentID)
}

// Delivery returns a delivery.
func (v View) Delivery(id string) (Delivery, error) { return get[Delivery](v, id) }

// Deliveries returns the newest deliveries of an agent.
func (v View) Deliveries(agentID string, limit int) ([]Delivery, error) {
	return newest[Delivery](v, "deliveries", agentID, limit)
}

// DeliveriesOf returns the deliveries of a notification.
func (v View) DeliveriesOf(notificationID string) ([]Delivery, error) {
	return list[Delivery](v, "deliveries of notification", notificationID)
}

// DueDeliveries returns pending deliveries whose next attempt is due, the earliest first.
func (v View) DueDeliveries(now time.Time) ([]Delivery, error) {
	return list[Delivery](v, "due deliveries", millis(now))
}

// NextDelivery is when the next attempt of a delivery is due after a time.
func (v View) NextDelivery(after time.Time) (at time.Time, ok bool, err error) {
	due, err := values[int64](v, "next delivery", millis(after))
	if err != nil || len(due) == 0 {
		return time.Time{}, false, err
	}
	return time.UnixMilli(due[0]).UTC(), true, nil
}
