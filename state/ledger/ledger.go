// Package ledger holds the nouns of the host's durable record of agents, and
// the interface of the stores that keep it.
//
//	Store.Update ─▶ Tx: read, check, write rows, append events ─▶ commit ─▶ Changed
//	Store.View   ─▶ View: one consistent snapshot
//
// The invariant: what belongs to one step of an agent is written by one Update
// or not at all, and the events of an agent are numbered without a gap by the
// updates that wrote them. A store keeps rows; what may follow what is decided
// in package runner/agent/scheduler, once, for every store.
//
// Nothing here says that an agent runs. An open [Attempt] whose owner is alive
// is what running means.
package ledger

import (
	"context"
	"time"

	"holon/state"
)

// Codes of errors (*state.Error) of every store.
const (
	CodeNotFound    state.Code = "not_found"         // Param names the noun: agent, message, timer, …
	CodeConflict    state.Code = "conflict"          // the revision is not the expected one, or a unique row exists
	CodeExists      state.Code = "already_exists"    // of something that has its id from outside
	CodeTooLarge    state.Code = "too_large"         // Param names the field
	CodeLocked      state.Code = "ledger_locked"     // another process has it
	CodeUnreadable  state.Code = "ledger_unreadable" // no ledger, a damaged one, or one of a newer version
	CodeLedgerFull  state.Code = "ledger_disk_full"  // nothing was written
	CodeLedgerEnded state.Code = "ledger_closed"     // after Close
)

// Store keeps the ledger. All methods are safe for concurrent use.
type Store interface {
	// Update runs fn with the only writer and commits what it wrote, durably:
	// when Update returns nil, it survives a loss of power. When fn returns an
	// error nothing of it is kept and Update returns that error as it is. fn may
	// run again only when nothing was kept of its first run, so it must change
	// nothing but the Tx and variables that it sets anew; it must not call the
	// Store. Updates that wait at the same time may share one commit. When ctx
	// ends before fn has returned, nothing is kept; after that Update waits for
	// the commit, which is short, and tells how it ended.
	Update(ctx context.Context, fn func(Tx) error) error

	// View runs fn on one consistent snapshot. It writes nothing, waits for no
	// writer, and must not be held while waiting for anything.
	View(ctx context.Context, fn func(View) error) error

	// Changed returns a channel that is closed by the first commit after the
	// call that appended events of the agent, or of any agent for "". Take the
	// channel, then read, then wait: nothing is missed.
	Changed(agentID string) <-chan struct{}

	// Epoch names the numbering of events. It changes when the ledger was
	// restored from a backup, so that a client's cursor is known to be of
	// another history.
	Epoch() string

	// RuntimeID names the installation that the ledger belongs to. It is made once,
	// and a restored ledger keeps it.
	RuntimeID() string

	// Prune removes what retention lets go, at most limit rows, and reports
	// whether there is more. It takes the writer only for a moment.
	Prune(ctx context.Context, keep Retention, now time.Time, limit int) (more bool, err error)

	// Backup writes a consistent copy of the ledger to a new file while the
	// store is in use.
	Backup(ctx context.Context, path string) error

	// Close waits for what runs and ends the store. It may be called more than
	// once.
	Close() error
}

// Retention says what is kept. A zero field keeps everything of its kind. What
// is unfinished, and what it refers to, stays at any age; so do an agent's newest
// event, its newest turn, and the turn that its next one continues. The oldest go
// first, for which ids of messages, attempts and turns must sort by the time at
// which they were made, as those of responses.NewID do.
type Retention struct {
	Events    time.Duration // age of events
	MaxEvents int64         // of one agent, the newest
	Messages  time.Duration // age of messages with a terminal entry, with their turns, transcript and briefs
}

