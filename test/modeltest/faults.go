package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
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
	t.Run("odd framing", w.oddFraming)
	t.Run("words in a stream", w.wordsInStream)
	t.Run("no key", w.noKey)
	t.Run("malformed address", w.malformedAddress)
	t.Run("rounds share a connection", w.sharedConnection)
	t.Run("statuses", func(t *testing.T) { w.Statuses(t, statuses()) })
}

// oddFraming has answers that are not framed as they should be, and can be read.
func (w Wire) oddFraming(t *testing.T) {
	whole := w.Begin + w.End
	for name, tt := range map[string]struct{ contentType, body string }{
		"no content type":                   {"", whole},
		"another content type":              {"text/plain; charset=utf-8", whole},
		"the content type of JSON":          {"application/json", whole},
		"no blank line behind the last":     {"text/event-stream", strings.TrimRight(whole, "\n")},
		"a comment first":                   {"text/html", ": ok\n\n" + whole},
		"blank lines first":                 {"", strings.Repeat("\r\n", 5000) + whole},
		"a line of another program":         {"text/event-stream", w.Begin + "data: keep-alive\n\n" + w.End},
		"an object of another program":      {"text/event-stream", "data: {\"ping\":1}\n\n" + whole},
		"a mark of bytes and carriage ends": {"text/event-stream", "\ufeff" + strings.ReplaceAll(whole, "\n", "\r\n")},
	} {
		a, e := Ask(t.Context(), t, w.Serve(t, func(out http.ResponseWriter, _ *http.Request) {
			out.Header()["Content-Type"] = []string{tt.contentType}
			_, _ = io.WriteString(out, tt.body) // a client that has enough hangs up
		}), model.Request{Model: "m"})
		if e != nil || a.Text != "hello" {
			t.Errorf("%s: %q, %v", name, a.Text, e)
		}
	}
}

