package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"holon/runner/gateway"
	"holon/test/expect"
)

// source is a credential whose key changes when it is renewed.
type source struct {
	mu      sync.Mutex
	key     string
	next    []string
	renewed int
	err     error
}

func (s *source) Key(context.Context) (gateway.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return gateway.NewSecret(s.key), s.err
}

func (s *source) Renew(_ context.Context, refused gateway.Secret) (gateway.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed++
	if s.key == refused.Reveal() && len(s.next) > 0 {
		s.key, s.next = s.next[0], s.next[1:]
	}
	return gateway.NewSecret(s.key), nil
}

func TestKeyIsRenewed(t *testing.T) {
	t.Parallel()
	const first, second = "sk-first-0123456789abcdef", "sk-second-0123456789abcdef"
	for _, tc := range []struct {
		name     string
		next     []string
		body     string
		status   int
		requests int
	}{
		{"once", []string{second}, `{"model":"m","input":"x"}`, 200, 2},
		{"with a large body", []string{second}, `{"model":"m","input":"` + strings.Repeat("a", 9<<20) + `"}`, 200, 2},
		{"no other key", nil, `{"model":"m"}`, 401, 1},
		{"the other is refused too", []string{"sk-third-0123456789abcdef", second}, `{"model":"m"}`, 401, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+second {
					w.WriteHeader(http.StatusUnauthorized)
				}
				io.WriteString(w, "you sent "+r.Header.Get("Authorization")+", not "+first)
			})
			keys := &source{key: first, next: tc.next}
			g := serve(t, gateway.Options{Providers: map[string]gateway.Provider{"openai": {BaseURL: up.URL,
				Credential: keys}}})
			resp := g.post(t, "/openai/responses", tc.body)
			if resp.status != tc.status || strings.Contains(resp.body, "sk-") {
				t.Errorf("answer: %d %s", resp.status, resp.body)
			}
			all := up.all()
			if len(all) != tc.requests || keys.renewed != 1 {
				t.Fatalf("%d requests, renewed %d times", len(all), keys.renewed)
			}
			if last := all[len(all)-1]; len(tc.body) < 1<<20 && last.body != tc.body {
				t.Errorf("the provider got %.80s", last.body)
			}
		})
	}
}

func TestNoKey(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	for name, keys := range map[string]*source{
		"an error":    {err: errors.New("the vault is sealed")},
		"an empty":    {},
		"a malformed": {key: "sk-first 0123456789abcdef"},
	} {
		options := gateway.Options{Providers: map[string]gateway.Provider{"openai": {BaseURL: up.URL,
			Credential: keys}}, Logger: logger(&log)}
		g := serve(t, options)
		resp := g.post(t, "/openai/responses", `{"model":"m"}`)
		expect.Equal(t, name+": resp.status", resp.status, http.StatusBadGateway)
		expect.Contains(t, name+": resp.body", resp.body, "missing_credentials")
		expect.Equal(t, name+": X-Should-Retry", resp.header.Get("X-Should-Retry"), "false")
		if strings.Contains(resp.body, "vault") || strings.Contains(resp.body+log.String(), "sk-first") {
			t.Errorf("%s: shown too much: %s\n%s", name, resp.body, log.String())
		}
	}
	expect.Contains(t, "the log", log.String(), "the vault is sealed")
	if len(up.all()) > 0 {
		t.Error("the provider was asked without a key")
	}
}
