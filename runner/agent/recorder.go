package agent

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/prompt"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// What may wait to be recorded while the ledger cannot be written, in entries and bytes, before reading from agentd
// waits, and how long a failure to record is left alone.
const (
	maxPending      = 1024
	maxPendingBytes = 4 << 20
	recordRetry     = time.Second
)

// recorder brings what a turn does into the ledger while it runs, in the order in which the container reports it: what
// reads from agentd waits for each commit. What a killed process recorded is skipped by its number.
type recorder struct {
	*Runtime
	attempt ledger.Attempt
	sent    *prompt.Prompt // nil when another process sent it
	closed  atomic.Bool

	mu       sync.Mutex
	began    bool // the turn began
	recorded bool // the ledger has that
	entries  record.Entries
	writing  writing
	through  scheduler.Through    // that came
	next     int64                // number of the next event of the response
	files    map[string]string    // of the agent's memory, as they were
	calls    []string             // of functions of the client, that are complete
	pending  []scheduler.Progress // the oldest first
	waiting  int                  // bytes of pending
	failed   time.Time            // when the ledger could not be written last
}

func (r *Runtime) newRecorder(a ledger.Attempt, sent *prompt.Prompt) *recorder {
	rec := &recorder{Runtime: r, attempt: a, sent: sent}
	if sent != nil {
		rec.files = textsOf(sent.Curated)
	} else { // another process read them
		rec.files = textsOf(r.curated(a.AgentID))
	}
	return rec
}

// sandbox is the payload of sandbox.applied with what confines the container of the agent, which agentd cannot see.
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

// routing is the payload of routing.decided with the origin of the model's choice. The host names one in each request.
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

// begin records that agentd has accepted the turn, before anything that the turn
// does can be. When that fails it is tried again with what comes then.
func (rec *recorder) begin() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.began = true
	rec.record()
}

// streamed adds to the end of the turn what its response showed. The recorder is closed.
func (rec *recorder) streamed(end scheduler.End) scheduler.End {
	end.Events, end.ClientCalls, end.MemoryFiles = rec.next, rec.calls, rec.changedFiles()
	return end
}

// close records what is left, and ends the message that was being written.
func (rec *recorder) close() {
	rec.closed.Store(true)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.writing.itemID != "" {
		rec.writing = writing{}
		rec.show()
	}
	rec.record()
}

// Event implements runner.Observer: it takes the text of each message, and records it when the message is complete. An
// event that comes again after a connection broke is skipped.
func (rec *recorder) Event(ev responses.Event) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.event(ev)
	rec.record()
}

func (rec *recorder) event(ev responses.Event) {
	if ev.SequenceNumber < rec.next {
		return
	}
	rec.next = ev.SequenceNumber + 1
	rec.entries.Write(ev)
	if rec.writing.apply(ev, rec.cfg.Secrets) && (rec.writing.itemID == "" || len(rec.pending) == 0) {
		rec.show() // behind what was recorded before it, and no more before its text is recorded
	}
	if c, ok := ev.Item.(*responses.FunctionCall); ok && ev.Type == responses.EventItemDone &&
		c.Status == responses.ItemCompleted {
		rec.calls = append(rec.calls, c.CallID)
	}
	m, ok := ev.Item.(*responses.Message)
	if !ok || ev.Type != responses.EventItemDone || m.Role != responses.RoleAssistant {
		return
	}
	if rec.through.Items++; rec.through.Items > rec.attempt.Items {
		rec.append(rec.entries.Message(m, rec.cfg.Secrets.Text, rec.cfg.Now())...)
	}
}

// show shows the message that the model writes now.
func (rec *recorder) show() {
	var now record.Writing
	if rec.writing.itemID != "" {
		now = record.Writing{TurnID: rec.attempt.TurnID, MessageID: rec.attempt.MessageID, ItemID: rec.writing.itemID,
			Text: rec.writing.whole()}
	}
	rec.writings.show(rec.attempt.AgentID, now)
}

// Fact implements runner.Observer: it takes the facts of a turn, each once.
func (rec *recorder) Fact(ev turns.RuntimeEvent) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.fact(ev)
	rec.record()
}

