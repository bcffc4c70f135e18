package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/test/expect"
)

// Wire is a transport and the API that it speaks, for Faults.
type Wire struct {
	New    func(endpoint.Options) (model.Transport, error)
	Prefix string // of the provider's settings, such as "OPENAI"

	Begin string // beginning of the stream of the answer "hello"
	Half  string // half of the next event
	End   string // or the end of the stream
}

// Serve starts a provider and returns a transport that asks it, with the key [Sentinel].
func (w Wire) Serve(t *testing.T, h http.HandlerFunc, change ...func(*endpoint.Options)) model.Transport {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	opts := endpoint.Options{BaseURL: server.URL, APIKey: Sentinel}
	for _, c := range change {
		c(&opts)
	}
	tr, err := w.New(opts)
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, tr.(io.Closer).Close()) })
	return tr
}

// brief lets a provider be silent for a moment only.
func brief(o *endpoint.Options) { o.IdleTimeout = 50 * time.Millisecond }

// Faults holds a transport to the common behavior when a connection, a provider or
// a reader fails.
func Faults(t *testing.T, w Wire) {
	t.Run("silence", w.silence)
	t.Run("silence before the answer", w.silenceBefore)
	t.Run("reset", w.reset)
	t.Run("the reader stops", w.readerStops)
	t.Run("cancelled at any event", w.cancelled)
	t.Run("cancelled before the answer", w.cancelledBefore)
	t.Run("nothing listens", w.nothingListens)
	t.Run("no key", w.noKey)
	t.Run("malformed address", w.malformedAddress)
	t.Run("rounds share a connection", w.sharedConnection)
	t.Run("statuses", func(t *testing.T) { w.Statuses(t, statuses()) })
}

// stall sends the beginning of an answer, and then nothing until the client goes.
func (w Wire) stall(out http.ResponseWriter, r *http.Request) {
	take(r)
	begin(out, w.Begin)
	<-r.Context().Done()
}

func (w Wire) silence(t *testing.T) {
	a, e := Ask(t.Context(), t, w.Serve(t, w.stall, brief), model.Request{Model: "m"})
	WantError(t, e, model.KindTransport, "no event for 50ms")
	expect.Equal(t, "timeout", e.Diagnostics.Timeout, true)
	expect.Equal(t, "the text before the silence", a.Text, "hello")
}

func (w Wire) silenceBefore(t *testing.T) {
	tr := w.Serve(t, func(_ http.ResponseWriter, r *http.Request) { take(r); <-r.Context().Done() }, brief)
	_, e := Ask(t.Context(), t, tr, model.Request{Model: "m"})
	WantError(t, e, model.KindTransport, "no event for 50ms")
}

func (w Wire) reset(t *testing.T) {
	a, e := Ask(t.Context(), t, w.Serve(t, func(out http.ResponseWriter, _ *http.Request) {
		begin(out, w.Begin+w.Half)
		panic(http.ErrAbortHandler)
	}), model.Request{Model: "m"})
	WantError(t, e, model.KindTransport, "")
	expect.Equal(t, "retryable", e.Retryable(), true)
	expect.Equal(t, "the text before the reset", a.Text, "hello")
}

func (w Wire) readerStops(t *testing.T) {
	for ev, err := range w.Serve(t, w.stall).Stream(t.Context(), model.Request{Model: "m"}) {
		expect.NoError(t, err)
		if ev.Kind == model.TextDelta {
			break
		}
	}
}

func (w Wire) cancelled(t *testing.T) {
	tr := w.Serve(t, w.stall)
	for at := range 3 { // before the first event; the answer has two
		ctx, cancel := context.WithCancel(t.Context())
		if at == 0 {
			cancel()
		}
		n := 0
		var last error
		for _, err := range tr.Stream(ctx, model.Request{Model: "m"}) {
			if n++; n == at {
				cancel()
			}
			last = err
		}
		cancel()
		e, ok := errors.AsType[*model.Error](last)
		if !ok {
			t.Errorf("cancelled at event %d: the last error is %#v, want a *model.Error", at, last)
			continue
		}
		WantError(t, e, model.KindCancelled, "")
		if !errors.Is(e, context.Canceled) {
			t.Errorf("cancelled at event %d: the error is %v, want one of context.Canceled", at, e)
		}
	}
}

func (w Wire) cancelledBefore(t *testing.T) {
	waiting := make(chan struct{})
	tr := w.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
		take(r)
		close(waiting)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waiting; cancel() }()
	_, e := Ask(ctx, t, tr, model.Request{Model: "m"})
	WantError(t, e, model.KindCancelled, "")
}

// WantError ends the test unless e has the kind and its message the text.
func WantError(t *testing.T, e *model.Error, kind model.ErrorKind, text string) {
	t.Helper()
	switch {
	case e == nil:
		t.Fatalf("the attempt succeeded, want an error of kind %s", kind)
	case e.Kind != kind:
		t.Fatalf("the error %v is of kind %s, want %s", e, e.Kind, kind)
	case !strings.Contains(e.Message, text):
		t.Fatalf("the message is %q, want one with %q", e.Message, text)
	}
}

// take reads a request. Without that a server does not notice that its client left.
func take(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

func begin(out http.ResponseWriter, text string) {
	out.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(out, text) // a client that has enough hangs up
	out.(http.Flusher).Flush()
}
