package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/memory"
)

// failer is what a test is to the world: *testing.T and *rapid.T.
type failer = memory.Test

// world is a runtime with everything around it that a crash leaves behind: the
// ledger's file, the containers and the clock.
type world struct {
	t     failer
	ctx   context.Context
	path  string
	store *faulty
	m     *scheduler.Scheduler
	now   time.Time
	boots int

	containers map[string]*turn // by turn id: what the containers' disks know
	running    map[string]*turn // by agent: the turn that this runtime drives
	answered   map[string]int   // by message: turns that came to an end of their own
	timers     []string
	tokens     map[string]string
	ticked     int                           // step of the script that moved the clock
	seen       map[string]ledger.EntryStatus // terminal statuses, which never change
	revisions  map[string]int64
	accounts   map[string]*account // by agent
	lost       bool                // a turn was lost
	tasks      taskWorld
	delegates  bool     // there may be children
	children   []string // ids, in the order in which they were made
	committed  func()   // after each commit
	restarted  func()   // after each crash
}

// turn is a turn as its container knows it.
type turn struct {
	agent, message, attempt string
	tools, newest           int                  // that ran, and the step of the script in which the newest fact came
	facts                   []scheduler.Progress // all that it did
	usage                   responses.Usage      // of its rounds
	inserted                []string
	end                     *scheduler.End // turn.json has an end
	gone                    bool           // the container is
}

var agents = []string{"alpha", "beta"}

// all are the agents of a world.
func (w *world) all() []string { return append(slices.Clone(agents), w.children...) }

// newWorld is a world whose ledger need not outlive the machine.
func newWorld(t failer) *world { return newWorldIn(t, memory.Dir(t)) }

func newWorldIn(t failer, dir string) *world {
	w := &world{
		t: t, ctx: context.Background(), path: filepath.Join(dir, "ledger.db"),
		now:        time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		containers: map[string]*turn{}, running: map[string]*turn{}, answered: map[string]int{},
		tokens: map[string]string{},
		seen:   map[string]ledger.EntryStatus{}, revisions: map[string]int64{}, accounts: map[string]*account{},
		tasks:     taskWorld{map[string][]tasks.Report{}, map[string]bool{}, map[string]tasks.Status{}, nil},
		committed: func() {}, restarted: func() {},
	}
	w.boot()
	for _, id := range agents {
		if _, err := w.m.Create(w.ctx, scheduler.NewAgent{ID: id, Default: id == "alpha"}); err != nil {
			t.Fatalf("create %s: %v", id, err)
		}
	}
	return w
}

func (w *world) boot() {
	store, err := sqlite.Open(w.ctx, sqlite.Options{Path: w.path})
	if err != nil {
		w.t.Fatalf("open the ledger: %v", err)
	}
	w.boots++
	w.store = &faulty{Store: store, onCommit: func() { w.committed() }}
	w.set(func(*scheduler.Options) {})
}

// set replaces the scheduler by one with other options.
func (w *world) set(change func(*scheduler.Options)) {
	opts := scheduler.Options{Owner: fmt.Sprintf("boot_%d", w.boots), Now: func() time.Time { return w.now },
		Rand: func() float64 { return 0 }, ConversationBudget: 40}
	change(&opts)
	w.m = scheduler.New(w.store, opts)
}

// reboot lets another process open the ledger.
func (w *world) reboot() {
	w.close()
	w.boot()
}

func (w *world) close() { _ = w.store.Close() }

// crash ends the runtime and starts another one on what is left. A turn whose
// container is lost with it has no end unless its disk says so.
func (w *world) crash(loseContainers bool) {
	w.running = map[string]*turn{}
	for _, t := range w.containers {
		t.gone = t.gone || loseContainers
	}
	w.reboot()
	w.recover()
	w.restarted()
}

