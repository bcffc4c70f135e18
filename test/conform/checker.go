package conform

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Rule names what a Violation breaks. The numbers in the comments are those of
// the ten invariants of a stream.
type Rule string

const (
	RuleJSON     Rule = "json"            // an event is one JSON object with a type
	RuleGrammar  Rule = "grammar"         // an event may only come where the grammar has it
	RuleShape    Rule = "shape"           // 10: it fits the protocol's document, so no list is null
	RuleFraming  Rule = "framing"         // bytes on the wire
	RuleSequence Rule = "sequence_number" // 1: 0, 1, 2, … without gaps
	RuleOutput   Rule = "output_index"    // 2: dense, in order of added, equal to the final position
	RulePart     Rule = "part_index"      // 3: content and summary indices start at 0 in each item
	RuleItemID   Rule = "item_id"         // 4: one id for an item everywhere, not empty, unique
	RuleCallID   Rule = "call_id"         // 5: unique per item type, 1 to 64 characters, not the item's id
	RuleFinal    Rule = "final_value"     // 6: done, item and response repeat what was streamed
	RuleCreated  Rule = "created_first"   // 7: response.created is first and has no output
	RuleErrorKey Rule = "error_key"       // 8: no top-level key "error"
	RuleTerminal Rule = "terminal"        // 9: exactly one terminal event, after everything was closed
)

// Violation says which rule a stream breaks, and where.
type Violation struct {
	Rule   Rule
	Index  int64  // position of the event in the stream, from 0
	Type   string // type of the event, "" when it has none
	Detail string
}

func (v *Violation) Error() string {
	at := fmt.Sprintf("event %d", v.Index)
	if v.Type != "" {
		at += " (" + v.Type + ")"
	}
	return fmt.Sprintf("%s breaks the rule %s: %s", at, v.Rule, v.Detail)
}

// Checker checks one stream, event by event. The zero Checker is ready and
// accepts what the protocol itself defines. It belongs to one goroutine.
type Checker struct {
	// Extensions accepts items and events with a "slug:" before their name, for
	// requests that asked for them.
	Extensions bool

	err   error // the first violation, for good
	index int64
	typ   string // of the last event
	state state

	responseID string
	output     []any              // done items, decoded
	used       map[[3]string]bool // ids: key, item type or "", value
	cut        bool               // the last item is incomplete
	open       *item
}

type state uint8

const (
	atStart   state = iota // nothing seen
	isCreated              // response.created seen
	isQueued               // response.queued seen
	isRunning              // response.in_progress seen
	hasEnded               // the terminal event was seen
)

// Event checks the next event, one JSON object. After the first error, a
// *Violation, it returns that error for good.
func (c *Checker) Event(data []byte) error {
	if c.err != nil {
		return c.err
	}
	ev := decodeEvent(data)
	c.typ = ev.typ
	if ev.fault == nil {
		if c.err = c.check(ev, data); c.err != nil {
			return c.err
		}
	}
	if v := ev.fault; v != nil {
		v.Index, v.Type = c.index, ev.typ
		c.err = v
		return v
	}
	c.index++
	return nil
}

// End checks that the stream may end here.
func (c *Checker) End() error {
	if c.err == nil && c.state != hasEnded {
		c.err = &Violation{Rule: RuleTerminal, Index: c.index, Detail: "the stream ends without a terminal event"}
	}
	return c.err
}

// rulesOf has what is demanded of each type of event, by its name after "response.".
var rulesOf = eventRules()

func eventRules() map[string]func(*Checker, *event, string) {
	rules := map[string]func(*Checker, *event, string){
		"output_item.added": (*Checker).itemAdded, "output_item.done": (*Checker).itemDone,
		"function_call_arguments.delta": (*Checker).arguments, "function_call_arguments.done": (*Checker).arguments,
	}
	for _, name := range strings.Fields("created queued in_progress completed failed incomplete") {
		rules[name] = (*Checker).lifecycle
	}
	for name := range partEvents {
		rules[name] = (*Checker).partEvent
	}
	return rules
}

// check applies the rules that hold for all events and hands on to those of
// the event's type. Its error is that there is no document.
func (c *Checker) check(ev *event, data []byte) error {
	name := strings.TrimPrefix(ev.typ, "response.")
	rules, ok := rulesOf[name]
	foreign := !ok && c.Extensions && isExtension(ev.typ)
	switch {
	case !ok && !foreign:
		ev.fail(RuleGrammar, "the type is none that a stream may have")
	case ev.has("error"):
		ev.fail(RuleErrorKey, "the event has a top-level key \"error\"")
	case !foreign:
		if err := c.checkShape(ev, data); err != nil || ev.fault != nil {
			return err
		}
	}
	if n := ev.integer("sequence_number"); n != c.index {
		ev.fail(RuleSequence, "sequence_number is %d, want %d", n, c.index)
	}
	if c.state == hasEnded {
		ev.fail(RuleTerminal, "nothing may follow the terminal event")
	}
	if c.state == atStart && name != "created" {
		ev.fail(RuleCreated, "the first event must be response.created")
	}
	if ev.fault == nil && !foreign {
		rules(c, ev, name)
	}
	return nil
}

func (c *Checker) lifecycle(ev *event, name string) {
	next, from := hasEnded, []state{isCreated, isQueued, isRunning} // a response can fail before it begins
	switch name {
	case "created":
		next, from = isCreated, []state{atStart}
	case "queued":
		next, from = isQueued, []state{isCreated}
	case "in_progress":
		next, from = isRunning, []state{isCreated, isQueued}
	case "completed":
		from = []state{isRunning}
	}
	if !slices.Contains(from, c.state) {
		ev.fail(RuleGrammar, "it may not come here")
	}
	if c.open != nil {
		ev.fail(RuleTerminal, "item %q is still open", c.open.id)
	}
	snapshot := ev.obj("response")
	checkResponse(snapshot)
	c.checkSnapshot(snapshot, name)
	c.state = next
}

func (c *Checker) checkSnapshot(r *object, name string) {
	id, status := r.str("id"), r.str("status")
	c.responseID = cmp.Or(c.responseID, id)
	if id != c.responseID {
		r.fail(RuleShape, "the response's id is %q and was %q", id, c.responseID)
	}
	want := []string{name}
	switch name {
	case "created":
		want = []string{"in_progress", "queued"}
	case "failed":
		want = []string{"failed", "cancelled"}
	}
	if !slices.Contains(want, status) {
		r.fail(RuleShape, "the response's status is %q, want %s", status, want)
	}
	output := r.list("output")
	if name == "created" && len(output) > 0 {
		r.fail(RuleCreated, "the response already has output")
	}
	if !equal(output, c.output) {
		r.fail(RuleFinal, "the response's output is not the items that were streamed")
	}
	if c.cut && name == "completed" {
		r.fail(RuleShape, "the last item is incomplete and the response is completed")
	}
}
