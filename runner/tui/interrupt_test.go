package tui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holon/responses"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/test/expect"
)

// A turn that another client began is interrupted from here, as it is followed.
func TestInterruptOfAnotherClient(t *testing.T) {
	t.Parallel()
	running := responses.NewID(responses.PrefixResponse)
	canceled := make(chan string, 1)
	followed, done := make(chan struct{}, 2), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/cancel"):
			canceled <- path
			http.NotFound(w, r)
		case strings.HasSuffix(path, "/turns"):
			answer(wire.SessionTurnList{Data: []wire.SessionTurn{
				{ResponseID: running, Status: "in_progress"}}})
		case strings.HasSuffix(path, "/sessions/ses_1"):
			answer(wire.Session{ID: "ses_1", Status: "open", ResponseIDs: []string{running}})
		case r.URL.Query().Get("stream") == "true":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			followed <- struct{}{}
			<-done
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	defer close(done)
	at, err := client.New(server.URL, "")
	expect.NoError(t, err)
	defer at.Close()
	s := newSession(at, Target{Session: "ses_1"})
	if s.interrupt(t.Context()) == nil {
		t.Error("what no one began was interrupted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	shown := make(chan error, 1)
	go func() { shown <- s.show(ctx, func(event) {}) }()
	<-followed
	_ = s.interrupt(ctx) // the answer says less than a daemon's
	cancel()
	<-shown
	expect.Contains(t, "the cancelled response", <-canceled, running)
}
