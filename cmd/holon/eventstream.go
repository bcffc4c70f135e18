package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/view"
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
		return usage("--json", "cannot be combined with --output-format "+*format, "leave one of them out")
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

// eventLines prints events as they happen, one a line, for programs.
type eventLines struct {
	streams               Streams
	schema, session, turn string // of the newest event
	err                   error  // of the first line that could not be written
}

// print writes a line. What is watched goes on when the reader is gone.
func (l *eventLines) print(event any) {
	if l.err == nil {
		l.err = printLine(l.streams, event)
	}
}

func (l *eventLines) printHost(class, status string, payload any) {
	l.print(hostEvent{Type: class, EventID: responses.NewID(responses.PrefixEvent), Timestamp: turns.At(time.Now()),
		SchemaVersion: l.schema, SessionID: l.session, TurnID: l.turn, Status: status, Payload: payload})
}

// runEvents prints the events of a run next to the progress on stderr.
type runEvents struct {
	*progress
	eventLines
}

// completed is the payload of a message that is complete.
type completed struct {
	ItemID string `json:"item_id"`
	Text   string `json:"text"`
}

// Fact implements runner.Observer.
func (s *runEvents) Fact(ev turns.RuntimeEvent) {
	s.session, s.turn, s.schema = ev.SessionID, ev.TurnID, ev.SchemaVersion
	s.print(ev)
	s.progress.Fact(ev)
}

// Event implements runner.Observer. Messages are whole when they are printed.
func (s *runEvents) Event(ev responses.Event) {
	if m, ok := ev.Item.(*responses.Message); ok && ev.Type == responses.EventItemDone {
		s.printHost(messageCompleted, "", completed{m.ID, m.Text()})
	}
	s.progress.Event(ev)
}

// finish prints the last event and returns the first error of all.
func (s *runEvents) finish(m *state.Manifest) error {
	manifest, err := m.Encode()
	if err != nil {
		return err
	}
	s.printHost(runEnded, string(m.Status), struct {
		RunID     string          `json:"run_id"`
		FinalText string          `json:"final_text"`
		Manifest  json.RawMessage `json:"manifest"`
	}{m.RunID, s.answer(), manifest})
	return s.err
}

// agentEvents prints the record of an agent for one message.
type agentEvents struct {
	eventLines
	*ofMessage
	remote *remote
	after  int64 // number of the newest event that was read
}

// upTo prints the events up to a number, and those after it that there are. Nil prints nothing.
func (e *agentEvents) upTo(ctx context.Context, seq int64) error {
	for e != nil && e.after < seq && e.err == nil {
		page, err := e.remote.RuntimeEvents(ctx, e.sent.AgentID, e.after)
		if err != nil || len(page.Events) == 0 {
			return err
		}
		for _, ev := range page.Events {
			e.after = ev.Sequence
			var refs struct {
				Message string `json:"message_id"`
			}
			if ev.Refs != nil && json.Unmarshal(ev.Refs, &refs) != nil || !e.has(refs.Message, ev.IDs[agentruntime.Turn]) {
				continue
			}
			e.schema, e.session, e.turn = agentruntime.SchemaVersion, ev.IDs[agentruntime.Session],
				ev.IDs[agentruntime.Turn]
			e.print(ev)
		}
	}
	if e == nil {
		return nil
	}
	return e.err
}

// finish prints the last event, which holds what the command prints with --json, and returns the first error of all.
func (e *agentEvents) finish(end view.MessageState, finalText string, result any) error {
	e.printHost(runEnded, string(statusOf(end)), struct {
		AgentID   string `json:"agent_id"`
		MessageID string `json:"message_id"`
		FinalText string `json:"final_text"`
		Result    any    `json:"result"`
	}{e.sent.AgentID, e.sent.MessageID, finalText, result})
	return e.err
}
