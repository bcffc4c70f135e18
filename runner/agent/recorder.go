package agent

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/runner/agent/prompt"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// What may wait to be recorded, in entries and bytes, and how long a failure to
// record is left alone.
const (
	maxPending      = 1024
	maxPendingBytes = 4 << 20
	recordRetry     = time.Second
)

// recorder mirrors a turn into the ledger while it runs. It never delays the turn: a
// commit takes everything that came since the one before. Facts and items that a killed
// process recorded are skipped by their numbers.
type recorder struct {
	*Runtime
	attempt ledger.Attempt
	sent    *prompt.Prompt // nil when another process sent it
	wake    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	closed  bool
	begun   bool                     // to be recorded
	facts   int64                    // number of the newest fact that was taken
	items   int64                    // of the response, that were taken
	calls   map[string]activity.Call // that have begun and not ended, by id
	pending []scheduler.Progress     // the oldest first
	waiting int                      // bytes of pending
}

func (r *Runtime) newRecorder(a ledger.Attempt, sent *prompt.Prompt) *recorder {
	rec := &recorder{Runtime: r, attempt: a, sent: sent, facts: a.Facts, wake: make(chan struct{}, 1),
		done: make(chan struct{}), calls: make(map[string]activity.Call)}
	go rec.write()
	return rec
}

// began records that agentd has accepted the turn, before anything that the turn
// does can be. When that fails it is tried again with what comes then.
func (rec *recorder) began() {
	if err := rec.commit(true, scheduler.Through{}, nil); err != nil {
		rec.add(func() { rec.begun = true })
	}
}

// close records what is left and ends the recorder.
func (rec *recorder) close() {
	rec.add(func() { rec.closed = true })
	<-rec.done
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
// complete.
func (rec *recorder) Event(ev responses.Event) {
	p, ok := assistantRound(ev, rec.cfg.Secrets)
	if !ok {
		return
	}
	rec.add(func() {
		if rec.items++; rec.items > rec.attempt.Items {
			rec.append(p)
		}
	})
}

// append takes what there is room for: an agent that says more than can be
// recorded is not waited for. The caller holds mu.
func (rec *recorder) append(p scheduler.Progress) {
	if size := sizeOf(p); len(rec.pending) < maxPending && rec.waiting+size <= maxPendingBytes {
		rec.pending, rec.waiting = append(rec.pending, p), rec.waiting+size
	}
}

func sizeOf(batch ...scheduler.Progress) (size int) {
	for _, p := range batch {
		size += len(p.Event.Data)
		if p.Transcript != nil {
			size += len(p.Transcript.Data)
		}
	}
	return size
}

// Fact implements runner.Observer.
func (rec *recorder) Fact(ev turns.RuntimeEvent) {
	ev.Payload = rec.cfg.Secrets.JSON(ev.Payload, nil)
	rec.add(func() {
		p, ok := progressOf(ev, rec.call(ev))
		if ev.Sequence <= rec.facts {
			return
		}
		rec.facts = ev.Sequence
		if ok {
			rec.append(p)
		}
	})
}

// maxCalls bounds the calls that are remembered while they run.
const maxCalls = 1000

// call remembers what a call of a tool does when it begins, and returns it when it ends. The caller holds mu.
func (rec *recorder) call(ev turns.RuntimeEvent) activity.Call {
	call := rec.calls[ev.ToolCallID]
	switch ev.Type {
	case turns.ToolStarted:
		var b turns.Begun
		if json.Unmarshal(ev.Payload, &b) == nil && len(rec.calls) < maxCalls {
			rec.calls[ev.ToolCallID] = activity.Of(b.ToolName, rec.cfg.Secrets.Text(b.Arguments))
		}
	case turns.ToolResult, turns.ToolFailed:
		delete(rec.calls, ev.ToolCallID)
	}
	return call
}

// write records until the recorder is closed. A failed batch is logged and retried with
// the next one; after the turn ended it is retried once and given up, because the
// settlement must not wait for it.
func (rec *recorder) write() {
	defer close(rec.done)
	for {
		<-rec.wake
		rec.mu.Lock()
		begun, closed, batch := rec.begun, rec.closed, rec.pending
		through := scheduler.Through{Facts: rec.facts, Items: max(rec.items, rec.attempt.Items)}
		rec.begun, rec.pending, rec.waiting = false, nil, 0
		rec.mu.Unlock()
		if err := rec.commit(begun, through, batch); err != nil {
			rec.log.Warn("what a turn does cannot be recorded", "agent", rec.attempt.AgentID, "turn",
				rec.attempt.TurnID, "err", err)
			if !closed && rec.pause(recordRetry) {
				rec.add(func() {
					rec.begun, rec.pending, rec.waiting = rec.begun || begun, append(batch, rec.pending...),
						rec.waiting+sizeOf(batch...)
				})
			}
		}
		if closed {
			return
		}
	}
}

// commit records one batch. The turn may be at its end, or cut: what it did is
// recorded all the same.
func (rec *recorder) commit(begun bool, through scheduler.Through, batch []scheduler.Progress) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(rec.turns), settleGrace)
	defer cancel()
	if begun {
		data, digest := rec.prompt()
		if err := rec.scheduler.Began(ctx, rec.attempt.ID, data, digest); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return rec.scheduler.Progress(ctx, rec.attempt.ID, through, batch)
}

// prompt returns the prompt that was sent and its digest, or nothing when another
// process sent it.
func (rec *recorder) prompt() (data json.RawMessage, digest string) {
	if rec.sent == nil {
		return nil, ""
	}
	data, digest, err := rec.sent.Encode()
	if err != nil { // it has nothing that cannot be encoded
		rec.log.Warn("the prompt of a turn cannot be recorded", "turn", rec.attempt.TurnID, "err", err)
	}
	return data, digest
}
