package main

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/egress"
	"holon/runner/oneshot"
)

// shower shows a run. It is told of one thing at a time, in the order in which things happened.
type shower interface {
	oneshot.Watcher
	Egress(f egress.Fact)
}

// ordered hands what comes on two connections, the messages of a turn and its facts, to a shower in the order in which
// it happened: a message comes after the results of the round before and before the calls of its own. The fact that
// ends a round names its messages, so a message waits for that fact and goes before it. One that is shown while it is
// written cannot wait for its end; it begins when a request is open and no other fact comes for a moment.
type ordered struct {
	shower
	live bool // messages are shown while they are written

	mu        sync.Mutex
	events    []heldEvent          // from the first on that belongs to a message that is not due
	facts     []turns.RuntimeEvent // from the first on that names messages that have not come
	open      string               // id of the message that is being shown
	done      map[string]bool      // ids of messages that were shown, and that no fact has named
	requested bool                 // a model is asked, so that the calls of earlier rounds have ended
	newest    time.Time            // when the newest fact came
	again     *time.Timer
}

type heldEvent struct {
	responses.Event
	came time.Time
}

// Bounds of what waits: facts for a message, and how long a message that is shown while it is written waits for facts
// that come late, and for none to come.
const (
	maxHeld   = 1000
	lateFacts = time.Second
	noFacts   = 100 * time.Millisecond
)

func newOrdered(to shower, live bool) *ordered {
	return &ordered{shower: to, live: live, done: make(map[string]bool)}
}

// Phase implements oneshot.Watcher. When the turn is over, nothing waits any more.
func (o *ordered) Phase(name string) {
	if name != "prepare" && name != "turn" {
		o.mu.Lock()
		o.release(true)
		o.mu.Unlock()
	}
	o.shower.Phase(name)
}

// Event implements runner.Observer.
func (o *ordered) Event(ev responses.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.live && (ev.Type != responses.EventItemDone || messageOf(ev) == "") {
		o.shower.Event(ev) // only whole messages are shown
		return
	}
	o.events = append(o.events, heldEvent{ev, time.Now()})
	o.release(false)
}

// Fact implements runner.Observer.
func (o *ordered) Fact(ev turns.RuntimeEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.newest = time.Now()
	o.facts = append(o.facts, ev)
	o.release(len(o.facts) > maxHeld)
}

// release shows what is due, or all. The caller holds mu.
func (o *ordered) release(all bool) {
	for {
		switch {
		case len(o.facts) > 0 && !o.lacks(o.facts[0]):
			o.showFact()
		case len(o.events) > 0 && (all || o.due(o.events[0])):
			o.showMessage()
		case len(o.facts) > 0 && all:
			o.showFact()
		default:
			o.lookAgain()
			return
		}
	}
}

// lacks reports whether a fact names messages that were not shown.
func (o *ordered) lacks(ev turns.RuntimeEvent) bool {
	return slices.ContainsFunc(messagesOf(ev), func(id string) bool { return !o.done[id] })
}

// due reports whether an event is to be shown now. The first fact that is held lacks it or what comes after it.
func (o *ordered) due(ev heldEvent) bool {
	id := messageOf(ev.Event)
	if id == "" || id == o.open || len(o.facts) > 0 {
		return true
	}
	return o.live && (time.Since(ev.came) >= lateFacts || o.requested && time.Since(o.newest) >= noFacts &&
		time.Since(ev.came) >= noFacts)
}

func (o *ordered) showFact() {
	ev := o.facts[0]
	o.facts = o.facts[1:]
	for _, id := range messagesOf(ev) {
		delete(o.done, id)
	}
	switch ev.Type {
	case turns.ModelRequested:
		o.requested = true
	case turns.ModelCompleted, turns.ModelFailed:
		o.requested = false
	}
	o.shower.Fact(ev)
}

func (o *ordered) showMessage() {
	ev := o.events[0].Event
	o.events = o.events[1:]
	switch id := messageOf(ev); {
	case id != "" && ev.Type == responses.EventItemDone:
		o.open, o.done[id] = "", true
	case id != "":
		o.open = id
	}
	o.shower.Event(ev)
}

// lookAgain sees to it that a message that is held is shown although nothing else comes.
func (o *ordered) lookAgain() {
	if o.again != nil {
		o.again.Stop()
	}
	if !o.live || len(o.events) == 0 {
		return
	}
	o.again = time.AfterFunc(noFacts, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.release(false)
	})
}

// messageOf is the message that an event belongs to, "" for none.
func messageOf(ev responses.Event) string {
	if m, ok := ev.Item.(*responses.Message); ok {
		return m.ID
	}
	if strings.HasPrefix(ev.ItemID, responses.PrefixMessage) {
		return ev.ItemID
	}
	return ""
}

// messagesOf are the messages of the round that a fact ends.
func messagesOf(ev turns.RuntimeEvent) []string {
	var answered turns.Sampled
	if ev.Type != turns.ModelCompleted || json.Unmarshal(ev.Payload, &answered) != nil {
		return nil
	}
	return answered.Messages
}
