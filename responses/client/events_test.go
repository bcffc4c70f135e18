package client_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"holon/responses"
	"holon/responses/stream"
)

// A stream is taken up where the connection broke, each event comes once, and a stream that brings nothing is left.
func TestEventsTakeUpABrokenStream(t *testing.T) {
	var all [][]byte
	for line := range bytes.Lines(lines(t)) {
		all = append(all, fmt.Appendf(nil, "data: %s\n\n", bytes.TrimSpace(line)))
	}
	for perConnection := 0; perConnection <= len(all); perConnection++ {
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			after := -1
			if from := r.URL.Query().Get("starting_after"); from != "" {
				after, _ = strconv.Atoi(from)
			}
			if r.URL.Path != "/v1/responses/resp_1" || r.URL.Query().Get("stream") != "true" {
				t.Errorf("asked for %s", r.URL)
			}
			rest := all[min(after+1, len(all)):]
			w.Header().Set("Content-Type", stream.TypeSSE)
			_, _ = w.Write(bytes.Join(rest[:min(perConnection, len(rest))], nil))
		})).Below("/v1")
		next, terminal := int64(0), 0
		var last error
		for ev, err := range c.Events(t.Context(), "resp_1", -1) {
			if last = err; err != nil {
				continue
			}
			if ev.SequenceNumber != next {
				t.Errorf("event %d comes after %d", ev.SequenceNumber, next-1)
			}
			if next++; responses.Terminal(ev.Type) {
				terminal++
			}
		}
		if perConnection == 0 {
			isError(t, last, responses.CodeServerDisconnected)
			continue
		}
		if last != nil || terminal != 1 || int(next) != len(all) {
			t.Errorf("%d events a connection: %d events, %d terminal, %v", perConnection, next, terminal, last)
		}
	}
}

func TestCallBelow(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(200, "application/json", []byte(strconv.Quote(r.Method+" "+r.URL.Path)))(w, r)
	}))
	got, err := c.Below("/v1").Call(t.Context(), http.MethodPost, "/a", []byte("{}"))
	if err != nil || string(got) != `"POST /v1/a"` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err = c.Call(t.Context(), http.MethodGet, "/b", nil); err != nil || string(got) != `"GET /b"` {
		t.Errorf("got %s, %v", got, err)
	}
}