// View reads. Records are copies that belong to the caller; times are UTC, to
// the millisecond. A record that does not exist is an error with CodeNotFound
// unless the method returns ok. A limit of zero or less is 1,000.
type View interface {
	Agent(id string) (Agent, error)
	// Agents returns all agents that are not archived, by id; of one whose record is
	// damaged, its ID.
	Agents() ([]Agent, error)
	AgentState(agentID string) (AgentState, error)

	Message(id string) (Message, error)
	// MessageByKey finds the message that was admitted for an agent under an
	// idempotency key.
	MessageByKey(agentID, key string) (m Message, ok bool, err error)
	// Messages returns the newest messages of an agent, the oldest first.
	Messages(agentID string, limit int) ([]Message, error)

	Entry(messageID string) (Entry, error)
	// Head returns the queued entry that an agent takes next: of the sender
	// of the first rank, in the first band that has one, the oldest in it, also when
	// it is to be left alone until its NotBefore.
	Head(agentID string) (e Entry, ok bool, err error)
	// Queued returns the queued entries of an agent in the order of Head.
	Queued(agentID string, limit int) ([]Entry, error)
	CountQueued(agentID string) (int, error)
	// BlockedEntries returns those of the queued entries that are blocked, in the order of Head.
	BlockedEntries(agentID string) ([]Entry, error)
	// CountQueuedFrom counts those of one sender.
	CountQueuedFrom(agentID string, from Sender) (int, error)
	// Held returns the entries that an attempt has claimed and not disposed of.
	Held(attemptID string) ([]Entry, error)
	// Ready returns the agents that have a queued entry, are not stopped and have
	// no open attempt.
	Ready() ([]string, error)

	Attempt(id string) (Attempt, error)
	OpenAttempt(agentID string) (a Attempt, ok bool, err error)
	// OpenAttempts returns those of all agents; of one whose record is damaged, ID
	// and AgentID.
	OpenAttempts() ([]Attempt, error)

	Turn(id string) (Turn, error)
	// Turns returns the newest turns of an agent, the oldest first.
	Turns(agentID string, limit int) ([]Turn, error)

	Wait(id string) (Wait, error)
	// UnresolvedWait returns the wait of an owner that is active or triggered.
	// There is at most one.
	UnresolvedWait(agentID, owner string) (w Wait, ok bool, err error)
	// UnresolvedWaits returns those of all owners within an agent.
	UnresolvedWaits(agentID string) ([]Wait, error)

	Timer(id string) (Timer, error)
	// TimerByKey finds the timer that was made for an agent under an idempotency
	// key.
	TimerByKey(agentID, key string) (t Timer, ok bool, err error)
	// Timers returns the newest timers of an agent, the oldest first.
	Timers(agentID string, limit int) ([]Timer, error)
	// Due returns, of all agents that are not stopped, active timers whose time
	// has come and active waits whose wake or expiry has come, the earliest
	// first, limit of each. Of one whose record is damaged it returns ID and
	// AgentID: one damaged agent hides nothing of the others.
	Due(now time.Time, limit int) ([]Timer, []Wait, error)
	// NextDue returns the first time after now at which Due would return more.
	NextDue(now time.Time) (at time.Time, ok bool, err error)

	Trigger(id string) (Trigger, error)
	Triggers(agentID string) ([]Trigger, error)
	// TriggerByHash finds a trigger by the hash of its token.
	TriggerByHash(hash string) (t Trigger, ok bool, err error)

	Briefs(agentID string, limit int) ([]Brief, error)               // the newest, the oldest first
	Transcript(agentID string, limit int) ([]TranscriptEntry, error) // likewise
	Notifications(agentID string, limit int) ([]Notification, error)
	Brief(id string) (Brief, error)
	// ToolExecutions returns the newest of an agent, the oldest first.
	ToolExecutions(agentID string, limit int) ([]ToolExecution, error)
	Notification(id string) (Notification, error)

	// Events returns a page of an agent's events and what lies around it.
	Events(agentID string, q EventQuery) (EventPage, error)
}

// Tx writes, and sees what it has written. Insert methods return CodeConflict
// or CodeExists when the row, or one that must be unique, exists; Update methods
// replace a row that exists.
type Tx interface {
	View

	InsertAgent(a Agent, l AgentState) error
	UpdateAgent(a Agent) error
	// SaveAgentState stores a state that was read in this Tx. Its Revision must be that
	// of the stored one, which becomes one more; l is updated.
	SaveAgentState(l *AgentState) error

	InsertMessage(m Message, e Entry) error
	UpdateEntry(e Entry) error
	InsertAttempt(a Attempt) error // CodeConflict while the agent has an open one
	UpdateAttempt(a Attempt) error
	InsertTurn(t Turn) error
	InsertWait(w Wait) error // CodeConflict while the owner has an unresolved one
	UpdateWait(w Wait) error
	InsertTimer(t Timer) error
	UpdateTimer(t Timer) error
	InsertTrigger(t Trigger) error
	UpdateTrigger(t Trigger) error
	InsertBrief(b Brief) error
	InsertTranscript(e TranscriptEntry) error
	InsertNotification(n Notification) error
	InsertToolExecution(e ToolExecution) error

	// Append numbers events of an agent on from l.EventSeq and stores them. The
	// state must be saved in the same Tx, after it.
	Append(l *AgentState, events ...Event) error
}
