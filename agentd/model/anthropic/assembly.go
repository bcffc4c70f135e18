package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"unicode/utf8"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// Bounds of one answer, far above the output of models.
const (
	maxBlocks = endpoint.MaxItems
	maxBlock  = endpoint.MaxArguments // or a thought
	maxNotes  = 1024                  // citations
	maxURL    = 8 << 10               // bytes of a citation's address, and of its title
)

// assembly turns a provider's events into ours. Blocks arrive one after the other.
// Consecutive text blocks are one message: the API begins another block for each
// citation.
type assembly struct {
	provider  string
	asked     model.Request
	queue     *endpoint.ItemQueue // its items come one after the other already
	contract  contract
	requestID string

	message string // the answer's id; "" before message_start
	tag     string // of its calls
	calls   endpoint.CallIDs
	usage   usage
	stop    string // stop_reason
	details *stopDetails

	began   int        // blocks
	kind    string     // type of the open block, "" when none is
	opening *wireBlock // how it began, until a piece of it came
	input   string     // of the open call, as its beginning has it; deltas replace it
	index   int        // of the block that began last
	emitted bool       // something of the answer was passed on
	text    bool       // a message is open
	runes   int        // of the open message, so far
	from    int        // runes before the open block
	notes   []responses.Annotation
	noted   int
	thought thought
	signed  strings.Builder // of a thought's signature
	buffer  strings.Builder // of a call's arguments or of a thought
	args    endpoint.Arguments
	halves  model.Joiner // of the open block's text
	callID  string
	name    string
	held    bool // the call has ended, unless the answer turns out to be cut there
}

func newAssembly(provider string, c contract, requestID string, emit func(model.Event) bool) *assembly {
	return &assembly{provider: provider, contract: c, requestID: requestID, queue: endpoint.NewItemQueue(emit),
		calls: make(endpoint.CallIDs)}
}

// Take implements endpoint.Answer: it handles one event. The last is message_stop.
func (a *assembly) Take(data []byte) (last bool, err error) {
	var ev wireEvent
	err = json.Unmarshal(data, &ev)
	handle := handlers[ev.Type]
	switch _, odd := errors.AsType[*json.UnmarshalTypeError](err); {
	case err != nil && !odd:
		return false, endpoint.Malformed("the provider's event can't be read: %v", endpoint.Unreadable(err))
	case ev.Type == "error":
		return false, endpoint.EventError(endpoint.DecodeFailure(data))
	case ev.Type == "":
		return false, endpoint.Odd(data)
	case handle == nil:
		return false, nil // ping, and types that servers may add, of any shape
	}
	if a.message == "" && ev.Type != "message_start" {
		a.start(nil)
	}
	handle(a, &ev)
	return ev.Type == "message_stop", a.queue.Err()
}

// Whole implements endpoint.Answer. Some servers do not stream what they are asked to.
func (a *assembly) Whole(data []byte) error {
	var m wireMessage
	err := json.Unmarshal(data, &m)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !odd {
		return endpoint.Malformed("the provider's answer can't be read: %v", endpoint.Unreadable(err))
	}
	if m.Content == nil {
		return endpoint.Odd(data)
	}
	a.start(&m)
	for i, block := range m.Content {
		a.begin(i, block)
		a.endBlock()
	}
	a.stop, a.details = m.StopReason, m.StopDetails
	a.finish()
	return a.queue.Err()
}

// handlers are what the assembly does for each type of event.
var handlers = map[string]func(a *assembly, ev *wireEvent){
	"message_start":       func(a *assembly, ev *wireEvent) { a.start(ev.Message) },
	"content_block_start": func(a *assembly, ev *wireEvent) { a.begin(a.place(ev.Index, 1), ev.ContentBlock) },
	"content_block_delta": func(a *assembly, ev *wireEvent) { a.delta(a.place(ev.Index, 0), ev.Delta) },
	"content_block_stop": func(a *assembly, ev *wireEvent) {
		if a.began > 0 && a.place(ev.Index, 0) == a.index {
			a.endBlock()
		}
	},
	"message_delta": func(a *assembly, ev *wireEvent) {
		a.count(ev.Usage)
		if ev.Delta != nil && ev.Delta.StopReason != "" {
			a.stop, a.details = ev.Delta.StopReason, ev.Delta.StopDetails
		}
	},
	"message_stop": func(a *assembly, _ *wireEvent) { a.finish() },
}

