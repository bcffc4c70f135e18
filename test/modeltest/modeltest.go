// Package modeltest is the common part of the tests of all model transports: it makes
// attempts, checks the events by the rules of model.Transport, and sums them up.
package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/responses"
)

// Sentinel is a key that must never appear in output.
const Sentinel = "sk-sentinel-1234567890"

// Answer sums up the events of one attempt, in a form for golden files.
type Answer struct {
	Text      string          `json:"text,omitempty"`
	Refusal   string          `json:"refusal,omitempty"`
	Summary   []string        `json:"summary,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	Opaque    []string        `json:"opaque,omitempty"`
	Notes     []string        `json:"annotations,omitempty"`
	Calls     []string        `json:"calls,omitempty"` // "id name arguments", of those that ended
	Stop      model.Stop      `json:"stop,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
	Usage     responses.Usage `json:"usage"`
	Error     string          `json:"error,omitempty"`
}

// PartMark stands in Answer.Text where one part of a message ends and another follows.
const PartMark = "¶"

// Ask makes one attempt. Events out of order, a second or missing end, and errors
// that are not fit for a user fail the test.
func Ask(ctx context.Context, t testing.TB, tr model.Transport, req model.Request) (a Answer, failed *model.Error) {
	t.Helper()
	r := reader{t: t}
	ended := false
	for ev, err := range tr.Stream(ctx, req) {
		if ended {
			t.Fatalf("an event after the end: %+v %v", ev, err)
		}
		if err != nil {
			failed, ended = checkError(t, ev, err), true
			r.answer.Error = failed.Error()
			continue
		}
		r.take(ev)
		ended = ev.Kind == model.Done
	}
	if !ended {
		t.Fatal("the stream has no end")
	}
	r.endSummary()
	return r.answer, failed
}

type reader struct {
	t         testing.TB
	answer    Answer
	open      model.EventKind // that began the open item, 0 for none
	arguments strings.Builder // of the open call
	summary   string          // of the open summary part
}

func (r *reader) endSummary() {
	if r.summary != "" {
		r.answer.Summary, r.summary = append(r.answer.Summary, r.summary), ""
	}
}

func (r *reader) take(ev model.Event) {
	r.t.Helper()
	if want := home(ev.Kind); want != 0 && want != r.open {
		r.t.Fatalf("event %+v while %d is open, want %d", ev, r.open, want)
	}
	a := &r.answer
	switch ev.Kind {
	case model.MessageBegin, model.ReasoningBegin, model.CallBegin:
		if r.open == model.CallBegin {
			r.t.Fatalf("event %+v within a call", ev)
		}
		r.endSummary()
		r.open = ev.Kind
		r.arguments.Reset()
	case model.TextDelta:
		a.Text += ev.Text
	case model.RefusalDelta:
		a.Refusal += ev.Text
	case model.AnnotationAdded:
		a.Notes = append(a.Notes, ev.Annotation.URL)
	case model.SummaryDelta:
		r.summary += ev.Text
	case model.SummaryPartEnd:
		r.endSummary()
	case model.PartEnd:
		a.Text += PartMark
	case model.ReasoningDelta:
		a.Reasoning += ev.Text
	case model.CallDelta:
		r.arguments.WriteString(ev.Text)
	case model.ReasoningEnd, model.CallEnd, model.Done:
		r.end(ev)
	default:
		r.t.Fatalf("event of kind %d", ev.Kind)
	}
}

func (r *reader) end(ev model.Event) {
	r.t.Helper()
	a := &r.answer
	switch ev.Kind {
	case model.ReasoningEnd:
		r.endSummary()
		if ev.Text != "" {
			a.Opaque = append(a.Opaque, ev.Text)
		}
		r.open = 0
	case model.CallEnd:
		if r.arguments.Len() > 0 && r.arguments.String() != ev.Text {
			r.t.Errorf("the deltas of a call give %q, want its end's %q", r.arguments.String(), ev.Text)
		}
		a.Calls = append(a.Calls, ev.CallID+" "+ev.Name+" "+ev.Text)
		r.open = 0
	case model.Done:
		if r.open == model.CallBegin && ev.Stop == model.StopEnd {
			r.t.Fatal("a call has no end")
		}
		a.Stop, a.Usage, a.RequestID = ev.Stop, ev.Usage, ev.RequestID
	}
}

// home returns the kind of the event that must have opened the item to which an
// event belongs, 0 when it belongs to none.
func home(kind model.EventKind) model.EventKind {
	switch kind {
	case model.TextDelta, model.RefusalDelta, model.AnnotationAdded, model.PartEnd:
		return model.MessageBegin
	case model.SummaryDelta, model.SummaryPartEnd, model.ReasoningDelta, model.ReasoningEnd:
		return model.ReasoningBegin
	case model.CallDelta, model.CallEnd:
		return model.CallBegin
	}
	return 0
}

func checkError(t testing.TB, ev model.Event, err error) *model.Error {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok || !reflect.DeepEqual(ev, model.Event{}) {
		t.Fatalf("ends with %+v and %#v", ev, err)
	}
	if strings.Contains(e.Error(), "sentinel") || strings.ContainsAny(e.Message, "\n\x00") || len(e.Message) > 450 {
		t.Errorf("the message is not fit for a user: %q", e.Message)
	}
	return e
}

// Write writes a stream to a client: at once, or in pieces of the given sizes, over
// and over, each on its way before the next. It stops when the client has gone.
func Write(w http.ResponseWriter, stream string, sizes ...int) {
	for i := 0; stream != ""; i++ {
		n := len(stream)
		if len(sizes) > 0 {
			n = min(n, max(1, sizes[i%len(sizes)]))
		}
		if _, err := io.WriteString(w, stream[:n]); err != nil {
			return
		}
		if stream = stream[n:]; len(sizes) > 0 {
			w.(http.Flusher).Flush()
		}
	}
}
