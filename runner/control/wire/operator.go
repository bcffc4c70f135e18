package wire

import (
	"encoding/json"

	"holon/state/ledger"
)

// Bind makes or replaces the binding of a transport by which the operator is notified.
type Bind struct {
	BindingID        string               `json:"binding_id"`
	Transport        string               `json:"transport,omitempty"`             // "": webhook
	ActorID          string               `json:"operator_actor_id,omitempty"`     // "": operator
	RouteID          string               `json:"default_route_id,omitempty"`      // "": the id of the binding
	CallbackURL      string               `json:"delivery_callback_url,omitempty"` // "": the one that it has
	Auth             BindAuth             `json:"delivery_auth,omitzero"`
	AllowPrivate     bool                 `json:"allow_private_addresses,omitempty"`
	Ingress          bool                 `json:"ingress,omitempty"` // the operator's messages come by it too
	Capabilities     *ledger.Capabilities `json:"capabilities,omitempty"`
	Provider         string               `json:"provider,omitempty"`
	ProviderIdentity string               `json:"provider_identity_ref,omitempty"`
	Metadata         json.RawMessage      `json:"metadata,omitempty"`
}

// BindAuth says how deliveries are authenticated. Without a secret, a binding keeps the one that it has.
type BindAuth struct {
	Kind          string `json:"kind,omitempty"` // hmac, bearer; "": hmac
	KeyID         string `json:"key_id,omitempty"`
	BearerToken   string `json:"bearer_token,omitempty"`
	SigningSecret string `json:"signing_secret,omitempty"` // whsec_…; one is made where there is none
}

// Bound answers Bind. The secrets that were made are shown this once.
type Bound struct {
	OK            bool                   `json:"ok"`
	Binding       ledger.OperatorBinding `json:"binding"`
	SigningSecret string                 `json:"signing_secret,omitempty"`
	IngressToken  string                 `json:"ingress_token,omitempty"`
}

// Ingress is a message of the operator that came by a transport.
type Ingress struct {
	Text             string          `json:"text"`
	ActorID          string          `json:"actor_id"`
	BindingID        string          `json:"binding_id"`
	ReplyRoute       string          `json:"reply_route_id,omitempty"` // of notifications of the turn that it begins
	Provider         string          `json:"provider,omitempty"`
	UpstreamProvider string          `json:"upstream_provider,omitempty"`
	MessageRef       string          `json:"provider_message_ref,omitempty"`
	CorrelationID    string          `json:"correlation_id,omitempty"`
	CausationID      string          `json:"causation_id,omitempty"`
	Metadata         json.RawMessage `json:"metadata,omitempty"`
}
