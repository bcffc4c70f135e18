package ledger

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"holon/responses"
)

// The enumerations of a message's envelope (runtime specification, "Message
// Envelope"). Which of them go together is decided by runner/agent/rules.
type (
	MessageKind      string
	OriginKind       string
	Trust            string
	Authority        string
	Surface          string
	AdmissionContext string
	Priority         string
	TriggerKind      string
)

const (
	KindOperatorPrompt   MessageKind = "operator_prompt"
	KindChannelEvent     MessageKind = "channel_event"
	KindWebhookEvent     MessageKind = "webhook_event"
	KindCallbackEvent    MessageKind = "callback_event"
	KindTimerTick        MessageKind = "timer_tick"
	KindSystemTick       MessageKind = "system_tick"
	KindTaskResult       MessageKind = "task_result"
	KindTaskStatus       MessageKind = "task_status"
	KindControl          MessageKind = "control"
	KindBriefAck         MessageKind = "brief_ack"
	KindBriefResult      MessageKind = "brief_result"
	KindInternalFollowup MessageKind = "internal_followup"

	OriginOperator OriginKind = "operator"
	OriginChannel  OriginKind = "channel"
	OriginWebhook  OriginKind = "webhook"
	OriginCallback OriginKind = "callback"
	OriginTimer    OriginKind = "timer"
	OriginSystem   OriginKind = "system"
	OriginTask     OriginKind = "task"

	TrustedOperator    Trust = "trusted_operator"
	TrustedSystem      Trust = "trusted_system"
	TrustedIntegration Trust = "trusted_integration"
	UntrustedExternal  Trust = "untrusted_external"

	OperatorInstruction Authority = "operator_instruction"
	RuntimeInstruction  Authority = "runtime_instruction"
	IntegrationSignal   Authority = "integration_signal"
	ExternalEvidence    Authority = "external_evidence"

	SurfaceCLIPrompt     Surface = "cli_prompt"
	SurfaceRunOnce       Surface = "run_once"
	SurfacePublicEnqueue Surface = "http_public_enqueue"
	SurfaceWebhook       Surface = "http_webhook"
	SurfaceCallbackWake  Surface = "http_callback_wake"
	SurfaceControlPrompt Surface = "http_control_prompt"
	SurfaceOpenResponses Surface = "http_open_responses"
	SurfaceTimer         Surface = "timer_scheduler"
	SurfaceSystem        Surface = "runtime_system"
	SurfaceTaskRejoin    Surface = "task_rejoin"
	SurfaceRemote        Surface = "remote_operator_transport"

	PublicUnauthenticated AdmissionContext = "public_unauthenticated"
	ControlAuthenticated  AdmissionContext = "control_authenticated"
	TriggerCapability     AdmissionContext = "external_trigger_capability"
	LocalProcess          AdmissionContext = "local_process"
	RuntimeOwned          AdmissionContext = "runtime_owned"
	OperatorTransport     AdmissionContext = "operator_transport_authenticated"

	Interject  Priority = "interject"
	Next       Priority = "next"
	Normal     Priority = "normal"
	Background Priority = "background"

	TriggerOperatorInput    TriggerKind = "operator_input"
	TriggerTaskResult       TriggerKind = "task_result"
	TriggerExternalEvent    TriggerKind = "external_event"
	TriggerTimerFire        TriggerKind = "timer_fire"
	TriggerInternalFollowup TriggerKind = "internal_followup"
	TriggerSystemTick       TriggerKind = "system_tick"
)

// Band orders priorities: 0 is taken first. An unknown one comes last.
func (p Priority) Band() int {
	switch p {
	case Interject:
		return 0
	case Next:
		return 1
	case Normal:
		return 2
	}
	return 3
}

// Sender is the class of a message's sender. The host decides it, and it orders
// the queue before Priority does.
type Sender string

const (
	FromOperator Sender = "operator"
	FromParent   Sender = "parent"  // the parent of a private child, which has no operator
	FromRuntime  Sender = "runtime" // timers, results of the operator's tasks, wakes by controllers of the agent
	FromTask     Sender = "task"    // results of tasks that the agent started
	FromOutside  Sender = "outside" // webhooks, channels, external triggers
	FromSelf     Sender = "self"    // its own notes, the end of its rest, results of its tasks while it makes no progress
)

// rank orders senders: 0 is taken first. An unknown one comes last.
func (s Sender) rank() int {
	switch s {
	case FromOperator, FromParent:
		return 0
	case FromRuntime, FromTask:
		return 1
	case FromOutside:
		return 2
	}
	return 3
}

