package anthropic_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"holon/agentd/model/anthropic"
	"holon/test/expect"
	"holon/test/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a provider on TCP, or on a Unix socket, and returns a transport
// that asks it.
func serve(t testing.TB, unix bool, h http.HandlerFunc, change ...func(*anthropic.Options)) *anthropic.Transport {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	opts := anthropic.Options{APIKey: modeltest.Sentinel}
	if unix {
		opts.SocketPath = filepath.Join(t.TempDir(), "m.sock")
		l, err := net.Listen("unix", opts.SocketPath)
		expect.NoError(t, err)
		_ = server.Listener.Close() // replaced before it served
		server.Listener = l
	}
	server.Start()
	t.Cleanup(server.Close)
	if !unix {
		opts.BaseURL = server.URL
	}
	for _, c := range change {
		c(&opts)
	}
	tr, err := anthropic.New(opts)
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// stream returns events as the API frames them.
func stream(events ...string) string {
	var b strings.Builder
	for _, ev := range events {
		name, _, _ := strings.Cut(strings.TrimPrefix(ev, `{"type":"`), `"`)
		b.WriteString("event: " + name + "\ndata: " + ev + "\n\n")
	}
	return b.String()
}

// replay answers with events, in pieces of the given sizes.
func replay(events []string, sizes ...int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a handler of a test that looks at nothing
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Request-Id", "req_header")
		modeltest.Write(w, stream(events...), sizes...)
	}
}

// Events of a short answer.
const (
	begin = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],` +
		`"usage":{"input_tokens":5,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}}`
	text0   = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	hello   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hel\u006co"}}`
	stop0   = `{"type":"content_block_stop","index":0}`
	endTurn = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},` +
		`"usage":{"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}}`
	stopped = `{"type":"message_stop"}`
)

// ending returns the events that end an answer for a reason.
func ending(reason string) []string {
	return []string{`{"type":"message_delta","delta":{"stop_reason":"` + reason + `"},"usage":{"output_tokens":7}}`,
		stopped}
}

// answer returns a whole answer that ends for a reason.
func answer(reason string, blocks ...string) []string {
	return append(append([]string{begin}, blocks...), ending(reason)...)
}
