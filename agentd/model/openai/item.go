package openai

import (
	"encoding/json"
	"strings"

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
	index   int             // the provider's
	wire    *wireItem       // as it began
	listed  bool            // the terminal event has it
	callID  string          // call
	name    string          // call
	ended   []endedPart     // message, reasoning: the parts that ended
	text    strings.Builder // likewise: of the open part, what was passed on
	part    bool            // something of the open part was
	next    bool            // message: what follows is another part
	differs bool            // that it contradicts itself was told
	open    place           // where it is
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

// kindOfItem returns 0 for an item that is ignored: one of a tool of the provider's own, or newer than this code.
func kindOfItem(raw json.RawMessage) itemKind {
	switch endpoint.EventType(raw) {
	case responses.ItemMessage:
		return message
	case responses.ItemReasoning:
		return reasoning
	case responses.ItemFunctionCall, itemCustomCall:
		// A call of a custom tool that was not offered is answered with an error later.
		return call
	}
	return 0
}

// added begins an item.
func (a *assembly) added(index int, raw json.RawMessage) error {
	kind := kindOfItem(raw)
	if it, again := a.items[index]; again {
		return a.addedAgain(index, it, kind, raw)
	}
	if len(a.items) >= maxItems {
		return endpoint.Malformed("the provider's answer has more than %d items", maxItems)
	}
	a.items[index] = nil
	if kind == 0 {
		return nil
	}
	w, err := decodeItem(index, raw)
	if err != nil {
		return err
	}
	it := &item{kind: kind, index: index, wire: w}
	var begin model.Event
	switch kind {
	case message:
		begin.Kind = model.MessageBegin
		if w.Phase == responses.PhaseCommentary || w.Phase == responses.PhaseFinalAnswer {
			begin.Phase = w.Phase
		}
	case reasoning:
		begin.Kind = model.ReasoningBegin
	case call:
		if w.Name == "" {
			return endpoint.Malformed("the provider's call in item %d names no tool", index)
		}
		it.callID, it.name = a.calls.Add(w.CallID, ""), w.Name
		begin = model.Event{Kind: model.CallBegin, CallID: it.callID, Name: it.name}
		if w.Type == itemCustomCall {
			it.opening = a.forms.opening(w.Name)
		}
	}
	a.items[index] = it
	a.begun = append(a.begun, it)
	return a.queue.Begin(&it.QueuedItem, begin)
}

// addedAgain accepts the beginning of an item that began already, if it is the same.
func (a *assembly) addedAgain(index int, it *item, kind itemKind, raw json.RawMessage) error {
	if it == nil && kind == 0 {
		return nil
	}
	if it != nil && it.kind == kind {
		w, err := decodeItem(index, raw)
		if err != nil {
			return err
		}
		if was := it.wire; w.ID == was.ID && w.CallID == was.CallID && w.Name == was.Name {
			return nil
		}
	}
	return endpoint.Malformed("the provider began item %d twice", index)
}

func decodeItem(index int, raw json.RawMessage) (*wireItem, error) {
	var w wireItem
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, endpoint.Malformed("the provider's item %d can't be read: %v", index, endpoint.Unreadable(err))
	}
	return &w, nil
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
	if it.next {
		it.next = false
		if err := a.queue.Push(&it.QueuedItem, model.Event{Kind: model.PartEnd}); err != nil {
			return err
		}
	}
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

func (a *assembly) annotation(index int, raw json.RawMessage) error {
	it := a.items[index]
	if it == nil || it.Ended() || it.kind != message || endpoint.EventType(raw) != "url_citation" {
		return nil // files and containers of the provider are meaningless elsewhere
	}
	var note responses.Annotation
	if err := json.Unmarshal(raw, &note); err != nil {
		return endpoint.Malformed("the provider's citation can't be read: %v", endpoint.Unreadable(err))
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
	if it == nil {
		return nil
	}
	w, err := decodeItem(index, raw)
	if err != nil {
		return err
	}
	if it.Ended() {
		return a.compare(it, w)
	}
	if err := a.unsaid(it, w); err != nil {
		return err
	}
	if err := a.endPart(it); err != nil {
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
