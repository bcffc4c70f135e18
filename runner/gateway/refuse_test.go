package gateway_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/test/expect"
)

// Requests are written byte for byte: no client of ours could make them.
func TestRefused(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	g := serve(t, openAI(up.URL))
	post := func(target string) string {
		return "POST " + target + " HTTP/1.1\r\nHost: model\r\nContent-Length: 2\r\n\r\n{}"
	}
	for _, tc := range []struct {
		name, request string
		want          int
	}{
		{"other provider", post("/anthropic/v1/messages"), 403},
		{"no provider", post("/"), 403},
		{"provider by prefix", post("/openai2/responses"), 403},
		{"provider in another case", post("/OpenAI/responses"), 403},
		{"other path", post("/openai/files"), 404},
		{"path beneath", post("/openai/responses/resp_1/cancel"), 404},
		{"path with a slash at the end", post("/openai/responses/"), 404},
		{"get", "GET /openai/responses HTTP/1.1\r\nHost: model\r\n\r\n", 403},
		{"method in lower case", "post /openai/responses HTTP/1.1\r\nHost: model\r\nContent-Length: 2\r\n\r\n{}", 403},
		{"double slash", post("//openai/responses"), 403},
		{"dots", post("/openai/../openai/responses"), 403},
		{"dots to another path", post("/openai/responses/../files"), 403},
		{"encoded slash", post("/openai%2fresponses"), 403},
		{"encoded dots", post("/openai/%2e%2e/openai/responses"), 403},
		{"encoded letter", post("/openai/%72esponses"), 403},
		{"query", post("/openai/responses?x=1"), 403},
		{"empty query", post("/openai/responses?"), 403},
		{"fragment", post("/openai/responses#x"), 403},
		{"backslash", post(`/openai\responses`), 403},
		{"parameter", post("/openai/responses;x=1"), 404},
		{"absolute form", post("http://model/openai/responses"), 403},
		{"absolute form of another host", post("http://169.254.169.254/latest"), 403},
		{"other scheme", post("file:///etc/passwd"), 403},
		{"connect", "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n", 403},
		{"options", "OPTIONS * HTTP/1.1\r\nHost: model\r\n\r\n", 403},
		{"upgrade", "POST /openai/responses HTTP/1.1\r\nHost: model\r\nConnection: Upgrade\r\nUpgrade: " +
			"websocket\r\nContent-Length: 2\r\n\r\n{}", 403},
		{"http/2 upgrade", "POST /openai/responses HTTP/1.1\r\nHost: model\r\nConnection: Upgrade, " +
			"HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 2\r\n\r\n{}", 403},
		{"http/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0},
		{"huge header", "POST /openai/responses HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("a", 64<<10) +
			"\r\n\r\n", 431},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, body := raw(t, g.server.Path(), tc.request)
			if status != tc.want && !(tc.want == 0 && (status == 0 || status >= 400)) {
				t.Fatalf("status = %d %s, want %d", status, body, tc.want)
			}
			if status == 403 || status == 404 {
				var envelope struct {
					Error struct{ Message, Type, Code string }
				}
				if err := json.Unmarshal(body, &envelope); err != nil || envelope.Error.Message == "" ||
					envelope.Error.Code == "" {
					t.Errorf("body %s, want an error envelope", body)
				}
			}
		})
	}
	for _, seen := range up.all() {
		t.Errorf("the provider was asked %s %s", seen.method, seen.uri)
	}
}

// For any bytes that a container writes, the provider sees whole requests to the allowed method and path, with our
// headers and no others.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"POST /openai/responses HTTP/1.1\r\nHost: model\r\nContent-Type: application/json\r\nAuthorization: Bearer " +
			"TOKEN\r\nContent-Length: 13\r\n\r\n{\"model\":\"m\"}",
		"POST /openai/responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " +
			"TOKEN\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{\"model\":\"m\"}\r\n0\r\nX-Trailer: 1\r\n\r\n",
		"POST /openai/responses HTTP/1.0\r\nContent-Length: 0\r\n\r\nPOST /openai/files HTTP/1.1\r\n\r\n",
		"POST /openai/responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
			"44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /openai/files HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /openai/responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: " +
			"100-continue\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 13\r\n\r\n{\"model\":\"m\"}",
		"POST /openai/responses HTTP/1.1\r\nHost: x\r\nConnection: accept, te\r\nTE: trailers\r\nAccept: */*\r\n\r\n",
		"POST //openai/responses HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://x/openai/responses?a=b HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	up := newUpstream(f, func(http.ResponseWriter, *http.Request) {})
	g := serve(f, openAI(up.URL))
	allowed := []string{"Authorization", "Content-Type", "Accept", "Accept-Encoding", "User-Agent", "Content-Length",
		"Anthropic-Version", "Anthropic-Beta"}
	f.Fuzz(func(t *testing.T, request []byte) {
		conn, err := net.Dial("unix", g.server.Path())
		expect.NoError(t, err)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		conn.Write(bytes.ReplaceAll(request, []byte("TOKEN"), []byte(g.token)))
		conn.(*net.UnixConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		if bytes.Contains(answer, []byte(sentinel)) {
			t.Fatalf("the key was answered: %q", answer)
		}
		up.mu.Lock()
		seen := up.seen
		up.seen = nil
		up.mu.Unlock()
		for _, s := range seen {
			switch {
			case s.method != http.MethodPost:
				t.Fatalf("%+v: s.method = %q, want %q", s, s.method, http.MethodPost)
			case s.uri != "/responses":
				t.Fatalf(`%+v: s.uri = %q, want "/responses"`, s, s.uri)
			case s.host != strings.TrimPrefix(up.URL, "http://"):
				t.Fatalf("%+v: s.host = %q, want %q", s, s.host, strings.TrimPrefix(up.URL, "http://"))
			}
			if got := s.header["Authorization"]; !slices.Equal(got, []string{"Bearer " + sentinel}) {
				t.Fatalf("authorization = %q", got)
			}
			for name := range s.header {
				if !slices.Contains(allowed, name) {
					t.Fatalf("the provider got %s: %q", name, s.header[name])
				}
			}
		}
	})
}

// raw writes request and reads one answer behind the hints; status 0 means that none came.
func raw(t *testing.T, path, request string) (int, []byte) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	expect.NoError(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprint(conn, request); err != nil {
		t.Logf("write: %v", err) // the server may answer and close before it has read all
	}
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	if err == nil && resp.StatusCode == http.StatusEarlyHints {
		resp, err = http.ReadResponse(answers, nil)
	}
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Logf("read: %v", err)
	}
	return resp.StatusCode, body
}
