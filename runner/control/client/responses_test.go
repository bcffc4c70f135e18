package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
	"holon/test/expect"
)

// The events of a response come once and in order, whatever the connections do, until its terminal event.
func TestFollowResponse(t *testing.T) {
	t.Parallel()
	delta := func(n int) string {
		return fmt.Sprintf("event: x\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,"+
			"\"item_id\":\"i\",\"delta\":\"%d\"}\n\n", n, n)
	}
	end := func(n int) string {
		return fmt.Sprintf("data: {\"type\":\"response.completed\",\"sequence_number\":%d}\n\n", n)
	}
	for name, c := range map[string]struct {
		connections []string
		seen, asked string
		code        state.Code
	}{
		"whole": {[]string{delta(0) + delta(1) + end(2)}, "0 1 2", "stream=true", ""},
		"cut and repeated": {[]string{delta(0) + delta(1) + "data: {\"ty", delta(1) + delta(2), end(3) + delta(4)}, "0 1 2 3",
			"stream=true stream=true&starting_after=1 stream=true&starting_after=2", ""},
		"nonsense": {[]string{delta(0) + "data: nonsense\n\n"}, "0", "stream=true", wire.CodeBadAnswer},
		"an error": {[]string{"data: {\"type\":\"error\",\"sequence_number\":0,\"error\":{\"code\":\"gone\",\"message\":\"m\"}}\n\n"},
			"", "stream=true", "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked, seen []string
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.RawQuery)
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, c.connections[min(len(asked), len(c.connections))-1])
			})
			var failed error
			for ev, err := range server.FollowResponse(t.Context(), "resp_1", client.Follow{Patience: time.Minute}) {
				if failed = err; err == nil {
					seen = append(seen, fmt.Sprint(ev.SequenceNumber))
				}
			}
			expect.Equal(t, "seen", strings.Join(seen, " "), c.seen)
			expect.Equal(t, "asked", strings.Join(asked, " "), c.asked)
			if (failed != nil || c.code != "") && !state.IsCode(failed, c.code) {
				t.Errorf("it ended with %v, want %q", failed, c.code)
			}
		})
	}
}

// A response is made in the background, by whatever the door takes.
func TestCreateResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		answer string
		code   state.Code
	}{
		"refused":  {404, `{"error":{"type":"not_found","code":"model_not_found","message":"m","param":"model"}}`, "model_not_found"},
		"nonsense": {200, `{}`, wire.CodeBadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := serve(t, func(w http.ResponseWriter, r *http.Request) {
				expect.Equal(t, "request", r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"),
					"POST /v1/responses Bearer the-token")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.answer)
			}).CreateResponse(t.Context(), map[string]any{"model": "m", "background": true})
			if !state.IsCode(err, c.code) {
				t.Errorf("it failed with %v, want %s", err, c.code)
			}
		})
	}
}
