package agent

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/runner/agent/live"
	"holon/runner/agent/prompt"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// What may wait to be recorded, in entries and bytes, before reading from agentd waits,
// and how long a failure to record is left alone.
const (
	maxPending      = 1024
	maxPendingBytes = 4 << 20
	recordRetry     = time.Second
)

// recorder brings what a turn does into the ledger while it runs. A commit takes
// everything that came since the one before; when the ledger is slow, what reads from
// agentd waits, so that nothing is left out. Facts and items that a killed process
// recorded are skipped by their numbers.
type recorder struct {
	*Runtime
	attempt ledger.Attempt
	sent    *prompt.Prompt // nil when another process sent it
	live    *live.Writer
	wake    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	room    *sync.Cond // there is room again, or the recorder ended
	closed  bool
	ended   bool                 // nothing is recorded any more
	known   bool                 // that the turn began, or begun is set
	begun   bool                 // to be recorded
	held    []turns.RuntimeEvent // facts that wait for what the model said, the oldest first
	newest  int64                // number of the newest fact that came
	facts   int64                // number of the newest fact that was taken
	items   int64                // messages of the response that were taken
	rounds  rounds
	calls   map[string]begunCall // that have begun and not ended, by id
	numbers map[string]int64     // of facts that are recorded, by event id
	pending []scheduler.Progress // the oldest first
	waiting int                  // bytes of pending
}

func (r *Runtime) newRecorder(a ledger.Attempt, sent *prompt.Prompt) *recorder {
	rec := &recorder{Runtime: r, attempt: a, sent: sent, facts: a.Facts, wake: make(chan struct{}, 1),
		live: r.board.Writer(a.AgentID, a.TurnID, a.MessageID, r.cfg.Secrets),
		done: make(chan struct{}), calls: make(map[string]begunCall), numbers: make(map[string]int64)}
	rec.room = sync.NewCond(&rec.mu)
	go rec.write()
	return rec
}

// sandbox is the payload of sandbox.applied with what holds the container of the agent, which agentd is not told.
func (rec *recorder) sandbox(payload json.RawMessage) json.RawMessage {
	var p turns.Sandbox
	if rec.cfg.Isolation == nil {
		return payload
	}
	in := rec.cfg.Isolation(rec.attempt.AgentID)
	if in == nil || json.Unmarshal(payload, &p) != nil {
		return payload
	}
	p.Enforcement = view.Enforcement(*in)
	if !slices.Contains(slices.Collect(maps.Values(p.Enforcement)), view.Enforced) {
		p.Profile.Mode = turns.ModeUnconfined
	}
	return encode(p)
}

// started is the payload of turn.started with the number of the attempt at the message: agentd knows one turn of it.
func (rec *recorder) started(payload json.RawMessage) json.RawMessage {
	var p turns.Started
	if rec.attempt.Earlier == 0 || json.Unmarshal(payload, &p) != nil {
		return payload
	}
	p.Attempt = rec.attempt.Earlier + 1
	return encode(p)
}

// routing is the payload of routing.decided with who decided on the model. The host names one in each of its requests.
func (rec *recorder) routing(payload json.RawMessage) json.RawMessage {
	var p turns.Routing
	if json.Unmarshal(payload, &p) != nil {
		return payload
	}
	p.DecisionSource, p.DecisionReason = "default", "the agent has no model of its own"
	if rec.attempt.Model != "" {
		p.DecisionSource, p.DecisionReason = "session", "the agent has a model of its own"
	}
	return encode(p)
}

// began records that agentd has accepted the turn, before anything that the turn
// does can be. When that fails it is tried again with what comes then.
func (rec *recorder) began() {
	err := rec.commit(true, scheduler.Through{}, nil)
	rec.add(func() { rec.known, rec.begun = true, err != nil })
}

