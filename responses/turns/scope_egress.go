package turns

// Classes of what a host lets out of a container, and what not. The host that
// judges writes them; the container's side never does.
const (
	EgressDecided = "holon.egress.decision"
	EgressEnded   = "holon.egress.ended"
	EgressOmitted = "holon.egress.omitted"
)

// Values of EgressDecision.Verdict.
const (
	VerdictAllowed = "allowed"
	VerdictDenied  = "denied"
)

// EgressDecision is the payload of holon.egress.decision: what was decided of one
// connection, before anything of it left the host. A connection that was allowed
// can be denied later, by its TLS.
type EgressDecision struct {
	EgressID string `json:"egress_id"` // of the connection; its events share it
	Verdict  string `json:"verdict"`   // allowed, denied
	Reason   string `json:"reason"`    // a code
	Scheme   string `json:"scheme"`    // https, http; empty when the request could not be read
	Host     string `json:"host"`      // as it was compared, or as it was sent when it is not a host
	Port     int    `json:"port"`      // 0 when there is none
	Address  string `json:"address,omitzero"`
	Detail   string `json:"detail,omitzero" max:"2048"` // for a person
}

// EgressEnd is the payload of holon.egress.ended, which follows a decision that
// allowed.
type EgressEnd struct {
	EgressID      string `json:"egress_id"`
	Host          string `json:"host"`
	Port          int    `json:"port"`
	Address       string `json:"address,omitzero"` // that was connected to
	BytesSent     int64  `json:"bytes_sent"`       // to the host
	BytesReceived int64  `json:"bytes_received"`
	DurationMS    int64  `json:"duration_ms"`
	Error         string `json:"error,omitzero" max:"2048"` // why it came to nothing
}

// EgressOmission is the payload of holon.egress.omitted: decisions that were made
// and of which there are no events, since there were too many.
type EgressOmission struct {
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
}
