package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	if slices.ContainsFunc(it.ended, func(p endedPart) bool { return p.place == d.place }) {
		if err := a.contradicts(it); err != nil { // another part is between
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
	if ended, extends := it.repeats(at, whole); ended {
		if !extends {
			return a.contradicts(it)
		}
		return nil
	}
	if it.part && it.open != at {
		if err := a.endPart(it); err != nil {
			return err
		}
	}
	return a.restOfPart(it, delta{place: at}, whole)
}

// restOfPart passes on what the open part, or a new one, lacks of its whole text.
func (a *assembly) restOfPart(it *item, d delta, whole string) error {
	tail, extends := strings.CutPrefix(whole, it.text.String())
	if !extends && whole != "" {
		return a.contradicts(it)
	}
	if tail == "" {
		return nil
	}
	it.joins = joins{kind: d.kind} // the held text is part of the whole
	d.text = model.WireText(tail)
	return a.piece(it, d)
}

// repeats reports whether a whole text is that of a part that ended already, and then whether it is what was passed on.
// The newest part is taken up again where the text only has more of it.
func (it *item) repeats(at place, whole string) (ended, same bool) {
	n := len(it.ended)
	if !it.part && n > 0 && it.ended[n-1].text == whole { // whatever place it is given
		return true, true
	}
	i := slices.IndexFunc(it.ended, func(p endedPart) bool { return p.place == at })
	if i < 0 || it.part && it.open == at {
		return false, false
	}
	if it.ended[i].text == whole || whole == "" {
		return true, true
	}
	return !it.reopens(i, whole), false
}

// reopens takes an ended part up again for the rest of its whole text, if nothing follows it.
func (it *item) reopens(i int, whole string) bool {
	if it.part || it.kind != message || i != len(it.ended)-1 || !strings.HasPrefix(whole, it.ended[i].text) {
		return false
	}
	it.text.WriteString(it.ended[i].text)
	it.open, it.part, it.next, it.ended = it.ended[i].place, true, false, it.ended[:i]
	return true
}

// contradicts tells, once, that the end of an item is another than what was passed on of it.
func (a *assembly) contradicts(it *item) error {
	if it.differs {
		return nil
	}
	it.differs = true
	return a.queue.Emit(model.Event{Kind: model.Contradiction, Text: fmt.Sprintf(
		"the content of the provider's item %d is another than what it streamed, which stays", it.index)})
}

// compare looks at the content of an item that has ended already.
func (a *assembly) compare(it *item, w *wireItem) error {
	said := it.args.String()
	whole := w.Arguments + w.Input
	switch {
	case it.kind == reasoning, it.opening != "":
		return nil // thoughts and patches have no form of their own
	case it.kind == message:
		said, whole = "", ""
		for _, p := range it.ended {
			said += p.text
		}
		for _, p := range w.Content {
			whole += p.Text + p.Refusal
		}
	}
	if whole == said || sameJSON(whole, said) {
		return nil
	}
	return a.contradicts(it)
}

// sameJSON reports whether two texts are the same JSON but for white space. No text at all says nothing.
func sameJSON(whole, said string) bool {
	var a, b bytes.Buffer
	return whole == "" || json.Compact(&a, []byte(whole)) == nil && json.Compact(&b, []byte(said)) == nil &&
		bytes.Equal(a.Bytes(), b.Bytes())
}

func (a *assembly) restOfCall(it *item, whole string) error {
	if it.opening != "" {
		whole = it.opening + escaped(whole)
	}
	tail, extends := strings.CutPrefix(whole, it.args.String())
	switch {
	case !extends && !sameJSON(whole, it.args.String()):
		return a.contradicts(it)
	case !extends || tail == "":
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
	it.next = it.kind == message
	return nil
}

// unsaid passes on the content of a whole item that its deltas did not contain: the rest of its last part, and
// the parts after it. Text that was passed on stays, and what follows text that differs is left out.
func (a *assembly) unsaid(it *item, w *wireItem) error {
	if it.kind == call {
		return a.restOfCall(it, w.Arguments+w.Input) // an item has one of them
	}
	i := 0 // of the parts that have a text: nothing was passed on of others
	for place, p := range append(w.Summary, w.Content...) {
		if _, text := p.kind(); text == "" {
			continue
		}
		if goes, err := a.unsaidPart(it, i, place, p); !goes || err != nil {
			return err
		}
		i++
	}
	return nil
}

// unsaidPart passes on what the deltas of the item's part i did not contain, and reports whether its next parts may
// follow.
func (a *assembly) unsaidPart(it *item, i, at int, p wirePart) (goes bool, err error) {
	kind, text := p.kind()
	if i < len(it.ended) && !it.reopens(i, text) {
		was := it.ended[i].text
		goes = strings.HasPrefix(text, was)
		if was == text || goes && it.kind == reasoning {
			return true, nil
		}
		return goes, a.contradicts(it) // the rest would come behind the next part
	}
	if it.part && !strings.HasPrefix(text, it.text.String()) {
		return false, a.contradicts(it)
	}
	if err := a.restOfPart(it, delta{place: place{kind, at}, probs: logprobs(p.Logprobs)}, text); err != nil {
		return false, err
	}
	return true, a.endPart(it)
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
