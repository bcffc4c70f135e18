package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/access"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/socket"
	"holon/state"
	"holon/test/expect"
)

func TestAccessCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		access control.Access
		param  string // "": fine
	}{
		{"none", control.Access{}, ""},
		{"local", control.Access{Mode: control.ModeLocal}, ""},
		{"local, IPv6", control.Access{Mode: control.ModeLocal, Host: "::1", Port: 1}, ""},
		{"listen alone is local", control.Access{Listen: "127.0.0.1:1"}, ""},
		{"listen to others", control.Access{Listen: "0.0.0.0:1"}, "--host"},
		{"local to others", control.Access{Mode: control.ModeLocal, Host: "192.0.2.1"}, "--host"},
		{"tunnel to others", control.Access{Mode: control.ModeTunnel, Host: "example.org"}, "--host"},
		{"tunnel", control.Access{Mode: control.ModeTunnel, Advertise: "https://holon.example.org"}, ""},
		{"lan", control.Access{Mode: control.ModeLAN, Host: "0.0.0.0"}, ""},
		{"lan without a host", control.Access{Mode: control.ModeLAN}, "--host"},
		{"tailnet", control.Access{Mode: control.ModeTailnet, Host: "100.64.0.1"}, ""},
		{"tailnet without a host", control.Access{Mode: control.ModeTailnet}, "--host"},
		{"tailnet everywhere", control.Access{Mode: control.ModeTailnet, Host: "::"}, "--host"},
		{"no such mode", control.Access{Mode: "wan"}, "--access"},
		{"address without a mode", control.Access{Port: 80}, "--port"},
		{"tokens without a mode", control.Access{Tokens: new(access.Tokens)}, "--tokens-file"},
		{"both", control.Access{Mode: control.ModeLocal, Listen: "127.0.0.1:1", Port: 2}, "--listen"},
		{"no port", control.Access{Listen: "127.0.0.1"}, "--listen"},
		{"large port", control.Access{Mode: control.ModeLocal, Port: 70000}, "--listen"},
		{"required without a token", control.Access{Mode: control.ModeLocal, Auth: "required"},
			"--token-file"},
		{"required, without a port", control.Access{Auth: "required"}, ""},
		{"required with a token", control.Access{Mode: control.ModeLAN, Host: "h", Auth: "required",
			Token: token}, ""},
		{"disabled", control.Access{Mode: control.ModeLocal, Auth: "disabled"}, ""},
		{"disabled tunnel", control.Access{Mode: control.ModeTunnel, Auth: "disabled"}, "--access"},
		{"disabled lan", control.Access{Mode: control.ModeLAN, Host: "h", Auth: "disabled"}, "--access"},
		{"no such authentication", control.Access{Mode: control.ModeLocal, Auth: "maybe"}, "HOLON_CONTROL_AUTH_MODE"},
		{"short token", control.Access{Mode: control.ModeLocal, Token: token[:42]}, "token"},
		{"token of two words", control.Access{Mode: control.ModeLocal, Token: token + " x"}, "token"},
		{"advertise", control.Access{Mode: control.ModeLocal, Advertise: "ftp://x"}, "--advertise"},
		{"advertise a secret", control.Access{Mode: control.ModeLocal, Advertise: "https://u:p@x"}, "--advertise"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.access.Check()
			if tc.param == "" {
				expect.NoError(t, err)
				return
			}
			e, ok := errors.AsType[*state.Error](err)
			if !ok || e.Param != tc.param || e.Hint == "" || strings.Contains(err.Error()+e.Hint, token[:42]) {
				t.Errorf("got %#v, want a refusal of %s with a hint and without the token", err, tc.param)
			}
		})
	}
}

func TestTokenFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	first, err := control.KeepToken(path)
	if err != nil || len(first) < 43 {
		t.Fatalf("%q, %v", first, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	if again, err := control.KeepToken(path); err != nil || again != first {
		t.Errorf("kept %q, %v", again, err)
	}
	expect.NoError(t, os.Chmod(path, 0o640))
	if _, err := control.KeepToken(path); !state.IsCode(err, control.CodeInvalidToken) ||
		strings.Contains(err.Error(), first) {
		t.Errorf("a file that others may read: %v", err)
	}
	short := filepath.Join(dir, "short")
	expect.NoError(t, os.WriteFile(short, []byte("secret\n"), 0o600))
	for name, bad := range map[string]string{"short": short, "directory": dir, "missing": filepath.Join(dir, "no")} {
		if _, err := control.ReadToken(bad); !state.IsCode(err, control.CodeInvalidToken) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client without access over TCP learns nothing, not even which paths exist.
func TestGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{Mode: control.ModeTunnel, Listen: "127.0.0.1:0", Token: token,
		Advertise: "https://holon.example.org/"})
	d := r.described()
	for _, tc := range []struct {
		name   string
		header map[string]string
		host   string
		code   string
	}{
		{"token", nil, "", ""},
		{"lower case", map[string]string{"Authorization": "bearer " + token}, "", ""},
		{"no token", map[string]string{"Authorization": ""}, "", "unauthorized"},
		{"wrong token", map[string]string{"Authorization": "Bearer " + token + "x"}, "", "unauthorized"},
		{"beginning of the token", map[string]string{"Authorization": "Bearer " + token[:20]}, "", "unauthorized"},
		{"empty token", map[string]string{"Authorization": "Bearer"}, "", "unauthorized"},
		{"basic", map[string]string{"Authorization": "Basic " + token}, "", "unauthorized"},
		{"page", map[string]string{"Origin": "https://evil.example"}, "", "forbidden"},
		{"page without an origin", map[string]string{"Origin": "null"}, "", "forbidden"},
		{"image of a page", map[string]string{"Sec-Fetch-Site": "cross-site"}, "", "forbidden"},
		{"typed address", map[string]string{"Sec-Fetch-Site": "none"}, "", ""},
		{"name bound anew", nil, "evil.example:80", "forbidden"},
		{"a name like ours", nil, "holon.example.org.evil.example", "forbidden"},
		{"advertised name", nil, "Holon.Example.Org", ""},
		{"localhost", nil, "localhost:1", ""},
		{"number", nil, "127.0.0.1", ""},
		{"IPv6", nil, "[::1]:80", ""},
	} {
		for _, path := range []string{"/agents/list", "/no/such/path", "/handshake", "/v1/responses"} {
			t.Run(tc.name+path, func(t *testing.T) {
				a := r.ask(d, request{method: "GET", path: path, tcp: true, header: tc.header, host: tc.host})
				if tc.code != "" && string(a.failure.Code) != tc.code {
					t.Errorf("%d %s", a.status, a.body)
				}
				if tc.code == "" && path != "/no/such/path" && path != "/v1/responses" && a.status != 200 {
					t.Errorf("%d %s", a.status, a.body)
				}
				for name := range a.header {
					if strings.HasPrefix(name, "Access-Control") {
						t.Errorf("pages are invited: %s", name)
					}
				}
			})
		}
	}
	var hand wire.Handshake
	if err := json.Unmarshal([]byte(r.ask(d, request{method: "GET", path: "/handshake", tcp: true}).body),
		&hand); err != nil || !hand.Auth.Required || hand.Auth.Mode != "bearer" {
		t.Errorf("handshake %+v, %v", hand, err)
	}
}

// Without authentication, messages of the operator have the operator's authority, and messages from outside have none.
func TestDisabledAuthentication(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{Mode: control.ModeLocal, Listen: "127.0.0.1:0",
		Auth: "disabled"})
	d := r.described()
	open := map[string]string{"Authorization": ""}
	a := r.ask(d, request{method: "POST", path: "/control/agents/main/prompt", body: `{"text":"x"}`, tcp: true,
		header: open})
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a = r.ask(d, request{method: "POST", path: "/webhooks/generic/main", body: `{}`, tcp: true, header: open})
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	c := r.client()
	entries := must(c.Events(t.Context(), "", viewAll))(t).Events
	last := entries[len(entries)-1]
	if last.Provenance.Authority != "external_evidence" ||
		last.Provenance.AdmissionContext != "public_unauthenticated" {
		t.Errorf("a webhook without authority: %+v", last.Provenance)
	}
	if a = r.ask(d, request{method: "GET", path: "/status", tcp: true, header: open,
		host: "evil.example"}); a.status != 403 {
		t.Errorf("a name bound anew: %d", a.status)
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	for path, mode := range map[string]os.FileMode{r.socket: os.ModeSocket | 0o600,
		filepath.Dir(r.socket): os.ModeDir | 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := control.Listen(t.Context(), r.socket, control.Access{}); !state.IsCode(err, socket.CodeUnusable) {
		t.Errorf("a second server: %v", err)
	}
	if _, err := control.Listen(t.Context(), r.socket+"2", control.Access{Mode: control.ModeLocal}); !state.IsCode(err,
		control.CodeInvalidAccess) {
		t.Errorf("a port without a token: %v", err)
	}
	r.stop()
	if _, err := os.Lstat(r.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	c := client.Unix(r.socket)
	defer c.Close()
	_, err := c.Root(context.Background())
	e, ok := errors.AsType[*state.Error](err)
	if !ok || e.Code != wire.CodeUnreachable || !strings.Contains(e.Hint, "holon daemon start") {
		t.Errorf("a daemon that is not there: %#v, want %s and how it is started", err, wire.CodeUnreachable)
	}
}