// recover does what docs/explanation/runtime.md has the runtime do before it listens.
func (w *world) recover() {
	for _, id := range w.all() {
		w.must(w.m.Interrupted(w.ctx, id))
	}
	defer func() {
		for _, id := range w.live() {
			w.must(w.m.Reattached(w.ctx, id))
		}
	}()
	var open []ledger.Attempt
	w.view(func(v ledger.View) (err error) {
		open, err = v.OpenAttempts()
		return err
	})
	for _, a := range open {
		t := w.containers[a.TurnID]
		w.must(w.m.TakeOver(w.ctx, a.ID, scheduler.Recovery{Sources: []string{"ledger"}}))
		switch {
		case t == nil:
			w.settle(a.ID, scheduler.End{NotBegun: true})
		case t.end != nil:
			w.mirror(t)
			w.settle(a.ID, *t.end)
		case t.gone:
			w.lost = true
			w.mirror(t)
			w.settle(a.ID, scheduler.End{Turn: ledger.Turn{ResponseID: w.response(t)}, Lost: true,
				Inserted: t.inserted})
		default:
			w.must(w.m.Began(w.ctx, a.ID, scheduler.Sent{Prompt: json.RawMessage(`{}`), Digest: "digest"}))
			w.running[a.AgentID] = t
			w.mirror(t)
		}
	}
	w.ok(w.m.FireDue(w.ctx, w.now))
}

// response is the id of the response that the disk of a turn has.
func (w *world) response(t *turn) string {
	if t.tools == 0 {
		return ""
	}
	return "resp_" + t.attempt
}

func (w *world) settle(attempt string, e scheduler.End) scheduler.Settlement {
	s, err := w.m.Settle(w.ctx, attempt, e)
	w.must(err)
	return s
}

// mirror tells the ledger what a turn did that it does not know of.
func (w *world) mirror(t *turn) {
	w.must(w.mirrored(t))
}

func (w *world) mirrored(t *turn) error {
	known := get(w, ledger.View.Attempt, t.attempt).Facts
	return w.m.Progress(w.ctx, t.attempt, scheduler.Through{Facts: int64(len(t.facts))}, t.facts[known:])
}

// begin claims the next message of an agent and has its container begin a turn.
// With broken set, the container can't.
func (w *world) begin(agent string, broken bool) error {
	if w.running[agent] != nil {
		return nil
	}
	c, ok, err := w.m.Claim(w.ctx, agent)
	if err != nil || !ok {
		return err
	}
	switch {
	case c.Attempt.Status != ledger.AttemptOpen:
		w.t.Fatalf("c.Attempt.Status = %q, want %q", c.Attempt.Status, ledger.AttemptOpen)
	case c.Attempt.MessageID != c.Message.ID:
		w.t.Fatalf("c.Attempt.MessageID = %q, want %q", c.Attempt.MessageID, c.Message.ID)
	case c.Agent.ID != agent:
		w.t.Fatalf("c.Agent.ID = %q, want %q", c.Agent.ID, agent)
	}
	w.checkTick(c)
	if broken {
		_, err := w.m.Settle(w.ctx, c.Attempt.ID,
			scheduler.End{Turn: ledger.Turn{Failure: &ledger.Failure{Phase: "startup", Code: "engine_unavailable",
				Summary: "no engine"}}, NotBegun: true})
		return err
	}
	if w.containers[c.Attempt.TurnID] != nil {
		w.t.Fatalf("turn %s is begun twice", c.Attempt.TurnID)
	}
	if n := w.answered[c.Message.ID]; n > 0 {
		w.t.Fatalf("message %s gets another turn though %d came to their end: its tools run twice", c.Message.ID, n)
	}
	t := &turn{agent: agent, message: c.Message.ID, attempt: c.Attempt.ID}
	w.containers[c.Attempt.TurnID], w.running[agent] = t, t
	return w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{Prompt: json.RawMessage(`{}`), Digest: "digest"})
}

// finish has the container end its turn, and settles it. skip says how many of
// the interjected messages came too late.
func (w *world) finish(agent string, failed bool) error {
	t := w.running[agent]
	if t == nil {
		return nil
	}
	a := get(w, ledger.View.Attempt, t.attempt)
	e := scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, ResponseID: "resp_" + t.attempt,
		Last: "done", ToolCalls: t.tools, Usage: new(turns.UsageOf(t.usage)), StartedAt: a.StartedAt.Add(time.Millisecond),
		CompletedAt: w.now.Add(2 * time.Millisecond)}, Inserted: t.inserted}
	if failed || a.AbortedBy != "" {
		e.Kind, e.Reason, e.Last = ledger.TurnAborted, "model_error", ""
		e.Failure = &ledger.Failure{Phase: "runtime_turn", Code: "model_error", Summary: "the model failed"}
	}
	if get(w, ledger.View.Message, t.message).ResponseID() != "" && t.tools > 0 {
		e.ClientCalls = []string{"call_1"}
	}
	t.end = &e
	w.answered[t.message]++
	delete(w.running, agent)
	_, err := w.m.Settle(w.ctx, t.attempt, e)
	return err
}

