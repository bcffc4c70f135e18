package deliver_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holon/runner/agent/deliver"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// A receiver can verify with the library of standard-webhooks what it gets, once, under the id of the delivery.
func TestWebhook(t *testing.T) {
	w := open(t, nil)
	x := receive(t, ok)
	bound := w.bind(webhook("phone", x.URL+"/topic/secret-part?a=b"))
	w.notify("main", "\n  Look at the build. \nIt is red.")
	w.round()
	w.round()
	got := x.requests()
	expect.Equal(t, "requests", len(got), 1)
	d := w.only()
	expect.Equal(t, "status", d.Status, ledger.DeliveryAccepted)
	expect.Equal(t, "receipt", d.TransportID, "r-1")
	verifier, err := reference.NewWebhook(bound.SigningSecret)
	expect.NoError(t, err)
	expect.NoError(t, verifier.VerifyIgnoringTimestamp(got[0].body, got[0].header))
	if verifier.VerifyIgnoringTimestamp(append(got[0].body, ' '), got[0].header) == nil {
		t.Error("a changed body is verified")
	}
	expect.Equal(t, "ids", got[0].header.Get("webhook-id")+" "+got[0].header.Get("Idempotency-Key"), d.ID+" "+d.ID)
	var m deliver.Message
	expect.NoError(t, json.Unmarshal(got[0].body, &m))
	expect.Equal(t, "summary", m.Data.Notification.Summary, "Look at the build.")
	expect.Contains(t, "text", m.Text, "It is red.")
	expect.Equal(t, "route", m.Data.RouteID, "phone")
}

func TestBearer(t *testing.T) {
	w := open(t, nil)
	x := receive(t, ok)
	n := webhook("chat", x.URL)
	n.Auth.Kind, n.Secret = ledger.AuthBearer, "tk_0123456789abcdef"
	if made := w.bind(n); made.SigningSecret != "" {
		t.Error("a secret was made")
	}
	w.notify("main", "the token tk_0123456789abcdef was found")
	w.round()
	got := x.requests()[0]
	expect.Equal(t, "authorization", got.header.Get("Authorization"), "Bearer tk_0123456789abcdef")
	expect.Equal(t, "signature", got.header.Get("webhook-signature"), "")
	if bytes.Contains(got.body, []byte("0123456789abcdef")) {
		t.Errorf("the secret is in the body: %s", got.body)
	}
	d := w.only()
	expect.Equal(t, "id", got.header.Get("webhook-id"), d.ID)
	if got.header.Get("webhook-timestamp") == "" {
		t.Error("the time is missing")
	}
}

// A binding that gets another URL goes on with the authentication that it has; a secret of the other kind changes it.
func TestBindingKeepsWhatIsLeftOut(t *testing.T) {
	w := open(t, nil)
	first, second := receive(t, ok), receive(t, ok)
	n := webhook("chat", first.URL)
	n.Auth.Kind, n.Secret = ledger.AuthBearer, "tk_0123456789abcdef"
	w.bind(n)
	moved := webhook("chat", second.URL)
	moved.Auth.Kind = ""
	bound := w.bind(moved)
	expect.Equal(t, "authentication", bound.Auth.Kind+bound.SigningSecret, ledger.AuthBearer)
	w.notify("main", "hello")
	w.round()
	expect.Equal(t, "requests to the old URL", len(first.requests()), 0)
	expect.Equal(t, "token", second.requests()[0].header.Get("Authorization"), "Bearer tk_0123456789abcdef")
	if bound := w.bind(webhook("chat", second.URL)); bound.Auth.Kind != ledger.AuthHMAC || bound.SigningSecret == "" {
		t.Errorf("hmac makes %+v", bound)
	}
	fresh := webhook("new", first.URL)
	fresh.Auth.Kind = ""
	expect.Equal(t, "authentication of a new one", w.bind(fresh).Auth.Kind, ledger.AuthHMAC)
}

// What a receiver does that fails, hangs, redirects or answers late is tried again, under the same id and with the same
// body, and the record says why.
func TestAttempts(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was followed") }))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		answer func(n int, w http.ResponseWriter, r *http.Request)
		want   string
	}{
		"fails": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no\x1b[31mroom", http.StatusServiceUnavailable)
		}, "it answered 503 no"},
		"refuses": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "it answered 401"},
		"redirects": {func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "redirects are not followed"},
		"hangs":      {func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "did not answer within"},
		"breaks off": {func(_ int, _ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"endless headers": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, "exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, func(o *deliver.Options) {
				if name == "hangs" {
					o.Timeout = 300 * time.Millisecond
				}
			})
			x := receive(t, func(n int, rw http.ResponseWriter, r *http.Request) {
				if n <= 2 {
					c.answer(n, rw, r)
				}
			})
			w.bind(webhook("phone", x.URL+"/secret-part"))
			w.notify("main", "hello")
			w.round()
			d := w.only()
			expect.Equal(t, "status", d.Status, ledger.DeliveryPending)
			expect.Contains(t, "failure", d.Failure, c.want)
			if strings.ContainsRune(d.Failure, 0x1b) || strings.Contains(d.Failure, "secret-part") {
				t.Errorf("the failure is %q", d.Failure)
			}
			w.round()
			w.round()
			d = w.only()
			expect.Equal(t, "status", d.Status, ledger.DeliveryAccepted)
			expect.Equal(t, "attempts", d.Attempts, 3)
			got := x.requests()
			for _, r := range got {
				expect.Equal(t, "id", r.header.Get("Idempotency-Key"), d.ID)
				expect.Equal(t, "body", string(r.body), string(got[0].body))
			}
		})
	}
}

