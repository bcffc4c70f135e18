package openai

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// itemKind is the kind of an item that the assembly handles.
type itemKind uint8

const (
	message itemKind = iota + 1
	reasoning
	call
)

type item struct {
	endpoint.QueuedItem
	kind    itemKind
	id      string          // the provider's, "" for none
	at      int             // message: content_index of the open part
	callID  string          // call
	name    string          // call
	ended   []string        // message, reasoning: texts of the parts that ended
	text    strings.Builder // likewise: of the open part, what was passed on
	part    bool            // something of the open part was
	args    strings.Builder // call: what was passed on
	joins   joins
	opening string // call in free form: the JSON before its text
}

// joins joins the pieces of one text of an item.
type joins struct {
	model.Joiner
	kind  model.EventKind
	probs []responses.LogProb // of a piece that was kept back
}

// added begins an item. One that the provider begins again is the same item.
func (a *assembly) added(index int, raw json.RawMessage) error {
	id := itemID(raw)
	if it, again := a.items[index]; again {
		if it != nil && it.id != id {
			return endpoint.Malformed("the provider began item %d twice", index)
		}
		return nil
	}
	if len(a.items) >= maxItems {
		return endpoint.Malformed("the provider's answer has more than %d items", maxItems)
	}
	a.items[index] = nil
	itemType := endpoint.EventType(raw)
	it := &item{id: id}
	var begin model.Event
	switch itemType {
	case responses.ItemMessage:
		it.kind, begin.Kind = message, model.MessageBegin
	case responses.ItemReasoning:
		it.kind, begin.Kind = reasoning, model.ReasoningBegin
	case responses.ItemFunctionCall, itemCustomCall:
		// A call of a custom tool that was not offered is answered with an error later.
		it.kind, begin.Kind = call, model.CallBegin
	default:
		return nil // a tool of the provider's own, or a type newer than this code
	}
	w, err := decodeItem(index, raw)
	if err != nil {
		return err
	}
	switch it.kind {
	case message:
		if w.Phase == responses.PhaseCommentary || w.Phase == responses.PhaseFinalAnswer {
			begin.Phase = w.Phase
		}
	case call:
		if w.Name == "" {
			return endpoint.Malformed("the provider's call in item %d names no tool", index)
		}
		it.callID, it.name = a.calls.Add(w.CallID, ""), w.Name
		begin.CallID, begin.Name = it.callID, it.name
		if itemType == itemCustomCall {
			it.opening = a.forms.opening(w.Name)
		}
	}
	a.items[index] = it
	a.begun = append(a.begun, it)
	return a.queue.Begin(&it.QueuedItem, begin)
}

// itemID returns the id of an item, "" for none.
func itemID(raw json.RawMessage) string { return gjson.GetBytes(raw, "id").Str }

// place returns the index of an item of the terminal event, which may leave out items
// that were streamed or put them in another order. ok is false for a thought that
// was not streamed: what it led to was told already.
func (a *assembly) place(index int, raw json.RawMessage) (at int, ok bool) {
	id := itemID(raw)
	if id == "" {
		return index, true
	}
	free := 0
	for at, it := range a.items {
		if it != nil && it.id == id {
			return at, true
		}
		free = max(free, at+1)
	}
	if it, taken := a.items[index]; !taken || it == nil || it.id == "" {
		return index, true
	}
	return free, endpoint.EventType(raw) != responses.ItemReasoning
}

func decodeItem(index int, raw json.RawMessage) (*wireItem, error) {
	var w wireItem
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, endpoint.Malformed("the provider's item %d can't be read: %v", index, err)
	}
	return &w, nil
}

