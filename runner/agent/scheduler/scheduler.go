package scheduler

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/memory"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// Options of a Scheduler. Zero fields get defaults.
type Options struct {
	Owner     string           // boot id of this runtime; its attempts are those with this owner
	Now       func() time.Time // UTC is made of it
	MaxQueued int              // messages of one agent; default 10,000
	Rand      func() float64   // jitter of back-off, in [0,1)

	// Hide takes known secrets out of the data of events; nil: none are known.
	Hide func(data []byte) []byte

	// TriggerKey is what tokens of external triggers are derived from; nil: one of this
	// Scheduler alone, so that no other one can derive them. The ledger has their hashes.
	TriggerKey []byte

	// ClientCallTimeout is how long an agent waits for its client to answer calls; 0: DefaultClientCallTimeout.
	ClientCallTimeout time.Duration

	// ConversationBudget is how many tokens the conversation of an agent may have before it begins anew from memory; 0:
	// any number.
	ConversationBudget int64

	// Bounds returns what the settings allow an agent and those below it for which nothing else was set; nil: no bounds.
	// It must not block.
	Bounds func() ledger.TreeBounds

	// Damaged is called with an agent whose records cannot be read, so that others go
	// on; nil: FireDue fails.
	Damaged func(agentID string, err error)
}

// defaultMaxQueued is when an agent's queue takes no more from outside.
const defaultMaxQueued = 10_000

// Scheduler makes steps. All methods are safe for concurrent use.
type Scheduler struct {
	store    ledger.Store
	opts     Options
	attempts sync.Map // open ones by id, as they were once: so what a step of one reads is known before it is read
}

// New returns a Scheduler on a store. It reads nothing yet.
func New(store ledger.Store, opts Options) *Scheduler {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.MaxQueued == 0 {
		opts.MaxQueued = defaultMaxQueued
	}
	if opts.Rand == nil {
		opts.Rand = rand.Float64
	}
	if opts.Bounds == nil {
		opts.Bounds = func() ledger.TreeBounds { return ledger.TreeBounds{} }
	}
	if opts.TriggerKey == nil {
		opts.TriggerKey = []byte(cryptorand.Text())
	}
	if opts.Hide == nil {
		opts.Hide = func(data []byte) []byte { return data }
	}
	return &Scheduler{store: store, opts: opts}
}

// now is the time of a step. The ledger keeps milliseconds.
func (m *Scheduler) now() time.Time { return m.opts.Now().UTC().Truncate(time.Millisecond) }

// transaction is what one Update of the ledger does: a step of an agent, or steps of several that are taken together.
type transaction struct {
	tx   ledger.Tx
	err  error // the first one of the store
	m    *Scheduler
	now  time.Time
	open map[string]*step // by agent
}

// agent opens the step of an agent, which is one within a transaction.
func (t *transaction) agent(id string) (*step, error) {
	if s, ok := t.open[id]; ok {
		return s, nil
	}
	l, err := t.tx.AgentState(id)
	if err != nil {
		return nil, err
	}
	return t.begin(l), nil
}

func (t *transaction) begin(l ledger.AgentState) *step {
	s := &step{transaction: t, state: l}
	t.open[l.AgentID] = s
	return s
}

// close takes the steps, in the order of the ids of their agents. refused is why they are not taken, nil if they are.
func (t *transaction) close(refused error) error {
	if t.err == nil && refused != nil {
		return refused
	}
	t.supervise()
	for _, id := range slices.Sorted(maps.Keys(t.open)) {
		t.open[id].close()
	}
	return t.err
}

// step is what a transaction does with one agent. The events that it emits are numbered and stored, and the agent's
// state saved, when the transaction is closed. Its agent opens further agents, whose steps are taken with it or not at
// all.
type step struct {
	*transaction
	state   ledger.AgentState
	events  []ledger.Event
	covered int                           // how many of them the newest closure knows of
	from    map[string]*ledger.Provenance // of messages of events, by id; nil: there is none any more
	cause   string                        // of events that do not name their own; "": the first event of the step
	called  bool                          // a call of the agent's open turn takes the step
	by      ledger.Provenance             // of the operator who takes the step; zero: no operator does

	line    *line           // nil: it has to be read
	attempt *ledger.Attempt // the open one, as the step wrote it; nil: it has to be read
	settles ledger.Attempt  // zero: the step settles none
	calls   memory.Calls    // of the turn whose attempt the step settles
	first   int64           // tokens of the first request of that turn
	window  int64           // and of the newest one

	worktree *ledger.Worktree // of the child whose attempt the step settles, nil for none
}

// step takes a step of an agent. A function that emits no event leaves the state as
// it was.
func (m *Scheduler) step(ctx context.Context, agentID string, fn func(*step) error) error {
	return m.stepReading(ctx, agentID, aheadOfMost, fn)
}

