package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/agentd/model"
)

// Wire is a transport and the API that it speaks, for Faults.
type Wire struct {
	// Serve starts a provider and returns a transport that asks it. idle is how long
	// the provider may be silent, 0 for the default.
	Serve func(t *testing.T, h http.HandlerFunc, idle time.Duration) model.Transport

	Begin string // how the stream of an answer begins that says "hello"
	Half  string // and half of the event after that
	End   string // or all that ends it
}

// Faults holds a transport to what every one does when a connection, a provider or
// a reader fails.
func Faults(t *testing.T, w Wire) {
	const brief = 50 * time.Millisecond
	stall := func(out http.ResponseWriter, r *http.Request) { // a beginning, and then nothing until the client goes
		take(r)
		begin(out, w.Begin)
		<-r.Context().Done()
	}
	t.Run("silence", func(t *testing.T) {
		a, e := Ask(t.Context(), t, w.Serve(t, stall, brief), model.Request{Model: "m"})
		if e == nil || e.Kind != model.KindTransport || !strings.Contains(e.Message, "no event for 50ms") ||
			a.Text != "hello" || !e.Diagnostics.Timeout {
			t.Errorf("%+v %v", a, e)
		}
	})
	t.Run("silence before the answer", func(t *testing.T) {
		tr := w.Serve(t, func(_ http.ResponseWriter, r *http.Request) { take(r); <-r.Context().Done() }, brief)
		if _, e := Ask(t.Context(), t, tr, model.Request{Model: "m"}); e == nil || e.Kind != model.KindTransport ||
			!strings.Contains(e.Message, "no event for 50ms") {
			t.Error(e)
		}
	})
	t.Run("reset", func(t *testing.T) {
		a, e := Ask(t.Context(), t, w.Serve(t, func(out http.ResponseWriter, _ *http.Request) {
			begin(out, w.Begin+w.Half)
			panic(http.ErrAbortHandler)
		}, 0), model.Request{Model: "m"})
		if e == nil || e.Kind != model.KindTransport || a.Text != "hello" || !e.Retryable() {
			t.Errorf("%+v %v", a, e)
		}
	})
	t.Run("an event without end", func(t *testing.T) { // refused without being kept whole
		tr := w.Serve(t, func(out http.ResponseWriter, r *http.Request) {
			begin(out, "data: ")
			for piece := strings.Repeat("x", 1<<16); ; {
				if _, err := io.WriteString(out, piece); err != nil {
					return
				}
			}
		}, 0)
		if _, e := Ask(t.Context(), t, tr, model.Request{Model: "m"}); e == nil || e.Kind != model.KindProtocol ||
			!strings.Contains(e.Message, "too large") {
			t.Error(e)
		}
	})
	t.Run("the reader stops", func(t *testing.T) {
		for ev, err := range w.Serve(t, stall, 0).Stream(t.Context(), model.Request{Model: "m"}) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == model.TextDelta {
				break
			}
		}
	})
	t.Run("cancelled at any event", func(t *testing.T) {
		tr := w.Serve(t, stall, 0)
		for at := range 3 { // before the first; then there are two
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
			if e, ok := errors.AsType[*model.Error](last); !ok || e.Kind != model.KindCancelled ||
				!errors.Is(e, context.Canceled) {
				t.Errorf("at event %d: %#v", at, last)
			}
		}
	})
	t.Run("cancelled before the answer", func(t *testing.T) {
		waiting := make(chan struct{})
		tr := w.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
			take(r)
			close(waiting)
			<-r.Context().Done()
		}, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-waiting; cancel() }()
		if _, e := Ask(ctx, t, tr, model.Request{Model: "m"}); e == nil || e.Kind != model.KindCancelled {
			t.Error(e)
		}
	})
}

// take reads a request, without which a server does not see its client go.
func take(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

func begin(out http.ResponseWriter, text string) {
	out.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(out, text) // a client that has enough hangs up
	out.(http.Flusher).Flush()
}