// delta passes a piece of an item on. Pieces of items that are ignored, have ended,
// or are of another kind are dropped.
func (a *assembly) delta(d delta) error {
	it := a.items[d.index]
	if it == nil || it.Ended() || it.kind != kindOf(d.kind) || d.text == "" {
		return nil
	}
	if it.kind == message && d.part != it.at {
		if err := a.partEnded(d.index, false); err != nil {
			return err
		}
		it.at = d.part
	}
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

// endText ends the text that the pieces of an item so far belong to.
func (a *assembly) endText(it *item) error {
	if !it.joins.Holds() {
		return nil
	}
	probs := it.joins.probs
	it.joins.probs = nil
	return a.say(it, it.joins.kind, it.joins.End(), probs)
}

// say passes text of an item on.
func (a *assembly) say(it *item, kind model.EventKind, text string, probs []responses.LogProb) error {
	if it.opening != "" {
		text = escaped(text)
		if it.args.Len() == 0 {
			text = it.opening + text
		}
	}
	return a.pass(it, kind, text, probs)
}

func (a *assembly) pass(it *item, kind model.EventKind, text string, probs []responses.LogProb) error {
	it.part = true
	if it.kind != call {
		it.text.WriteString(text)
	}
	if it.kind == call {
		if it.args.Len()+len(text) > maxArguments {
			return endpoint.Malformed("the provider's call has more than %d MiB of arguments", maxArguments>>20)
		}
		it.args.WriteString(text)
	}
	return a.queue.Push(&it.QueuedItem, model.Event{Kind: kind, Text: text, Logprobs: probs})
}

func kindOf(kind model.EventKind) itemKind {
	switch kind {
	case model.TextDelta, model.RefusalDelta:
		return message
	case model.SummaryDelta, model.ReasoningDelta:
		return reasoning
	}
	return call
}

// rest takes the whole text of a part, or of a call's arguments, and passes on the
// part that deltas did not contain. Text that was passed on stays, even if it
// differs.
func (a *assembly) rest(index int, kind model.EventKind, whole string) error {
	it := a.items[index]
	if it == nil || it.Ended() || it.kind != kindOf(kind) {
		return nil
	}
	if it.kind == call {
		if it.opening != "" {
			whole = it.opening + escaped(whole)
		}
		tail, extends := strings.CutPrefix(whole, it.args.String())
		if !extends || tail == "" {
			return nil
		}
		it.joins = joins{} // the held text is part of the whole
		return a.pass(it, kind, tail, nil)
	}
	if n := len(it.ended); !it.part && n > 0 && it.ended[n-1] == whole {
		return nil // it repeats the end of a part
	}
	tail, extends := strings.CutPrefix(whole, it.text.String())
	if !extends || tail == "" {
		return nil
	}
	it.joins = joins{kind: kind} // the held text is part of the whole
	return a.delta(delta{kind: kind, index: index, part: it.at, text: model.WireText(tail)})
}

func (a *assembly) partEnded(index int, summary bool) error {
	it := a.items[index]
	if it == nil || it.Ended() {
		return nil
	}
	if err := a.endText(it); err != nil {
		return err
	}
	spoke := it.part
	it.part = false
	if spoke {
		it.ended = append(it.ended, it.text.String())
		it.text.Reset()
	}
	if summary && it.kind == reasoning && spoke {
		return a.queue.Push(&it.QueuedItem, model.Event{Kind: model.SummaryPartEnd})
	}
	return nil
}

func (a *assembly) annotation(index int, raw json.RawMessage) error {
	it := a.items[index]
	if it == nil || it.Ended() || it.kind != message || endpoint.EventType(raw) != "url_citation" {
		return nil // files and containers of the provider are meaningless elsewhere
	}
	var note responses.Annotation
	if err := json.Unmarshal(raw, &note); err != nil {
		return endpoint.Malformed("the provider's citation can't be read: %v", err)
	}
	return a.queue.Push(&it.QueuedItem, model.Event{Kind: model.AnnotationAdded, Annotation: &note})
}

// ended ends an item after passing on the rest of its content.
func (a *assembly) ended(index int, raw json.RawMessage) error {
	it, begun := a.items[index]
	if !begun {
		if err := a.added(index, raw); err != nil {
			return err
		}
		it = a.items[index]
	}
	if it == nil || it.Ended() {
		return nil
	}
	w, err := decodeItem(index, raw)
	if err != nil {
		return err
	}
	if err := a.unsaid(index, it, w); err != nil {
		return err
	}
	if err := a.endText(it); err != nil {
		return err
	}
	switch {
	case it.kind == reasoning:
		err = a.queue.Push(&it.QueuedItem,
			model.Event{Kind: model.ReasoningEnd, Text: seal(a.provider, w.EncryptedContent)})
	case it.kind == call && w.Status != "incomplete": // an incomplete call is never run
		err = a.endCall(it)
	}
	if err != nil {
		return err
	}
	return a.queue.End(&it.QueuedItem)
}

// endCall passes on the end of a complete call.
func (a *assembly) endCall(it *item) error {
	if it.opening != "" {
		end := closing
		if it.args.Len() == 0 {
			end = it.opening + closing
		}
		if err := a.pass(it, model.CallDelta, end, nil); err != nil {
			return err
		}
	}
	return a.queue.Push(&it.QueuedItem, model.Event{Kind: model.CallEnd, CallID: it.callID, Name: it.name,
		Text: it.args.String()})
}

// unsaid passes on the content of a whole item that its deltas did not contain: the rest of its last part, and
// the parts after it. Text that was passed on stays, and what follows text that differs is left out.
func (a *assembly) unsaid(index int, it *item, w *wireItem) error {
	if it.kind == call {
		return a.rest(index, model.CallDelta, w.Arguments+w.Input) // an item has one of them
	}
	said := it.ended
	for i, p := range append(w.Summary, w.Content...) {
		kind, text := model.TextDelta, p.Text
		switch p.Type {
		case responses.PartRefusal:
			kind, text = model.RefusalDelta, p.Refusal
		case responses.PartSummaryText:
			kind = model.SummaryDelta
		case responses.PartReasoningText:
			kind = model.ReasoningDelta
		}
		if i < len(said) {
			tail, extends := strings.CutPrefix(text, said[i])
			switch {
			case extends && tail == "":
				continue
			case i < len(said)-1 || it.part:
				continue // the next part was passed on; its rest would come behind it
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
		if err := a.delta(delta{kind, index, it.at, model.WireText(text), logprobs(p.Logprobs)}); err != nil {
			return err
		}
		if err := a.partEnded(index, kind == model.SummaryDelta); err != nil {
			return err
		}
	}
	return nil
}