// Origin says where a message came from; Kind says which other fields are set.
type Origin struct {
	Kind         OriginKind `json:"kind"`
	ActorID      string     `json:"actor_id,omitempty"`
	ChannelID    string     `json:"channel_id,omitempty"`
	SenderID     string     `json:"sender_id,omitempty"`
	Source       string     `json:"source,omitempty"`
	EventType    string     `json:"event_type,omitempty"`
	DescriptorID string     `json:"descriptor_id,omitempty"`
	TimerID      string     `json:"timer_id,omitempty"`
	Subsystem    string     `json:"subsystem,omitempty"`
	TaskID       string     `json:"task_id,omitempty"`
}

// Body is what a message says: Text for type text, Value for json.
type Body struct {
	Type        string          `json:"type"` // text, json, brief
	Text        string          `json:"text,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	Title       string          `json:"title,omitempty"`
	Attachments []BriefFile     `json:"attachments,omitempty"`
}

// Message is the envelope of everything that may move an agent. It never
// changes; what becomes of it is in its Entry.
type Message struct {
	ID               string            `json:"id"`
	AgentID          string            `json:"agent_id"`
	Number           int64             `json:"-"` // AgentState.Admitted when it came
	Key              string            `json:"-"` // idempotency key, unique within the agent; "": none
	CreatedAt        time.Time         `json:"created_at"`
	AdmittedSeq      int64             `json:"admitted_seq,omitempty"` // of the event that it came with
	Kind             MessageKind       `json:"kind"`
	Origin           Origin            `json:"origin"`
	Trust            Trust             `json:"trust"`
	Authority        Authority         `json:"authority_class"`
	Priority         Priority          `json:"priority"`
	TriggerKind      TriggerKind       `json:"trigger_kind,omitempty"`
	WorkItemID       string            `json:"work_item_id,omitempty"`
	TaskID           string            `json:"task_id,omitempty"`
	SourceRefs       map[string]string `json:"source_refs,omitempty"`
	Body             Body              `json:"body"`
	Metadata         json.RawMessage   `json:"metadata,omitempty"`
	Surface          Surface           `json:"delivery_surface,omitempty"`
	AdmissionContext AdmissionContext  `json:"admission_context,omitempty"`
	CorrelationID    string            `json:"correlation_id,omitempty"`
	CausationID      string            `json:"causation_id,omitempty"`

	// Of a client of the Open Responses API, which is shown the turn of its message as the response ResponseID.
	Previous string          `json:"previous_response_id,omitempty"` // the agent's last one; "": whichever that is
	Request  json.RawMessage `json:"request,omitempty"`              // what its turn is asked for with it; in no answer
}

// ResponseID is the id of the response that the message of a client gets, "" for another message.
func (m Message) ResponseID() string {
	if m.Surface != SurfaceOpenResponses {
		return ""
	}
	return responses.PrefixResponse + strings.TrimPrefix(m.ID, responses.PrefixMessage)
}

// OfResponse is the id of the message that gets a response.
func OfResponse(responseID string) (messageID string) {
	return responses.PrefixMessage + strings.TrimPrefix(responseID, responses.PrefixResponse)
}

// EntryStatus is where a message is in its agent's queue.
type EntryStatus string

const (
	Queued      EntryStatus = "queued"
	Dequeued    EntryStatus = "dequeued" // claimed by the open attempt
	Processed   EntryStatus = "processed"
	Interjected EntryStatus = "interjected" // into the turn of another message
	Aborted     EntryStatus = "aborted"     // its turn was
	Dropped     EntryStatus = "dropped"     // not worth a turn any more
	Quarantined EntryStatus = "quarantined" // no turn could be begun for it
	Interrupted EntryStatus = "interrupted" // its turn was, twice
	Blocked     EntryStatus = "blocked"     // queued until a setting changes; only of an entry that is Reported
)

// Band is the place of an entry in the queue, before its number. A blocked one stands behind all others.
func (e Entry) Band() int {
	band := e.Sender.rank()*(Background.Band()+1) + e.Priority.Band()
	if e.Blocked() {
		band += blockedBand
	}
	return band
}

// blockedBand is the first band of blocked entries.
const blockedBand = 1000

// Block leaves an entry alone until a setting changes, because no turn can be begun for it before. The time says so in
// a form that every reader of not_before understands.
func (e *Entry) Block() {
	never := time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
	e.NotBefore = &never
}

// Blocked reports whether only a change of a setting lets an entry be tried again.
func (e Entry) Blocked() bool {
	return e.Status == Blocked || e.NotBefore != nil && e.NotBefore.Year() == 9999
}

// Reported returns an entry as its readers see it: a blocked one has that status, and no time.
func (e Entry) Reported() Entry {
	if e.Status == Queued && e.Blocked() {
		e.Status, e.NotBefore = Blocked, nil
	}
	return e
}

// Terminal reports whether nothing more becomes of a message.
func (s EntryStatus) Terminal() bool { return s != Queued && s != Dequeued && s != Blocked }

// Entry is a message's place in the queue of its agent.
type Entry struct {
	MessageID string      `json:"message_id"`
	AgentID   string      `json:"agent_id"`
	Sender    Sender      `json:"sender"`
	Priority  Priority    `json:"priority"` // among those of the same rank
	Number    int64       `json:"-"`        // Message.Number
	Status    EntryStatus `json:"status"`
	AttemptID string      `json:"attempt_id,omitempty"` // that has claimed or disposed of it
	// offered to the turn of the attempt, in addition to its message
	Interjects bool       `json:"interjects,omitempty"`
	Readmitted int        `json:"readmitted"`           // times it came back because its turn was interrupted
	Failed     int        `json:"failed"`               // times no turn could be begun for it, in a row
	NotBefore  *time.Time `json:"not_before,omitempty"` // left alone until then
	Reason     string     `json:"reason,omitempty"`     // of its status, for a person
	Code       string     `json:"code,omitempty"`       // of the error that is the reason why it is blocked
	// of a message that its own client's request was refused for: the code and the parameter at fault
	Refusal   string    `json:"refusal,omitempty"`
	Param     string    `json:"param,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Withheld  bool      `json:"withheld,omitempty"` // its client deleted the response
}

