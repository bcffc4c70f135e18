package agentd_test

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// hostGateway stands for the host's gateway on a socket: it answers as the Responses
// API does and notes with what it is asked.
type hostGateway struct {
	mu   sync.Mutex
	seen []string // Authorization
}

func (g *hostGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // no test looks at it
	g.mu.Lock()
	g.seen = append(g.seen, strings.Join(r.Header.Values("Authorization"), "|"))
	refused := len(g.seen)%2 == 0
	g.mu.Unlock()
	if refused { // an error that says what it was given
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"error": map[string]any{"message": "this is wrong: " + r.Header.Get("Authorization")}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, `data: {"type":"response.completed","response":{"id":"r","status":"completed",`+
		`"output":[{"type":"message","content":[{"type":"output_text","text":"Done."}]}],"usage":{"input_tokens":2,`+
		`"output_tokens":1,"total_tokens":3}}}`+"\n\n")
}

func (g *hostGateway) last() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) == 0 {
		return ""
	}
	return g.seen[len(g.seen)-1]
}

// behindGateway serves with models that are asked through the gateway; what is
// logged is written to log.
func behindGateway(t *testing.T, log io.Writer) (*harness, *hostGateway) {
	t.Helper()
	g := &hostGateway{}
	path := filepath.Join(shortDir(t), "model.sock")
	l, err := net.Listen("unix", path)
	expect.NoError(t, err)
	server := &http.Server{Handler: g}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return start(t, func(c *config.Config, p *agentd.Parts) {
		c.Models.Socket, c.Models.Default = path, "openai/m"
		models, release, err := agentd.Transports(*c, nil)
		expect.NoError(t, err)
		p.Models = models
		p.Log = slog.New(slog.NewMultiHandler(p.Log.Handler(),
			slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		before := p.Close
		p.Close = func() error { defer before(); return release() }
	}), g
}

// The token of a turn goes to the gateway and nowhere else: it is in no answer,
// record, event or line of the log, also when the gateway repeats it in an error.
func TestModelTokenIsKeptNowhere(t *testing.T) {
	t.Parallel()
	const token = "hmt_SECRETSECRETSECRETSECRETSECRET"
	var log lockedLog
	h, g := behindGateway(t, &log)
	shown := ""
	for _, stream := range []string{"false", "true"} {
		for range 2 { // a good answer, and an error
			a := h.post(`{"model":"openai/m","input":"hi","stream":`+stream+`}`, responses.HeaderModelToken, token)
			shown += string(a.body)
			for name, values := range a.header {
				shown += name + strings.Join(values, "")
			}
			expect.Equal(t, "the gateway was shown", g.last(), "Bearer "+token)
		}
	}
	if !strings.Contains(shown, "this is wrong") || !strings.Contains(shown, "Done.") {
		t.Errorf("neither an error nor an answer came:\n%s", shown)
	}
	shown += string(h.do(http.MethodGet, "/health", "").body) + string(h.do(http.MethodGet, "/metrics",
		"").body) + log.String()
	if strings.Contains(shown, token) {
		t.Errorf("the token is shown:\n%s", shown)
	}
	files := 0
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		files++
		if bytes.Contains(data, []byte(token)) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}

	h.post(`{"model":"openai/m","input":"hi"}`)
	if got := g.last(); strings.Contains(got, token) {
		t.Errorf("a turn without a token used that of another: %q", got)
	}
}

// A token that could not stand in a header again is refused before a turn begins.
func TestModelTokenIsChecked(t *testing.T) {
	t.Parallel()
	h, g := behindGateway(t, io.Discard)
	for name, tc := range map[string]struct {
		values []string
		ok     bool
	}{
		"the longest": {[]string{strings.Repeat("a", 512)}, true},
		"empty":       {[]string{""}, false},
		"too long":    {[]string{strings.Repeat("a", 513)}, false},
		"a tab":       {[]string{"a\tb"}, false},
		"not ASCII":   {[]string{"tökén"}, false},
		"twice":       {[]string{"a", "b"}, false},
		"twice alike": {[]string{"a", "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/responses", "/v1/responses", "/responses/compact"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agentd"+path,
					strings.NewReader(`{"model":"openai/m","input":"hi"}`))
				expect.NoError(t, err)
				req.Header.Set("Content-Type", "application/json")
				req.Header[responses.HeaderModelToken] = slices.Clone(tc.values)
				before := g.last()
				resp, err := h.http.Do(req)
				expect.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.Body.Close() != nil {
					t.Fatal(err)
				}
				refused := resp.StatusCode == http.StatusBadRequest &&
					strings.Contains(string(body), `"param":"`+responses.HeaderModelToken+`"`)
				if refused == tc.ok {
					t.Errorf("%s: %d %s", path, resp.StatusCode, body)
				}
				if !tc.ok && g.last() != before {
					t.Errorf("%s: the model was asked", path)
				}
			}
			conn, resp, err := websocket.Dial(t.Context(), "ws://agentd/responses",
				&websocket.DialOptions{HTTPClient: h.http,
					HTTPHeader: http.Header{responses.HeaderModelToken: slices.Clone(tc.values)}})
			if (err == nil) != tc.ok || !tc.ok && resp.StatusCode != http.StatusBadRequest {
				t.Errorf("a WebSocket: %v", err)
			}
			if conn != nil {
				_ = conn.CloseNow() // nothing was said on it
			}
		})
	}
}

