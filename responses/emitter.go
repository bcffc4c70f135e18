package responses

import (
	"errors"
	"strings"
)

// ErrStreamEnded is returned when something is emitted after the terminal event.
var ErrStreamEnded = errors.New("the response stream has ended")

// Sink takes the encoded events of one stream, in order. data is one JSON
// object without a line end and is only valid during the call. An error stops
// the stream: the emitter repeats it from then on and emits nothing more.
type Sink func(eventType string, data []byte) error

// Emitter turns what happens in a turn into a legal event stream:
//
//	stream    := created queued? in_progress item* (completed | failed | incomplete)
//	message   := item.added ( part.added delta* done part.done )* item.done
//	reasoning := item.added ( summary_part.added delta* done summary_part.done )* item.done
//	call      := item.added arguments.delta* arguments.done item.done
//
// The caller says what happened; ids, indices, sequence numbers, the pairing of
// added and done, and the closing of what is open are the emitter's business
// and cannot be got wrong from outside. One item is open at a time. An emitter
// belongs to one goroutine.
type Emitter struct {
	sink Sink
	resp Response
	err  error // sticky: the sink's error, or ErrStreamEnded
	seq  int64
	buf  []byte

	open openItem // what is being streamed at the moment
	text strings.Builder
}

// openItem is the item and part under construction.
type openItem struct {
	message   *Message
	reasoning *Reasoning
	call      *FunctionCall
	part      string       // type of the open part, "" when none is open
	notes     []Annotation // annotations of the open part

	// Only a resumed stream has these: how much of the part's end is out already.
	textDone bool
	noted    int
}

// NewEmitter starts the stream of resp: it emits response.created, followed by
// response.queued when the response's status is queued, else by
// response.in_progress. resp must come from NewResponse.
func NewEmitter(resp Response, sink Sink) (*Emitter, error) {
	e := &Emitter{sink: sink, resp: resp}
	e.resp.Output = Items{}
	if err := e.snapshot(EventCreated); err != nil {
		return nil, err
	}
	next := EventInProgress
	if resp.Status == StatusQueued {
		next = EventQueued
	}
	if err := e.snapshot(next); err != nil {
		return nil, err
	}
	return e, nil
}

// Begin marks the end of queueing with response.in_progress. It does nothing
// for a response that was not queued.
func (e *Emitter) Begin() error {
	if e.resp.Status != StatusQueued {
		return e.err
	}
	e.resp.Status = StatusInProgress
	return e.snapshot(EventInProgress)
}

// Response returns the response as it stands. Its output holds closed items only.
func (e *Emitter) Response() Response { return e.resp }

// Ended reports whether the terminal event was emitted.
func (e *Emitter) Ended() bool { return e.resp.Status.Terminal() }

// BeginMessage closes what is open and opens an assistant message. phase may
// be "" when it is not known yet.
func (e *Emitter) BeginMessage(phase Phase) error {
	if err := e.EndItem(); err != nil {
		return err
	}
	m := &Message{ID: NewID(PrefixMessage), Status: ItemInProgress, Role: RoleAssistant, Phase: phase}
	e.open.message = m
	return e.item(EventItemAdded, m)
}

// DefaultPhase gives the open message a phase if it has none; item.done and
// the final response then carry it. Without an open message it does nothing.
func (e *Emitter) DefaultPhase(phase Phase) {
	if m := e.open.message; m != nil && m.Phase == "" {
		m.Phase = phase
	}
}

// Text streams text of the open message, opening one if none is open.
func (e *Emitter) Text(delta string) error {
	if err := e.openPart(PartOutputText); err != nil || delta == "" {
		return err
	}
	e.text.WriteString(delta)
	return e.delta(EventTextDelta, delta)
}

// Refusal streams a refusal within the open message, opening one if none is open.
func (e *Emitter) Refusal(delta string) error {
	if err := e.openPart(PartRefusal); err != nil || delta == "" {
		return err
	}
	e.text.WriteString(delta)
	return e.delta(EventRefusalDelta, delta)
}

