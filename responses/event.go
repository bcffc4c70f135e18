package responses

import (
	"bytes"
	"encoding/json"
)

// The 24 event types of a stream (Open Responses, "Streaming").
const (
	EventCreated                   = "response.created"
	EventQueued                    = "response.queued"
	EventInProgress                = "response.in_progress"
	EventCompleted                 = "response.completed"
	EventFailed                    = "response.failed"
	EventIncomplete                = "response.incomplete"
	EventItemAdded                 = "response.output_item.added"
	EventItemDone                  = "response.output_item.done"
	EventPartAdded                 = "response.content_part.added"
	EventPartDone                  = "response.content_part.done"
	EventTextDelta                 = "response.output_text.delta"
	EventTextDone                  = "response.output_text.done"
	EventAnnotationAdded           = "response.output_text.annotation.added"
	EventRefusalDelta              = "response.refusal.delta"
	EventRefusalDone               = "response.refusal.done"
	eventArgumentsDelta            = "response.function_call_arguments.delta"
	EventArgumentsDone             = "response.function_call_arguments.done"
	EventReasoningDelta            = "response.reasoning.delta"
	eventReasoningDone             = "response.reasoning.done"
	EventReasoningSummaryPartAdded = "response.reasoning_summary_part.added"
	eventReasoningSummaryPartDone  = "response.reasoning_summary_part.done"
	EventReasoningSummaryTextDelta = "response.reasoning_summary_text.delta"
	eventReasoningSummaryTextDone  = "response.reasoning_summary_text.done"
	EventError                     = "error"
)

// Terminal reports whether an event of this type ends a stream.
func Terminal(eventType string) bool {
	switch eventType {
	case EventCompleted, EventFailed, EventIncomplete:
		return true
	}
	return false
}

// Event is one decoded stream event. Type decides which fields have a meaning;
// the indices are zero where the type has none.
type Event struct {
	Type            string      `json:"type"`
	SequenceNumber  int64       `json:"sequence_number"`
	Response        *Response   `json:"response"`
	OutputIndex     int         `json:"output_index"`
	ContentIndex    int         `json:"content_index"`
	SummaryIndex    int         `json:"summary_index"`
	AnnotationIndex int         `json:"annotation_index"`
	ItemID          string      `json:"item_id"`
	Item            Item        `json:"-"`
	Part            *Part       `json:"part"`
	Delta           string      `json:"delta"`
	Logprobs        []LogProb   `json:"logprobs"`
	Text            string      `json:"text"`
	Refusal         string      `json:"refusal"`
	Name            string      `json:"name"`
	Arguments       string      `json:"arguments"`
	Annotation      *Annotation `json:"annotation"`
	Error           *Error      `json:"error"`
}

// DecodeEvent reads one event, which is not trusted. Events of unknown type are not an error: a
// client must be able to skip them. Errors are *Error values.
func DecodeEvent(data []byte) (Event, error) {
	if err := CheckShape(data); err != nil {
		return Event{}, err
	}
	type plain Event
	var w struct {
		plain
		Item json.RawMessage `json:"item"`
	}
	if err := Unmarshal(data, &w); err != nil {
		return Event{}, err
	}
	ev := Event(w.plain)
	if ev.Type == "" {
		return Event{}, Invalid("type", CodeMissingParameter, "an event needs a type")
	}
	if !isNull(w.Item) {
		item, err := DecodeItem(w.Item)
		if err != nil {
			return Event{}, within("item", err)
		}
		ev.Item = item
	}
	return ev, nil
}

// EventType returns the type of an encoded event without decoding the rest.
// It relies on what every encoder in this project guarantees: "type" is the
// first key. It returns "" for anything else.
func EventType(data []byte) string {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`))
	if !ok {
		return ""
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return ""
	}
	switch string(rest[:end]) { // the frequent ones without an allocation
	case EventTextDelta:
		return EventTextDelta
	case EventReasoningSummaryTextDelta:
		return EventReasoningSummaryTextDelta
	case eventArgumentsDelta:
		return eventArgumentsDelta
	}
	return string(rest[:end])
}