// stepReading is step for one that reads other things than most.
func (m *Scheduler) stepReading(ctx context.Context, agentID string, more reads, fn func(*step) error) error {
	return m.stepAt(ctx, m.now(), agentID, more, func(s *step) error {
		s.cause = causeOf(ctx, agentID)
		s.called = s.cause != ""
		s.by, _ = ctx.Value(operatorKey{}).(ledger.Provenance)
		return fn(s)
	})
}

func (m *Scheduler) stepAt(ctx context.Context, now time.Time, agentID string, more reads,
	fn func(*step) error) error {
	return m.store.Update(ctx, func(tx ledger.Tx) error {
		ahead(tx, agentID, more)
		return m.run(tx, now, agentID, fn)
	})
}

// run makes a step, and those that it opens, within a transaction.
func (m *Scheduler) run(tx ledger.Tx, now time.Time, agentID string, fn func(*step) error) error {
	t := m.transaction(tx, now)
	s, err := t.agent(agentID)
	if err != nil {
		return err
	}
	return t.close(fn(s))
}

func (m *Scheduler) transaction(tx ledger.Tx, now time.Time) *transaction {
	return &transaction{tx: tx, m: m, now: now, open: map[string]*step{}}
}

// attemptStep makes a step of the agent whose attempt it is.
func (m *Scheduler) attemptStep(ctx context.Context, attemptID string, ahead readsOf,
	fn func(*step, ledger.Attempt) error) error {
	return m.store.Update(ctx, func(tx ledger.Tx) error {
		known, ok := m.attempts.Load(attemptID)
		if ok {
			ahead(tx, known.(ledger.Attempt))
		}
		a, err := tx.Attempt(attemptID)
		if err != nil {
			return err
		}
		if !ok && a.Status == ledger.AttemptOpen {
			ahead(tx, a)
			m.attempts.Store(attemptID, a)
		}
		return m.run(tx, m.now(), a.AgentID, func(s *step) error { return fn(s, a) })
	})
}

func (s *step) close() {
	if len(s.events) == 0 {
		return
	}
	s.refreshClosure()
	if s.err != nil {
		return
	}
	s.state.UpdatedAt = s.now
	if err := s.tx.Step(&s.state, s.events...); err != nil {
		s.err = fmt.Errorf("take the step of %s: %w", s.state.AgentID, err)
	}
}

// number is the revision that the state of the agent has after the step.
func (s *step) number() int64 { return s.state.Revision + 1 }

// fields are the data of an event. Empty texts are left out.
type fields map[string]any

// emit records an event of a label, or of a class that has none, and returns its number. Class, level and time are
// those of the label and the step unless e has its own. Empty texts are left out, times have milliseconds, and known
// secrets are taken out.
func (s *step) emit(label string, e ledger.Event, f fields) int64 {
	e.AgentID, e.Class = s.state.AgentID, cmp.Or(e.Class, record.Class(label))
	if e.ID == "" {
		e.ID = responses.NewID(responses.PrefixEvent)
	}
	if e.CreatedAt.IsZero() {
		e.CreatedAt = s.now
	}
	if e.Class == "queue.changed" {
		e.IDs[agentruntime.Queue] = record.QueueID(e.AgentID)
	}
	if e.Cause = cmp.Or(e.Cause, s.cause); s.cause == "" {
		s.cause = e.ID
	}
	for k, v := range f {
		switch v := v.(type) {
		case string:
			if v == "" {
				delete(f, k)
			}
		case time.Time:
			f[k] = turns.At(v)
		case *time.Time:
			f[k] = turns.AtOptional(v)
		}
	}
	if len(f) > 0 {
		e.Data = s.m.opts.Hide(f.encode())
	}
	e.From = s.fromOf(e)
	e.Level = cmp.Or(e.Level, record.Of(e).Level)
	s.events = append(s.events, e)
	return s.state.EventSeq + int64(len(s.events))
}

// encode returns the data of an event. A copy of a record that it has no room for is left out.
func (f fields) encode() json.RawMessage {
	data := eventJSON(f)
	for _, key := range record.Copies {
		if len(data) <= ledger.MaxEventData-maxHidden {
			break
		}
		if delete(f, key); key != record.KeyClipped {
			f[record.KeyClipped] = append(clippedOf(f), key)
		}
		data = eventJSON(f)
	}
	return data
}

// maxHidden is what the names that take the place of secrets may need, in bytes.
const maxHidden = 512

func clippedOf(f fields) []string {
	list, _ := f[record.KeyClipped].([]string)
	return list
}

// newest is the id of the event that the step emitted last.
func (s *step) newest() string { return s.events[len(s.events)-1].ID }

