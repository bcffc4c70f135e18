package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/state"
)

// Values of --output-format.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatStream = "stream-json"
)

var outputFormats = []string{formatText, formatJSON, formatStream}

// checkFormat makes --json and --output-format one option.
func checkFormat(format *string, asJSON *bool) error {
	if *format == "" {
		*format = map[bool]string{true: formatJSON, false: formatText}[*asJSON]
	}
	if !slices.Contains(outputFormats, *format) {
		return usage("--output-format", fmt.Sprintf("%q is unknown", visible.OneLine(*format, 40)),
			"choose text, json or stream-json")
	}
	if *asJSON && *format != formatJSON {
		return usage("--json", "goes not with --output-format "+*format, "leave one of them out")
	}
	*asJSON = *format == formatJSON
	return nil
}

// Classes of the events that the host adds to those of the turn.
const (
	messageCompleted = "holon.message.completed"
	runEnded         = "holon.run.ended"
)

// hostEvent is a line that is not in the turn's own log and therefore has no sequence number there.
type hostEvent struct {
	Type          string     `json:"type"`
	EventID       string     `json:"event_id"`
	Timestamp     turns.Time `json:"timestamp"`
	SchemaVersion string     `json:"schema_version,omitempty"`
	SessionID     string     `json:"session_id,omitempty"`
	TurnID        string     `json:"turn_id,omitempty"`
	Status        string     `json:"status,omitempty"`
	Payload       any        `json:"payload"`
}

// eventStream prints the events of a run as they happen, one a line, next to the progress on stderr.
type eventStream struct {
	*progress
	session, turnID string
	schema          string
	err             error // of the first line that could not be written
}

// completed is the payload of a message that is complete.
type completed struct {
	ItemID string `json:"item_id"`
	Text   string `json:"text"`
}

// Fact implements runner.Observer.
func (s *eventStream) Fact(ev turns.RuntimeEvent) {
	s.session, s.turnID, s.schema = ev.SessionID, ev.TurnID, ev.SchemaVersion
	s.print(ev)
	s.progress.Fact(ev)
}

// Event implements runner.Observer. Messages are whole when they are printed.
func (s *eventStream) Event(ev responses.Event) {
	if m, ok := ev.Item.(*responses.Message); ok && ev.Type == responses.EventItemDone {
		s.tell(messageCompleted, "", completed{m.ID, m.Text()})
	}
	s.progress.Event(ev)
}

// finish prints the last event and returns the first error of all.
func (s *eventStream) finish(m *state.Manifest) error {
	manifest, err := m.Encode()
	if err != nil {
		return err
	}
	s.tell(runEnded, string(m.Status), struct {
		RunID     string          `json:"run_id"`
		FinalText string          `json:"final_text"`
		Manifest  json.RawMessage `json:"manifest"`
	}{m.RunID, strings.TrimSpace(s.answer()), manifest})
	return s.err
}

// tell prints an event of the host.
func (s *eventStream) tell(class, status string, payload any) {
	s.print(hostEvent{Type: class, EventID: responses.NewID(responses.PrefixEvent), Timestamp: turns.At(time.Now()),
		SchemaVersion: s.schema, SessionID: s.session, TurnID: s.turnID, Status: status, Payload: payload})
}

// print writes a line. The run goes on when its reader is gone.
func (s *eventStream) print(v any) {
	if s.err != nil {
		return
	}
	data, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintln(s.streams.Out, string(machineText(data)))
	}
	s.err = err
}