// An endless body of an answer that accepts neither holds the delivery up nor is read.
func TestEndlessAnswer(t *testing.T) {
	w := open(t, nil)
	x := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	w.bind(webhook("phone", x.URL))
	w.notify("main", "hello")
	w.round()
	expect.Equal(t, "status", w.only().Status, ledger.DeliveryAccepted)
}

// A delivery that no attempt brings fails after a bounded number of them, and the operator is shown that.
func TestGivenUp(t *testing.T) {
	w := open(t, nil)
	x := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	w.bind(webhook("phone", x.URL))
	w.notify("main", "hello")
	for range rules.MaxTries + 3 {
		w.round()
	}
	d := w.only()
	expect.Equal(t, "status", d.Status, ledger.DeliveryFailed)
	expect.Equal(t, "requests", len(x.requests()), rules.MaxTries)
	if d.NextAt != nil {
		t.Errorf("a next attempt is planned: %v", d.NextAt)
	}
}

// A binding that hangs delays no other one, and one that was revoked gets nothing that was pending.
func TestBindingsAreIndependent(t *testing.T) {
	w := open(t, func(o *deliver.Options) { o.Timeout = 300 * time.Millisecond })
	slow := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	fast := receive(t, ok)
	w.bind(webhook("slow", slow.URL))
	w.bind(webhook("fast", fast.URL))
	w.notify("other", "hello") // it has no bindings of its own: those of the default agent
	w.round()
	expect.Equal(t, "fast", len(fast.requests()), 1)
	_, err := w.Revoke(t.Context(), "main", "slow")
	expect.NoError(t, err)
	w.round()
	expect.Equal(t, "slow", len(slow.requests()), 1)
	for _, d := range w.deliveries("other") {
		want := map[string]string{"fast": ledger.DeliveryAccepted, "slow": ledger.DeliveryFailed}[d.BindingID]
		expect.Equal(t, d.BindingID, d.Status, want)
	}
}

// Neither the ledger nor a later answer has a secret; revoking forgets them all.
func TestSecretsAreKeptApart(t *testing.T) {
	w := open(t, nil)
	x := receive(t, ok)
	n := webhook("phone", x.URL+"/secret-part")
	n.Ingress = true
	first := w.bind(n)
	if first.SigningSecret == "" || first.IngressToken == "" {
		t.Fatalf("made %+v", first)
	}
	n.URL = ""
	again := w.bind(n)
	expect.Equal(t, "shown again", again.SigningSecret+again.IngressToken, "")
	expect.Equal(t, "URL", again.CallbackURL, x.URL+"/…")
	w.notify("main", "hello")
	w.round()
	expect.Equal(t, "requests", len(x.requests()), 1)
	files, err := filepath.Glob(filepath.Join(w.home, "ledger*"))
	expect.NoError(t, err)
	if len(files) == 0 {
		t.Fatal("there is no ledger")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		expect.NoError(t, err)
		for _, secret := range []string{first.SigningSecret, first.IngressToken, "secret-part"} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s has a secret", file)
			}
		}
	}
	_, err = w.Revoke(t.Context(), "main", "phone")
	expect.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(w.home, "credentials.json"))
	expect.NoError(t, err)
	if bytes.Contains(data, []byte("phone")) {
		t.Errorf("a secret stays: %s", data)
	}
	if w.bind(webhook("phone", x.URL)).SigningSecret == "" {
		t.Error("a binding that was revoked has no new secret")
	}
}

// With its agent a binding is revoked and its secrets go, also where the process ended before they could.
func TestRemovedAgent(t *testing.T) {
	w := open(t, nil)
	x := receive(t, ok)
	n := webhook("phone", x.URL+"/secret-part")
	n.AgentID = "other"
	w.bind(n)
	w.bind(webhook("chat", x.URL+"/secret-part"))
	w.notify("other", "hello")
	_, err := w.steps.Archive(t.Context(), scheduler.Archive{AgentID: "other", By: "operator"})
	expect.NoError(t, err)
	w.round()
	expect.Equal(t, "requests", len(x.requests()), 0)
	expect.NoError(t, w.Forget(t.Context()))
	data, err := os.ReadFile(filepath.Join(w.home, "credentials.json"))
	expect.NoError(t, err)
	if bytes.Contains(data, []byte("phone")) || !bytes.Contains(data, []byte("chat")) {
		t.Errorf("the secrets are %s", data)
	}
}