// lose has the container of a turn vanish while the runtime lives.
func (w *world) lose(agent string) error {
	t := w.running[agent]
	if t == nil {
		return nil
	}
	w.lost, t.gone = true, true
	delete(w.running, agent)
	_, err := w.m.Settle(w.ctx, t.attempt, scheduler.End{Turn: ledger.Turn{ResponseID: w.response(t)},
		Lost: true, Inserted: t.inserted})
	return err
}

// offer hands what is interjected to the container.
func (w *world) offer(agent string, inTime bool) error {
	msgs, err := w.m.Offer(w.ctx, agent)
	t := w.running[agent]
	if err != nil || t == nil {
		return err
	}
	for _, msg := range msgs {
		if inTime && !slices.Contains(t.inserted, msg.ID) {
			t.inserted = append(t.inserted, msg.ID)
		}
	}
	return nil
}

// drain lets everything come to its end: agents run, timers that repeat are
// cancelled, turns complete, the clock goes on.
func (w *world) drain() {
	for _, id := range w.timers {
		w.ok(w.m.CancelTimer(w.ctx, id))
	}
	for range 2000 {
		moved := false
		for _, id := range w.all() {
			w.must(w.m.Start(w.ctx, id, "test")) // an abort may have stopped it
			w.must(w.begin(id, false))
			if w.running[id] != nil {
				w.must(w.finish(id, false))
				moved = true
			}
			w.check()
		}
		if !moved && !w.sleepUntilDue() {
			return
		}
	}
	w.t.Fatalf("what there was to do does not come to an end")
}

// retryAt is when the head of an agent's queue is due; ok is false when it waits for no time.
func (w *world) retryAt(agent string) (at time.Time, ok bool) {
	w.view(func(v ledger.View) error {
		l, err := v.AgentState(agent)
		if err != nil || l.Stopped {
			return err
		}
		_, open, err := v.OpenAttempt(agent)
		if err != nil || open {
			return err
		}
		e, found, err := v.Head(agent)
		if found && !e.Blocked() {
			at = rules.Due(l.Progress, e)
		}
		return err
	})
	return at, !at.IsZero()
}

// sleepUntilDue moves the clock to the next thing that waits for a time.
func (w *world) sleepUntilDue() bool {
	next, ok, err := w.m.FireDue(w.ctx, w.now)
	w.must(err)
	for _, id := range w.all() {
		at, found := w.retryAt(id)
		if found && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	if !ok {
		takes := false // something by what was due now
		w.view(func(v ledger.View) error {
			ready, err := v.Ready()
			for _, id := range ready {
				head, _, err := v.Head(id)
				w.must(err)
				takes = takes || !head.Blocked()
			}
			return err
		})
		return takes
	}
	if !next.After(w.now) {
		w.t.Fatalf("at %v something is due since %v and nothing happens", w.now, next)
	}
	w.now = next
	w.ok(w.m.FireDue(w.ctx, w.now))
	return true
}

func (w *world) view(fn func(ledger.View) error) {
	w.t.Helper()
	if err := w.store.View(w.ctx, fn); err != nil {
		w.t.Fatalf("read the ledger: %v", err)
	}
}

// get reads a record by its id.
func get[T any](w *world, read func(ledger.View, string) (T, error), id string) (record T) {
	w.t.Helper()
	w.view(func(v ledger.View) (err error) {
		record, err = read(v, id)
		return err
	})
	return record
}

// must ends the test by an error that no operator would expect.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil && !expected(err) {
		w.t.Fatalf("%v", err)
	}
}

// expected reports whether a step was refused for a reason that a random script
// gives now and then.
func expected(err error) bool {
	for _, code := range []state.Code{scheduler.CodeAgentStopped, scheduler.CodeNoRun, scheduler.CodeTokenUnknown,
		scheduler.CodeQueueFull, scheduler.CodeWorkCompleted, scheduler.CodeNotQueued, scheduler.CodeAgentArchived,
		scheduler.CodeAgentBusy, ledger.CodeNotFound} {
		if state.IsCode(err, code) {
			return true
		}
	}
	return false
}
