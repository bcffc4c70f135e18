package agentruntime

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxPayload is the largest payload in bytes; what is larger is replaced by a preview and a reference.
const maxPayload = 8 << 10

// SchemaVersion is the version of the profile that this package describes.
const SchemaVersion = "holon-profile-1"

// Event is one immutable fact. Decoding keeps absent and empty ids alike, and drops fields that the standard
// does not know.
type Event struct {
	Type          string          `json:"type"`
	EventID       string          `json:"event_id"`
	Timestamp     string          `json:"timestamp"`
	SchemaVersion string          `json:"schema_version"`
	Sequence      int64           `json:"sequence"`
	IDs           IDs             `json:"-"` // next to the other keys
	Status        string          `json:"status,omitempty"`
	Phase         string          `json:"phase,omitempty"`
	StatusReason  string          `json:"status_reason,omitempty"`
	NativeStatus  string          `json:"native_status,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	Refs          json.RawMessage `json:"refs,omitempty"`
	Correlation   Correlation     `json:"correlation,omitzero"`
	Telemetry     json.RawMessage `json:"telemetry,omitempty"`

	fields  map[string]any    // of the payload, for the rules
	misfits map[string]misfit // fields that were not of their type, by name
}

// Correlation joins an event to its cause and its producer.
type Correlation struct {
	ResponseID    string `json:"response_id,omitempty"`
	CausationID   string `json:"causation_id,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	Producer      string `json:"producer,omitempty"`
	ProducerSeq   int64  `json:"producer_seq,omitempty"`
	ContainerID   string `json:"container_id,omitempty"`
	LogEpoch      string `json:"log_epoch,omitempty"`
}

// MarshalJSON encodes the event with the envelope first, then its ids, and what it says last.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event // without this method
	rest, err := json.Marshal(plain(e))
	if err != nil {
		return nil, err
	}
	ids, err := e.IDs.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if len(ids) == len("{}") {
		return rest, nil
	}
	ids[len(ids)-1] = ','
	return append(ids, rest[1:]...), nil
}

// thread is the stream that the event belongs to: its thread, or the session when no thread is named.
func (e *Event) thread() string {
	if e.IDs[Thread] != "" {
		return e.IDs[Thread]
	}
	return e.IDs[Session]
}

// misfit reports whether a field was not of its type, which is one violation.
func (e *Event) misfit(name string) bool { _, ok := e.misfits[name]; return ok }

// field returns what the payload holds at a path of keys with dots between, or nil.
func (e *Event) field(path string) any {
	if e.fields == nil {
		e.fields = map[string]any{}
		_ = json.Unmarshal(e.Payload, &e.fields) // V1 reports a payload that is not an object
	}
	var at any = e.fields
	for key := range strings.SplitSeq(path, ".") {
		object, _ := at.(map[string]any)
		at = object[key]
	}
	return at
}

func (e *Event) text(path string) string {
	s, _ := e.field(path).(string)
	return s
}

func (e *Event) number(path string) (float64, bool) {
	n, ok := e.field(path).(float64)
	return n, ok
}

// tokens are those of a usage.
type tokens struct{ in, out float64 }

func (t tokens) String() string { return fmt.Sprintf("%v in, %v out", t.in, t.out) }

func (e *Event) tokens() (t tokens) {
	t.in, _ = e.number("usage.input_tokens")
	t.out, _ = e.number("usage.output_tokens")
	return t
}

func (e *Event) list(path string) []any {
	l, _ := e.field(path).([]any)
	return l
}

// missing returns the first of the keys that the payload lacks, or for which it has an empty text.
func (e *Event) missing(keys ...string) string {
	for _, key := range keys {
		if value := e.field(key); value == nil || value == "" {
			return key
		}
	}
	return ""
}