// Waits, timers and triggers change. An event about one has a copy of it, as the step leaves it, under one of these
// keys of its data: a replay shows what was.

func (s *step) emitWait(typ string, w ledger.Wait, e ledger.Event, f fields) {
	e.Ref = w.ID
	s.emit(typ, e, f.with(record.RecordWait, w))
	if w.Kind == ledger.WaitOperator {
		s.emitAction(typ, w)
	}
}

// emitAction records that the operator is asked for something, or is not any more. An action outlives the turn that
// asks.
func (s *step) emitAction(typ string, w ledger.Wait) {
	e := ledger.Event{Ref: w.ID}
	e.IDs[agentruntime.Action] = "action_" + w.ID
	if typ == record.WaitRegistered {
		s.emit(record.ActionRequired, e, fields{"action_type": "operator_input", "prompt": clip(w.WaitingFor),
			"expires_at": w.ExpiresAt})
		return
	}
	via := viaInput
	if w.MessageID != "" && s.message(w.MessageID).SourceRefs[rules.RefAction] == e.IDs[agentruntime.Action] {
		via = ViaAction
	}
	how, ended := map[string][3]string{
		record.WaitResolved:  {"answered", "operator", via},
		record.WaitCancelled: {string(w.Status), "runtime", "cancellation"},
		record.WaitExpired:   {string(w.Status), "runtime", "expiry"},
	}[typ]
	if ended {
		s.emit(record.ActionResolved, e, fields{"decision": how[0], "resolved_by": how[1], "via": how[2]})
	}
}

func (s *step) emitTimer(typ string, t ledger.Timer, e ledger.Event, f fields) {
	e.Ref = t.ID
	s.emit(typ, e, f.with(record.RecordTimer, t))
}

func (s *step) emitTrigger(typ string, t ledger.Trigger, f fields) {
	t.Seen = nil // it is only for the trigger itself
	e := ledger.Event{Ref: t.ID}
	e.IDs[agentruntime.Channel] = record.ChannelID(t.ID)
	s.emit(typ, e, f.with(record.RecordTrigger, t))
}

// emitQueue records a change of the queue: op is what was done to the entry. What happens to one that is in the queue
// follows from its admission, unless more is known.
func (s *step) emitQueue(typ, op string, entry ledger.Entry, e ledger.Event, f fields) {
	e.MessageID, f["op"] = entry.MessageID, op
	place := fields{"message_id": entry.MessageID, "number": entry.Number, "priority": string(entry.Priority),
		"sender": string(entry.Sender), "band": entry.Band(), "enqueued_at": entry.CreatedAt}
	if entry.Blocked() {
		place["blocked"] = true
	}
	f["entry"] = place
	if op != "enqueue" { // else it begins there
		e.Cause = cmp.Or(e.Cause, s.cause, admittedEvent(entry.MessageID))
	}
	s.emit(typ, e, f)
}

// with returns f, which may be nil, with a record added.
func (f fields) with(key string, record any) fields {
	if f == nil {
		f = fields{}
	}
	f[key] = record
	return f
}

// Prefixes of the ids that the scheduler makes, in addition to those of package responses.
const (
	prefixAttempt      = "att_"
	prefixWait         = "wait_"
	prefixTimer        = "tmr_"
	prefixTrigger      = "trg_"
	prefixBrief        = "brief_"
	prefixNotification = "ntf_"
	prefixWork         = "work_"
	prefixDelivery     = "dlv_"
	prefixIntent       = "dli_"
	prefixEpisode      = "ep_"
)

// derivedID is an id that follows from what makes a thing once.
func derivedID(prefix string, parts ...string) string {
	sum := sha256.Sum256(mustJSON(parts))
	return prefix + hex.EncodeToString(sum[:13])
}

// mustJSON marshals what can't fail: our own structs of texts and numbers, and
// JSON that was checked.
func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("scheduler: marshal %T: %v", v, err))
	}
	return b
}

// eventJSON is mustJSON for the data of an event, whose room escapes for web pages would take.
func eventJSON(v any) json.RawMessage {
	b, err := responses.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("scheduler: encode %T: %v", v, err))
	}
	return b
}

func refused(code state.Code, param, hint, format string, args ...any) *state.Error {
	return &state.Error{Code: code, Param: param, Hint: hint, Message: fmt.Sprintf(format, args...)}
}

// checkRunning refuses what a stopped agent may not get.
func (s *step) checkRunning() error {
	if !s.state.Stopped {
		return nil
	}
	if err := s.checkLive(); err != nil {
		return err
	}
	id := s.state.AgentID
	return refused(CodeAgentStopped, "agent_id", rules.StartHint(id), "agent %s is stopped and takes no messages", id)
}
