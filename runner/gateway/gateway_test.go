package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"holon/internal/providers"
	"holon/runner/gateway"
	"holon/test/expect"
	"holon/test/memory"
)

const sentinel = "sk-proj-S3nt1nel/+key_0123456789~abc"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestForward(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		provider, target, upstreamPath string
		auth                           http.Header
	}{
		{"openai", "/openai/responses", "/v1/responses", http.Header{"Authorization": {"Bearer " + sentinel}}},
		{"anthropic", "/anthropic/v1/messages", "/v1/v1/messages",
			http.Header{"X-Api-Key": {sentinel}, "Anthropic-Version": {"2023-06-01"}}},
	} {
		t.Run(tc.provider, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("X-Request-Id", "req_1")
				w.Header().Set("Set-Cookie", "a=b")
				w.Header().Set("Openai-Organization", "somebody")
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, `{"ok":true}`)
			})
			g := serve(t, gateway.Options{Providers: map[string]gateway.Provider{
				tc.provider: {BaseURL: up.URL + "/v1/", Credential: gateway.NewSecret(sentinel)},
			}})
			req, err := http.NewRequest(http.MethodPost, "http://model"+tc.target, strings.NewReader(`{"model":"m"}`))
			expect.NoError(t, err)
			for _, name := range []string{
				"Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization", "X-Forwarded-For", "X-Forwarded-Host",
				"Forwarded", "Via",
				"Te", "Keep-Alive", "Proxy-Connection", "Accept-Encoding", "X-Stainless-Os", "Openai-Organization",
				"User-Agent", "Traceparent",
			} {
				req.Header.Set(name, "from-the-container")
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "text/event-stream")
			if tc.provider == "anthropic" {
				req.Header.Set("Anthropic-Version", "2023-06-01")
			}
			req.Host = "evil.example"
			resp := g.do(t, req)
			if resp.status != http.StatusCreated || resp.body != `{"ok":true}` {
				t.Fatalf("answer = %d %s", resp.status, resp.body)
			}
			resp.header.Del("Date")
			resp.header.Del("Content-Length")
			wantHeader := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req_1"},
				"X-Holon-Address": {resp.header.Get("X-Holon-Address")}}
			if diff := cmp.Diff(wantHeader, resp.header); diff != "" {
				t.Errorf("answer's headers (-want +got):\n%s", diff)
			}

			seen := up.only(t)
			want := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"},
				"Accept-Encoding": {"identity"},
				"User-Agent":      {"holon-gateway"}, "Content-Length": {"13"}}
			for name, value := range tc.auth {
				want[name] = value
			}
			if diff := cmp.Diff(want, seen.header); diff != "" {
				t.Errorf("provider's headers (-want +got):\n%s", diff)
			}
			expect.Equal(t, "seen.method", seen.method, http.MethodPost)
			expect.Equal(t, "seen.uri", seen.uri, tc.upstreamPath)
			expect.Equal(t, "seen.body", seen.body, `{"model":"m"}`)
			expect.Equal(t, "seen.host", seen.host, strings.TrimPrefix(up.URL, "http://"))
			wantUsage := gateway.Usage{Requests: 1, Estimated: 1, Unpriced: 1,
				Tokens: gateway.Tokens{Input: 4, Output: 3}, Total: 7}
			if diff := cmp.Diff(wantUsage, g.lease.Account().Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// Every event arrives before the provider sends the next.
func TestStreamIsNotBuffered(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		for i := range 3 {
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
		}
	})
	g := serve(t, openAI(up.URL))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/openai/responses",
		strings.NewReader(`{"model":"m"}`))
	expect.NoError(t, err)
	resp, err := g.client.Do(req) // returns before the first event exists
	expect.NoError(t, err)
	defer resp.Body.Close()
	for i := range 3 {
		next <- struct{}{}
		event := make([]byte, len("data: 0\n\n"))
		if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != fmt.Sprintf("data: %d\n\n", i) {
			t.Fatalf("event %d = %q, %v", i, event, err)
		}
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Fatalf("after the last event: %q, %v", rest, err)
	}
}

func TestUpstreamFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		handler    http.HandlerFunc
		wantStatus int
		wantBody   string // a part of it
		wantHeader string // "Name: value"
	}{
		{
			name: "an error keeps its status and the advice to wait",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After-Ms", "1500")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusTooManyRequests)
				io.WriteString(w, `{"error":{"message":"slow down"}}`)
			},
			wantStatus: 429, wantBody: `{"error":{"message":"slow down"}}`, wantHeader: "Retry-After-Ms: 1500",
		}, {
			name: "a redirect is not followed",
			handler: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			},
			wantStatus: 502, wantBody: `"code":"provider_unavailable"`,
		}, {
			name: "a compressed answer is refused",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				io.WriteString(w, "not really")
			},
			wantStatus: 502, wantBody: "compressed",
		}, {
			name: "a huge error becomes a small one",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				io.WriteString(w, strings.Repeat("x", 1<<20))
			},
			wantStatus: 400, wantBody: `"code":"model_error"`,
		}, {
			name: "no answer",
			handler: func(http.ResponseWriter, *http.Request) {
				panic(http.ErrAbortHandler)
			},
			wantStatus: 502, wantBody: `"code":"provider_unavailable"`,
			wantHeader: `X-Holon-Gateway: {"connect":false,"timeout":false,"chain":["EOF"]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newUpstream(t, tc.handler)
			g := serve(t, openAI(up.URL))
			resp := g.post(t, "/openai/responses", `{"model":"m"}`)
			expect.Equal(t, "resp.status", resp.status, tc.wantStatus)
			expect.Contains(t, "resp.body", resp.body, tc.wantBody)
			if len(resp.body) > 64<<10 {
				t.Errorf("len(resp.body) = %d (%q), want at most %d", len(resp.body), resp.body, 64<<10)
			}
			if name, value, ok := strings.Cut(tc.wantHeader, ": "); ok && resp.header.Get(name) != value {
				t.Errorf("%s = %q, want %q", name, resp.header.Get(name), value)
			}
			expect.Equal(t, "requests to the provider", len(up.all()), 1)
		})
	}
}

// A stream that breaks must not look like one that ended.
func TestBrokenStreamIsSeen(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	g := serve(t, openAI(up.URL))
	resp, err := g.client.Post("http://model/openai/responses", "application/json", strings.NewReader(`{"model":"m"}`))
	expect.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if string(body) != "data: 1\n\n" || err == nil {
		t.Fatalf("body = %q, %v; want the event and an error", body, err)
	}
}

// Neither the container nor the log gets the key when a provider repeats it, in any encoding, in an error, a header or
// a stream cut anywhere.
func TestKeyIsNeverPassedOn(t *testing.T) {
	t.Parallel()
	encodings := map[string]string{
		"raw":         sentinel,
		"bearer":      "Bearer " + sentinel,
		"base64":      base64.StdEncoding.EncodeToString([]byte(sentinel)),
		"basic auth":  base64.StdEncoding.EncodeToString([]byte("user:" + sentinel + ":x")),
		"base64url":   base64.URLEncoding.EncodeToString([]byte("k=" + sentinel)),
		"hex":         hex.EncodeToString([]byte(sentinel)),
		"upper hex":   strings.ToUpper(hex.EncodeToString([]byte(sentinel))),
		"query":       strings.NewReplacer("/", "%2F", "+", "%2B").Replace(sentinel),
		"escaped (/)": strings.ReplaceAll(sentinel, "/", `\/`),
	}
	var log lockedBuffer
	for name, leak := range encodings {
		for _, status := range []int{http.StatusOK, http.StatusUnauthorized} {
			t.Run(fmt.Sprintf("%s %d", name, status), func(t *testing.T) {
				up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-Request-Id", leak)
					w.WriteHeader(status)
					text := "before " + leak + " after\n"
					for i := range len(text) {
						io.WriteString(w, text[i:i+1])
						http.NewResponseController(w).Flush()
					}
				})
				options := openAI(up.URL)
				options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				g := serve(t, options)
				resp := g.post(t, "/openai/responses", `{"model":"m"}`)
				got := fmt.Sprint(resp.header) + resp.body
				for _, secret := range encodings {
					if strings.Contains(got, secret) {
						t.Errorf("the container learns %q:\n%s", secret, got)
					}
				}
				expect.Equal(t, "its beginning stays", strings.HasPrefix(resp.body, "before "), true)
				expect.Equal(t, "its end stays", strings.HasSuffix(resp.body, " after\n"), true)
				expect.Contains(t, "resp.body", resp.body, "[redacted]")
			})
		}
	}
	for _, secret := range encodings {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log shows %q", secret)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	g := serve(t, openAI(up.URL))
	for _, tc := range []struct {
		name string
		size int64
		body io.Reader // hides the size where it is not a *limitedZeros
		want int
	}{
		{"as large as allowed", limit, nil, http.StatusOK},
		{"declared too large", limit + 1, nil, http.StatusRequestEntityTooLarge},
		{"too large without a length", -1, bodyOf(limit + 1), http.StatusRequestEntityTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := tc.body
			if body == nil {
				body = bodyOf(tc.size)
			}
			req, err := http.NewRequest(http.MethodPost, "http://model/openai/responses", body)
			expect.NoError(t, err)
			req.ContentLength = tc.size
			resp, err := g.client.Do(req)
			if err != nil {
				// The answer came before the body was written and the
				// connection is closed: the write may fail first.
				if tc.want == http.StatusOK {
					t.Fatal(err)
				}
				return
			}
			defer resp.Body.Close()
			expect.Equal(t, "status", resp.StatusCode, tc.want)
		})
	}
	expect.Equal(t, "the provider got", len(up.all()), 1)
}

func TestUnixUpstream(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory.Dir(t), "up.sock")
	l, err := net.Listen("unix", path)
	expect.NoError(t, err)
	var uri string
	up := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uri = r.Host + r.RequestURI
	})}
	done := make(chan error, 1)
	go func() { done <- up.Serve(l) }()
	t.Cleanup(func() { up.Close(); <-done })

	g := serve(t, gateway.Options{Providers: map[string]gateway.Provider{
		"local": {BaseURL: "unix://" + path + ":/v1", Auth: providers.AuthNone,
			Contract: providers.OpenResponses},
	}})
	if resp := g.post(t, "/local/responses", `{"model":"m"}`); resp.status != http.StatusOK ||
		uri != "localhost/v1/responses" {
		t.Fatalf("status %d, upstream saw %s", resp.status, uri)
	}
}
