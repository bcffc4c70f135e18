package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holon/test/expect"

	"go.uber.org/goleak"

	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "the-token")
	expect.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestNew(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://127.0.0.1:1": true, "https://example.org/holon/": true,
		"": false, "127.0.0.1:1": false, "unix:///x": false, "http://": false, "http://a?x": false,
		"http://u:p@a": false, "%": false,
	} {
		if _, err := client.New(url, ""); (err == nil) != ok ||
			err != nil && !state.IsCode(err, wire.CodeInvalidValue) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// A call to any server ends with an error that says what to do.
func TestHostileAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		code   state.Code
	}{
		"no JSON":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, wire.CodeBadAnswer},
		"other JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[1]`) }, wire.CodeBadAnswer},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, wire.CodeBadAnswer},
		"no envelope": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		}, wire.CodeBadAnswer},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			fmt.Fprint(w, `{"ok":`)
		}, wire.CodeDisconnected},
		"broken off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, wire.CodeDisconnected},
		"large errors": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, strings.Repeat("x", 1<<20))
		}, wire.CodeBadAnswer},
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(409)
			fmt.Fprint(w, `{"error":{"code":"agent_stopped","message":"m","hint":"h"}}`)
		}, "agent_stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, tc.answer).Root(t.Context())
			e, ok := errors.AsType[*state.Error](err)
			if !ok || e.Code != tc.code || e.Hint == "" || strings.Contains(err.Error(), "the-token") {
				t.Errorf("%#v, want %s with a hint and without the token", err, tc.code)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	var got *http.Request
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		if r.URL.Path == "/" {
			fmt.Fprint(w, `{"ok":true,"default_agent":"the one"}`)
			return
		}
		fmt.Fprint(w, `{}`)
	})
	if _, err := c.Prompt(t.Context(), "", wire.Prompt{Text: "x"}, "key"); err != nil {
		t.Fatal(err)
	}
	expect.Equal(t, "path", got.URL.EscapedPath(), "/control/agents/the%20one/prompt")
	expect.Equal(t, "authorization", got.Header.Get("Authorization"), "Bearer the-token")
	expect.Equal(t, "key", got.Header.Get("Idempotency-Key"), "key")
	if _, err := c.CancelTimer(t.Context(), "a/b", "../x"); err != nil ||
		got.URL.EscapedPath() != "/control/agents/a%2Fb/timers/..%2Fx" {
		t.Errorf("%s, %v", got.URL.EscapedPath(), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Root(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A stream that repeats itself, breaks, or talks nonsense.
func TestFollowHostileStreams(t *testing.T) {
	event := func(seq int) string {
		return fmt.Sprintf("id: %d\ndata: {\"type\":\"x\",\"event_seq\":%d}\n\n", seq, seq)
	}
	opening := "event: stream_open\ndata: {\"type\":\"stream_open\",\"event_log_epoch\":\"e\",\"after_seq\":4}\n\n"
	connections := 0
	var queries []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		switch connections++; connections {
		case 1:
			// cut off
			fmt.Fprint(w, opening, ": comment\n\n", event(5), event(5), event(6), "data: {\"type\":\"x\",\"event_s")
		case 2:
			fmt.Fprint(w, opening[:0], event(6), event(7))
		case 3:
			fmt.Fprint(w, "event: stream_reset\ndata: "+
				"{\"type\":\"stream_reset\",\"event_log_epoch\":\"f\",\"after_seq\":1,"+
				"\"reason\":\"epoch_changed\"}\n\n", event(2))
		default:
			fmt.Fprint(w, "data: nonsense\n\n")
		}
	})
	var seen []string
	var end error
	for item, err := range c.Follow(t.Context(), "a", client.Follow{After: 4, Patience: time.Minute}) {
		switch {
		case err != nil:
			end = err
		case item.Reset != nil:
			seen = append(seen, item.Reset.Reason)
		default:
			seen = append(seen, fmt.Sprint(item.Event.EventSeq))
		}
	}
	expect.Equal(t, "seen", strings.Join(seen, " "), "5 6 7 epoch_changed 2")
	if !state.IsCode(end, wire.CodeBadAnswer) {
		t.Errorf("it ended with %v", end)
	}
	if want := "after_seq=4 after_seq=6&epoch=e after_seq=7&epoch=e after_seq=2&epoch=f"; strings.Join(queries,
		" ") != want {
		t.Errorf("asked %v, want %s", queries, want)
	}
	connections = 0
	for range c.Follow(t.Context(), "a", client.Follow{After: 4}) {
		break // a consumer that stops is not called again
	}
}
