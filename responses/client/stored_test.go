package client_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/stream"
)

// broken serves a stream that breaks after some events of each connection.
func broken(t *testing.T, events int, gets *atomic.Int32) http.Handler {
	all := bytes.SplitAfter(bytes.TrimSuffix(lines(t), []byte{'\n'}), []byte{'\n'})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := 0
		if r.Method == http.MethodGet {
			gets.Add(1)
			for n := range all {
				if r.URL.Path == "/responses/resp_1" &&
					strings.HasSuffix(r.URL.RawQuery, "starting_after="+string(rune('0'+n))) {
					from = n + 1
				}
			}
		}
		rest := all[min(from, len(all)):]
		w.Header().Set("Content-Type", stream.TypeSSE)
		_, _ = w.Write(stream.SSE.Append(nil, bytes.Join(rest[:min(events, len(rest))], nil)))
		_ = http.NewResponseController(w).Flush()
		if events < len(rest) {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(stream.SSE.AppendEnd(nil))
	})
}

func TestFollowTakesUpABrokenStream(t *testing.T) {
	total := bytes.Count(lines(t), []byte{'\n'})
	for events := 1; events <= total; events++ {
		var gets atomic.Int32
		next := int64(0)
		c := serve(t, broken(t, events, &gets))
		var last string
		for ev, err := range c.Follow(t.Context(), responses.NewRequest("")) {
			if err != nil {
				t.Fatalf("%d at a time: %v", events, err)
			}
			if ev.SequenceNumber != next {
				t.Fatalf("%d at a time: event %d instead of %d", events, ev.SequenceNumber, next)
			}
			last = ev.Type
			next++
		}
		if want := (total - 1) / events; last != responses.EventCompleted || next != int64(total) ||
			int(gets.Load()) != want {
			t.Errorf("%d at a time: %d events, the last %s, in %d requests; want %d in %d", events, next, last, gets.Load(),
				total, want)
		}
	}
}

func TestFollowGivesUp(t *testing.T) {
	var gets atomic.Int32
	first := broken(t, 2, new(atomic.Int32))
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			first.ServeHTTP(w, r)
		}
		gets.Add(1)
		panic(http.ErrAbortHandler)
	}))
	var last error
	for _, err := range c.Follow(t.Context(), responses.NewRequest("")) {
		last = err
	}
	isError(t, last, responses.CodeServerDisconnected)
	if n := gets.Load(); n < 2 || n > 10 {
		t.Errorf("it was tried %d times", n)
	}
}

// Answers are not trusted.
func TestHostileAnswers(t *testing.T) {
	for _, body := range []string{`{}`, `[]`, `{"object":"list","data":[5]}`,
		`{"object":"list","data":[{"type":"message"}]}`, `{"object":"list","data":{}}`, strings.Repeat(`{"a":`, 20000),
		"\xff"} {
		c := serve(t, answer(200, "application/json", []byte(body)))
		_, err := c.InputItems(t.Context(), "resp_1", client.ItemPage{})
		isError(t, err, responses.CodeServerError)
		_, err = c.GetResponse(t.Context(), "resp_1")
		isError(t, err, responses.CodeServerError)
		if !strings.Contains(body, "list") || strings.Contains(body, "data\":{") {
			_, err = c.Models(t.Context())
			isError(t, err, responses.CodeServerError)
		}
	}
	c := serve(t, answer(200, "application/json", nil))
	for _, id := range []string{"", "../health", "a/b", "a?b"} {
		_, err := c.GetResponse(t.Context(), id)
		isError(t, err, responses.CodeInvalidValue)
		isError(t, c.Delete(t.Context(), id), responses.CodeInvalidValue)
		_, err = c.InputItems(t.Context(), id, client.ItemPage{})
		isError(t, err, responses.CodeInvalidValue)
		for _, err := range c.Replay(t.Context(), id, client.FromStart) {
			isError(t, err, responses.CodeInvalidValue)
		}
	}
}
