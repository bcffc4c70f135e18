package responses

import (
	"errors"
	"fmt"
	"strings"

	"holon/internal/redact"
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
//	tool call := item.added item.done (holon:tool_call, for requests that asked)
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

	secrets *redact.Set // taken out of all that is said; nil for none

	open openItem // what is being streamed at the moment
	text strings.Builder
}

// openItem is the item and part under construction.
type openItem struct {
	message   *Message
	reasoning *Reasoning
	call      *FunctionCall
	tool      *ToolCall
	part      string         // type of the open part, "" when none is open
	notes     []Annotation   // annotations of the open part
	probs     []LogProb      // log probabilities of the open part
	sent      int            // how many of them went out with a delta
	scrub     *redact.Stream // of the open part or call; nil until it says something
	torn      []byte         // the beginning of a character whose rest has not come yet

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

// Hide takes known secrets out of all that the stream says from now on, also where
// a provider or a model cut them. Text that may begin with one waits for what
// follows, at the latest for the end of its part. Log probabilities of what is
// taken out are left out with it. What a caller gives as a whole, such as items of
// tools, it has cleaned itself.
func (e *Emitter) Hide(secrets *redact.Set) { e.secrets = secrets }

// Begin marks the end of queueing with response.in_progress. It does nothing
// for a response that was not queued. The first item and Complete imply it.
func (e *Emitter) Begin() error {
	if e.err != nil || e.resp.Status != StatusQueued {
		return e.err
	}
	e.resp.Status = StatusInProgress
	return e.snapshot(EventInProgress)
}

// Answered names the model that answers, provider/model, if it is not the one that was asked for. Events from now on
// have it.
func (e *Emitter) Answered(model string) {
	if e.err == nil && model != "" {
		e.resp.Model = model
	}
}

// Response returns the response as it stands. Its output holds closed items only.
func (e *Emitter) Response() Response { return e.resp }

// Open reports whether an item is being streamed.
func (e *Emitter) Open() bool {
	o := &e.open
	return o.message != nil || o.reasoning != nil || o.call != nil || o.tool != nil
}

// Ended reports whether the terminal event was emitted.
func (e *Emitter) Ended() bool { return e.err == ErrStreamEnded }

// BeginMessage closes what is open and opens an assistant message. phase may
// be "" when it is not known yet.
func (e *Emitter) BeginMessage(phase Phase) error {
	m := &Message{ID: NewID(PrefixMessage), Status: ItemInProgress, Role: RoleAssistant, Phase: phase}
	return e.beginItem(openItem{message: m}, m)
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
	return e.delta(EventTextDelta, delta)
}

// TextLogprobs is Text with the log probabilities of its tokens.
func (e *Emitter) TextLogprobs(delta string, probs []LogProb) error {
	if err := e.openPart(PartOutputText); err != nil {
		return err
	}
	e.open.probs = append(e.open.probs, probs...)
	if delta == "" {
		return nil // they go out with the next text, or with the end of the part
	}
	return e.delta(EventTextDelta, delta)
}

// Refusal streams a refusal within the open message, opening one if none is open.
func (e *Emitter) Refusal(delta string) error {
	if err := e.openPart(PartRefusal); err != nil || delta == "" {
		return err
	}
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
	r := &Reasoning{ID: NewID(PrefixReasoning), Status: ItemInProgress}
	return e.beginItem(openItem{reasoning: r}, r)
}

// Summary streams summary text of the open reasoning item, opening one if none is open.
func (e *Emitter) Summary(delta string) error {
	if err := e.openReasoningPart(PartSummaryText, EventReasoningSummaryPartAdded); err != nil || delta == "" {
		return err
	}
	return e.delta(EventReasoningSummaryTextDelta, delta)
}

// ReasoningText streams raw reasoning of the open reasoning item, opening one
// if none is open. Open Responses has these events and OpenAI's SDKs reject
// them, so they are for requests that asked for raw reasoning only.
func (e *Emitter) ReasoningText(delta string) error {
	if err := e.openReasoningPart(PartReasoningText, EventPartAdded); err != nil || delta == "" {
		return err
	}
	return e.delta(EventReasoningDelta, delta)
}

// EndPart closes the open part of a message or of reasoning; the next text opens another.
func (e *Emitter) EndPart() error { return e.endPart() }

// SetEncryptedReasoning attaches the provider's opaque reasoning to the open
// reasoning item; item.done and the final response carry it.
func (e *Emitter) SetEncryptedReasoning(blob string) {
	if e.open.reasoning != nil {
		e.open.reasoning.EncryptedContent = blob
	}
}

// BeginFunctionCall closes what is open and opens a call that the client is to
// answer. A callID that is not 1 to 64 characters or not unique within the
// response, or a name that a function cannot have, is an *Error of type
// model_error; nothing is emitted then and the emitter can go on.
func (e *Emitter) BeginFunctionCall(callID, name string) error {
	if e.err != nil {
		return e.err
	}
	if err := e.checkCall(callID, name); err != nil {
		return &Error{Type: TypeModelError, Code: CodeModelError,
			Message: "the model made a function call that cannot be passed on", Cause: err}
	}
	c := &FunctionCall{ID: NewID(PrefixCall), CallID: callID, Name: name, Status: ItemInProgress}
	return e.beginItem(openItem{call: c}, c)
}

func (e *Emitter) checkCall(callID, name string) error {
	if err := checkCallID(callID); err != nil {
		return err
	}
	used := e.open.call != nil && e.open.call.CallID == callID
	for _, item := range e.resp.Output {
		c, ok := item.(*FunctionCall)
		used = used || ok && c.CallID == callID
	}
	if used {
		return fmt.Errorf("the call id %q is used twice", callID)
	}
	return checkToolName("name", name)
}

// Arguments streams argument text of the open call.
func (e *Emitter) Arguments(delta string) error {
	if e.err != nil {
		return e.err
	}
	if e.open.call == nil || e.open.textDone {
		return errors.New("emit arguments: no function call is open")
	}
	if delta == "" {
		return nil
	}
	return e.delta(eventArgumentsDelta, delta)
}

// EndItem closes the open item as completed. Without one it does nothing.
func (e *Emitter) EndItem() error { return e.endItem(ItemCompleted) }

// CutItem closes the open item of an answer that broke off and is made anew. It is completed with what it said, since
// an incomplete one would have to be the last; a message is commentary, whatever it was to be.
func (e *Emitter) CutItem() error {
	if m := e.open.message; m != nil {
		m.Phase = PhaseCommentary
	}
	return e.EndItem()
}

// Complete closes what is open and ends the stream with response.completed.
// now is in seconds since the epoch.
func (e *Emitter) Complete(usage Usage, now int64) error {
	if err := e.EndItem(); err != nil {
		return err
	}
	if err := e.Begin(); err != nil {
		return err
	}
	final := e.resp
	final.Status, final.Usage, final.CompletedAt = StatusCompleted, &usage, &now
	return e.end(EventCompleted, final)
}

// Incomplete ends the stream early for a reason; an open item is closed as
// incomplete and is the last of the output.
func (e *Emitter) Incomplete(reason string, usage Usage) error {
	if err := e.endItem(ItemIncomplete); err != nil {
		return err
	}
	final := e.resp
	final.Status, final.Usage, final.IncompleteDetails = StatusIncomplete, &usage, &IncompleteDetails{reason}
	return e.end(EventIncomplete, final)
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
	if cause == nil {
		cause = Internal("the turn failed without saying why", nil)
	}
	final := e.resp
	final.Status, final.Usage = status, &usage
	final.Error = &ResponseError{Code: cause.Code, Message: e.secrets.Text(cause.Error()), Type: cause.Type}
	return e.end(EventFailed, final)
}

// end emits the terminal event. A response whose end the sink did not take has
// not ended, so it stays as it was.
func (e *Emitter) end(event string, final Response) error {
	before := e.resp
	e.resp = final
	if err := e.snapshot(event); err != nil {
		e.resp = before
		return err
	}
	e.err = ErrStreamEnded
	return nil
}
