package endpoint

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"holon/agentd/model"
	"holon/internal/bounded"
	"holon/responses"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBases(t *testing.T) {
	for base, want := range map[string]string{
		"https://host/v1/": "https://host/v1", "http://127.0.0.1:1": "http://127.0.0.1:1",
		"unix:///run/a.sock:/v1/": "http://lab/v1", "unix:///run/a.sock": "http://lab",
		"": "", "host/v1": "", "ftp://host": "", "unix://relative": "", "unix:///run/a.sock:v1": "", "http://%zz": "",
	} {
		e, err := New(Options{Provider: "lab", BaseURL: base})
		if want == "" {
			switch failed, ok := errors.AsType[*responses.Error](err); {
			case !ok:
				t.Errorf("%q: %v", base, err)
			case failed.Param != "LAB_BASE_URL":
				t.Errorf(`%q: failed.Param = %q, want "LAB_BASE_URL"`, base, failed.Param)
			case failed.Hint == "":
				t.Errorf(`%q: failed.Hint = "", want another value`, base)
			}
			continue
		}
		if err != nil || e.base != want {
			t.Errorf("%q: %v, %v", base, e, err)
			continue
		}
		if err := e.Check(""); (err == nil) != strings.HasPrefix(base, "unix:") {
			t.Errorf("%q without a key: %v", base, err)
		}
		expect.NoError(t, e.Close())
	}
}

// A server on a Unix socket is asked at its own path, and a redirect of its is
// an error and never followed.
func TestSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	expect.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		expect.Equal(t, "asked for", r.URL.Path, "/v1/ask")
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	}()
	e, err := New(Options{Provider: "lab", BaseURL: "unix://" + socket + ":/v1"})
	expect.NoError(t, err)
	defer e.Close()
	resp, err := e.post(t.Context(), Request{Path: "/ask", Body: []byte("{}")})
	expect.NoError(t, err)
	defer resp.Body.Close()
	failed := e.answered(resp)
	if failed == nil {
		t.Fatal("failed = nil, want a value")
	}
	expect.Equal(t, "failed.Kind", failed.Kind, model.KindProtocol)
	expect.Equal(t, "failed.Status", failed.Status, 307)
	expect.Equal(t, "failed.Diagnostics.Redirect", failed.Diagnostics.Redirect, true)
	expect.Equal(t, "failed.Diagnostics.Stage", failed.Diagnostics.Stage, model.StageStatus)
}

// An error of any text becomes one bounded line without secrets.
func TestErrorsAreClean(t *testing.T) {
	e, err := New(Options{Provider: "lab", BaseURL: "http://user:hidden-word@host",
		APIKey: "my-long-key", Headers: map[string]string{"X-Token": "in-a-header"}})
	expect.NoError(t, err)
	defer e.Close()
	a := e.begin(context.Background())
	defer a.end()
	cause := errors.New("line\none\x1b[31m my-long-key in-a-header hidden-word sk-abcdefgh " +
		strings.Repeat("é", 1000) + "\xff")
	failed := a.broken(model.StageBody, cause)
	for _, text := range append(failed.Diagnostics.Chain, failed.Message, failed.Diagnostics.URL) {
		switch {
		case len(text) > 450:
			t.Errorf("not fit for a user: len(text) = %d (%q), want at most 450", len(text), text)
		case strings.ContainsAny(text, "\n\x1b"):
			t.Error(`not fit for a user: strings.ContainsAny(text, "\n\x1b") = true, want false`)
		case !utf8.ValidString(text):
			t.Error("not fit for a user: utf8.ValidString(text) = false, want true")
		case strings.Contains(text, "key"):
			t.Errorf(`not fit for a user: text = %q, want it without "key"`, text)
		case strings.Contains(text, "in-a-header"):
			t.Errorf(`not fit for a user: text = %q, want it without "in-a-header"`, text)
		case strings.Contains(text, "hidden-word"):
			t.Errorf(`not fit for a user: text = %q, want it without "hidden-word"`, text)
		case strings.Contains(text, "sk-abc"):
			t.Errorf(`not fit for a user: text = %q, want it without "sk-abc"`, text)
		}
	}
	_, cause = bounded.ReadAll(strings.NewReader("12345"), 4)
	failed = a.broken(model.StageBody, cause)
	expect.Equal(t, "kind of an answer that is too large", failed.Kind, model.KindProtocol)
	expect.Equal(t, "the message of one that is too large", failed.Message, "the provider's answer is too large")
}
