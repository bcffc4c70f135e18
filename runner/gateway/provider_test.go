package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"holon/internal/providers"
	"holon/runner/gateway"
	"holon/state"
	"holon/test/expect"
)

func TestNewChecksProviders(t *testing.T) {
	t.Parallel()
	key := gateway.NewSecret(sentinel)
	for _, tc := range []struct {
		name     string
		provider gateway.Provider
		as       string // provider's name, openai if empty
		code     state.Code
		param    string
	}{
		{name: "https", provider: gateway.Provider{BaseURL: "https://api.example/v1", Credential: key}},
		{name: "path with slash", provider: gateway.Provider{BaseURL: "http://127.0.0.1:1/a/b/", Credential: key}},
		{name: "socket", provider: gateway.Provider{BaseURL: "unix:///run/x.sock", Credential: key}},
		{name: "no key needed", provider: gateway.Provider{BaseURL: "http://127.0.0.1:1", Auth: providers.AuthNone}},
		{name: "no key", provider: gateway.Provider{BaseURL: "https://api.example"},
			code: gateway.CodeMissingCredentials, param: "providers.openai.api_key"},
		{name: "key with a line end", provider: gateway.Provider{BaseURL: "https://api.example",
			Credential: gateway.NewSecret(sentinel +
				"\n")}, code: gateway.CodeInvalidProvider, param: "providers.openai.api_key"},
		{name: "no url", provider: gateway.Provider{Credential: key}, code: gateway.CodeInvalidProvider,
			param: "providers.openai.base_url"},
		{name: "scheme", provider: gateway.Provider{BaseURL: "ftp://x/", Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers.openai.base_url"},
		{name: "no host", provider: gateway.Provider{BaseURL: "https:///v1", Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers.openai.base_url"},
		{name: "password in url", provider: gateway.Provider{BaseURL: "https://u:" + sentinel + "@x/", Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers.openai.base_url"},
		{name: "query in url", provider: gateway.Provider{BaseURL: "https://x/?k=" + sentinel, Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers.openai.base_url"},
		{name: "dots in url", provider: gateway.Provider{BaseURL: "https://x/a/../b", Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers.openai.base_url"},
		{name: "unreadable url", provider: gateway.Provider{BaseURL: "https://x/%zz" + sentinel, Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers.openai.base_url"},
		{name: "relative socket", provider: gateway.Provider{BaseURL: "unix://x.sock", Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers.openai.base_url"},
		{name: "auth", provider: gateway.Provider{BaseURL: "https://x", Credential: key, Auth: "digest"},
			code: gateway.CodeInvalidProvider, param: "providers.openai.auth"},
		{name: "unknown without a contract", as: "x", provider: gateway.Provider{BaseURL: "https://x", Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers.x.contract"},
		{name: "name with slash", as: "a/b", provider: gateway.Provider{BaseURL: "https://x", Credential: key},
			code: gateway.CodeInvalidProvider, param: "providers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := tc.as
			if name == "" {
				name = "openai"
			}
			_, err := gateway.New(gateway.Options{Providers: map[string]gateway.Provider{name: tc.provider}})
			if tc.code == "" {
				expect.NoError(t, err)
				return
			}
			e, ok := errors.AsType[*state.Error](err)
			switch {
			case !ok:
				t.Fatalf("error = %#v", err)
			case e.Code != tc.code:
				t.Fatalf("e.Code = %q, want %q", e.Code, tc.code)
			case e.Param != tc.param:
				t.Fatalf("e.Param = %q, want %q", e.Param, tc.param)
			case e.Hint == "":
				t.Fatal(`e.Hint = "", want another value`)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %s", e, *e, e.Hint), sentinel) {
				t.Errorf("the error shows the key: %v", e)
			}
		})
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	t.Parallel()
	secret := gateway.NewSecret(sentinel)
	type nested struct {
		Public  gateway.Secret
		private gateway.Secret
	}
	n := nested{secret, secret}
	var shown []string
	for _, value := range []any{secret, &secret, n, &n, []gateway.Secret{secret},
		map[string]gateway.Secret{"k": secret}, gateway.Provider{Credential: secret}, n.private} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
			shown = append(shown, fmt.Sprintf(verb, value))
		}
	}
	asJSON, err := json.Marshal(map[string]any{"a": n, "b": &secret, "c": map[gateway.Secret]int{secret: 1}})
	expect.NoError(t, err)
	asYAML, err := yaml.Marshal(n)
	expect.NoError(t, err)
	var log lockedBuffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "a", secret, "b", n, "c", &secret)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "a", secret, "b", n, "c", &secret)
	shown = append(shown, string(asJSON), string(asYAML), log.String())
	for _, s := range shown {
		for _, form := range []string{sentinel, fmt.Sprintf("%x", sentinel), fmt.Sprintf("%X", sentinel),
			"115 107 45"} {
			if strings.Contains(s, form) {
				t.Errorf("shown: %s", s)
			}
		}
	}
	if got := fmt.Sprintf("%v|%s|%x|%#v|%s", secret, secret, secret, secret, asJSON); strings.Count(got,
		"[redacted]") != 7 {
		t.Errorf("formatted as %s", got)
	}

	var fromText gateway.Secret
	if err := fromText.UnmarshalText([]byte(sentinel)); err != nil || fromText.Reveal() != sentinel ||
		fromText.IsZero() {
		t.Errorf("read from text: %v, %q", err, fromText.Reveal())
	}
	var zero gateway.Secret
	expect.Equal(t, "zero.IsZero()", zero.IsZero(), true)
	expect.Equal(t, "zero.Reveal()", zero.Reveal(), "")
	expect.Equal(t, "zero.String()", zero.String(), "")
}
