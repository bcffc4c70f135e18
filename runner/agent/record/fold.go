package record

import (
	"cmp"
	"encoding/json"
	"strings"

	"holon/responses/agentruntime"
	"holon/responses/turns"
)

// What is said of a fact that the record does not tell.
const (
	unknown       = "unknown"        // it may be so or not
	notApplicable = "not_applicable" // this runtime has no such thing
)

// How many of a kind a fold keeps.
const (
	maxTurns  = 50
	maxTools  = 200
	maxQueue  = 1000
	maxRecent = 100 // of any other kind
	maxGaps   = 32
	maxSteps  = 32 // of a turn
)

// gap is a range of the record that the fold was not given.
type gap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Fold is what the events that were applied say. The zero Fold is not usable: New makes one.
type Fold struct {
	head   Head
	counts map[string]int64 // events by class; all vendor classes are one

	created, updated string // the first and the last timestamp
	kind, template   string
	sessionStatus    string // "" until an event says one
	thread           Thread
	continuation     *Continuation // which is not changed
	turns            window[Turn]
	byStatus         map[string]int64 // turns that ended
	requests         window[modelRequest]
	tools            window[toolCall]
	failedTools      int64
	processes        window[process]
	actions          window[action]
	queue            window[queueEntry]
	tasks            window[Task]
	edges            window[edge]
	taskStatus       map[string]int64
	contexts         window[givenContext]
	compactions      window[compaction]
	artifacts        window[artifact]
	evidence         window[evidence]
	decisions        window[decision]
	violations       window[violation]
	limits           window[limit]
	channels         window[channel]
	children         window[subagent]
	incidents        window[incident]
	outputs          window[output]
	waits            window[wait]
	briefs           window[brief]
	routing          routing
	inventory        inventory
	policy           policy
	sandbox          sandbox
	environment, cwd string
	reported         turns.Environment // of the newest turn, as its container tells
	budget           json.RawMessage
	cost             string     // by the budget; "": unknown
	workspace        string     // in which the agent works
	container        *container // which is not changed
	usage            Usage
}

// New returns the fold of a record that is empty so far.
func New(agentID string) *Fold {
	f := &Fold{
		head:     Head{AgentID: agentID, SchemaVersion: agentruntime.SchemaVersion, Missing: []gap{}},
		counts:   map[string]int64{},
		byStatus: map[string]int64{}, taskStatus: map[string]int64{},
		thread:  Thread{Status: unknown, LastOutcome: unknown},
		routing: routing{Profile: unknown, Model: unknown}, policy: policy{Mode: unknown},
		sandbox: sandbox{Mode: unknown}, environment: unknown, cwd: unknown, workspace: unknown,
		inventory: inventory{State: unknown},
	}
	f.turns.max, f.contexts.max, f.queue.max = maxTurns, maxTurns, maxQueue
	f.requests.max, f.tools.max = maxTools, maxTools
	f.tools.done = func(c *toolCall) bool { return c.Status == "completed" } // failures stay longer
	f.processes.done = func(p *process) bool { return ended(p.Status) }
	f.actions.done = func(a *action) bool { return !isOpen(a) }
	f.waits.done = func(w *wait) bool { return w.Status != "registered" && w.Status != "triggered" }
	f.children.done = (*subagent).closed
	f.tasks.done = func(t *Task) bool { return ended(t.Status) }
	return f
}

// Through is the sequence of the last event that was applied.
func (f *Fold) Through() int64 { return f.head.ThroughSequence }

// lack notes that the events after the last one that was applied, up to a number, are not there.
func (f *Fold) lack(to int64) {
	from := f.head.ThroughSequence + 1
	if from > to {
		return
	}
	f.head.Degraded = true
	if f.head.MissingEvents += to - from + 1; len(f.head.Missing) < maxGaps {
		f.head.Missing = append(f.head.Missing, gap{from, to})
	}
}

// Apply adds the next event. One that has no sequence, or one that is not after the last, changes nothing: a gap stays
// a gap, and is closed by folding again.
func (f *Fold) Apply(e *agentruntime.Event) {
	if e == nil || e.Sequence <= f.head.ThroughSequence {
		return
	}
	f.lack(e.Sequence - 1)
	if f.head.ThroughSequence == 0 {
		f.head.Unclassified = e.Type != "session.created" // which every record begins with
		f.head.first = e.Sequence
	}
	f.head.ThroughSequence = e.Sequence
	f.head.RuntimeID = cmp.Or(clip(e.IDs[agentruntime.Runtime], maxID), f.head.RuntimeID)
	f.head.SessionID = cmp.Or(clip(e.IDs[agentruntime.Session], maxID), f.head.SessionID)
	f.head.ThreadID = cmp.Or(clip(e.IDs[agentruntime.Thread], maxID), f.head.ThreadID)
	f.updated = clip(e.Timestamp, maxID)
	if e.Sequence == 1 { // else it is not known
		f.created = f.updated
	}
	class := e.Type
	if !agentruntime.IsClass(class) {
		class = "other"
		if agentruntime.IsVendor(e.Type) {
			class = "holon.*"
		}
	}
	f.counts[class]++
	f.apply(read(e))
}

// families are what keeps things of a family of events.
var families = map[string]func(*Fold, fact){
	"session": (*Fold).applyThread, "thread": (*Fold).applyThread, "run": (*Fold).applyThread,
	"runtime": (*Fold).applyThread,
	"turn":    (*Fold).applyTurn,
	"model":   (*Fold).applyModel, "cost": (*Fold).applyModel,
	"tool":     (*Fold).applyTool,
	"process":  (*Fold).applyProcess,
	"action":   (*Fold).applyAction,
	"queue":    (*Fold).applyQueue,
	"task":     (*Fold).applyTask,
	"context":  (*Fold).applyContext,
	"artifact": (*Fold).applyReference, "evidence": (*Fold).applyReference, "output": (*Fold).applyReference,
	"permission": (*Fold).applyPolicy, "sandbox": (*Fold).applyPolicy, "policy": (*Fold).applyPolicy,
	"routing": (*Fold).applyRouting, "limit": (*Fold).applyRouting, "rate_limit": (*Fold).applyRouting,
	"quota":    (*Fold).applyRouting,
	"channel":  (*Fold).applyChannel,
	"subagent": (*Fold).applyChild,
	"holon":    (*Fold).applyHost,
}

// apply gives the event to what keeps things of its family. A class that no model needs is only counted.
func (f *Fold) apply(e fact) {
	f.step(e)
	family, _, _ := strings.Cut(e.Type, ".")
	if apply := families[family]; apply != nil {
		apply(f, e)
	}
}
