package responses

import (
	"fmt"
	"iter"
)

// Resume rebuilds the emitter of a stream from the events that an earlier
// process emitted, so that the stream can be ended legally: what was open is
// open again, and the next event gets the next number. The events must be the
// beginning of a stream made by an Emitter; anything else is an error. A stream
// that already ended gives an emitter that has ended. What is kept of the events is
// bounded: a stream whose response exceeds MaxResponse is an error.
func Resume(events iter.Seq[Event], sink Sink) (*Emitter, error) {
	e := &Emitter{sink: sink}
	closed, open := 0, 0 // about what the items take
	for ev := range events {
		if ev.SequenceNumber != e.seq {
			return nil, fmt.Errorf("resume stream: event %d has the number %d", e.seq, ev.SequenceNumber)
		}
		if open += weight(ev); ev.Type == EventItemDone {
			closed, open = closed+open, 0
		}
		if closed+open+e.text.Len()+len(ev.Delta) > MaxResponse {
			return nil, fmt.Errorf("resume stream: at event %d the response has more than %d bytes", e.seq, MaxResponse)
		}
		if err := e.replay(ev); err != nil {
			return nil, fmt.Errorf("resume stream: event %d, %s: %w", e.seq, ev.Type, err)
		}
		e.seq++
	}
	if e.seq == 0 {
		return nil, fmt.Errorf("resume stream: no event is stored")
	}
	if e.resp.Status.Terminal() {
		e.err = ErrStreamEnded
	}
	return e, nil
}

// weight is about what replay keeps of an event but for the text of the open part.
func weight(ev Event) int {
	const each = 256
	n := each / 2 * len(ev.Logprobs)
	switch ev.Type {
	case EventItemDone:
		data, _ := encode(ev.Item) // what cannot be encoded is refused when it is emitted
		n += each + len(data)
	case EventPartDone, eventReasoningSummaryPartDone:
		data, _ := encode(ev.Part)
		n += each + len(data)
	case EventAnnotationAdded:
		data, _ := encode(ev.Annotation)
		n += each + len(data)
	}
	return n
}

// replay brings the emitter to the state it had after it emitted ev.
func (e *Emitter) replay(ev Event) error {
	switch ev.Type {
	case EventCreated, EventQueued, EventInProgress, EventCompleted, EventFailed, EventIncomplete:
		return e.replaySnapshot(ev.Response)
	case EventItemAdded:
		return e.replayAdded(ev.Item)
	case EventItemDone:
		if ev.Item == nil {
			return fmt.Errorf("no item")
		}
		e.resp.Output = append(e.resp.Output, ev.Item)
		e.open = openItem{}
		e.text.Reset()
	case EventPartAdded, EventReasoningSummaryPartAdded, EventPartDone, eventReasoningSummaryPartDone:
		return e.replayPart(ev)
	case EventTextDelta, EventRefusalDelta, EventReasoningDelta, EventReasoningSummaryTextDelta, eventArgumentsDelta:
		e.text.WriteString(ev.Delta)
		e.open.probs = append(e.open.probs, ev.Logprobs...) // only of text
		e.open.sent = len(e.open.probs)
	case EventTextDone, EventRefusalDone, eventReasoningDone, eventReasoningSummaryTextDone, EventArgumentsDone,
		EventAnnotationAdded:
		return e.replayDone(ev)
	default:
		return fmt.Errorf("unknown type")
	}
	return nil
}

func (e *Emitter) replaySnapshot(resp *Response) error {
	if resp == nil {
		return fmt.Errorf("no response")
	}
	output := e.resp.Output
	e.resp = *resp
	if !e.resp.Status.Terminal() {
		e.resp.Output = output
	}
	return nil
}

// replayPart opens or closes a part.
func (e *Emitter) replayPart(ev Event) error {
	switch added := ev.Type == EventPartAdded || ev.Type == EventReasoningSummaryPartAdded; {
	case ev.Part == nil, added && e.open.message == nil && e.open.reasoning == nil:
		return fmt.Errorf("no item is open")
	case added:
		e.open.part = ev.Part.Type
	case e.open.part == "":
		return fmt.Errorf("no part is open")
	default:
		list := e.parts()
		*list = append(*list, *ev.Part)
		e.closePart()
	}
	return nil
}

func (e *Emitter) replayAdded(item Item) error {
	switch item := item.(type) {
	case *Message:
		e.open = openItem{message: item}
	case *Reasoning:
		e.open = openItem{reasoning: item}
	case *FunctionCall:
		e.open = openItem{call: item}
	case *ToolCall:
		e.open = openItem{tool: item}
	default:
		return fmt.Errorf("an item of type %T", item)
	}
	e.text.Reset()
	return nil
}

// replayDone notes that the text of the open part was already ended, so that
// closing the part does not end it twice.
func (e *Emitter) replayDone(ev Event) error {
	if ev.Type == EventAnnotationAdded && ev.Annotation != nil {
		e.open.notes = append(e.open.notes, *ev.Annotation)
		e.open.noted++
		return nil
	}
	e.open.textDone = true
	if ev.Type == EventTextDone { // with what no delta carried
		e.open.probs = ev.Logprobs
		e.open.sent = len(e.open.probs)
	}
	return nil
}
