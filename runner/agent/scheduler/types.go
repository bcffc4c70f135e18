// Package scheduler takes every step of an agent in one transaction: it reads the
// state, checks which transitions are allowed (docs/explanation/runtime.md),
// writes the rows, and numbers the events that describe the step. A caller acts
// only after the step returned.
//
// The invariant: an agent has at most one open attempt, every message ends in
// exactly one terminal status, and a repeated step returns the result of the first
// one. The package starts nothing and waits for nothing; the run loops watch the
// ledger for the work that steps leave behind.
package scheduler

import (
	"encoding/json"
	"time"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/signature"
	"holon/state"
	"holon/state/ledger"
)

// Codes of errors (*state.Error) about what an agent may not do now.
const (
	CodeAgentStopped   state.Code = responses.CodeAgentStopped // Hint: holon agent start
	CodeAgentPrivate   state.Code = "agent_private"
	CodeInvalidMessage state.Code = "invalid_message" // Param names the field
	CodeKeyConflict    state.Code = "idempotency_conflict"
	CodeQueueFull      state.Code = "queue_full"
	CodeSelfLimit      state.Code = "limit_reached"               // of its own messages; Hint is for the agent
	CodeNotQueued      state.Code = "not_queued"                  // of a message that is claimed or has ended
	CodeNotLast        state.Code = responses.CodePreviousNotLast // of a client's message
	CodeNoRun          state.Code = "no_current_run"
	CodeRunMismatch    state.Code = "run_mismatch"
	CodeTokenUnknown   state.Code = "trigger_unknown"   // unknown or revoked; the error does not say which
	CodeSignature      state.Code = "signature_invalid" // Param is the header
	CodeTriggerLimit   state.Code = "trigger_limit_reached"
	CodeInvalidTimer   state.Code = "invalid_timer"
	CodeInvalidAgent   state.Code = "invalid_agent"
	CodeDefaultAgent   state.Code = "default_agent"             // of what the default agent may not get
	CodeAgentBusy      state.Code = "agent_busy"                // a turn runs
	CodeAgentArchived  state.Code = responses.CodeAgentArchived // it was removed
	CodeInvalidWork    state.Code = "invalid_work_item"         // Param names the field
	CodeWorkLimit      state.Code = "work_limit_reached"
	CodeWorkCompleted  state.Code = "work_item_completed"
	CodeTaskLimit      state.Code = "task_limit_reached"
)

// Archive removes an agent.
type Archive struct {
	AgentID, By string
	Force       bool // also while a turn runs, which is aborted
	DryRun      bool // only report what would be lost
}

// Losses are what an agent loses that is removed. Its home and its records stay.
type Losses struct {
	RunID          string // the turn that is aborted, "" for none
	QueuedMessages int
	Timers         int
	Triggers       int
	Waits          int
	WorkItems      int // that are open; they stay as they are
	Tasks          int // that have not ended; the caller ends them
	Children       int // that have not ended, with those below them
	Trees          int // copies of workspaces, also of children that have ended; patches stay
}

// NewAgent is an agent to be made. Kind, visibility and ownership follow from
// Default and the preset.
type NewAgent struct {
	ID       string
	Default  bool
	Private  bool // a temporary agent of holon run, in no listing
	Template string
	Image    string
	Model    string
}

// Admission is a message that is in the queue.
type Admission struct {
	MessageID string
	EventSeq  int64 // of message_admitted
	Replayed  bool  // it was there before
}

// Wake asks an agent to look. Content beyond Reason makes it worth a turn; what a hint becomes part of is not stated.
type Wake struct {
	AgentID string
	Context ledger.AdmissionContext
	ledger.WakeHint
}

// Disposition is what became of a wake.
type Disposition string

const (
	wakeTriggered Disposition = "triggered" // a system tick is in the queue
	wakeCoalesced Disposition = "coalesced" // with one that is waiting already
	wakeIgnored   Disposition = "ignored"
)

// Delivery is what came to the URL of an external trigger.
type Delivery struct {
	Token      string
	LegacyMode bool // it came to the enqueue URL, which is treated as a wake
	ledger.WakeHint

	// Verify verifies the signature that a trigger asks for. Without it no such trigger takes anything.
	Verify func(t ledger.Trigger) (signature.Delivery, error)
}

// NewTrigger is a trigger that takes only signed deliveries. Its secret is kept under its id, by its caller.
type NewTrigger struct{ ID, AgentID, Signature string }

// NewTriggerID makes the id of a trigger.
func NewTriggerID() string { return responses.NewID(prefixTrigger) }

// Receipt answers a Delivery.
type Receipt struct {
	AgentID     string
	TriggerID   string
	Disposition Disposition
	Replayed    bool   // it came before, and changed nothing
	Challenge   string // that its sender wants in the answer; "": none
}

