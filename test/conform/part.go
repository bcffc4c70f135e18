package conform

import (
	"slices"
	"strings"
)

// partEvents maps each event within a part to the type of that part and to
// what the event does; "" stands for any type that a content part may have.
var partEvents = map[string]struct{ typ, verb string }{
	"content_part.added":           {"", "added"},
	"content_part.done":            {"", "closed"},
	"output_text.delta":            {"output_text", "delta"},
	"output_text.done":             {"output_text", "done"},
	"output_text.annotation.added": {"output_text", "annotation"},
	"refusal.delta":                {"refusal", "delta"},
	"refusal.done":                 {"refusal", "done"},
	"reasoning.delta":              {"reasoning_text", "delta"},
	"reasoning.done":               {"reasoning_text", "done"},
	"reasoning_summary_part.added": {"summary_text", "added"},
	"reasoning_summary_part.done":  {"summary_text", "closed"},
	"reasoning_summary_text.delta": {"summary_text", "delta"},
	"reasoning_summary_text.done":  {"summary_text", "done"},
}

func (c *Checker) partEvent(ev *event, name string) {
	what := partEvents[name]
	if c.open == nil {
		ev.fail(RuleGrammar, "no item is open")
		return
	}
	c.checkPlace(ev)
	summary := what.typ == "summary_text"
	if what.verb == "added" {
		c.open.addPart(ev, summary)
		return
	}
	p := c.open.part
	if p == nil || p.summary != summary || what.typ != "" && what.typ != p.typ {
		ev.fail(RuleGrammar, "no part that it could belong to is open")
		return
	}
	c.open.checkIndex(ev, summary)
	switch what.verb {
	case "delta":
		if p.done {
			ev.fail(RuleGrammar, "the part's text is already done")
		}
		p.text.WriteString(ev.str("delta"))
	case "done":
		if p.done {
			ev.fail(RuleGrammar, "the part's text is already done")
		}
		p.done = true
		p.checkText(&ev.object)
	case "annotation":
		if n := ev.integer("annotation_index"); n != int64(len(p.notes)) {
			ev.fail(RulePart, "annotation_index is %d, want %d", n, len(p.notes))
		}
		a := ev.obj("annotation")
		checkAnnotation(a)
		p.notes = append(p.notes, map[string]any(a.resource))
	case "closed":
		c.open.closePart(ev)
	}
}

// checkIndex checks content_index or summary_index: the number of parts before.
func (o *item) checkIndex(ev *event, summary bool) {
	key, want := "content_index", len(o.content)
	if summary {
		key, want = "summary_index", len(o.summary)
	}
	if n := ev.integer(key); n != int64(want) {
		ev.fail(RulePart, "%s is %d, want %d", key, n, want)
	}
}

// textKey is the key of each type of part that has its text.
func (p *part) textKey() string {
	if p.typ == "refusal" {
		return "refusal"
	}
	return "text"
}

// checkText compares the text of a part, or of an event about it, with its deltas.
func (p *part) checkText(o *object) {
	if key := p.textKey(); o.str(key) != p.text.String() {
		o.fail(RuleFinal, "%s is not the deltas joined", key)
	}
}

func (o *item) addPart(ev *event, summary bool) {
	if o.part != nil {
		ev.fail(RuleGrammar, "the %s part before is still open", o.part.typ)
	}
	o.checkIndex(ev, summary)
	in := ev.obj("part")
	p := &part{typ: in.str("type"), summary: summary}
	allowed := map[string]string{"message": "output_text refusal", "reasoning": "reasoning_text"}[o.typ]
	if summary {
		allowed = map[string]string{"reasoning": "summary_text"}[o.typ]
	}
	if !slices.Contains(strings.Fields(allowed), p.typ) {
		in.fail(RuleGrammar, "a %s item cannot have a %s part here", o.typ, p.typ)
	}
	if in.str(p.textKey()) != "" {
		in.fail(RuleShape, "a new part already has text")
	}
	o.part = p
}

func (o *item) closePart(ev *event) {
	p, final := o.part, ev.obj("part")
	checkPart(final)
	if !p.done {
		ev.fail(RuleGrammar, "the part's text is not done")
	}
	if final.str("type") != p.typ {
		final.fail(RuleFinal, "type is %q and was %q", final.str("type"), p.typ)
	}
	p.checkText(final)
	if p.typ == "output_text" && !equal(final.list("annotations"), p.notes) {
		final.fail(RuleFinal, "annotations are not those that were streamed")
	}
	if p.summary {
		o.summary = append(o.summary, map[string]any(final.resource))
	} else {
		o.content = append(o.content, map[string]any(final.resource))
	}
	o.part = nil
}