// place returns the index of a block: without one, the newest that began and so many more.
func (a *assembly) place(index *endpoint.Index, more int) int {
	if index == nil {
		return a.index + more
	}
	return int(*index)
}

// malformed ends the answer.
func (a *assembly) malformed(format string, args ...any) {
	a.queue.Fail(endpoint.Malformed(format, args...))
}

func (a *assembly) start(m *wireMessage) {
	if m != nil && m.ID != "" && string(m.ID) == a.message {
		return // the same once more
	}
	if a.message != "" {
		a.malformed("the provider began its answer twice")
		return
	}
	if m != nil {
		a.message = string(m.ID)
		a.count(m.Usage)
	}
	if a.message == "" { // from servers that give none
		a.message = responses.NewID(responses.PrefixMessage)
	}
	a.tag = tagOf(a.message)
	if a.requestID == "" {
		a.requestID = a.message
	}
}

// count takes what the answer cost so far.
func (a *assembly) count(u *wireUsage) {
	a.usage.take(u)
	a.asked.Count(a.usage.sum(), false)
}

// begin begins a block. Blocks of the provider's own tools are ignored.
func (a *assembly) begin(index int, b *wireBlock) {
	switch {
	case b == nil:
		b = &wireBlock{} // its pieces tell what it is
	case a.kind != "" && index == a.index && a.opening != nil && reflect.DeepEqual(a.opening, b):
		return // it says the same again
	}
	if a.began >= maxBlocks {
		a.malformed("the provider's answer has more than %d blocks", maxBlocks)
		return
	}
	a.endBlock() // servers may leave out its end
	a.endCall()  // a block after a call shows that the call was complete
	a.began, a.index, a.kind, a.opening, a.input = a.began+1, index, b.Type, b, ""
	a.buffer.Reset()
	a.args = endpoint.Arguments{}
	switch b.Type {
	case "":
	case typeText:
		a.beginText(b)
	case typeThinking, typeRedacted:
		a.thought = thought{Type: b.Type, Data: b.Data}
		a.signed.Reset()
		a.signed.WriteString(b.Signature)
		a.beginItem(model.Event{Kind: model.ReasoningBegin}, model.SummaryDelta, b.Thinking)
	case typeToolUse:
		a.beginCall(b)
	default:
		a.kind = "other"
	}
}

func (a *assembly) beginText(b *wireBlock) {
	if a.text {
		a.from = a.runes
		a.piece(model.TextDelta, b.Text)
		return
	}
	a.beginItem(model.Event{Kind: model.MessageBegin}, model.TextDelta, b.Text)
}

func (a *assembly) beginCall(b *wireBlock) {
	if b.Name == "" {
		a.malformed("the provider's call in block %d names no tool", a.index)
		return
	}
	a.callID, a.name = a.calls.Add(string(b.ID), tagMark+a.tag), b.Name
	if input := string(b.Input); input != "{}" && input != "null" { // else it follows in deltas, or is empty
		a.input = input
	}
	a.beginItem(model.Event{Kind: model.CallBegin, CallID: a.callID, Name: a.name}, model.CallDelta, "")
}

// beginItem begins an item with its first event and text.
func (a *assembly) beginItem(begin model.Event, kind model.EventKind, text model.WireText) {
	a.text = begin.Kind == model.MessageBegin
	a.runes, a.from, a.emitted = 0, 0, true
	a.queue.Emit(begin)
	a.piece(kind, text)
}

