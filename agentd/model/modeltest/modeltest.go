// Package modeltest is what the tests of all model transports share: it asks,
// holds the events to the rules of model.Transport, and sums them up.
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

// Sentinel stands for a key, which must never be seen again.
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

// Ask makes one attempt. Events out of order, a second end, an end that is
// missing, and errors that are not fit for a user fail the test.
func Ask(ctx context.Context, t testing.TB, tr model.Transport, req model.Request) (a Answer, failed *model.Error) {
	t.Helper()
	var open model.EventKind
	var arguments strings.Builder
	summary, ended := "", false
	endSummary := func() {
		if summary != "" {
			a.Summary, summary = append(a.Summary, summary), ""
		}
	}
	for ev, err := range tr.Stream(ctx, req) {
		if ended {
			t.Fatalf("an event after the end: %+v %v", ev, err)
		}
		if err != nil {
			failed, ended = checkError(t, ev, err), true
			a.Error = failed.Error()
			continue
		}
		if want := home(ev.Kind); want != 0 && want != open {
			t.Fatalf("event %+v while %d is open", ev, open)
		}
		switch ev.Kind {
		case model.MessageBegin, model.ReasoningBegin, model.CallBegin:
			if open == model.CallBegin {
				t.Fatalf("event %+v within a call", ev)
			}
			endSummary()
			open = ev.Kind
			arguments.Reset()
		case model.TextDelta:
			a.Text += ev.Text
		case model.RefusalDelta:
			a.Refusal += ev.Text
		case model.SummaryDelta:
			summary += ev.Text
		case model.SummaryPartEnd:
			endSummary()
		case model.ReasoningDelta:
			a.Reasoning += ev.Text
		case model.ReasoningEnd:
			endSummary()
			if ev.Text != "" {
				a.Opaque = append(a.Opaque, ev.Text)
			}
			open = 0
		case model.AnnotationAdded:
			a.Notes = append(a.Notes, ev.Annotation.URL)
		case model.CallDelta:
			arguments.WriteString(ev.Text)
		case model.CallEnd:
			if arguments.Len() > 0 && arguments.String() != ev.Text {
				t.Errorf("the deltas give %q and the end %q", arguments.String(), ev.Text)
			}
			a.Calls = append(a.Calls, ev.CallID+" "+ev.Name+" "+ev.Text)
			open = 0
		case model.Done:
			if open == model.CallBegin && ev.Stop == model.StopEnd {
				t.Fatal("a call has no end")
			}
			a.Stop, a.Usage, a.RequestID, ended = ev.Stop, ev.Usage, ev.RequestID, true
		default:
			t.Fatalf("event of kind %d", ev.Kind)
		}
	}
	if !ended {
		t.Fatal("the stream has no end")
	}
	endSummary()
	return a, failed
}

// home returns the kind of the event that must have opened the item to which an
// event belongs, 0 when it belongs to none.
func home(kind model.EventKind) model.EventKind {
	switch kind {
	case model.TextDelta, model.RefusalDelta, model.AnnotationAdded:
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
