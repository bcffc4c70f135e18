package endpoint

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"holon/agentd/turntoken"
	"holon/test/expect"
)

// The token of a turn is for the host's gateway: an endpoint of the configuration,
// be it on a socket, is shown its own key or none.
func TestTurnToken(t *testing.T) {
	dir, err := os.MkdirTemp("", "holon-endpoint-")
	expect.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.sock")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Shown"] = r.Header.Values("Authorization")
		w.WriteHeader(http.StatusNoContent)
	})
	l, err := net.Listen("unix", path)
	expect.NoError(t, err)
	onSocket := httptest.NewUnstartedServer(handler)
	expect.NoError(t, onSocket.Listener.Close())
	onSocket.Listener = l
	onSocket.Start()
	defer onSocket.Close()
	onTCP := httptest.NewServer(handler)
	defer onTCP.Close()

	for _, tc := range []struct {
		name, token, want string
		options           Options
	}{
		{"the gateway", "hmt_1", "Bearer hmt_1", Options{BaseURL: "http://model/lab", SocketPath: path}},
		{"the gateway, with a key that a turn's token replaces", "hmt_1", "Bearer hmt_1",
			Options{BaseURL: "http://model/lab", SocketPath: path, APIKey: "sk-own"}},
		{"the gateway, without a token", "", "", Options{BaseURL: "http://model/lab", SocketPath: path}},
		{"a server", "hmt_1", "Bearer sk-own", Options{BaseURL: onTCP.URL, APIKey: "sk-own"}},
		{"a server without a key", "hmt_1", "", Options{BaseURL: onTCP.URL, KeyOptional: true}},
		{"a socket of the configuration", "hmt_1", "Bearer sk-own",
			Options{BaseURL: "unix://" + path + ":/lab", APIKey: "sk-own"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.options.Provider = "lab"
			e, err := New(tc.options)
			expect.NoError(t, err)
			defer e.Close()
			for _, ctx := range []context.Context{turntoken.With(t.Context(), tc.token),
				turntoken.With(turntoken.With(t.Context(), tc.token), "")} {
				resp, err := e.post(ctx, Request{Path: "/x", Body: nil})
				expect.NoError(t, err)
				expect.NoError(t, resp.Body.Close())
				if got := resp.Header.Get("X-Shown"); got != tc.want || len(resp.Header.Values("X-Shown")) > 1 {
					t.Errorf("shown %q, want %q", resp.Header.Values("X-Shown"), tc.want)
				}
			}
			if got := e.header.Get("Authorization"); got == "Bearer "+tc.token {
				t.Error("the token is kept for the next turn")
			}
		})
	}
	if ctx := t.Context(); turntoken.With(ctx, "") != ctx {
		t.Error("an empty token is a token")
	}
}
