package conform

import "strings"

type item struct {
	id, typ, callID, name string

	content, summary []any // done parts, decoded
	part             *part // nil when none is open
	arguments        strings.Builder
	argumentsDone    bool
}

type part struct {
	typ     string
	summary bool // it belongs to the summary, not to the content
	text    strings.Builder
	done    bool // its text is done
	notes   []any
}

func (c *Checker) itemAdded(ev *event, _ string) {
	if c.state != isRunning {
		ev.fail(RuleGrammar, "items come after response.in_progress")
	}
	if c.open != nil {
		ev.fail(RuleGrammar, "item %q is still open", c.open.id)
	}
	if c.cut {
		ev.fail(RuleShape, "the item before is incomplete, so it had to be the last")
	}
	c.checkOutputIndex(ev)
	it := ev.obj("item")
	checkItem(it)
	if ev.fault != nil {
		return
	}
	c.open = &item{id: it.str("id"), typ: it.str("type")}
	if s := it.str("status"); s != "in_progress" {
		it.fail(RuleShape, "a new item's status is %q, want in_progress", s)
	}
	c.once(it, RuleItemID, "id", "")
	for _, key := range []string{"content", "summary"} {
		if len(it.list(key)) > 0 {
			it.fail(RuleShape, "a new %s already has %s", c.open.typ, key)
		}
	}
	switch c.open.typ {
	case "function_call":
		c.open.name = it.str("name")
		if it.str("arguments") != "" {
			it.fail(RuleShape, "a new function call already has arguments")
		}
		fallthrough
	case "function_call_output":
		c.open.callID = it.str("call_id")
		c.once(it, RuleCallID, "call_id", c.open.typ)
	}
}

// once demands that no other item, or none of the type, has the same value.
func (c *Checker) once(it *object, rule Rule, key, typ string) {
	value := it.str(key)
	if c.used == nil {
		c.used = make(map[[3]string]bool)
	}
	place := [3]string{key, typ, value}
	if c.used[place] {
		it.fail(rule, "%s %q is used twice", key, value)
	}
	c.used[place] = true
}

func (c *Checker) checkOutputIndex(ev *event) {
	if n := ev.integer("output_index"); n != int64(len(c.output)) {
		ev.fail(RuleOutput, "output_index is %d, want %d", n, len(c.output))
	}
}

func (c *Checker) itemDone(ev *event, _ string) {
	if c.open == nil {
		ev.fail(RuleGrammar, "no item is open")
		return
	}
	c.checkOutputIndex(ev)
	it := ev.obj("item")
	checkItem(it)
	if ev.fault != nil {
		return
	}
	o := c.open
	if it.str("id") != o.id || it.str("type") != o.typ {
		it.fail(RuleItemID, "item %q of type %s is done, open is %q of type %s", it.str("id"), it.str("type"), o.id,
			o.typ)
	}
	if o.part != nil {
		it.fail(RuleGrammar, "its %s part is still open", o.part.typ)
	}
	switch it.str("status") {
	case "in_progress":
		it.fail(RuleShape, "a done item is in_progress")
	case "incomplete":
		c.cut = true
	}
	o.checkFinal(it)
	c.output = append(c.output, map[string]any(it.resource))
	c.open = nil
}

func (o *item) checkFinal(it *object) {
	if it.str("call_id") != o.callID && !isExtension(o.typ) {
		it.fail(RuleCallID, "call_id is %q and was %q", it.str("call_id"), o.callID)
	}
	switch o.typ {
	case "message", "reasoning":
		if !equal(it.list("content"), o.content) {
			it.fail(RuleFinal, "content is not the parts that were streamed")
		}
		if !equal(it.list("summary"), o.summary) {
			it.fail(RuleFinal, "summary is not the parts that were streamed")
		}
	case "function_call":
		if !o.argumentsDone {
			it.fail(RuleGrammar, "there was no function_call_arguments.done")
		}
		if it.str("arguments") != o.arguments.String() {
			it.fail(RuleFinal, "arguments are not what was streamed")
		}
		if it.str("name") != o.name {
			it.fail(RuleFinal, "name is %q and was %q", it.str("name"), o.name)
		}
	}
}

func (c *Checker) arguments(ev *event, name string) {
	o := c.open
	if o == nil || o.typ != "function_call" || o.argumentsDone {
		ev.fail(RuleGrammar, "no function call with open arguments is there")
		return
	}
	c.checkPlace(ev)
	if name == "function_call_arguments.delta" {
		o.arguments.WriteString(ev.str("delta"))
		return
	}
	o.argumentsDone = true
	if ev.str("arguments") != o.arguments.String() {
		ev.fail(RuleFinal, "arguments are not the deltas joined")
	}
	if ev.has("name") && ev.str("name") != o.name {
		ev.fail(RuleFinal, "name is %q and was %q", ev.str("name"), o.name)
	}
}

func (c *Checker) checkPlace(ev *event) {
	c.checkOutputIndex(ev)
	if id := ev.str("item_id"); id != c.open.id {
		ev.fail(RuleItemID, "item_id is %q, open is %q", id, c.open.id)
	}
}
