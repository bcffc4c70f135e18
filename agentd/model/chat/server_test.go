package chat_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"holon/agentd/model"
	"holon/agentd/model/chat"
	"holon/agentd/model/endpoint"
	"holon/test/expect"
	"holon/test/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a provider and returns a transport that asks it.
func serve(t testing.TB, h http.HandlerFunc, change ...func(*chat.Options)) *chat.Transport {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	opts := chat.Options{Options: endpoint.Options{Provider: "lab", BaseURL: server.URL + "/v1/",
		APIKey: modeltest.Sentinel}}
	for _, c := range change {
		c(&opts)
	}
	tr, err := chat.New(opts)
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// streamOf is the body of a stream of chunks.
func streamOf(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\n\n")
	}
	return b.String()
}

// pieces answers with the pieces of a body, each sent on its own, so that its
// reader sees the bytes cut there.
func pieces(contentType string, list ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a handler of a test that looks at nothing
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Request-Id", "req_header")
		for _, piece := range list {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

func sse(body string) http.HandlerFunc { return pieces("text/event-stream", body) }

func ask(ctx context.Context, t testing.TB, tr model.Transport, req model.Request) (modeltest.Answer, *model.Error) {
	t.Helper()
	return modeltest.Ask(ctx, t, tr, req)
}
