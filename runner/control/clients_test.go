package control_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"holon/responses"
	"holon/runner/access"
	"holon/runner/control"
	"holon/test/expect"
)

const tokenOf = "a-token-of-the-file-that-is-long-enough-for-"

// tokensFile is a file with tokens for app, ci and ops, which are tokenOf and the name.
func tokensFile(t *testing.T) *access.Tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	expect.NoError(t, os.WriteFile(path, []byte("app:"+tokenOf+"app\nci:"+tokenOf+"ci:agents=main\nops:"+tokenOf+
		"ops:operator\n"), 0o600))
	tokens, err := access.OpenTokens(path)
	expect.NoError(t, err)
	return tokens
}

// clients answers with who asks; it echoes a WebSocket, and a body as it comes. A request that was taken over has the
// context of clients.
type clients struct {
	open context.Context
	end  context.CancelFunc
}

func (c *clients) Close() { c.end() }

func (c *clients) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Upgrade") != "":
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			kind, data, err := conn.Read(c.open)
			if err != nil || conn.Write(c.open, kind, data) != nil {
				return
			}
		}
	case r.Method == http.MethodPut:
		_ = http.NewResponseController(w).EnableFullDuplex()
		for in := bufio.NewReader(r.Body); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	}
	_ = json.NewEncoder(w).Encode(struct {
		access.Caller
		At string
	}{access.From(r.Context()), r.Method + " " + r.URL.RequestURI()})
}

// Who asks follows from the way and the token. Other routes are for operators.
func TestCallers(t *testing.T) {
	t.Parallel()
	tokens := tokensFile(t)
	operator, app := access.OfOperator(access.Operator), access.Caller{Name: "app", Sessions: true}
	ci, ops := access.Caller{Name: "ci", Agents: []string{"main"}}, access.OfOperator("ops")
	for _, tc := range []struct {
		name, auth, bearer string
		tcp                bool
		who                access.Caller // of no name: it is refused
	}{
		{"socket", "", "", false, operator},
		{"socket with a token of the file", "", tokenOf + "ci", false, operator},
		{"control token", "", token, true, operator},
		{"no token", "", "", true, access.Caller{}},
		{"wrong token", "", tokenOf + "application", true, access.Caller{}},
		{"token of sessions", "", tokenOf + "app", true, app},
		{"token of an agent", "", tokenOf + "ci", true, ci},
		{"token of an operator", "", tokenOf + "ops", true, ops},
		{"open port", "disabled", "", true, operator},
		{"open port with any token", "disabled", "sk-any", true, operator},
		{"open port with a token of the file", "disabled", tokenOf + "app", true, app},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newClientsRig(t, control.Access{Mode: control.ModeLocal, Listen: "127.0.0.1:0", Auth: control.Auth(tc.auth),
				Token: token, Tokens: tokens})
			for _, at := range []string{"GET /v1/", "POST /v1/responses", "DELETE /v1/responses/resp_1", "GET /v1/a/b?c=d",
				"OPTIONS /v1/models"} {
				status, got := r.asClient(at, tc.tcp, tc.bearer)
				expect.Equal(t, at+" is of", fmt.Sprintf("%+v", got.Caller), fmt.Sprintf("%+v", tc.who))
				if tc.who.Name != "" {
					expect.Equal(t, "it was asked for", got.At, at)
					continue
				}
				expect.Equal(t, at+" is answered", status, http.StatusUnauthorized)
				expect.Equal(t, at+": code", got.Error.Code, "unauthorized")
				expect.Equal(t, at+": type", got.Error.Type, responses.TypeInvalidRequest)
			}
			want, nowhere := http.StatusForbidden, http.StatusForbidden // no one else sees which routes there are
			switch {
			case tc.who.Operator:
				want, nowhere = http.StatusOK, http.StatusNotFound
			case tc.who.Name == "":
				want, nowhere = http.StatusUnauthorized, http.StatusUnauthorized
			}
			for path, want := range map[string]int{"/status": want, "/metrics": want, "/nowhere": nowhere} {
				status, _ := r.asClient("GET "+path, tc.tcp, tc.bearer)
				expect.Equal(t, path, status, want)
			}
		})
	}
}

// asked is what clients answers, or why it was not asked.
type asked struct {
	access.Caller
	At    string
	Error responses.Error
}