// wordsInStream has answers of status 200 that are errors. What they say is shown.
func (w Wire) wordsInStream(t *testing.T) {
	for _, tt := range []struct{ contentType, body string }{
		{"text/event-stream", "event: error\ndata: {\"message\":\"of words\"}\n\n"},
		{"text/event-stream", "event: error\ndata: of words\n\n"},
		{"text/event-stream", "data: {\"message\":\"of words\"}\n\ndata: [DONE]\n\n"},
		{"text/event-stream", "data: {\"error\":{\"message\":\"of words\"}}\n\n"},
		{"text/event-stream", "data: [{\"error\":{\"message\":\"of words\"}}]\n\n"},
		{"text/event-stream", "data: out of words\n\n"},
		{"text/event-stream", "{\"error\":{\"message\":\"of words\"}}"},
		{"application/json", "{\"detail\":[{\"msg\":\"of words\"}]}"},
		{"", "{\"status\":17,\"why\":\"of words\"}"},
		{"text/html", "<html><title>out</title><p>of words</p>"},
	} {
		_, e := Ask(t.Context(), t, w.Serve(t, func(out http.ResponseWriter, _ *http.Request) {
			out.Header()["Content-Type"] = []string{tt.contentType}
			_, _ = io.WriteString(out, tt.body) // a client that has enough hangs up
		}), model.Request{Model: "m"})
		if e == nil || !strings.Contains(e.Message, "of words") {
			t.Errorf("%s %s: the error is %v", tt.contentType, tt.body, e)
		}
	}
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

// Status is an answer with a status and no stream, and the error that it is to become.
type Status struct {
	Status int
	Header string // Name: value
	Body   string
	Want   Refusal
}

// statuses are those that mean the same of every API.
func statuses() []Status {
	failure := func(text string) string { return `{"type":"error","error":{"type":"odd","message":"` + text + `"}}` }
	unavailable := func(kind model.ErrorKind, says string) Refusal {
		return Refusal{Kind: kind, Code: responses.CodeProviderUnavailable, Says: says, Retryable: true}
	}
	unreadable := func(says string) Refusal {
		return Refusal{Kind: model.KindProtocol, Code: responses.CodeModelError, Says: says}
	}
	return []Status{
		{401, "", failure("the key " + Sentinel), Refusal{Kind: model.KindAuthentication,
			Code: responses.CodeProviderAuthentication, Says: "the key [redacted]"}},
		{403, "", failure("no Bearer abc.def"), Refusal{Kind: model.KindAuthentication,
			Code: responses.CodeProviderAuthentication, Says: "no [redacted]"}},
		{429, "Retry-After: 2", failure("slow down"), Refusal{Kind: model.KindRateLimited,
			Code: responses.CodeRateLimit, Says: "slow down", Wait: 2 * time.Second, Retryable: true}},
		{500, "", failure(`line\none\u0007 ` + strings.Repeat("é", 5000)),
			unavailable(model.KindOverloaded, "line one")},
		{502, "Content-Type: text/html", "<html>secret page</html>",
			unavailable(model.KindOverloaded, "502 Bad Gateway")},
		{503, "", strings.Repeat("x", 1<<20), unavailable(model.KindOverloaded, "503 Service Unavailable")},
		{408, "", "", unavailable(model.KindTransport, "408")},
		{307, "Location: /v1/elsewhere", "", unreadable("307")},
		{204, "", "", unreadable("204")},
		{200, "Content-Type: text/html", "<html>", unreadable("text/html")},
	}
}

// Statuses holds a transport to the errors that answers with a status are to become. None is asked for twice.
func (w Wire) Statuses(t *testing.T, list []Status) {
	for _, tt := range list {
		t.Run(http.StatusText(tt.Status)+" "+tt.Want.Says, func(t *testing.T) {
			var calls atomic.Int32
			tr := w.Serve(t, func(out http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				out.Header().Set("Content-Type", "application/json")
				if name, value, ok := strings.Cut(tt.Header, ": "); ok {
					out.Header().Set(name, value)
				}
				out.WriteHeader(tt.Status)
				_, _ = io.WriteString(out, tt.Body) // a client that has enough hangs up
			})
			_, e := Ask(t.Context(), t, tr, model.Request{Model: "m"})
			tt.Want.check(t, tt.Status, e)
			expect.Equal(t, "requests to the provider", calls.Load(), 1)
		})
	}
}

// Refusal is an error that an answer with a status is to become.
type Refusal struct {
	Kind      model.ErrorKind
	Code      string
	Says      string // a part of the message
	Wait      time.Duration
	Retryable bool
}

// check compares the error of an answer with the refusal. Its message holds no markup.
func (want Refusal) check(t *testing.T, status int, e *model.Error) {
	t.Helper()
	WantError(t, e, want.Kind, want.Says)
	if status == http.StatusOK {
		status = 0 // it is the answer that is wrong
	}
	expect.Equal(t, "the code", e.Code, want.Code)
	expect.Equal(t, "the status", e.Status, status)
	if moved := status/100 == 3; e.Diagnostics == nil || e.Diagnostics.Redirect != moved {
		t.Errorf("the diagnostics are %+v, want a redirect: %v", e.Diagnostics, moved)
	}
	expect.Equal(t, "to be tried again after", e.RetryAfter, want.Wait)
	expect.Equal(t, "retryable", e.Retryable(), want.Retryable)
	if strings.Contains(e.Message, "<") {
		t.Errorf("the message %q has markup", e.Message)
	}
}

// nothingListens asks at a socket that is not there.
func (w Wire) nothingListens(t *testing.T) {
	tr := w.Serve(t, w.stall, func(o *endpoint.Options) {
		o.BaseURL, o.SocketPath = "", filepath.Join(t.TempDir(), "gone.sock")
		o.Headers = map[string]string{"X-Token": Sentinel}
	})
	_, e := Ask(t.Context(), t, tr, model.Request{Model: "m"})
	WantError(t, e, model.KindTransport, "gone.sock")
	if !e.Retryable() || !e.Diagnostics.Connect || e.Diagnostics.Stage != model.StageSend {
		t.Errorf("%+v with %+v, want a failure to connect that may be tried again", e, e.Diagnostics)
	}
}

// noKey has a transport without a key refuse every request, and reads none of the environment.
func (w Wire) noKey(t *testing.T) {
	t.Setenv(w.Prefix+"_API_KEY", "sk-of-the-environment")
	t.Setenv(w.Prefix+"_AUTH_TOKEN", "token-of-the-environment")
	t.Setenv(w.Prefix+"_BASE_URL", "http://127.0.0.1:1")
	tr := w.Serve(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the provider was asked")
	}, func(o *endpoint.Options) { o.APIKey = "" })
	check, ok := errors.AsType[*responses.Error](tr.(interface{ Check(string) error }).Check("m"))
	if !ok || check.Code != responses.CodeMissingCredentials || !strings.Contains(check.Error(), w.Prefix+"_API_KEY") {
		t.Errorf("Check() = %v, want %s about %s_API_KEY", check, responses.CodeMissingCredentials, w.Prefix)
	}
	_, e := Ask(t.Context(), t, tr, model.Request{Model: "m"})
	WantError(t, e, model.KindAuthentication, w.Prefix+"_API_KEY")
	if e.Code != responses.CodeMissingCredentials || e.Retryable() {
		t.Errorf("the code is %q, want %q for good", e.Code, responses.CodeMissingCredentials)
	}
}

func (w Wire) malformedAddress(t *testing.T) {
	_, err := w.New(endpoint.Options{BaseURL: "ftp://x/"})
	if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != w.Prefix+"_BASE_URL" {
		t.Errorf("New() = %v, want an error about %s_BASE_URL", err, w.Prefix)
	}
}

func (w Wire) sharedConnection(t *testing.T) {
	var peers sync.Map
	tr := w.Serve(t, func(out http.ResponseWriter, r *http.Request) {
		peers.Store(r.RemoteAddr, true)
		take(r)
		begin(out, w.Begin+w.End)
	})
	for range 5 {
		if _, e := Ask(t.Context(), t, tr, model.Request{Model: "m"}); e != nil {
			t.Fatal(e)
		}
	}
	n := 0
	for range peers.Range {
		n++
	}
	expect.Equal(t, "connections of 5 requests", n, 1)
}

// CallIDs checks the ids of calls, as [Answer] has them: they tell the calls apart, and one that does is kept.
func CallIDs(t *testing.T, calls []string, n int, kept string) {
	t.Helper()
	seen := make(map[string]bool)
	for _, call := range calls {
		id, _, _ := strings.Cut(call, " ")
		if id == "" || len(id) > 64 || seen[id] {
			t.Errorf("the id %q is empty, too long, or that of another call", id)
		}
		seen[id] = true
	}
	if len(calls) != n || !seen[kept] {
		t.Errorf("the calls are %q, want %d and one of them %q", calls, n, kept)
	}
}
