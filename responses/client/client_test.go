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
	"holon/responses/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs h on a Unix socket and returns a client for it.
func serve(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "client") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "a.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Text("hel"), e.Text("lo"), e.Complete(responses.Usage{TotalTokens: 2}, 5)); err != nil {
		t.Fatal(err)
	}
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

func TestStream(t *testing.T) {
	for _, f := range []stream.Framing{stream.SSE, stream.NDJSON} { // the answer decides
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			accept := r.Header.Get("Accept")
			if r.URL.Path != "/responses" || !bytes.Contains(body, []byte(`"stream":true`)) || accept != stream.TypeSSE {
				t.Errorf("asked %s for %q with %s", r.URL.Path, accept, body)
			}
			w.Header().Set("Content-Type", f.ContentType())
			_, _ = w.Write(f.AppendEnd(f.Append(nil, lines(t))))
		}))
		var text string
		var last responses.Event
		for ev, err := range c.Stream(t.Context(), responses.NewRequest("", responses.UserMessage("hi"))) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == responses.EventTextDelta {
				text += ev.Delta
			}
			last = ev
		}
		if text != "hello" || last.Type != responses.EventCompleted || last.Response.OutputText() != "hello" {
			t.Errorf("%v: text %q, and at last %+v", f, text, last)
		}
	}
}

func TestStreamFailures(t *testing.T) {
	sse := func(s string) http.HandlerFunc { return answer(200, stream.TypeSSE, []byte(s)) }
	whole := string(stream.SSE.Append(nil, lines(t)))
	cut := whole[:strings.LastIndex(whole, "event: ")]
	env := responses.PreviousNotFound("resp_x").Envelope()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		code    string
		says    string
	}{
		{"refused", answer(404, "application/json", env), responses.CodePreviousNotFound, "resp_x"},
		{"refused without envelope", answer(502, "text/html", []byte("<html>")), responses.CodeServerError,
			"Bad Gateway"},
		{"cut", sse(cut), responses.CodeServerDisconnected, "before its terminal event"},
		{"done too early", sse(cut + "data: [DONE]\n\n"), responses.CodeServerDisconnected,
			"before its terminal event"},
		{"goes on", sse(whole + "data: {\"type\":\"response.completed\"}\n\n"), responses.CodeServerError,
			"goes on after"},
		{"wrong content type", answer(200, "application/json", []byte("{}")), responses.CodeServerError,
			"application/json"},
		{"error event", sse("event: error\ndata: " +
			"{\"type\":\"error\",\"error\":{\"type\":\"server_error\",\"code\":\"disk_full\"," +
			"\"message\":\"full\"}}\n\n"), responses.CodeDiskFull, "full"},
		{"error event without error", sse("data: {\"type\":\"error\"}\n\n"), responses.CodeServerError,
			"without a message"},
		{"no json", sse("data: hello\n\n"), responses.CodeServerError, "malformed"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.invalid/", http.StatusTemporaryRedirect)
		}, responses.CodeServerError, "Temporary Redirect"},
		{"aborted", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", stream.TypeSSE)
			_, _ = io.WriteString(w, cut)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, responses.CodeServerDisconnected, "connection broke"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, tt.handler)
			var last error
			for _, err := range c.Stream(t.Context(), responses.NewRequest("", responses.UserMessage("hi"))) {
				if last != nil {
					t.Fatal("the sequence went on after its error")
				}
				last = err
			}
			if e := isError(t, last, tt.code); !strings.Contains(e.Error(), tt.says) {
				t.Errorf("error says %q, want %q in it", e, tt.says)
			}
		})
	}
}

func TestStreamStopsWithItsContext(t *testing.T) {
	released := make(chan struct{})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(released)
		w.Header().Set("Content-Type", stream.TypeSSE)
		_, _ = w.Write(stream.SSE.Append(nil, lines(t)[:bytes.IndexByte(lines(t), '\n')]))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	why := errors.New("the user pressed a key")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for ev, err := range c.Stream(ctx, responses.NewRequest("")) {
		if last = err; err == nil && ev.Type == responses.EventCreated {
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

func TestCreate(t *testing.T) {
	resp := response()
	resp.Status = responses.StatusFailed
	resp.Error = &responses.ResponseError{Code: "model_error", Message: "no"}
	body, err := json.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		if want := `{"model":"<m>"}`; string(in) != want {
			t.Errorf("body %s, want %s", in, want)
		}
		if got := r.Header.Get(responses.HeaderModelToken); got != "secret" {
			t.Errorf("the token is %q, want %q", got, "secret")
		}
		answer(200, "application/json", body)(w, r)
	})).WithModelToken("secret")
	req := responses.NewRequest("<m>")
	req.Stream = true
	got, err := c.Create(t.Context(), req)
	if err != nil || got.Status != responses.StatusFailed || got.Error.Message != "no" {
		t.Errorf("Create = %+v, %v", got, err)
	}
	if !req.Stream {
		t.Error("Create changed its argument")
	}
	endless := responses.NewRequest("m")
	endless.Temperature, endless.Sampling.Temperature = math.Inf(1), true
	_, err = c.Create(t.Context(), endless)
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
	_, err := c.Create(t.Context(), responses.NewRequest(""))
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
		if err != nil {
			t.Fatal(err)
		}
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
	if _, err := client.Unix(filepath.Join(dir, "absent")).Create(canceled(), responses.NewRequest("")); !errors.Is(err,
		context.Canceled) {
		t.Errorf("error of a cancelled call is %v", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