// Claim is a message whose turn may now be run by the caller alone.
type Claim struct {
	Agent        ledger.Agent
	Message      ledger.Message
	Attempt      ledger.Attempt
	Continuation ledger.Continuation
	Wait         *ledger.Wait // of the agent itself, that the message ended; nil: none
	ClientCalls  []string     // that the turn has to answer
	Compactions  int64        // of the agent's conversations before
}

// Sent is the prompt with which a turn was begun.
type Sent struct {
	Prompt  json.RawMessage
	Digest  string
	Work    string            // digest of the work items that the conversation knows with it
	Curated map[string]string // digests of the curated files that it knows with it, by path
	Took    time.Duration
}

// Through says how far a turn is recorded: what a batch of Progress goes up to.
// A batch that goes no further than the attempt is a replay and left out.
type Through struct {
	Facts int64 // ledger.Attempt.Facts
	Items int64 // ledger.Attempt.Items
}

// Progress is one thing that a turn did.
type Progress struct {
	Event ledger.Event    // Class, Status, IDs, CreatedAt, ProducerSeq and Data; "" Class: none
	Task  *tasks.Snapshot // a task that the turn began; nil: none
	Cause int64           // the ProducerSeq of the fact that caused it; 0: the turn itself
}

// End is how a turn, or the try to begin one, ended.
type End struct {
	// NotBegun: no turn was begun, for the reason of Failure; the message is
	// tried again later, and quarantined after too many times. Without a Failure
	// the try is not counted and the message is next at once.
	NotBegun bool
	// Permanent, with NotBegun: waiting does not help, a setting has to change. The
	// message is blocked until one does.
	Permanent bool
	// Refused, with NotBegun: the client of the message asked for what no turn can do. It is not tried again.
	Refused bool
	// Lost: the turn was begun and its end is not known, or it was interrupted
	// from outside; the message comes back once.
	Lost bool
	// Suspended, with Lost: the runtime itself ended the turn because it shuts
	// down. The message is not to blame, and comes back after every shutdown.
	Suspended bool
	// Forgotten: the response that the turn was to continue is gone. The agent's conversation goes on from Kept with its
	// next turn, an earlier response of it, or begins anew.
	Forgotten bool
	Kept      string

	// Turn is what is known of the turn: how it ended and what it took. Its Failure is also that of a try to begin one,
	// and its ResponseID what the next turn continues; "": Chain stays. Settle adds the rest.
	ledger.Turn

	Home      string           // digest of what the agent's home holds; "": unknown
	Plan      Plan             // of the work item of the turn
	Inserted  []string         // ids of the interjected messages that the turn took in
	Artifacts []turns.Artifact // files that the turn left in its directory
	// MemoryFiles changed in the turn, and no event has that yet.
	MemoryFiles []MemoryFile
	Spent       Spending         // of the account of the tree
	Worktree    *ledger.Worktree // of the task of a child, as it is after the turn; nil: it has none
}

// MemoryFile is a change of a file that the agent keeps as memory, without known secrets.
type MemoryFile struct {
	Path  string `json:"path"` // in its home
	Bytes int    `json:"bytes"`
	Diff  string `json:"diff"` // unified
}

// Event is the event of the change. Its diff is printable, and so bounded that an event has room for it.
func (f MemoryFile) Event() ledger.Event {
	f.Diff = visible.Clip(visible.Text(f.Diff), maxMemoryDiff)
	return ledger.Event{Class: record.Class(record.MemoryMarkdown), Data: eventJSON(f)}
}

// maxMemoryDiff bounds the diff of a MemoryFile in an event, in bytes: its JSON may have twice as many.
const maxMemoryDiff = 3 << 10

// Plan is what the file with the plan of a work item holds; the zero value when there is none.
type Plan struct {
	Hash  string // SHA-256, hex
	Bytes int64
}

// Settlement is what an End made of attempt and message.
type Settlement struct {
	Turn     *ledger.Turn // nil when none was begun
	Closure  ledger.Closure
	Status   ledger.EntryStatus // of the message
	RetryAt  *time.Time         // when it is queued again
	Replayed bool
}

// Abort asks to end the current run.
type Abort struct {
	AgentID string
	RunID   string // turn; "": the one that runs
	Mode    string // "", stop_after_abort
	By      string
	Reason  string // "": none was given
}

// NewTimer is a timer to be made.
type NewTimer struct {
	AgentID  string
	Key      string
	After    time.Duration
	Interval time.Duration // 0: fires once
	Cron     string        // when it fires, as package crontab reads it, in the place of After and Interval
	Zone     string        // of Cron
	Summary  string
}