// Annotate adds an annotation to the open text part; it is streamed when the
// part's text is done. Without an open text part it does nothing.
func (e *Emitter) Annotate(a Annotation) {
	if e.open.part == PartOutputText {
		e.open.notes = append(e.open.notes, a)
	}
}

// BeginReasoning closes what is open and opens a reasoning item.
func (e *Emitter) BeginReasoning() error {
	if err := e.EndItem(); err != nil {
		return err
	}
	r := &Reasoning{ID: NewID(PrefixReasoning), Status: ItemInProgress}
	e.open.reasoning = r
	return e.item(EventItemAdded, r)
}

// Summary streams summary text of the open reasoning item, opening one if none is open.
func (e *Emitter) Summary(delta string) error {
	if err := e.openReasoningPart(PartSummaryText, EventReasoningSummaryPartAdded); err != nil || delta == "" {
		return err
	}
	e.text.WriteString(delta)
	return e.delta(EventReasoningSummaryTextDelta, delta)
}

// ReasoningText streams raw reasoning of the open reasoning item, opening one
// if none is open. Open Responses has these events and OpenAI's SDKs reject
// them, so they are for requests that asked for raw reasoning only.
func (e *Emitter) ReasoningText(delta string) error {
	if err := e.openReasoningPart(PartReasoningText, EventPartAdded); err != nil || delta == "" {
		return err
	}
	e.text.WriteString(delta)
	return e.delta(EventReasoningDelta, delta)
}

// EndSummaryPart closes the open summary part; the next Summary opens another.
func (e *Emitter) EndSummaryPart() error {
	if e.open.reasoning == nil {
		return e.err
	}
	return e.endPart()
}

// SetEncryptedReasoning attaches the provider's opaque reasoning to the open
// reasoning item; item.done and the final response carry it.
func (e *Emitter) SetEncryptedReasoning(blob string) {
	if e.open.reasoning != nil {
		e.open.reasoning.EncryptedContent = blob
	}
}

// BeginFunctionCall closes what is open and opens a call that the client is to
// answer. callID must be unique within the response and at most 64 characters.
func (e *Emitter) BeginFunctionCall(callID, name string) error {
	if err := e.EndItem(); err != nil {
		return err
	}
	c := &FunctionCall{ID: NewID(PrefixCall), CallID: callID, Name: name, Status: ItemInProgress}
	e.open.call = c
	return e.item(EventItemAdded, c)
}

// Arguments streams argument text of the open call.
func (e *Emitter) Arguments(delta string) error {
	if e.err != nil {
		return e.err
	}
	if e.open.call == nil {
		return errors.New("emit arguments: no function call is open")
	}
	if delta == "" {
		return nil
	}
	e.text.WriteString(delta)
	return e.delta(EventArgumentsDelta, delta)
}

// EndItem closes the open item as completed. Without one it does nothing.
func (e *Emitter) EndItem() error { return e.endItem(ItemCompleted) }

// Complete closes what is open and ends the stream with response.completed.
// now is in seconds since the epoch.
func (e *Emitter) Complete(usage Usage, now int64) error {
	if err := e.EndItem(); err != nil {
		return err
	}
	e.resp.Usage, e.resp.CompletedAt = &usage, &now
	return e.end(StatusCompleted, EventCompleted)
}

// Incomplete ends the stream early for a reason; an open item is closed as
// incomplete and is the last of the output.
func (e *Emitter) Incomplete(reason string, usage Usage) error {
	if err := e.endItem(ItemIncomplete); err != nil {
		return err
	}
	e.resp.Usage, e.resp.IncompleteDetails = &usage, &IncompleteDetails{reason}
	return e.end(StatusIncomplete, EventIncomplete)
}

// Fail ends the stream with response.failed alone: clients stop reading at an
// error event and would never see what follows it.
func (e *Emitter) Fail(cause *Error, usage Usage) error {
	return e.fail(StatusFailed, cause, usage)
}

// Cancel ends the stream with response.failed carrying the status cancelled.
func (e *Emitter) Cancel(cause *Error, usage Usage) error {
	return e.fail(StatusCancelled, cause, usage)
}