// close records what is left, also messages of which no fact tells, and ends the recorder and the message that was
// being written.
func (rec *recorder) close() {
	rec.add(func() {
		rec.takeHeld(true)
		if len(rec.rounds.said) > 0 || rec.rounds.failed() {
			rec.told(rec.rounds.rest())
		}
		rec.closed = true
	})
	<-rec.done
	rec.live.Close()
}

func (rec *recorder) add(change func()) {
	rec.mu.Lock()
	change()
	rec.mu.Unlock()
	select {
	case rec.wake <- struct{}{}:
	default:
	}
}

// Event implements runner.Observer: it takes the text of each message that is
// complete, until the fact that ends its round.
func (rec *recorder) Event(ev responses.Event) {
	rec.live.Event(ev)
	m, ok := ev.Item.(*responses.Message)
	if !ok || ev.Type != responses.EventItemDone || m.Role != responses.RoleAssistant {
		return
	}
	text := rec.cfg.Secrets.Text(m.Text())
	rec.add(func() {
		rec.waitForRoom()
		rec.rounds.hear(m, text)
		rec.takeHeld(false)
	})
}

// Fact implements runner.Observer: it takes the facts of a turn, each once.
func (rec *recorder) Fact(ev turns.RuntimeEvent) {
	ev.Payload = rec.cfg.hide(ev.Payload)
	rec.add(func() {
		rec.waitForRoom()
		if ev.Sequence <= rec.newest {
			return
		}
		rec.newest = ev.Sequence
		rec.held = append(rec.held, ev)
		rec.takeHeld(len(rec.held) >= maxPending)
	})
}

// takeHeld takes the facts in their order, up to the first that lacks what the model said: it is about to come. With
// all it takes that too. The caller holds mu.
func (rec *recorder) takeHeld(all bool) {
	for len(rec.held) > 0 && (all || !rec.rounds.lacks(rec.held[0])) {
		ev := rec.held[0]
		rec.held = rec.held[1:]
		rec.take(ev)
	}
}

// take takes a fact. One that a killed process recorded is skipped with the round that it ends. The caller holds mu.
func (rec *recorder) take(ev turns.RuntimeEvent) {
	switch ev.Type {
	case turns.TurnStarted:
		ev.Payload = rec.started(ev.Payload)
	case turns.SandboxApplied:
		ev.Payload = rec.sandbox(ev.Payload)
	case turns.RoutingDecided:
		ev.Payload = rec.routing(ev.Payload)
	}
	call := rec.call(ev)
	made, n, ends := rec.rounds.end(ev)
	p, ok := progressOf(ev, call)
	if p.Cause = rec.numbers[ev.Correlation.CausationID]; p.Event.Type != "" && len(rec.numbers) < maxNumbers {
		rec.numbers[ev.EventID] = ev.Sequence
	}
	if ev.Sequence <= rec.facts {
		rec.items += int64(n)
		return
	}
	if !rec.known { // its container is gone, and its facts are what is left of it
		rec.known, rec.begun = true, true
	}
	rec.facts = ev.Sequence
	if ok {
		rec.append(p)
	}
	if ends {
		rec.told(made, n)
	}
}

// told takes a round with its n messages, unless a killed process recorded them. The caller holds mu.
func (rec *recorder) told(p scheduler.Progress, n int) {
	if rec.items += int64(n); n == 0 || rec.items > rec.attempt.Items {
		rec.append(p)
	}
}

// waitForRoom returns when there is room for more, or nothing is recorded any more. The caller holds mu.
func (rec *recorder) waitForRoom() {
	for !rec.ended && (len(rec.pending) >= maxPending || rec.waiting >= maxPendingBytes) {
		rec.room.Wait()
	}
}

// append takes what is to be recorded. The caller holds mu.
func (rec *recorder) append(p scheduler.Progress) {
	if !rec.ended {
		rec.pending, rec.waiting = append(rec.pending, p), rec.waiting+sizeOf(p)
	}
}