func (m *Message) Row() Row {
	return Row{"messages", "message", 1, []Column{{"id", &m.ID}, {"agent_id", &m.AgentID}, {"number", &m.Number},
		{"key", &m.Key}, {"created_at", millis(m.CreatedAt)}}}
}

func (e *Entry) Row() Row {
	return Row{"entries", "message", 1, []Column{{"message_id", &e.MessageID}, {"agent_id", &e.AgentID},
		{"number", &e.Number}, {"band", e.Band()}, {"status", e.Status}, {"attempt_id", e.AttemptID}}}
}

// Message returns a message.
func (v View) Message(id string) (Message, error) { return get[Message](v, id) }

// MessageByKey finds the message that was admitted for an agent under an idempotency
// key.
func (v View) MessageByKey(agentID, key string) (m Message, ok bool, err error) {
	return first[Message](v, "message by key", agentID, key)
}

// Messages returns the newest messages of an agent.
func (v View) Messages(agentID string, limit int) ([]Message, error) {
	return newest[Message](v, "messages", agentID, limit)
}

// Entry returns the place of a message in its queue.
func (v View) Entry(messageID string) (Entry, error) { return get[Entry](v, messageID) }

// Head returns the queued entry that an agent takes next: of the sender of the first
// rank, in the first band that has one, the oldest in it, also when it is to be left
// alone until its NotBefore.
func (v View) Head(agentID string) (e Entry, ok bool, err error) {
	return first[Entry](v, "queued", agentID, 0, 1)
}

// HeadMessage returns the message of Head.
func (v View) HeadMessage(agentID string) (m Message, ok bool, err error) {
	return first[Message](v, "head message", agentID)
}

// Queued returns the queued entries of an agent in the order of Head.
func (v View) Queued(agentID string, limit int) ([]Entry, error) {
	return list[Entry](v, "queued", agentID, 0, limited(limit))
}

// BlockedEntries returns those of the queued entries that are blocked, in the order of Head.
func (v View) BlockedEntries(agentID string) ([]Entry, error) {
	return list[Entry](v, "queued", agentID, blockedBand, math.MaxInt)
}

// CountQueued counts the queued entries of an agent.
func (v View) CountQueued(agentID string) (int, error) {
	return count(v, "count queued", agentID, 0, math.MaxInt)
}

// CountQueuedFrom counts those of one sender.
func (v View) CountQueuedFrom(agentID string, from Sender) (int, error) {
	return count(v, "count queued", agentID, Entry{Sender: from, Priority: Interject}.Band(),
		Entry{Sender: from, Priority: Background}.Band())
}

// Held returns the entries that the open attempt of an agent has claimed and not disposed of, by number.
func (v View) Held(agentID string) ([]Entry, error) { return list[Entry](v, "held", agentID) }

// Ready returns the agents that have a queued entry, are not stopped and have no open
// attempt, by id.
func (v View) Ready() ([]string, error) { return values[string](v, "ready agents") }