// The operator reads why a secret cannot be kept.
func TestSecretThatCannotBeKept(t *testing.T) {
	w := open(t, nil)
	n := webhook("phone", "https://example.org")
	n.Auth.Kind, n.Secret = ledger.AuthBearer, "tok\r\nX"
	if _, err := w.Bind(t.Context(), n); !isParam(err, "delivery_auth") {
		t.Errorf("a token of two lines: %v", err)
	}
	expect.NoError(t, os.Chmod(w.home, 0o755))
	_, err := w.Bind(t.Context(), webhook("phone", "https://example.org"))
	if !isParam(err, "delivery_auth") || !strings.Contains(err.Error(), w.home+": is open") {
		t.Errorf("in a home that others can read: %v", err)
	}
}

func TestBindRefuses(t *testing.T) {
	w := open(t, nil)
	w.bind(webhook("taken", "http://127.0.0.1"))
	for name, c := range map[string]struct {
		param  string
		change func(*scheduler.NewBinding)
	}{
		"an id with a dot":     {"binding_id", func(n *scheduler.NewBinding) { n.ID = "a.b" }},
		"no id":                {"binding_id", func(n *scheduler.NewBinding) { n.ID = "" }},
		"an id of another":     {"binding_id", func(n *scheduler.NewBinding) { n.ID, n.AgentID = "taken", "other" }},
		"a name of the host's": {"binding_id", func(n *scheduler.NewBinding) { n.ID = "desktop" }},
		"a command":            {"transport", func(n *scheduler.NewBinding) { n.Transport = ledger.TransportCommand }},
		"no URL":               {"delivery_callback_url", func(n *scheduler.NewBinding) { n.URL = "" }},
		"a file":               {"delivery_callback_url", func(n *scheduler.NewBinding) { n.URL = "file:///etc/passwd" }},
		"a password":           {"delivery_callback_url", func(n *scheduler.NewBinding) { n.URL = "https://a:b@example.org" }},
		"http in public":       {"delivery_callback_url", func(n *scheduler.NewBinding) { n.AllowPrivate = false }},
		"a kind":               {"delivery_auth.kind", func(n *scheduler.NewBinding) { n.Auth.Kind = "basic" }},
		"a short secret":       {"delivery_auth.signing_secret", func(n *scheduler.NewBinding) { n.Secret = "whsec_c2hvcnQ=" }},
		"no token":             {"delivery_auth.bearer_token", func(n *scheduler.NewBinding) { n.Auth.Kind = ledger.AuthBearer }},
		"metadata of a list":   {"metadata", func(n *scheduler.NewBinding) { n.Metadata = []byte("[]") }},
		"a long name of actor": {"operator_actor_id", func(n *scheduler.NewBinding) { n.ActorID = strings.Repeat("a", 300) }},
	} {
		n := webhook("phone", "http://127.0.0.1/x")
		c.change(&n)
		if _, err := w.Bind(t.Context(), n); !isParam(err, c.param) {
			t.Errorf("%s: %v, want one about %s", name, err, c.param)
		}
	}
}

// No connection is made to an address that a binding may not reach, whatever name leads there.
func TestAddresses(t *testing.T) {
	t.Parallel()
	x := receive(t, ok)
	_, port, _ := strings.Cut(strings.TrimPrefix(x.URL, "http://"), ":")
	for _, c := range []struct {
		host            string
		public, private bool
	}{
		{"127.0.0.1", false, true}, {"localhost", false, true}, {"[::ffff:127.0.0.1]", false, true},
		{"[64:ff9b::7f00:1]", false, false}, {"0.0.0.0", false, false}, {"[::]", false, false},
		{"169.254.169.254", false, false}, {"168.63.129.16", false, false}, {"224.0.0.1", false, false},
		{"100.100.100.200", false, false}, {"[fd00:ec2::254]", false, false}, {"[fd20:ce::254]", false, false},
		{"[fe80::1]", false, false}, {"255.255.255.255", false, false},
	} {
		for private, want := range map[bool]bool{false: c.public, true: c.private} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.host+":"+port, nil)
			expect.NoError(t, err)
			answer, err := deliver.NewClient(private).Do(r)
			if err == nil {
				_ = answer.Body.Close()
			} else if !want {
				expect.Contains(t, c.host, err.Error(), "the binding does not allow it")
			}
			if (err == nil) != want {
				t.Errorf("%s, private %t: %v, want a connection: %t", c.host, private, err, want)
			}
		}
	}
	for _, host := range []string{"10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fd00::1]", "[::1]"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":"+port, nil)
		expect.NoError(t, err)
		answer, err := deliver.NewClient(false).Do(r)
		if err == nil {
			_ = answer.Body.Close()
			t.Errorf("%s was reached", host)
			continue
		}
		expect.Contains(t, host, err.Error(), "the binding does not allow it")
	}
}