func sizeOf(batch ...scheduler.Progress) (size int) {
	for _, p := range batch {
		size += len(p.Event.Data)
		if p.Transcript != nil {
			size += len(p.Transcript.Data)
		}
		if p.Tool != nil {
			size += len(p.Tool.Input) + len(p.Tool.Output)
		}
	}
	return size
}

// Bounds of what is remembered of a turn: calls that run, and facts that may be causes.
const (
	maxCalls   = 1000
	maxNumbers = 1 << 14
)

// begunCall is a call of a tool that has begun.
type begunCall struct {
	activity.Call
	tool, input string
	round       int
	at          time.Time
}

// call remembers what a call of a tool does when it begins, and returns it then and when it ends. The caller holds mu.
func (rec *recorder) call(ev turns.RuntimeEvent) begunCall {
	call := rec.calls[ev.ToolCallID]
	switch ev.Type {
	case turns.ToolStarted:
		var b turns.Begun
		if json.Unmarshal(ev.Payload, &b) == nil && len(rec.calls) < maxCalls {
			call = begunCall{activity.Of(b.ToolName, b.Arguments), b.ToolName,
				visible.Clip(b.Arguments, maxPreview), rec.rounds.number, ev.Timestamp.Time()}
			rec.calls[ev.ToolCallID] = call
		}
	case turns.ToolResult, turns.ToolFailed:
		delete(rec.calls, ev.ToolCallID)
	}
	return call
}

// write records until the recorder is closed. A failed batch is logged and retried, with
// what came since; what is still pending when the turn has ended is tried plainAfter times,
// because something in it may be wrong and the settlement must not wait for ever.
func (rec *recorder) write() {
	defer close(rec.done)
	defer rec.end()
	for failures := 0; ; {
		<-rec.wake
		rec.mu.Lock()
		begun, closed, batch := rec.begun, rec.closed, rec.pending
		through := scheduler.Through{Facts: rec.facts, Items: max(rec.items, rec.attempt.Items)}
		rec.begun, rec.pending = false, nil
		rec.mu.Unlock()
		err := rec.commit(begun, through, batch)
		rec.mu.Lock()
		if err == nil {
			rec.waiting -= sizeOf(batch...)
			failures = 0
		} else {
			rec.begun, rec.pending = rec.begun || begun, append(batch, rec.pending...)
			failures++
		}
		left := len(rec.pending) > 0 || rec.begun
		rec.mu.Unlock()
		rec.room.Broadcast()
		if err != nil {
			rec.log.Warn("what a turn does cannot be recorded; trying again", "agent", rec.attempt.AgentID, "turn",
				rec.attempt.TurnID, "err", err)
			if closed && failures >= plainAfter || !rec.pause(recordRetry) {
				return
			}
		}
		switch {
		case closed && !left:
			return
		case left:
			rec.add(func() {})
		}
	}
}

// end lets go of whoever waits for room.
func (rec *recorder) end() {
	rec.mu.Lock()
	rec.ended = true
	rec.mu.Unlock()
	rec.room.Broadcast()
}

// commit records one batch. The turn may be at its end, or cut: what it did is
// recorded all the same.
func (rec *recorder) commit(begun bool, through scheduler.Through, batch []scheduler.Progress) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(rec.turns), settleGrace)
	defer cancel()
	if begun {
		if err := rec.scheduler.Began(ctx, rec.attempt.ID, rec.prompt()); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return rec.scheduler.Progress(ctx, rec.attempt.ID, through, batch)
}

// prompt is the prompt that was sent, or nothing when another process sent it.
func (rec *recorder) prompt() scheduler.Sent {
	if rec.sent == nil {
		return scheduler.Sent{}
	}
	data, digest, err := rec.sent.Encode()
	if err != nil { // it has nothing that cannot be encoded
		rec.log.Warn("the prompt of a turn cannot be recorded", "turn", rec.attempt.TurnID, "err", err)
	}
	return scheduler.Sent{Prompt: data, Digest: digest, Work: rec.sent.WorkDigest}
}