// A request with a token for an answer in one piece gets 102 once its turn is durable, and before the answer, which a
// model may take long to give. The head of a stream comes as soon.
func TestUserTurnIsAnnounced(t *testing.T) {
	t.Parallel()
	h, _ := behindGateway(t, io.Discard)
	for name, tc := range map[string]struct {
		body, token string
		want        []string // the turn on record
	}{
		"json":       {`,"holon":{"turn_id":"turn_json"}`, "t", []string{"turn_json"}},
		"stream":     {`,"stream":true,"holon":{"turn_id":"turn_s"}`, "t", nil},
		"again":      {`,"holon":{"turn_id":"turn_json"}`, "t", []string{"turn_json"}},
		"background": {`,"background":true`, "t", nil},
		"no token":   {``, "", nil},
		"refused":    {`,"temperature":9`, "t", nil},
	} {
		var got []string
		response := ""
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, head textproto.MIMEHeader) error {
				id := head.Get(responses.HeaderTurnID)
				if _, err := os.Stat(h.file(id, turns.JournalFile)); err != nil || code != http.StatusProcessing {
					t.Errorf("%s: status %d, %v", name, code, err)
				}
				got, response = append(got, id), head.Get(responses.HeaderResponseID)
				return nil
			}})
		var header []string
		if tc.token != "" {
			header = []string{responses.HeaderModelToken, tc.token}
		}
		a, err := h.try(ctx, http.MethodPost, "/responses", `{"model":"openai/m","input":"hi"`+tc.body+"}", header...)
		expect.NoError(t, err)
		if len(got) > 0 && h.record(got[0]).ResponseID != response {
			t.Errorf("%s: announced %s of another response, %s", name, got[0], response)
		}
		if !slices.Equal(got, tc.want) || a.header.Get(responses.HeaderTurnID) != "" {
			t.Errorf("%s: announced %q, want %q; answered with %v", name, got, tc.want, a.header)
		}
	}
}

type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Each message of a connection may have the token of its turn, which no record keeps.
func TestMessagesHaveTheirTokens(t *testing.T) {
	t.Parallel()
	h, g := behindGateway(t, io.Discard)
	conn, _, err := websocket.Dial(t.Context(), "ws://agentd/responses", &websocket.DialOptions{HTTPClient: h.http,
		HTTPHeader: http.Header{responses.HeaderModelToken: {"handshake"}}})
	expect.NoError(t, err)
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	for _, tc := range []struct{ token, want, last string }{
		{`"one"`, "one", "response.completed"}, {`""`, "handshake", "response.completed"},
		{`"two"`, "two", "response.completed"}, {`7`, "two", "error"}, {`"a\tb"`, "two", "error"},
	} {
		expect.NoError(t, conn.Write(t.Context(), websocket.MessageText,
			[]byte(`{"type":"response.create","model":"openai/m","input":"hi","holon_model_token":`+tc.token+`}`)))
		for last := ""; last != "response.completed" && last != "response.failed" && last != "error"; {
			_, frame, err := conn.Read(t.Context())
			expect.NoError(t, err)
			var event struct{ Type string }
			expect.NoError(t, json.Unmarshal(frame, &event))
			if last = event.Type; strings.Contains(string(frame), "holon_model_token\":") {
				t.Errorf("the token is in %s", frame)
			}
		}
		expect.Equal(t, "token", g.last(), "Bearer "+tc.want)
	}
}