func (rec *recorder) fact(ev turns.RuntimeEvent) {
	if ev.Sequence <= rec.through.Facts {
		return
	}
	rec.through.Facts = ev.Sequence
	ev.Payload = rec.completed(ev)
	var cut []ledger.Event // text of a message that this ends
	if ev.Type == turns.ModelCompleted || ev.Type == turns.ModelFailed {
		cut = rec.entries.Cut(rec.cfg.Secrets.Text, ev.Timestamp.Time())
	}
	e, cause, taken := rec.entries.Fact(ev)
	if ev.Sequence <= rec.attempt.Facts {
		return
	}
	rec.began = true // also where its container is gone, and its facts are what is left of it
	rec.append(cut...)
	if taken {
		rec.append(e)
		rec.pending[len(rec.pending)-1].Cause = cause
		if patchesMemory(ev) {
			for _, f := range rec.changedFiles() {
				changed := f.Event()
				changed.CreatedAt = rec.cfg.Now()
				rec.append(changed)
			}
		}
	} else if task := taskOf(ev); task != nil {
		rec.pending = append(rec.pending, scheduler.Progress{Task: task})
	}
}

// completed is the payload of a fact without known secrets, with what only the host knows.
func (rec *recorder) completed(ev turns.RuntimeEvent) json.RawMessage {
	payload := rec.cfg.hide(ev.Payload)
	switch ev.Type {
	case turns.TurnStarted:
		return rec.started(payload)
	case turns.SandboxApplied:
		return rec.sandbox(payload)
	case turns.RoutingDecided, turns.RoutingSingle:
		return rec.routing(payload)
	}
	return payload
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

// append takes events that are to be recorded. The caller holds mu, as those of record and commit do.
func (rec *recorder) append(events ...ledger.Event) {
	for _, e := range events {
		rec.pending, rec.waiting = append(rec.pending, scheduler.Progress{Event: e}), rec.waiting+len(e.Data)
	}
}

// record records what is pending. What cannot be is kept, logged and tried again with what comes next; once that is too
// much, what reads from agentd waits, so that nothing is left out. What is still pending when the turn has ended is
// tried plainAfter times: something in it may be wrong, and the settlement must not wait for ever.
func (rec *recorder) record() {
	for tries := 1; len(rec.pending) > 0 || rec.began != rec.recorded; tries++ {
		full := len(rec.pending) >= maxPending || rec.waiting >= maxPendingBytes
		if !full && !rec.closed.Load() && time.Since(rec.failed) < recordRetry {
			return
		}
		err := rec.commit()
		if err == nil {
			return
		}
		rec.failed = time.Now()
		rec.log.Warn("what a turn does cannot be recorded; trying again", "agent", rec.attempt.AgentID, "turn",
			rec.attempt.TurnID, "err", err)
		if state.IsCode(err, ledger.CodeLedgerAway) { // nothing in it is wrong
			tries--
		}
		closed := rec.closed.Load()
		if !closed && !full || closed && tries >= plainAfter || !rec.pause(recordRetry) {
			return
		}
	}
}

// commit records what is pending. The turn may be at its end, or cut: what it did is recorded all the same.
func (rec *recorder) commit() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(rec.turns), settleGrace)
	defer cancel()
	if rec.began && !rec.recorded {
		if err := rec.scheduler.Began(ctx, rec.attempt.ID, rec.prompt()); err != nil {
			return err
		}
		rec.recorded = true
	}
	if len(rec.pending) == 0 {
		return nil
	}
	through := scheduler.Through{Facts: max(rec.through.Facts, rec.attempt.Facts),
		Items: max(rec.through.Items, rec.attempt.Items)}
	err := rec.scheduler.Progress(ctx, rec.attempt.ID, through, rec.pending)
	if err == nil {
		rec.pending, rec.waiting = nil, 0
	}
	return err
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
	return scheduler.Sent{Prompt: data, Digest: digest, Work: rec.sent.WorkDigest, Took: rec.sent.Took,
		Curated: rec.sent.CuratedShown}
}
