package record

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/state/ledger"
)

// taken are the classes, or the beginnings of classes, of the facts that a container is the producer of. Of sessions,
// threads, turns, queues and tasks the host writes its own.
var taken = []string{"model.", "reasoning.", "tool.", "context.", "process.", "output.", "permission.evaluated",
	"sandbox.", "hook.", "routing.", "cost.", "rate_limit.", "quota.", "limit.changed", "artifact.", "runtime.",
	"run.status", "holon."}

func takes(class string) bool {
	if !agentruntime.IsClass(class) && !agentruntime.IsVendor(class) {
		return false
	}
	return slices.ContainsFunc(taken, func(prefix string) bool { return strings.HasPrefix(class, prefix) })
}

// Bounds of what is kept of a turn: calls that run, and facts that may be causes.
const (
	maxCalls   = 1000
	maxNumbers = 1 << 14
)

// Entries makes events of what a container tells of a turn, in its order. The zero value is ready; it belongs to one
// goroutine.
type Entries struct {
	calls   map[string]activity.Call // that have begun and not ended, by id
	numbers map[string]int64         // of facts that become events, by event id
	request agentruntime.IDs         // of the newest request to a model
	writing *written                 // a message that is not complete; nil for none
	cut     string                   // id of a message whose request ended before it was complete
}

// written is a message with its text so far.
type written struct {
	id    string
	phase responses.Phase
	parts []writtenPart
}

type writtenPart struct {
	refusal bool
	text    []byte
}

// Bounds of a message that is being written.
const (
	maxWritten      = 4 << 20 // bytes of a part
	maxWrittenParts = 100
)

// Write takes an event of the response: the text of a message whose request ends before the message is complete is in
// no other event that comes before that end.
func (t *Entries) Write(ev responses.Event) {
	m, _ := ev.Item.(*responses.Message)
	switch {
	case m != nil && m.Role == responses.RoleAssistant && ev.Type == responses.EventItemAdded:
		t.writing = &written{id: m.ID, phase: m.Phase}
	case m != nil && ev.Type == responses.EventItemDone:
		t.writing = nil
	case t.writing != nil && (ev.Type == responses.EventTextDelta || ev.Type == responses.EventRefusalDelta):
		t.writing.add(ev)
	}
}

func (w *written) add(ev responses.Event) {
	if ev.ContentIndex < 0 || ev.ContentIndex >= maxWrittenParts {
		return
	}
	for len(w.parts) <= ev.ContentIndex {
		w.parts = append(w.parts, writtenPart{})
	}
	if p := &w.parts[ev.ContentIndex]; len(p.text)+len(ev.Delta) <= maxWritten {
		p.refusal, p.text = ev.Type == responses.EventRefusalDelta, append(p.text, ev.Delta...)
	}
}

// Cut returns the events of the message that is not complete when the request for it ends. Its text grows no more.
func (t *Entries) Cut(clean func(string) string, at time.Time) []ledger.Event {
	w := t.writing
	if w == nil {
		return nil
	}
	m := &responses.Message{ID: w.id, Phase: w.phase}
	for _, p := range w.parts {
		part := responses.Part{Type: responses.PartOutputText, Text: string(p.text)}
		if p.refusal {
			part = responses.Part{Type: responses.PartRefusal, Refusal: string(p.text)}
		}
		m.Content = append(m.Content, part)
	}
	events := t.Message(m, clean, at)
	t.cut, t.writing = w.id, nil
	return events
}

