package modeltest

import (
	"errors"
	"io"
	"net/http"
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
