package gateway_test

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"holon/internal/providers"
	"holon/runner/gateway"
	"holon/test/expect"
)

const plainBody = `{"model":"m"}`

// However a request is framed, the provider gets one request, with a frame and
// header lines of ours.
func TestFramingIsOurs(t *testing.T) {
	t.Parallel()
	const chunked = "d\r\n" + plainBody + "\r\n0\r\n\r\n"
	for _, tc := range []struct {
		name, header, body string
		want               int // 0: no answer that passes
		accept             string
	}{
		{"a length and chunks, the length shorter", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", chunked, 400,
			""},
		{"two transfer encodings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunked, 0, ""},
		{"chunked twice", "Transfer-Encoding: chunked, chunked\r\n", chunked, 0, ""},
		{"a chunk of negative size", "Transfer-Encoding: chunked\r\n", "-d\r\n" + plainBody + "\r\n0\r\n\r\n", 0, ""},
		{"a folded line", "Content-Length: 13\r\nAccept: text/event-stream,\r\n X-Api-Key: mine\r\n", plainBody, 200,
			"text/event-stream, X-Api-Key: mine"},
		{"a line folded by a tab", "Content-Length: 13\r\nAccept: a/b\r\n\tContent-Length: 99\r\n", plainBody, 200,
			"a/b Content-Length: 99"},
		{"a lone line feed", "Content-Length: 13\r\nAccept: a/b\nX-Api-Key: mine\r\n", plainBody, 200, "a/b"},
		{"a lone carriage return", "Content-Length: 13\r\nAccept: a/b\rX-Api-Key: mine\r\n", plainBody, 400, ""},
		{"a NUL", "Content-Length: 13\r\nAccept: a\x00b\r\n", plainBody, 400, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
			g := serve(t, openAI(up.URL))
			status, text := raw(t, g.server.Path(),
				"POST /openai/responses HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\n"+
					"Authorization: Bearer "+g.token+"\r\n"+tc.header+"\r\n"+tc.body)
			if status != tc.want && (tc.want != 0 || status == http.StatusOK) {
				t.Fatalf("status = %d %s, want %d", status, text, tc.want)
			}
			if tc.want != http.StatusOK {
				for _, seen := range up.all() {
					if seen.body == plainBody {
						t.Errorf("the provider got a whole request: %+v", seen)
					}
				}
				return
			}
			seen := up.only(t)
			expect.Equal(t, "seen.uri", seen.uri, "/responses")
			expect.Equal(t, "seen.body", seen.body, plainBody)
			expect.Equal(t, "Accept", seen.header.Get("Accept"), tc.accept)
			expect.Equal(t, "X-Api-Key", seen.header.Get("X-Api-Key"), "")
		})
	}
}

// The gateway waits for the end of a header for a bounded time, and answers other requests meanwhile.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	gw, err := gateway.New(openAI(up.URL))
	expect.NoError(t, err)
	gw.SetHeaderTimeout(500 * time.Millisecond)
	g := serveGateway(t, gw, gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"}})
	const begin = "POST /openai/responses HTTP/1.1\r\nHost: m\r\nX-A: "
	slow := make([]net.Conn, 20)
	for i := range slow {
		conn, err := net.Dial("unix", g.server.Path())
		expect.NoError(t, err)
		defer conn.Close()
		slow[i] = conn
		if _, err := io.WriteString(conn, begin); err != nil {
			t.Fatal(err)
		}
	}
	if resp := g.post(t, "/openai/responses", plainBody); resp.status != http.StatusOK {
		t.Fatalf("next to slow ones: %d %s", resp.status, resp.body)
	}
	for _, conn := range slow {
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		for range 1000 { // it goes on a letter at a time, until the gateway hangs up
			if _, err := io.WriteString(conn, "a"); err != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		text, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a header without an end is waited for")
		}
		if strings.Contains(string(text), " 200 ") {
			t.Fatalf("it was answered: %s", text)
		}
	}
	expect.Equal(t, "requests to the provider", len(up.all()), 1)
}

// A body that does not come to its end keeps neither others nor the end of the
// turn waiting.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	g := serve(t, openAI(up.URL))
	conns := make([]net.Conn, 20)
	for i := range conns {
		conn, err := net.Dial("unix", g.server.Path())
		expect.NoError(t, err)
		defer conn.Close()
		conns[i] = conn
		fmt.Fprintf(conn, "POST /openai/responses HTTP/1.1\r\nHost: m\r\nContent-Type: "+
			"application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{\"model\":\"m\",", g.token)
	}
	if resp := g.post(t, "/openai/responses", plainBody); resp.status != http.StatusOK {
		t.Fatalf("next to slow ones: %d %s", resp.status, resp.body)
	}
	g.lease.Revoke()
	for _, conn := range conns {
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a body without an end outlives its turn")
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			t.Fatal("it was answered")
		}
	}
}

// The backend of ChatGPT wants its account named, which the key says. The
// container names none.
func TestAuthChatGPT(t *testing.T) {
	t.Parallel()
	key := "h." + base64.RawURLEncoding.EncodeToString(
		[]byte(`{"https://api.openai.com/auth":{"chatgpt_account_id":"acct_1"}}`)) + ".s1gnature"
	for _, tc := range []struct{ name, key, account string }{
		{"with an account", key, "acct_1"},
		{"without one", "sk-0123456789abcdefghij", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"key":%q}`, tc.key) })
			g := serve(t, gateway.Options{Providers: map[string]gateway.Provider{
				"openai": {BaseURL: up.URL, Auth: providers.AuthChatGPT, Credential: gateway.NewSecret(tc.key)},
			}})
			req, err := http.NewRequest(http.MethodPost, "http://model/openai/responses", strings.NewReader(plainBody))
			expect.NoError(t, err)
			req.Header.Set("Chatgpt-Account-Id", "acct_of_another")
			resp := g.do(t, req)
			if resp.status != http.StatusOK || strings.Contains(resp.body, tc.key) {
				t.Errorf("%d %s", resp.status, resp.body)
			}
			seen := up.only(t)
			if seen.header.Get("Authorization") != "Bearer "+tc.key ||
				strings.Join(seen.header.Values("Chatgpt-Account-Id"), "|") != tc.account {
				t.Errorf("the provider got %v", seen.header)
			}
		})
	}
}