// Fact returns the event of a fact, with its payload as it came, and the number of the fact that caused it, 0 for none;
// false when the record does not take it. The end of a call says in addition what the call does, for a person.
func (t *Entries) Fact(ev turns.RuntimeEvent) (e ledger.Event, cause int64, ok bool) {
	if ev.Type == turns.TurnStarted { // the host's own is written before it knows the environment
		ev.Type = "run.status"
	}
	if !takes(ev.Type) {
		return e, 0, false
	}
	if t.calls == nil {
		t.calls, t.numbers = make(map[string]activity.Call), make(map[string]int64)
	}
	cause = t.numbers[ev.Correlation.CausationID]
	if len(t.numbers) < maxNumbers {
		t.numbers[ev.EventID] = ev.Sequence
	}
	e = ledger.Event{Class: ev.Type, Status: ev.Status, CreatedAt: ev.Timestamp.Time(), ProducerSeq: ev.Sequence,
		Data: ev.Payload}
	e.IDs[agentruntime.Step], e.IDs[agentruntime.ToolCall] = ev.StepID, ev.ToolCallID
	e.IDs[agentruntime.ModelRequest], e.IDs[agentruntime.Process] = ev.ModelRequestID, ev.ProcessID
	e.IDs[agentruntime.Task], e.IDs[agentruntime.Run] = ev.TaskID, ev.RunID
	e.IDs[agentruntime.Trace], e.IDs[agentruntime.Span] = ev.TraceID, ev.SpanID
	switch ev.Type {
	case turns.ModelRequested:
		t.request = e.IDs
	case turns.ToolStarted:
		if len(t.calls) < maxCalls {
			t.calls[ev.ToolCallID] = CallOf(ev.Payload)
		}
	case turns.ToolResult, turns.ToolFailed:
		e.Data = withCall(ev.Payload, t.calls[ev.ToolCallID])
		delete(t.calls, ev.ToolCallID)
	}
	return e, cause, true
}

// CallOf is what a call does, by the payload of its beginning.
func CallOf(begun json.RawMessage) activity.Call {
	var b turns.Begun
	_ = json.Unmarshal(begun, &b) // what is wrong with it is left out
	return activity.Of(b.ToolName, b.Arguments)
}

// withCall is the payload of the end of a call with what the call does as call and files, as far as there is room.
func withCall(payload json.RawMessage, call activity.Call) json.RawMessage {
	const most = 20 // files
	if call.Text == "" || len(payload) < len("{}") {
		return payload
	}
	for _, more := range []struct {
		Call  string          `json:"call"`
		Files []activity.File `json:"files,omitempty"`
	}{{call.Text, call.Files[:min(len(call.Files), most)]}, {call.Text, nil}, {visible.Clip(call.Text, 200), nil}} {
		text, err := responses.Marshal(more)
		if err != nil || len(payload)+len(text) > ledger.MaxEventData {
			continue
		}
		joined := append(append(payload[:len(payload)-1:len(payload)-1], ','), text[1:]...)
		if json.Valid(joined) { // not where the payload is an empty object
			return joined
		}
	}
	return payload
}

// Text is the payload of model.delta: text of one part of a message, in pieces where an event has no room for all.
type Text struct {
	Channel string          `json:"channel"` // text, refusal
	Delta   string          `json:"delta"`
	ItemID  string          `json:"item_id"` // of the message in the response
	Part    int             `json:"index"`   // of the part in the message
	Phase   responses.Phase `json:"phase,omitempty"`
}

// maxDelta bounds the text of one model.delta, in bytes of its JSON.
const maxDelta = ledger.MaxEventData - 512

// Message returns the events of a complete message of the model: all its text, once.
func (t *Entries) Message(m *responses.Message, clean func(string) string, at time.Time) (events []ledger.Event) {
	if m.ID == t.cut {
		return nil
	}
	for i, part := range m.Content {
		p := Text{Channel: "text", ItemID: m.ID, Part: i, Phase: m.Phase}
		text := part.Text
		if part.Type == responses.PartRefusal {
			p.Channel, text = "refusal", part.Refusal
		}
		for text = clean(text); text != ""; text = text[len(p.Delta):] {
			p.Delta = piece(text)
			data, err := responses.Marshal(p)
			if err != nil {
				break // text can be encoded
			}
			e := ledger.Event{Class: ModelDelta, CreatedAt: at, Data: data, IDs: t.request}
			e.IDs[agentruntime.Step] = m.ID
			events = append(events, e)
		}
	}
	return events
}

// piece is the beginning of a text that an event has room for, in whole characters.
func piece(text string) string {
	size := 0
	for i, r := range text {
		switch {
		case r < 0x20, r == '"', r == '\\', r == '\u2028', r == '\u2029', r == 0x7f, r == utf8.RuneError:
			size += 6
		default:
			size += utf8.RuneLen(r)
		}
		if size > maxDelta {
			return text[:i]
		}
	}
	return text
}
