package openai

import (
	"slices"
	"strings"

	"holon/agentd/model"
	"holon/responses"
)

// place is where a text belongs within its item.
type place struct {
	kind model.EventKind
	part int // its index among the parts; 0 for a call
}

type endedPart struct {
	place
	text string
}

func placeOf(kind model.EventKind, content, summary int) place {
	switch kind {
	case model.CallDelta:
		return place{kind, 0}
	case model.SummaryDelta:
		return place{kind, summary}
	}
	return place{kind, content}
}

func (ev *wireEvent) place(kind model.EventKind) place {
	return placeOf(kind, ev.ContentIndex, ev.SummaryIndex)
}

// delta passes a piece of an item on. Pieces of items that are ignored, have ended, or are of another kind are
// dropped. A piece of another part ends the open one, for servers that don't.
func (a *assembly) delta(d delta) error {
	it := a.items[d.index]
	if it == nil || it.Ended() || it.kind != kindOf(d.kind) || d.text == "" {
		return nil
	}
	if (it.part || it.joins.Holds()) && it.open != d.place {
		if err := a.endPart(it); err != nil {
			return err
		}
	}
	return a.piece(it, d)
}

// piece passes on a piece of the open part, or begins one.
func (a *assembly) piece(it *item, d delta) error {
	if it.kind != kindOf(d.kind) || d.text == "" {
		return nil
	}
	it.open = d.place
	if it.joins.kind != d.kind {
		if err := a.endText(it); err != nil {
			return err
		}
		it.joins.kind = d.kind
	}
	text := it.joins.Join(d.text)
	if text == "" { // only half a character so far
		it.joins.probs = append(it.joins.probs, d.probs...)
		return nil
	}
	if it.joins.probs != nil {
		d.probs, it.joins.probs = append(it.joins.probs, d.probs...), nil
	}
	return a.say(it, d.kind, text, d.probs)
}

// rest takes the whole text of a part, or of a call's arguments, and passes on the
// part that deltas did not contain. Text that was passed on stays, even if it
// differs.
func (a *assembly) rest(index int, at place, whole string) error {
	it := a.items[index]
	if it == nil || it.Ended() || it.kind != kindOf(at.kind) {
		return nil
	}
	if it.kind == call {
		return a.restOfCall(it, whole)
	}
	if it.repeats(at, whole) {
		return nil
	}
	if it.part && it.open != at {
		if err := a.endPart(it); err != nil {
			return err
		}
	}
	tail, extends := strings.CutPrefix(whole, it.text.String())
	if !extends || tail == "" {
		return nil
	}
	it.joins = joins{kind: at.kind} // the held text is part of the whole
	return a.piece(it, delta{place: at, text: model.WireText(tail)})
}

// repeats reports whether a whole text is that of a part that ended already.
func (it *item) repeats(at place, whole string) bool {
	if it.part {
		return it.open != at && slices.ContainsFunc(it.ended, func(p endedPart) bool { return p.place == at })
	}
	if n := len(it.ended); n > 0 && it.ended[n-1].text == whole {
		return true
	}
	return slices.Contains(it.ended, endedPart{at, whole})
}

func (a *assembly) restOfCall(it *item, whole string) error {
	if it.opening != "" {
		whole = it.opening + escaped(whole)
	}
	tail, extends := strings.CutPrefix(whole, it.args.String())
	if !extends || tail == "" {
		return nil
	}
	it.joins = joins{} // the held text is part of the whole
	return a.pass(it, model.CallDelta, tail, nil)
}

// partEnded ends a part, unless another one is open.
func (a *assembly) partEnded(index, part int, summary bool) error {
	it := a.items[index]
	if it == nil || it.Ended() {
		return nil
	}
	if (it.part || it.joins.Holds()) && (it.open.part != part || summary != (it.open.kind == model.SummaryDelta)) {
		return nil
	}
	return a.endPart(it)
}

func (a *assembly) endPart(it *item) error {
	if err := a.endText(it); err != nil {
		return err
	}
	if !it.part {
		return nil
	}
	it.part = false
	it.ended = append(it.ended, endedPart{it.open, it.text.String()})
	it.text.Reset()
	if it.open.kind == model.SummaryDelta {
		return a.queue.Push(&it.QueuedItem, model.Event{Kind: model.SummaryPartEnd})
	}
	return nil
}

// unsaid passes on the content of a whole item that its deltas did not contain: the rest of its last part, and
// the parts after it. Text that was passed on stays, and what follows text that differs is left out.
func (a *assembly) unsaid(it *item, w *wireItem) error {
	if it.kind == call {
		return a.restOfCall(it, w.Arguments+w.Input) // an item has one of them
	}
	said := it.ended
	for i, p := range append(w.Summary, w.Content...) {
		kind, text := p.kind()
		if i < len(said) {
			tail, extends := strings.CutPrefix(text, said[i].text)
			switch {
			case extends && tail == "":
				continue
			case extends && (i < len(said)-1 || it.part):
				continue // the next part was passed on; the rest of this would come behind it
			case !extends, it.kind == reasoning:
				return nil // what was passed on stays
			}
			text = tail
		} else if it.part {
			tail, extends := strings.CutPrefix(text, it.text.String())
			if !extends {
				return nil
			}
			it.joins, text = joins{kind: kind}, tail
		}
		d := delta{place: place{kind, i}, text: model.WireText(text), probs: logprobs(p.Logprobs)}
		if err := a.piece(it, d); err != nil {
			return err
		}
		if err := a.endPart(it); err != nil {
			return err
		}
	}
	return nil
}

// kind returns the kind of the deltas of a part, and its text.
func (p *wirePart) kind() (model.EventKind, string) {
	switch p.Type {
	case responses.PartRefusal:
		return model.RefusalDelta, p.Refusal
	case responses.PartSummaryText:
		return model.SummaryDelta, p.Text
	case responses.PartReasoningText:
		return model.ReasoningDelta, p.Text
	}
	return model.TextDelta, p.Text
}
