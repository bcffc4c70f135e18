package openai_test

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/agentd/model/openai"
	"holon/test/expect"
	"holon/test/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sentinel stands for the key, which must never be seen again.
const sentinel = modeltest.Sentinel

// serve starts a provider on TCP, or on a Unix socket, and returns a transport
// that asks it.
func serve(t testing.TB, unix bool, h http.HandlerFunc, change ...func(*openai.Options)) *openai.Transport {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	opts := openai.Options{Options: endpoint.Options{APIKey: sentinel}}
	if unix {
		opts.SocketPath = filepath.Join(t.TempDir(), "m.sock")
		l, err := net.Listen("unix", opts.SocketPath)
		expect.NoError(t, err)
		_ = server.Listener.Close() // replaced before it served
		server.Listener = l
	}
	server.Start()
	t.Cleanup(server.Close)
	opts.BaseURL = server.URL + "/v1"
	if unix {
		opts.BaseURL = ""
	}
	for _, c := range change {
		c(&opts)
	}
	tr, err := openai.New(opts)
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// replay answers with events, cut into pieces at random.
func replay(events []string, cut bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a handler of a test that looks at nothing
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("X-Request-Id", "req_header")
		var b strings.Builder
		for _, ev := range events {
			b.WriteString("event: x\ndata: " + ev + "\n\n")
		}
		b.WriteString("data: [DONE]\n\n")
		for text := b.String(); text != ""; {
			n := len(text)
			if cut {
				n = min(n, 1+rand.IntN(400))
			}
			if _, err := io.WriteString(w, text[:n]); err != nil {
				return
			}
			text = text[n:]
			if cut {
				w.(http.Flusher).Flush()
			}
		}
	}
}

// canon returns JSON with the keys of its objects in alphabetical order.
func canon(t testing.TB, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out, err := endpoint.EncodeJSON(v)
	expect.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// ask makes one attempt, checks that its events are legal, and sums them up.
func ask(ctx context.Context, t testing.TB, tr model.Transport, req model.Request) (modeltest.Answer, *model.Error) {
	t.Helper()
	if req.Model == "" {
		req.Model = "gpt-test"
	}
	return modeltest.Ask(ctx, t, tr, req)
}
