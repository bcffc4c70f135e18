// Package wire holds the types that the control plane and its client exchange in addition to the views of agents:
// bodies of requests, small answers, and errors. It does no I/O.
//
// The invariant: an error keeps its code, and with it its HTTP status, across the wire, since both sides read the same
// table. Bodies have snake_case keys; [Decode] takes the camelCase names of the runtime specification as well, and
// refuses a key that it does not know.
package wire

import (
	"encoding/json"
	"time"

	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// Protocol names the control plane in answers, with its version.
const (
	ProtocolName    = "holon-control"
	ProtocolVersion = 1
)

// Headers in addition to those of HTTP.
const (
	HeaderIdempotencyKey = "Idempotency-Key" // makes a message or timer once
	HeaderRequestID      = "X-Request-Id"    // names a request in the log
	HeaderEventEpoch     = "Holon-Event-Epoch"
	HeaderVersion        = "Holon-Version" // of the daemon
)

// Root answers GET /.
type Root struct {
	OK           bool   `json:"ok"`
	DefaultAgent string `json:"default_agent"`
}

// Handshake answers GET /handshake.
type Handshake struct {
	OK           bool             `json:"ok"`
	Protocol     Protocol         `json:"protocol"`
	Auth         Auth             `json:"auth"`
	Capabilities []string         `json:"capabilities"`
	Runtime      HandshakeRuntime `json:"runtime"`
}

// Protocol is what a server speaks.
type Protocol struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// Auth says whether this way to the server needs a token.
type Auth struct {
	Mode     string `json:"mode"` // local_socket, bearer, disabled
	Required bool   `json:"required"`
}

// HandshakeRuntime is what a client shows of a server.
type HandshakeRuntime struct {
	DefaultAgent  string `json:"default_agent"`
	Version       string `json:"version"`
	HomeDir       string `json:"home_dir"`
	WorkspaceDir  string `json:"workspace_dir"`
	Listen        string `json:"listen,omitempty"`
	AdvertiseURL  string `json:"advertise_url,omitempty"`
	EventLogEpoch string `json:"event_log_epoch"`
}

// Enqueue is a message from outside. Authority and trust follow from how it came; stating them is refused.
type Enqueue struct {
	AgentID       string          `json:"agent_id,omitempty"` // with POST /enqueue only; "": the default agent
	Kind          string          `json:"kind,omitempty"`     // webhook_event (default), channel_event
	Priority      string          `json:"priority,omitempty"` // next, normal (default), background
	Text          string          `json:"text,omitempty"`     // one of text, json and body
	JSON          json.RawMessage `json:"json,omitempty"`
	Body          *ledger.Body    `json:"body,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"` // an object
	CorrelationID string          `json:"correlation_id,omitempty"`
	CausationID   string          `json:"causation_id,omitempty"`
	Origin        *ledger.Origin  `json:"origin,omitempty"`

	Trust     json.RawMessage `json:"trust,omitempty"`           // refused
	Authority json.RawMessage `json:"authority_class,omitempty"` // refused
}

// Enqueued answers everything that makes a message.
type Enqueued struct {
	OK        bool   `json:"ok"`
	AgentID   string `json:"agent_id"`
	MessageID string `json:"message_id"`
	EventSeq  int64  `json:"event_seq"` // of message_admitted: follow the events from there
	Replayed  bool   `json:"replayed"`  // the message was there before, under the same key
}

// Prompt is what the operator says.
type Prompt struct {
	Text          string `json:"text,omitempty"`
	Parts         []Part `json:"parts,omitempty"`
	Priority      string `json:"priority,omitempty"` // interject, next, normal (default), background
	Surface       string `json:"surface,omitempty"`  // cli_prompt, run_once: over the Unix socket only
	CorrelationID string `json:"correlation_id,omitempty"`
	CausationID   string `json:"causation_id,omitempty"`
}

// Part is text, a picture or a file that goes with a prompt, as in Open Responses. Pictures and files are in data URLs,
// data:TYPE;base64,DATA.
type Part struct {
	Type     string `json:"type"` // input_text, input_image, input_file
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	FileName string `json:"filename,omitempty"` // of input_file; at most 200 bytes, without a directory
	FileData string `json:"file_data,omitempty"`
}

// Wake asks an agent to look.
type Wake struct {
	Reason        string `json:"reason"`
	Description   string `json:"description,omitempty"`
	Source        string `json:"source,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	CausationID   string `json:"causation_id,omitempty"`
}

// Woken answers a Wake.
type Woken struct {
	OK          bool   `json:"ok"`
	AgentID     string `json:"agent_id"`
	Disposition string `json:"disposition"` // triggered, coalesced, ignored
}

// Control starts or stops an agent.
type Control struct {
	Action    string `json:"action"`               // start, stop, renew; also resume and pause
	WithTasks bool   `json:"with_tasks,omitempty"` // of stop: end its tasks too
}

// Controlled answers a Control.
type Controlled struct {
	OK      bool   `json:"ok"`
	AgentID string `json:"agent_id"`
	Action  string `json:"action"`
}

// Abort ends the current run.
type Abort struct {
	RunID string `json:"run_id,omitempty"` // "": whichever runs
	Mode  string `json:"mode,omitempty"`   // stop_after_abort: the agent is stopped as well
}

// Aborted answers an Abort.
type Aborted struct {
	OK        bool   `json:"ok"`
	Aborted   bool   `json:"aborted"`
	AgentID   string `json:"agent_id"`
	RunID     string `json:"run_id"`
	MessageID string `json:"message_id"`
	Mode      string `json:"mode,omitempty"`
}

// Create makes an agent.
type Create struct {
	Template  string `json:"template,omitempty"`
	Workspace string `json:"workspace,omitempty"` // no agent is made unless it could have this path attached
}

// Timer makes a timer.
type Timer struct {
	DurationMS int64  `json:"duration_ms,omitempty"` // until it fires first, > 0
	IntervalMS int64  `json:"interval_ms,omitempty"` // between further times; 0: it fires once
	Cron       string `json:"cron,omitempty"`        // in the place of both: when it fires, as in crontab(5)
	Zone       string `json:"zone,omitempty"`        // of cron, a name of the IANA database; "": UTC
	Summary    string `json:"summary,omitempty"`
}

// MadeTimer answers a Timer.
type MadeTimer struct {
	view.Timer
	Replayed bool `json:"replayed"` // the timer was there before, under the same key
}

// WorkItem makes a work item.
type WorkItem struct {
	Objective string `json:"objective"` // what is to be reached
}

// Block says what blocks a work item.
type Block struct {
	BlockedBy string `json:"blocked_by,omitempty"` // "": nothing any more
}

// MaxTaskWait bounds how long the end of a task is waited for in one request.
const MaxTaskWait = 10 * time.Minute

// Task is a command that the operator gives the container of an agent (runtime specification, "Background Task Model").
type Task struct {
	Summary      string `json:"summary,omitempty"` // what it is for
	Cmd          string `json:"cmd"`               // of a shell
	Workdir      string `json:"workdir,omitempty"` // below the workspace, which is the default
	Shell        string `json:"shell,omitempty"`
	Login        bool   `json:"login,omitempty"`
	TTY          bool   `json:"tty,omitempty"`
	AcceptsInput bool   `json:"accepts_input,omitempty"`
}

// Model sets which model an agent asks.
type Model struct {
	Model           string `json:"model"` // provider/model
	ReasoningEffort string `json:"reasoning_effort,omitempty"`
	Force           bool   `json:"force,omitempty"` // also without a key for its provider
}

// ModelSet answers Model and its removal.
type ModelSet struct {
	OK      bool            `json:"ok"`
	AgentID string          `json:"agent_id"`
	Model   view.ModelState `json:"model"`
}

// Image sets the image of an agent's containers.
type Image struct {
	Image string `json:"image"` // "": the runtime's
}

// Budget bounds what an agent and its children may take together; what is absent stays, and 0 is no bound.
type Budget struct {
	MaxTokens     *int64        `json:"max_tokens,omitempty"`
	MaxCost       *state.Amount `json:"max_cost_micros,omitempty"`
	MaxContainers *int          `json:"max_containers,omitempty"`
}

// ImageSet answers Image.
type ImageSet struct {
	OK      bool   `json:"ok"`
	AgentID string `json:"agent_id"`
	Image   string `json:"image"`
}

// Archive removes an agent.
type Archive struct {
	Force  bool `json:"force,omitempty"`   // also while a turn runs, which is aborted
	DryRun bool `json:"dry_run,omitempty"` // only tell what would be lost
}

// Archived answers Archive: what the agent lost, or would lose.
type Archived struct {
	OK        bool   `json:"ok"`
	AgentID   string `json:"agent_id"`
	DryRun    bool   `json:"dry_run"`
	Lost      Losses `json:"lost"`
	AgentHome string `json:"agent_home"` // it stays

	Changes []view.TreeDiff `json:"changes,omitempty"` // of copies, not applied; their patches stay
}

// Losses are what an agent loses that is removed.
type Losses struct {
	RunID          string `json:"run_id,omitempty"` // the turn that is aborted
	QueuedMessages int    `json:"queued_messages"`
	Timers         int    `json:"timers"`
	Triggers       int    `json:"triggers"`
	Waits          int    `json:"waits"`
	WorkItems      int    `json:"work_items"` // that are open
	Tasks          int    `json:"tasks"`      // that run, and are ended
	Children       int    `json:"children"`   // that have not ended, with those below them
	Trees          int    `json:"trees"`      // copies of workspaces, also of children that have ended; patches stay
}

// DebugPrompt asks what would be sent to a model.
type DebugPrompt struct {
	Text string `json:"text"`
}

// Trigger is an external trigger with the URL that uses it, which is a secret.
type Trigger struct {
	OK         bool         `json:"ok"`
	AgentID    string       `json:"agent_id"`
	Trigger    view.Trigger `json:"external_trigger"`
	TriggerURL string       `json:"trigger_url,omitempty"`
	Hint       string       `json:"hint,omitempty"` // how to get a URL when there is none here
}

// NewTrigger is a trigger that takes only deliveries that are signed with a secret, which no answer has.
type NewTrigger struct {
	Signature string `json:"signature"` // github, gitlab, slack, standard
	Secret    string `json:"secret"`    // that the sender has
}

// Delivered answers what came to the URL of a trigger.
type Delivered struct {
	OK        bool           `json:"ok"`
	Result    DeliveryResult `json:"result"`
	Challenge string         `json:"challenge,omitempty"` // of Slack, which wants to see it again
}

// DeliveryResult is what became of it.
type DeliveryResult struct {
	AgentID           string `json:"agent_id"`
	ExternalTriggerID string `json:"external_trigger_id"`
	Scope             string `json:"scope"`
	DeliveryMode      string `json:"delivery_mode"`
	Disposition       string `json:"disposition"`
	Replayed          bool   `json:"replayed,omitempty"` // it came before
}

// Health answers GET /healthz.
type Health struct {
	OK bool `json:"ok"`
}

// Readiness answers GET /control/runtime/readiness.
type Readiness struct {
	OK    bool `json:"ok"`
	Ready bool `json:"ready"`
}

// ShuttingDown answers POST /control/runtime/shutdown.
type ShuttingDown struct {
	OK       bool `json:"ok"`
	Accepted bool `json:"accepted"`
}

// UILogin answers POST /control/ui/login.
type UILogin struct {
	URL       string     `json:"url"` // a secret: it lets the first browser that opens it in
	ExpiresAt turns.Time `json:"expires_at"`
}

// Types of the messages of an event stream that are not events of an agent.
const (
	StreamOpen  = "stream_open"  // the first one
	StreamReset = "stream_reset" // the cursor is of no use: take a new snapshot, then go on
	StreamEnd   = "stream_end"   // the server ends the stream; come back
	StreamText  = "stream_text"  // a Text: it has no number, and nothing of it comes again
)

// Text is a piece of a message that the model of an agent writes, behind the events that came before it. The events
// model.delta of the message have all its text.
type Text struct {
	Type      string `json:"type"` // FrameText
	TurnID    string `json:"turn_id"`
	MessageID string `json:"message_id"` // that the turn is for
	ItemID    string `json:"item_id"`    // of the message that is written
	Offset    int    `json:"offset"`     // where Text begins, in bytes
	Text      string `json:"text"`
}

// StreamControl is such a message, but for StreamText.
type StreamControl struct {
	Type      string `json:"type"`
	Epoch     string `json:"event_log_epoch"`
	AfterSeq  int64  `json:"after_seq"` // what follows is newer than this
	OldestSeq int64  `json:"oldest_seq"`
	NewestSeq int64  `json:"newest_seq"`
	// of a reset: epoch_changed, cursor_pruned, cursor_ahead; of an end: shutdown, limit
	Reason string `json:"reason,omitempty"`
}
