package openai

import (
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

const customCall = "custom_tool_call"

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
	began   *sdk.ResponseOutputItemUnion // as it began
	index   int64
	callID  string             // call
	opening string             // call in free form: the JSON before its text
	parts   []*part            // its texts, of which the last is open
	args    endpoint.Arguments // call, but for those in free form
	listed  bool               // the terminal event has it
}

// kindOfItem returns 0 for an item that is ignored: one of a tool of the provider's own, or newer than this code.
func kindOfItem(w *sdk.ResponseOutputItemUnion) itemKind {
	switch w.Type {
	case responses.ItemMessage:
		return message
	case responses.ItemReasoning:
		return reasoning
	case responses.ItemFunctionCall, customCall:
		// A call of a custom tool that was not offered is answered with an error later.
		return call
	}
	return 0
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

// find returns the item with an id, or else the newest with an index; nil for one that
// is ignored. Servers leave out ids or give every item the same index.
func (a *assembly) find(id string, index int64) (it *item, found bool) {
	if it, found = a.byID[id]; !found {
		it, found = a.byIndex[index]
	}
	return it, found
}

// added begins an item, unless it began already.
func (a *assembly) added(index int64, w *sdk.ResponseOutputItemUnion) *item {
	if it, found := a.find(w.ID, index); found && it.same(w) && (it == nil || !it.Ended() || it.index == index) {
		return it
	}
	it := a.begin(w)
	if it != nil {
		it.index = index
	}
	a.byIndex[index], a.byIndex[newest] = it, it
	return it
}

// same reports whether the beginning of an item is that of it.
func (it *item) same(w *sdk.ResponseOutputItemUnion) bool {
	if it == nil {
		return kindOfItem(w) == 0
	}
	return it.kind == kindOfItem(w) && it.began.ID == w.ID && it.began.CallID == w.CallID && it.began.Name == w.Name
}

// begin begins an item, nil for one that is ignored.
func (a *assembly) begin(w *sdk.ResponseOutputItemUnion) *item {
	if a.seen++; a.seen > endpoint.MaxItems {
		a.queue.Fail(endpoint.Malformed("the provider's answer has more than %d items", endpoint.MaxItems))
	}
	it := &item{kind: kindOfItem(w), began: w}
	var begin model.Event
	switch it.kind {
	case message:
		begin.Kind = model.MessageBegin
		if p := responses.Phase(w.Phase); p == responses.PhaseCommentary || p == responses.PhaseFinalAnswer {
			begin.Phase = p
		}
	case reasoning:
		begin.Kind = model.ReasoningBegin
	case call:
		if w.Name == "" {
			a.queue.Fail(endpoint.Malformed("the provider's call %.64q names no tool", w.CallID))
		}
		it.callID = a.calls.Add(w.CallID, "")
		begin = model.Event{Kind: model.CallBegin, CallID: it.callID, Name: w.Name}
		if w.Type == customCall {
			it.opening = a.forms.opening(w.Name)
		}
	default:
		it = nil
	}
	if w.ID != "" {
		a.byID[w.ID] = it
	}
	if it != nil {
		a.begun = append(a.begun, it)
		a.queue.Begin(&it.QueuedItem, begin)
	}
	return it
}

// ended ends an item, which begins with its end where a server sends no beginning.
func (a *assembly) ended(index int64, w *sdk.ResponseOutputItemUnion) {
	it, found := a.find(w.ID, index)
	if found && it != nil { // another item may share the index of one that has ended
		found = it.kind == kindOfItem(w) && (!it.Ended() || it.same(w))
	}
	if !found {
		it = a.added(index, w)
	}
	a.end(it, w)
}

// end ends an item after passing on the rest of its content.
func (a *assembly) end(it *item, w *sdk.ResponseOutputItemUnion) {
	if it == nil || it.Ended() {
		return
	}
	a.content(it, w)
	a.endPart(it)
	switch {
	case it.kind == reasoning:
		a.endReasoning(it, w.EncryptedContent)
	case it.kind == call && w.Status != "incomplete": // an incomplete call is never run
		a.endCall(it)
	}
	a.queue.End(&it.QueuedItem)
}

// endReasoning ends a thought with what its provider wants back: its encrypted form, or else its raw text.
func (a *assembly) endReasoning(it *item, encrypted string) {
	opaque := seal(a.provider, encrypted)
	if opaque == "" && len(it.parts) > 0 && it.parts[0].kind == model.ReasoningDelta {
		opaque = model.Seal(a.provider, rawThought)
	}
	a.queue.Push(&it.QueuedItem, model.Event{Kind: model.ReasoningEnd, Text: opaque})
}

// endCall passes on the end of a complete call.
func (a *assembly) endCall(it *item) {
	if it.opening != "" {
		a.pass(it, a.openPart(it, place{kind: model.CallDelta}), closing, nil)
	}
	arguments := ""
	if len(it.parts) > 0 {
		a.pass(it, it.parts[0], it.args.End(), nil)
		arguments = it.parts[0].passed.String()
	}
	a.queue.Push(&it.QueuedItem, model.Event{Kind: model.CallEnd, CallID: it.callID, Name: it.began.Name,
		Text: arguments})
}

func (a *assembly) annotation(index int64, ev *sdk.ResponseStreamEventUnion) {
	it, _ := a.find(ev.ItemID, index)
	note := &ev.Annotation
	if it == nil || it.Ended() || it.kind != message || note.Type != "url_citation" {
		return // files and containers of the provider are meaningless elsewhere
	}
	a.queue.Push(&it.QueuedItem, model.Event{Kind: model.AnnotationAdded, Annotation: &responses.Annotation{
		Type: note.Type, URL: note.URL, Title: note.Title,
		StartIndex: int(note.StartIndex), EndIndex: int(note.EndIndex)}})
}
