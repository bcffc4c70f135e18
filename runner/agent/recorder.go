package agent

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/prompt"
	"holon/runner/agent/record"
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

// recorder brings what a turn does into the ledger while it runs, in the order in which the container tells it. A
// commit takes everything that came since the one before; when the ledger is slow, what reads from agentd waits, so
// that nothing is left out. What a killed process recorded is skipped by its number.
type recorder struct {
	*Runtime
	attempt ledger.Attempt
	sent    *prompt.Prompt // nil when another process sent it
	wake    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	room    *sync.Cond // there is room again, or the recorder ended
	closed  bool
	ended   bool // nothing is recorded any more
	known   bool // that the turn began, or begun is set
	begun   bool // to be recorded
	entries record.Entries
	writing writing
	through scheduler.Through    // that came
	next    int64                // number of the next event of the response
	pending []scheduler.Progress // the oldest first
	waiting int                  // bytes of pending
}

func (r *Runtime) newRecorder(a ledger.Attempt, sent *prompt.Prompt) *recorder {
	rec := &recorder{Runtime: r, attempt: a, sent: sent, wake: make(chan struct{}, 1),
		done: make(chan struct{})}
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

// close records what is left, and ends the recorder and the message that was being written.
func (rec *recorder) close() {
	rec.add(func() { rec.closed, rec.writing = true, writing{} })
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

// Event implements runner.Observer: it takes the text of each message, and records it when the message is complete. An
// event that comes again after a connection broke is skipped.
func (rec *recorder) Event(ev responses.Event) {
	rec.mu.Lock()
	if ev.SequenceNumber < rec.next {
		rec.mu.Unlock()
		return
	}
	rec.next = ev.SequenceNumber + 1
	rec.entries.Write(ev)
	more := rec.writing.apply(ev, rec.cfg.Secrets)
	rec.mu.Unlock()
	if more {
		rec.add(func() {})
	}
	m, ok := ev.Item.(*responses.Message)
	if !ok || ev.Type != responses.EventItemDone || m.Role != responses.RoleAssistant {
		return
	}
	rec.add(func() {
		rec.waitForRoom()
		if rec.through.Items++; rec.through.Items <= rec.attempt.Items {
			return
		}
		for _, e := range rec.entries.Message(m, rec.cfg.Secrets.Text, rec.cfg.Now()) {
			rec.append(scheduler.Progress{Event: e})
		}
	})
}

// Fact implements runner.Observer: it takes the facts of a turn, each once.
func (rec *recorder) Fact(ev turns.RuntimeEvent) {
	ev.Payload = rec.cfg.hide(ev.Payload)
	switch ev.Type {
	case turns.TurnStarted:
		ev.Payload = rec.started(ev.Payload)
	case turns.SandboxApplied:
		ev.Payload = rec.sandbox(ev.Payload)
	case turns.RoutingDecided:
		ev.Payload = rec.routing(ev.Payload)
	}
	rec.add(func() {
		rec.waitForRoom()
		if ev.Sequence <= rec.through.Facts {
			return
		}
		rec.through.Facts = ev.Sequence
		var cut []ledger.Event // text of a message that this ends
		if ev.Type == turns.ModelCompleted || ev.Type == turns.ModelFailed {
			cut = rec.entries.Cut(rec.cfg.Secrets.Text, ev.Timestamp.Time())
		}
		var p scheduler.Progress
		var taken bool
		if p.Event, p.Cause, taken = rec.entries.Fact(ev); !taken {
			p.Task = taskOf(ev)
		}
		if ev.Sequence <= rec.attempt.Facts {
			return
		}
		for _, e := range cut {
			rec.append(scheduler.Progress{Event: e})
		}
		if !rec.known { // its container is gone, and its facts are what is left of it
			rec.known, rec.begun = true, true
		}
		if taken || p.Task != nil {
			rec.append(p)
		}
	})
}

// taskOf is a task that a turn began, nil for other facts. Its container tells the rest of it.
func taskOf(ev turns.RuntimeEvent) *tasks.Snapshot {
	var b turns.TaskBegun
	if ev.Type != turns.TaskCreated || json.Unmarshal(ev.Payload, &b) != nil || b.Process == nil {
		return nil
	}
	return &tasks.Snapshot{TaskID: ev.TaskID, Kind: tasks.KindCommand, Status: tasks.Running,
		Summary: "command is running", CreatedAt: ev.Timestamp, TurnID: ev.TurnID,
		Command: &tasks.Command{Cmd: b.Process.Command, CmdPreview: b.Process.Command, Workdir: b.Process.Cwd,
			TTY: b.Process.TTY, AcceptsInput: b.Process.AcceptsInput}}
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
		rec.pending, rec.waiting = append(rec.pending, p), rec.waiting+len(p.Event.Data)
	}
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
		through := scheduler.Through{Facts: max(rec.through.Facts, rec.attempt.Facts),
			Items: max(rec.through.Items, rec.attempt.Items)}
		rec.begun, rec.pending = false, nil
		now := record.Writing{TurnID: rec.attempt.TurnID, MessageID: rec.attempt.MessageID, ItemID: rec.writing.itemID,
			Text: rec.writing.whole()}
		rec.mu.Unlock()
		if before, _ := rec.writings.look(rec.attempt.AgentID); before.ItemID != now.ItemID && before.ItemID != "" {
			rec.writings.show(rec.attempt.AgentID, record.Writing{}) // before its text is recorded
		}
		err := rec.commit(begun, through, batch)
		rec.mu.Lock()
		if err == nil {
			if now.ItemID != "" {
				rec.writings.show(rec.attempt.AgentID, now) // behind what was recorded before it
			}
			for _, p := range batch {
				rec.waiting -= len(p.Event.Data)
			}
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
