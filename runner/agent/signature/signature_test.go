package signature_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holon/runner/agent/signature"
	"holon/test/expect"
)

// vector is a delivery that a vendor published with its secret.
type vector struct {
	scheme, secret, body string
	at                   int64 // when it was sent; 0: the scheme has no time
	signed               string
	header               http.Header
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// vectors are the examples in the documentation of GitHub ("Validating webhook deliveries"), of Slack ("Verifying
// requests from Slack"), and of the libraries of standard-webhooks. GitLab's token has none: it is the secret.
func vectors() map[string]vector {
	return map[string]vector{
		"github": {"github", "It's a Secret to Everybody", "Hello, World!", 0, "X-Hub-Signature-256",
			headers("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
				"X-GitHub-Event", "push", "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")},
		"slack": {"slack", "8f742231b10e8888abcd99yyyzzz85a5", "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&" +
			"team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&" +
			"command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F" +
			"397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
			1531420618, "X-Slack-Signature", headers("X-Slack-Request-Timestamp", "1531420618", "X-Slack-Signature",
				"v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503")},
		"standard": {"standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`, 1614265330,
			"webhook-signature", headers("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp", "1614265330",
				"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")},
		"gitlab token": {"gitlab", "a token that GitLab has", `{"object_kind":"push"}`, 0, "X-Gitlab-Token",
			headers("X-Gitlab-Token", "a token that GitLab has", "X-Gitlab-Event", "Push Hook",
				"Idempotency-Key", "f5e57004-8a6b-4b8b-a6a4-5f6a7c8b9d0e")},
		"gitlab signed": {"gitlab", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`, 1614265330,
			"webhook-signature", headers("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp", "1614265330",
				"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")},
	}
}

// What vendors published is verified; with another body, secret, time or signature it is not, and the error names the
// header.
func TestVectors(t *testing.T) {
	t.Parallel()
	for name, v := range vectors() {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(v.at, 0)
			verify := func(secret string, h http.Header, body string, now time.Time) (signature.Delivery, error) {
				return signature.Verify(v.scheme, secret, h, []byte(body), now)
			}
			d, err := verify(v.secret, v.header, v.body, now.Add(signature.Window))
			expect.NoError(t, err)
			if len(d.Keys) == 0 {
				t.Error("nothing identifies the delivery")
			}
			other := strings.Repeat("A", 32)
			if strings.HasPrefix(v.secret, signature.SecretPrefix) {
				other = signature.SecretPrefix + other
			}
			_, err = verify(other, v.header, v.body, now)
			refused(t, "another secret", err, v.signed)
			if v.signed != "X-Gitlab-Token" {
				_, err = verify(v.secret, v.header, v.body+" ", now)
				refused(t, "another body", err, v.signed)
			}
			bare := v.header.Clone()
			bare.Del(v.signed)
			_, err = verify(v.secret, bare, v.body, now)
			refused(t, "no signature", err, v.signed)
			if _, err = verify("", bare, v.body, now); err == nil {
				t.Error("it is verified without a secret")
			}
			if v.at == 0 {
				return
			}
			for _, away := range []time.Duration{signature.Window + time.Second, -signature.Window - time.Second} {
				_, err = verify(v.secret, v.header, v.body, now.Add(away))
				refused(t, "at another time", err, "")
			}
		})
	}
}

func refused(t *testing.T, what string, err error, header string) {
	t.Helper()
	bad, ok := errors.AsType[*signature.Error](err)
	if !ok || header != "" && bad.Header != header {
		t.Errorf("%s: %v, want an error about %s", what, err, header)
	}
}

// A delivery that is sent again has a key of the first one: of GitHub also under another id, which is not signed.
func TestKeys(t *testing.T) {
	t.Parallel()
	v := vectors()["github"]
	key := func(id, body string, header http.Header) []string {
		h := header.Clone()
		h.Set("X-GitHub-Delivery", id)
		d, err := signature.Verify(v.scheme, v.secret, h, []byte(body), time.Time{})
		expect.NoError(t, err)
		expect.Equal(t, "event", d.Headers["X-GitHub-Event"], "push")
		return d.Keys
	}
	first, again := key("a", v.body, v.header), key("b", v.body, v.header)
	if !slices.ContainsFunc(again, func(k string) bool { return slices.Contains(first, k) }) {
		t.Errorf("the keys %q and %q have nothing in common", first, again)
	}
	event := func(id string) []string {
		body, now := `{"type":"event_callback","event_id":"`+id+`"}`, time.Unix(1, 0)
		d, err := signature.Verify("slack", "secret-of-slack", slackHeaders("secret-of-slack", body, now), []byte(body), now)
		expect.NoError(t, err)
		expect.Equal(t, "event_id", d.Headers["event_id"], id)
		return d.Keys
	}
	if slices.Equal(event("Ev1"), event("Ev2")) {
		t.Error("the id of an event is not its key")
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	body, now := `{"type":"url_verification","challenge":"3eZbrw1a"}`, time.Unix(1, 0)
	d, err := signature.Verify("slack", "secret-of-slack", slackHeaders("secret-of-slack", body, now), []byte(body), now)
	expect.NoError(t, err)
	expect.Equal(t, "challenge", d.Challenge, "3eZbrw1a")
}

// slackHeaders signs as Slack does.
func slackHeaders(secret, body string, at time.Time) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + stamp + ":" + body))
	return headers("X-Slack-Request-Timestamp", stamp, "X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
}

// What is signed here, the library of standard-webhooks verifies, and the reverse; several signatures are one each.
func TestStandard(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	library, err := reference.NewWebhook(secret)
	expect.NoError(t, err)
	now, body := time.Unix(1700000000, 0), []byte(`{"n":1}`)
	h := http.Header{}
	expect.NoError(t, signature.Sign(h, secret, "msg_1", now.Unix(), body))
	expect.NoError(t, library.VerifyIgnoringTimestamp(body, h))
	theirs, err := library.Sign("msg_1", now, body)
	expect.NoError(t, err)
	h.Set("webhook-signature", "v1a,abc v1,"+strings.Repeat("A", 43)+"= "+theirs)
	_, err = signature.Verify("standard", secret, h, body, now)
	expect.NoError(t, err)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scheme, secret string
		ok             bool
	}{
		{"github", "12345678", true}, {"github", "1234567", false}, {"github", "", false}, {"GitHub", "12345678", false},
		{"", "12345678", false}, {"standard", "12345678", false}, {"gitlab", "whsec_x", false}, {"gitlab", "12345678", true},
		{"standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true},
	} {
		err := signature.Check(c.scheme, c.secret)
		expect.Equal(t, c.scheme+" "+c.secret, err == nil, c.ok)
		if err != nil && c.secret != "" && strings.Contains(err.Error(), c.secret) {
			t.Errorf("the error has the secret: %v", err)
		}
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded; charset=utf-8"
	for _, c := range []struct{ kind, body, want string }{
		{form, "payload=%7B%22n%22%3A1%7D&x=y", `{"n":1}`}, {form, "payload=x", ""}, {form, "n=1", ""}, {form, "%zz", ""},
		{"application/json", "payload=1", ""}, {"", "payload=1", ""},
	} {
		expect.Equal(t, c.body, string(signature.Form(c.kind, []byte(c.body))), c.want)
	}
}

// Whatever comes, verifying it ends, and without the secret nothing passes.
func FuzzVerify(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.scheme, v.header.Get(v.signed), strconv.FormatInt(v.at, 10), v.body)
	}
	f.Fuzz(func(t *testing.T, scheme, signed, at, body string) {
		h := headers("X-Hub-Signature-256", signed, "X-Slack-Signature", signed, "webhook-signature", signed,
			"X-Gitlab-Token", signed, "webhook-id", "x", "webhook-timestamp", at, "X-Slack-Request-Timestamp", at)
		const secret = "whsec_VGhpcyBzZWNyZXQgaXMgbm90IGluIHRoZSBjb3JwdXMu"
		if d, err := signature.Verify(scheme, secret, h, []byte(body), time.Unix(1614265330, 0)); err == nil {
			t.Errorf("it is verified without the secret: %+v", d)
		}
	})
}