func (e *Emitter) fail(status Status, cause *Error, usage Usage) error {
	if err := e.endItem(ItemIncomplete); err != nil {
		return err
	}
	e.resp.Usage = &usage
	e.resp.Error = &ResponseError{Code: cause.Code, Message: cause.Error(), Type: cause.Type}
	return e.end(status, EventFailed)
}

func (e *Emitter) end(status Status, event string) error {
	e.resp.Status = status
	if err := e.snapshot(event); err != nil {
		return err
	}
	e.err = ErrStreamEnded
	return nil
}

// openPart makes sure that a part of the given type is open in a message.
func (e *Emitter) openPart(partType string) error {
	if e.err != nil {
		return e.err
	}
	if e.open.message == nil {
		if err := e.BeginMessage(""); err != nil {
			return err
		}
	}
	if e.open.part == partType {
		return nil
	}
	if err := e.endPart(); err != nil {
		return err
	}
	e.open.part = partType
	return e.partEvent(EventPartAdded, Part{Type: partType})
}

// openReasoningPart makes sure that a part of the given type is open in a
// reasoning item; added is the event that opens such a part.
func (e *Emitter) openReasoningPart(partType, added string) error {
	if e.err != nil {
		return e.err
	}
	if e.open.reasoning == nil {
		if err := e.BeginReasoning(); err != nil {
			return err
		}
	}
	if e.open.part == partType {
		return nil
	}
	if err := e.endPart(); err != nil {
		return err
	}
	e.open.part = partType
	return e.partEvent(added, Part{Type: partType})
}

// endPart closes the open part of a message or reasoning item, if there is one.
func (e *Emitter) endPart() error {
	if e.err != nil || e.open.part == "" {
		return e.err
	}
	text := e.text.String()
	part := Part{Type: e.open.part, Text: text, Annotations: e.open.notes}
	textDone, partDone := EventTextDone, EventPartDone
	switch e.open.part {
	case PartRefusal:
		part = Part{Type: PartRefusal, Refusal: text}
		textDone = EventRefusalDone
	case PartReasoningText:
		textDone = EventReasoningDone
	case PartSummaryText:
		textDone, partDone = EventReasoningSummaryTextDone, EventReasoningSummaryPartDone
	}
	if !e.open.textDone {
		if err := e.partText(textDone, text); err != nil {
			return err
		}
	}
	for i, note := range e.open.notes[e.open.noted:] {
		if err := e.annotation(e.open.noted+i, note); err != nil {
			return err
		}
	}
	if err := e.partEvent(partDone, part); err != nil {
		return err
	}
	list := e.parts()
	*list = append(*list, part)
	e.open.part, e.open.notes, e.open.textDone, e.open.noted = "", nil, false, 0
	e.text.Reset()
	return nil
}

// parts returns the list that the open part will join. Its length is the
// part's content or summary index.
func (e *Emitter) parts() *[]Part {
	switch {
	case e.open.message != nil:
		return &e.open.message.Content
	case e.open.part == PartReasoningText:
		return &e.open.reasoning.Content
	}
	return &e.open.reasoning.Summary
}

// endItem closes the open item in the given state and adds it to the output.
func (e *Emitter) endItem(status ItemStatus) error {
	if e.err != nil {
		return e.err
	}
	if err := e.endPart(); err != nil {
		return err
	}
	var item Item
	switch {
	case e.open.message != nil:
		e.open.message.Status = status
		item = e.open.message
	case e.open.reasoning != nil:
		e.open.reasoning.Status = status
		item = e.open.reasoning
	case e.open.call != nil:
		e.open.call.Status = status
		e.open.call.Arguments = e.text.String()
		e.text.Reset()
		if !e.open.textDone {
			if err := e.argumentsDone(e.open.call); err != nil {
				return err
			}
		}
		item = e.open.call
	default:
		return nil
	}
	if err := e.item(EventItemDone, item); err != nil {
		return err
	}
	e.open = openItem{}
	e.resp.Output = append(e.resp.Output, item)
	return nil
}
