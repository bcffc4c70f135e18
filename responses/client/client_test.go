package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs h on a Unix socket and returns a client for it.
func serve(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "client") // t.TempDir is too long for a socket
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "a.sock")
	l, err := net.Listen("unix", path)
	expect.NoError(t, err)
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	srv.Start()
	c := client.Unix(path)
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

// lines returns the events of a small turn.
func lines(t *testing.T) []byte {
	t.Helper()
	var out []byte
	e, err := responses.NewEmitter(response(), func(_ string, data []byte) error {
		out = append(append(out, data...), '\n')
		return nil
	})
	expect.NoError(t, err)
	expect.NoError(t, errors.Join(e.Text("hel"), e.Text("lo"), e.Complete(responses.Usage{TotalTokens: 2}, 5)))
	return out
}

func response() responses.Response {
	return responses.NewResponse("resp_1", "scripted/demo", 1,
		&responses.Request{Truncation: "disabled", ServiceTier: "default"})
}

func answer(status int, contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func isError(t *testing.T, err error, code string) *responses.Error {
	t.Helper()
	e, ok := errors.AsType[*responses.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("error is %v (%T), want a *responses.Error with the code %s", err, err, code)
	}
	return e
}

func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		handler    http.HandlerFunc
		code, says string
	}{
		"refused": {answer(404, "application/json", responses.PreviousNotFound("resp_x").Envelope()),
			responses.CodePreviousNotFound, "resp_x"},
		"refused without envelope": {answer(502, "text/html", []byte("<html>")), responses.CodeServerError,
			"Bad Gateway"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.invalid/", http.StatusTemporaryRedirect)
		}, responses.CodeServerError, "Temporary Redirect"},
		"aborted": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, responses.CodeServerDisconnected, "connection broke"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, tt.handler).GetResponse(t.Context(), "resp_1")
			if e := isError(t, err, tt.code); !strings.Contains(e.Error(), tt.says) {
				t.Errorf("error says %q, want %q in it", e, tt.says)
			}
		})
	}
}

func TestEntriesStopWithTheirContext(t *testing.T) {
	released := make(chan struct{})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(released)
		first, _, _ := bytes.Cut(lines(t), []byte("\n"))
		_, _ = w.Write(turns.AppendEntry(nil, 1, turns.EntryStream, first))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	why := errors.New("the user pressed a key")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for e, err := range c.Entries(ctx, "turn_1", true) {
		if last = err; err == nil && e.Stream.Type == responses.EventCreated {
			cancel(why)
		}
	}
	if !errors.Is(last, context.Canceled) || !errors.Is(last, why) {
		t.Errorf("error is %v, want the context's and its cause", last)
	}
	select {
	case <-released:
	case <-time.After(10 * time.Second):
		t.Error("the server never saw the client go")
	}
}

func TestBackground(t *testing.T) {
	resp := response()
	resp.Status = responses.StatusFailed
	resp.Error = &responses.ResponseError{Code: "model_error", Message: "no"}
	body, err := json.Marshal(resp)
	expect.NoError(t, err)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		expect.Equal(t, "body", string(in), `{"model":"<m>","background":true}`)
		expect.Equal(t, "the token", r.Header.Get(responses.HeaderModelToken), "secret")
		answer(200, "application/json", body)(w, r)
	})).WithModelToken("secret")
	req := responses.NewRequest("<m>")
	req.Stream = true
	got, err := c.Background(t.Context(), req)
	if err != nil || got.Status != responses.StatusFailed || got.Error.Message != "no" {
		t.Errorf("Background = %+v, %v", got, err)
	}
	if !req.Stream || req.Background {
		t.Error("Background changed its argument")
	}
	endless := responses.NewRequest("m")
	endless.Temperature, endless.Sampling.Temperature = math.Inf(1), true
	_, err = c.Background(t.Context(), endless)
	isError(t, err, responses.CodeInvalidJSON)
}

func TestAnswersAreBounded(t *testing.T) {
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte(" "), 1<<20)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	c := serve(t, endless)
	_, err := c.GetResponse(t.Context(), "resp_1")
	isError(t, err, responses.CodeServerError)
	_, err = c.Health(t.Context())
	isError(t, err, responses.CodeServerError)
	_, err = c.Turn(t.Context(), "turn_1")
	isError(t, err, responses.CodeServerError)
}

func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "s")
	if len(stale) <= 100 {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
		expect.NoError(t, err)
		l.SetUnlinkOnClose(false)
		_ = l.Close()
	}
	for _, path := range []string{filepath.Join(dir, "absent"), stale, filepath.Join(dir, strings.Repeat("x", 120))} {
		c := client.Unix(path)
		_, err := c.Health(t.Context())
		e := isError(t, err, responses.CodeServerUnreachable)
		if !strings.Contains(e.Error(), path) || !strings.Contains(e.Hint, "agentd serve") {
			t.Errorf("error names neither the socket nor the remedy: %s", e)
		}
		if strings.Contains(e.Error(), "http://agentd") {
			t.Errorf("error shows the made-up URL: %s", e)
		}
		c.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Unix(filepath.Join(dir, "absent")).GetResponse(ctx, "resp_1")
	expect.ErrorIs(t, "error of a cancelled call", err, context.Canceled)
}