// asClient makes a request with a bearer token, "" for none.
func (r *rig) asClient(at string, tcp bool, bearer string) (status int, got asked) {
	r.t.Helper()
	base, hc := "http://holon", r.raw()
	if tcp {
		base, hc = "http://"+r.addr, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	method, path, _ := strings.Cut(at, " ")
	req, err := http.NewRequestWithContext(r.t.Context(), method, base+path, nil)
	expect.NoError(r.t, err)
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := hc.Do(req)
	expect.NoError(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	expect.NoError(r.t, err)
	if strings.HasPrefix(path, "/v1/") {
		expect.NoError(r.t, json.Unmarshal(body, &got))
	}
	return resp.StatusCode, got
}

func newClientsRig(t *testing.T, at control.Access) *rig {
	t.Helper()
	r := newRig(t, control.Limits{}, control.Access{})
	r.stop()
	c := new(clients)
	c.open, c.end = context.WithCancel(context.WithoutCancel(t.Context()))
	r.options.Clients = c
	r.server = control.New(r.options)
	r.run(at)
	return r
}

// Both ways pass WebSockets on, and bodies and answers as they come.
func TestClientsStream(t *testing.T) {
	t.Parallel()
	r := newClientsRig(t, tcp())
	for way, h := range map[string]struct {
		client *http.Client
		url    string
	}{"socket": {r.raw(), "http://holon"}, "TCP": {http.DefaultClient, "http://" + r.addr}} {
		auth := http.Header{"Authorization": {"Bearer " + token}}
		conn, _, err := websocket.Dial(t.Context(), h.url+"/v1/responses", &websocket.DialOptions{HTTPClient: h.client,
			HTTPHeader: auth})
		expect.NoError(t, err)
		for _, text := range []string{"a", "Content-Length: 1\nContent-Length: 2\n\n"} {
			expect.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
			_, data, err := conn.Read(t.Context())
			expect.NoError(t, err)
			expect.Equal(t, way, string(data), text)
		}
		expect.NoError(t, conn.CloseNow())

		body, out := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, h.url+"/v1/x", body)
		expect.NoError(t, err)
		req.Header = auth
		go func() { _, _ = io.WriteString(out, "first\n") }()
		resp, err := h.client.Do(req)
		expect.NoError(t, err)
		answer := bufio.NewReader(resp.Body)
		for _, line := range []string{"first\n", "second\n"} {
			got, err := answer.ReadString('\n')
			expect.NoError(t, err)
			expect.Equal(t, way, got, line)
			if line == "first\n" {
				_, err = io.WriteString(out, "second\n")
				expect.NoError(t, err)
			}
		}
		expect.NoError(t, out.Close())
		expect.NoError(t, resp.Body.Close())
	}
	http.DefaultClient.CloseIdleConnections()
}

// A connection that was taken over ends with the server, which waits for it.
func TestClientsEndWithTheServer(t *testing.T) {
	t.Parallel()
	r := newClientsRig(t, tcp())
	conn, _, err := websocket.Dial(t.Context(), "http://holon/v1/responses", &websocket.DialOptions{HTTPClient: r.raw()})
	expect.NoError(t, err)
	defer conn.CloseNow()
	r.stop()
	if _, _, err := conn.Read(context.WithoutCancel(t.Context())); err == nil {
		t.Error("the connection is open behind the end of the server")
	}
}

// A tokens file that cannot be used any more is in the log once, and its tokens count no more.
func TestUnusableTokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	expect.NoError(t, os.WriteFile(path, []byte("app:"+tokenOf+"app"), 0o600))
	tokens, err := access.OpenTokens(path)
	expect.NoError(t, err)
	at := tcp()
	at.Tokens = tokens
	r := newClientsRig(t, at)
	get := func() int {
		status, _ := r.asClient("GET /v1/x", true, tokenOf+"app")
		return status
	}
	expect.Equal(t, "before", get(), 200)
	expect.NoError(t, os.WriteFile(path, []byte("app:"+tokenOf+"app\nshort"), 0o600))
	expect.Equal(t, "with a bad line", get(), 401)
	expect.Equal(t, "again", get(), 401)
	expect.Equal(t, "warnings", strings.Count(r.log.String(), "line 2 of the tokens file"), 1)
}
