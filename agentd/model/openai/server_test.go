package openai_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"holon/agentd/model"
	"holon/agentd/model/openai"
	"holon/responses"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sentinel stands for the key, which must never be seen again.
const sentinel = "sk-sentinel-1234567890"

// serve starts a provider on TCP, or on a Unix socket, and returns a transport
// that asks it.
func serve(t testing.TB, unix bool, h http.HandlerFunc, change ...func(*openai.Options)) *openai.Transport {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	opts := openai.Options{APIKey: sentinel}
	if unix {
		opts.SocketPath = filepath.Join(t.TempDir(), "m.sock")
		l, err := net.Listen("unix", opts.SocketPath)
		if err != nil {
			t.Fatal(err)
		}
		_ = server.Listener.Close() // replaced before it served
		server.Listener = l
	}
	server.Start()
	t.Cleanup(server.Close)
	opts.BaseURL = server.URL + "/v1"
	if unix {
		opts.BaseURL = ""
	}
	for _, c := range change {
		c(&opts)
	}
	tr, err := openai.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// replay answers with events, cut into pieces at random.
func replay(events []string, cut bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a handler of a test that looks at nothing
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("X-Request-Id", "req_header")
		var b strings.Builder
		for _, ev := range events {
			b.WriteString("event: x\ndata: " + ev + "\n\n")
		}
		b.WriteString("data: [DONE]\n\n")
		for text := b.String(); text != ""; {
			n := len(text)
			if cut {
				n = min(n, 1+rand.IntN(400))
			}
			if _, err := io.WriteString(w, text[:n]); err != nil {
				return
			}
			text = text[n:]
			if cut {
				w.(http.Flusher).Flush()
			}
		}
	}
}

// answer is what golden files hold of one answer.
type answer struct {
	Text      string          `json:"text,omitempty"`
	Refusal   string          `json:"refusal,omitempty"`
	Summary   []string        `json:"summary,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	Encrypted int             `json:"encrypted_bytes,omitempty"`
	Notes     []string        `json:"annotations,omitempty"`
	Calls     []string        `json:"calls,omitempty"` // "id name arguments"
	Stop      model.Stop      `json:"stop,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
	Usage     responses.Usage `json:"usage"`
	Error     string          `json:"error,omitempty"`
}

// ask makes one attempt, checks that its events are legal, and sums them up.
func ask(ctx context.Context, t testing.TB, tr model.Transport, req model.Request) (a answer, failed *model.Error) {
	t.Helper()
	if req.Model == "" {
		req.Model = "gpt-test"
	}
	var open model.EventKind
	var arguments strings.Builder
	summary, ended := "", false
	for ev, err := range tr.Stream(ctx, req) {
		if ended {
			t.Fatalf("an event after the end: %+v %v", ev, err)
		}
		if err != nil {
			e, ok := errors.AsType[*model.Error](err)
			if !ok || !reflect.DeepEqual(ev, model.Event{}) {
				t.Fatalf("ends with %+v and %#v", ev, err)
			}
			if strings.Contains(e.Error(), "sentinel") || strings.ContainsAny(e.Message, "\n\x00") || len(e.Message) > 450 {
				t.Errorf("the message is not fit for a user: %q", e.Message)
			}
			failed, ended, a.Error = e, true, e.Error()
			continue
		}
		want := map[model.EventKind]model.EventKind{
			model.TextDelta: model.MessageBegin, model.RefusalDelta: model.MessageBegin, model.AnnotationAdded: model.MessageBegin,
			model.SummaryDelta: model.ReasoningBegin, model.SummaryPartEnd: model.ReasoningBegin, model.ReasoningDelta: model.ReasoningBegin, model.ReasoningEnd: model.ReasoningBegin,
			model.CallDelta: model.CallBegin, model.CallEnd: model.CallBegin,
		}[ev.Kind]
		if want != 0 && want != open {
			t.Fatalf("event %+v while %d is open", ev, open)
		}
		switch ev.Kind {
		case model.MessageBegin, model.ReasoningBegin, model.CallBegin:
			open = ev.Kind
			arguments.Reset()
		case model.TextDelta:
			a.Text += ev.Text
		case model.RefusalDelta:
			a.Refusal += ev.Text
		case model.SummaryDelta:
			summary += ev.Text
		case model.SummaryPartEnd:
			a.Summary, summary = append(a.Summary, summary), ""
		case model.ReasoningDelta:
			a.Reasoning += ev.Text
		case model.ReasoningEnd:
			a.Encrypted += len(ev.Text)
			open = 0
		case model.AnnotationAdded:
			a.Notes = append(a.Notes, ev.Annotation.URL)
		case model.CallDelta:
			arguments.WriteString(ev.Text)
		case model.CallEnd:
			if arguments.String() != ev.Text {
				t.Errorf("the deltas give %q and the end %q", arguments.String(), ev.Text)
			}
			a.Calls = append(a.Calls, ev.CallID+" "+ev.Name+" "+ev.Text)
			open = 0
		case model.Done:
			a.Stop, a.Usage, a.RequestID, ended = ev.Stop, ev.Usage, ev.RequestID, true
		}
	}
	if !ended {
		t.Fatal("the stream has no end")
	}
	if summary != "" {
		a.Summary = append(a.Summary, summary)
	}
	return a, failed
}
