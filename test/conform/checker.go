package conform

import (
	"fmt"
	"strings"
)

// Rule names what a Violation breaks. The numbers in the comments are those of
// the ten invariants of a stream.
type Rule string

// The rules.
const (
	RuleJSON     Rule = "json"            // an event is one JSON object with a type
	RuleGrammar  Rule = "grammar"         // an event may only come where the grammar has it
	RuleShape    Rule = "shape"           // required keys are there, with the right type and value
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
	RuleNullList Rule = "null_list"       // 10: lists are never null; optional keys are absent, not null
)

// Violation says which rule a stream breaks, and where.
type Violation struct {
	Rule   Rule
	Index  int64  // position of the event in the stream, from 0
	Type   string // type of the event, "" when it has none
	Detail string
}

// Error implements error.
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
	output     []any           // done items, decoded
	ids        map[string]bool // item ids
	callIDs    map[string]bool // item type, space, call id
	cut        bool            // the last item is incomplete
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
		c.check(ev)
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

// check applies the rules that hold for all events and hands on to those of
// the event's type.
func (c *Checker) check(ev *event) {
	if n := ev.integer("sequence_number"); n != c.index {
		ev.fail(RuleSequence, "sequence_number is %d, want %d", n, c.index)
	}
	if ev.has("error") && ev.typ != "error" {
		ev.fail(RuleErrorKey, "the event has a top-level key \"error\"")
	}
	ev.absentOrSet("logprobs", "obfuscation")
	if c.state == hasEnded {
		ev.fail(RuleTerminal, "nothing may follow the terminal event")
	}
	if c.state == atStart && ev.typ != "response.created" {
		ev.fail(RuleCreated, "the first event must be response.created")
	}
	if ev.fault != nil {
		return
	}
	switch name := strings.TrimPrefix(ev.typ, "response."); name {
	case "created", "queued", "in_progress", "completed", "failed", "incomplete":
		c.lifecycle(ev, name)
	case "output_item.added":
		c.itemAdded(ev)
	case "output_item.done":
		c.itemDone(ev)
	case "function_call_arguments.delta", "function_call_arguments.done":
		c.arguments(ev, name)
	default:
		c.partEvent(ev, name)
	}
}

// lifecycle checks an event that carries a snapshot of the response.
func (c *Checker) lifecycle(ev *event, name string) {
	next, from := isRunning, []state{isCreated, isQueued}
	switch name {
	case "created":
		next, from = isCreated, []state{atStart}
	case "queued":
		next, from = isQueued, []state{isCreated}
	case "completed", "failed", "incomplete":
		next, from = hasEnded, []state{isRunning}
		if name != "completed" { // a response can fail before it begins
			from = append(from, isCreated, isQueued)
		}
	}
	ok := false
	for _, s := range from {
		ok = ok || s == c.state
	}
	if !ok {
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

// checkSnapshot compares a snapshot with what was streamed so far.
func (c *Checker) checkSnapshot(r *object, name string) {
	id, status := r.str("id"), r.str("status")
	if c.responseID == "" {
		c.responseID = id
	}
	if id != c.responseID {
		r.fail(RuleShape, "the response's id is %q and was %q", id, c.responseID)
	}
	want := map[string]string{"created": "in_progress queued", "failed": "failed cancelled"}[name]
	if want == "" {
		want = name
	}
	if !contains(strings.Fields(want), status) {
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

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