// delta takes a piece of the open block.
func (a *assembly) delta(index int, d *wireDelta) {
	switch {
	case d == nil:
		a.malformed("the provider's delta of block %d is empty", index)
		return
	case a.kind == "" && blockOf[d.Type] != "": // servers may leave out its beginning
		a.begin(index, &wireBlock{Type: blockOf[d.Type]})
	case index != a.index || a.kind == "":
		a.malformed("the provider sent a piece of block %d, which is not open", index)
		return
	}
	a.opening = nil
	switch kind, text := deltaKind(d); {
	case a.kind == "other":
	case d.Type == "signature_delta" && a.kind == typeThinking:
		if a.signed.Len()+len(d.Signature) > maxBlock {
			a.malformed("the provider's thought has more than %d MiB", maxBlock>>20)
			return
		}
		a.signed.WriteString(d.Signature)
	case d.Type == "citations_delta" && a.kind == typeText:
		a.note(d.Citation)
	case kind != 0 && kind == kindOf(a.kind): // others are of a type newer than this code
		a.piece(kind, text)
	}
}

// blockOf are the blocks of which a piece says all that their beginning does.
var blockOf = map[string]string{"text_delta": typeText, "thinking_delta": typeThinking}

// kindOf returns the kind of event that pieces of a block become.
func kindOf(blockType string) model.EventKind {
	switch blockType {
	case typeText:
		return model.TextDelta
	case typeThinking:
		return model.SummaryDelta
	case typeToolUse:
		return model.CallDelta
	}
	return 0
}

// piece passes a text on, and keeps the part that is needed at the end.
func (a *assembly) piece(kind model.EventKind, wire model.WireText) {
	if kind == model.CallDelta {
		a.whole(kind, a.args.Add(wire))
		return
	}
	a.whole(kind, a.halves.Join(wire))
}

func (a *assembly) whole(kind model.EventKind, text string) {
	switch {
	case text == "":
		return
	case kind == model.TextDelta:
		a.runes += utf8.RuneCountInString(text)
	case a.buffer.Len()+len(text) > maxBlock:
		a.malformed("the provider's block %d has more than %d MiB", a.index, maxBlock>>20)
		return
	default:
		a.buffer.WriteString(text)
	}
	a.queue.Emit(model.Event{Kind: kind, Text: text})
}

// note keeps a citation until its text has ended. Only citations of web pages are
// meaningful outside the conversation.
func (a *assembly) note(c *wireCitation) {
	if c == nil || len(c.URL) > maxURL || len(c.Title) > maxURL || a.noted >= maxNotes {
		return
	}
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return
	}
	a.noted++
	a.notes = append(a.notes, responses.Annotation{Type: "url_citation", URL: c.URL, Title: c.Title})
}

// endBlock ends the open block, if there is one. A call is held until a later event
// shows whether it was cut short.
func (a *assembly) endBlock() {
	kind := a.kind
	a.kind = ""
	if kind == typeToolUse && (a.buffer.Len() > 0 || a.input == "") {
		a.whole(model.CallDelta, a.args.End())
	} else if kind == typeToolUse {
		a.whole(model.CallDelta, a.input)
	}
	a.whole(kindOf(kind), a.halves.End())
	switch kind {
	case typeText:
		for _, n := range a.notes {
			n.StartIndex, n.EndIndex = a.from, a.runes
			a.queue.Emit(model.Event{Kind: model.AnnotationAdded, Annotation: &n})
		}
		a.notes = nil
	case typeThinking, typeRedacted:
		a.endThought(true)
	case typeToolUse:
		a.held = true
	}
}

// endThought ends a reasoning item with the content that is returned to the
// provider. Its own models refuse unsigned thoughts; models of others sign nothing.
func (a *assembly) endThought(whole bool) {
	ev := model.Event{Kind: model.ReasoningEnd}
	t := a.thought
	if t.Type == typeThinking {
		thinking, signature := a.buffer.String(), a.signed.String()
		t.Thinking, t.Signature = &thinking, &signature
		whole = whole && (signature != "" || !a.contract.claude)
	} else {
		whole = whole && t.Data != ""
	}
	if whole {
		sealed, err := t.seal(a.provider)
		if err != nil {
			a.malformed("the provider's thought has no form in JSON: %v", err)
		}
		ev.Text = sealed
	}
	a.queue.Emit(ev)
}

// endCall ends the call that is held, if there is one.
func (a *assembly) endCall() {
	if !a.held {
		return
	}
	a.held = false
	a.queue.Emit(model.Event{Kind: model.CallEnd, CallID: a.callID, Name: a.name,
		Text: cmp.Or(a.buffer.String(), "{}")})
}
