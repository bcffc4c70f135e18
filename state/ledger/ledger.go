// Package ledger holds the nouns of the host's durable record of agents, how they are
// read and written, and the interface of the stores that keep them.
//
//	Store.Update ─▶ Tx: read, check, write records, Step ─▶ commit ─▶ Changed
//	Store.View   ─▶ View: one consistent snapshot
//
// A new kind of record is a type with a Row here, next to the methods of View that
// read it; a table in the schema and a statement for each of its queries in the store
// (state/sqlstore); and its part of the suite in test/ledgertest.
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
	CodeNotFound    state.Code = "not_found"          // Param names the noun: agent, message, timer, …
	CodeConflict    state.Code = "conflict"           // the revision is not the expected one, or a unique row exists
	CodeExists      state.Code = "already_exists"     // of something that has its id from outside
	CodeTooLarge    state.Code = "too_large"          // Param names the field
	CodeLocked      state.Code = "ledger_locked"      // another process has it
	CodeUnreadable  state.Code = "ledger_unreadable"  // no ledger, a damaged one, or one of another version
	CodeLedgerFull  state.Code = "ledger_disk_full"   // nothing was written
	CodeLedgerAway  state.Code = "ledger_unavailable" // its database cannot be reached now; Update says what it kept
	CodeLedgerURL   state.Code = "ledger_url_invalid"
	CodeLedgerEnded state.Code = "ledger_closed" // after Close
)

// Store keeps the ledger. All methods are safe for concurrent use.
type Store interface {
	// Update runs fn with the only writer and commits what it wrote, durably:
	// when Update returns nil, it survives a loss of power. When fn returns an
	// error nothing of it is kept and Update returns that error as it is. fn may
	// run again only when nothing was kept of its first run, so it must change
	// nothing but the Tx and variables that it sets anew; it must not call the
	// Store. When ctx ends before fn has returned, nothing is kept; after that
	// Update waits for the commit, which is short, and returns how it ended.
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

	// EpochOf is the epoch in which an event of an agent was written, which a
	// restoration leaves as it was.
	EpochOf(agentID string, seq int64) string

	// SharedThrough is the last event of an agent that a reader of an epoch may have
	// read and that is still the same here: all of them in this epoch, those that the
	// backup had in one that a restoration ended, and none, 0, in any other.
	SharedThrough(agentID, epoch string) int64

	// RuntimeID names the installation that the ledger belongs to. It is made once,
	// and a restored ledger keeps it.
	RuntimeID() string

	// Prune removes what retention lets go, at most limit rows, and reports
	// whether there is more. It takes the writer only for a moment.
	Prune(ctx context.Context, keep Retention, now time.Time, limit int) (more bool, err error)

	// Close waits for what runs and ends the store. It may be called more than
	// once.
	Close() error
}

// Reader reads snapshots: a [Store].
type Reader interface {
	View(ctx context.Context, fn func(View) error) error
}

// Read is the answer of one query on a snapshot.
func Read[T any](ctx context.Context, from Reader, query func(View) (T, error)) (found T, err error) {
	err = from.View(ctx, func(v View) (err error) {
		found, err = query(v)
		return err
	})
	return found, err
}

// Retention says what is kept. A zero field keeps everything of its kind. What
// is unfinished, and what it refers to, stays at any age; so do an agent's newest
// event, its newest turn, and the turn that its next one continues. The oldest go
// first, for which ids of messages, attempts and turns must sort by the time at
// which they were made, as those of responses.NewID do.
type Retention struct {
	Events    time.Duration // age of events
	MaxEvents int64         // of one agent, the newest
	Messages  time.Duration // age of messages with a terminal entry, with their turns and briefs
}
