// Package signature signs and verifies webhooks: those of GitHub, GitLab and Slack, and standard-webhooks.
//
// The invariant: nothing of a delivery is believed before its signature is verified, and secrets are compared in
// constant time. Where a scheme signs a time, a delivery that is older or younger than Window is refused. Whether a
// delivery came before is for its caller to remember, by the keys of Delivery.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holon/internal/visible"
)

// Schemes by which a delivery shows who sent it.
const (
	GitHub   = "github"   // X-Hub-Signature-256: sha256= and hex HMAC-SHA256 of the body
	GitLab   = "gitlab"   // X-Gitlab-Token, or standard-webhooks with a signing token whsec_…
	Slack    = "slack"    // X-Slack-Signature: v0= and hex HMAC-SHA256 of v0:time:body
	Standard = "standard" // webhook-signature: v1, and base64 HMAC-SHA256 of id.time.body (standardwebhooks.com)
)

// schemes are all of them.
var schemes = []string{GitHub, GitLab, Slack, Standard}

// Window is how far the time of a delivery may be from the clock of its receiver, which is what standard-webhooks and
// Slack recommend.
const Window = 5 * time.Minute

// maxHeader bounds a header that is kept, in bytes.
const maxHeader = 256

// Error says which header of a delivery does not verify it.
type Error struct {
	Header  string
	Message string
}

func (e *Error) Error() string { return e.Header + ": " + e.Message }

func bad(header, message string) error { return &Error{header, message} }

// Delivery is a delivery that is verified.
type Delivery struct {
	// Keys name the delivery. One that has any of the keys of another is the same, sent again. There is at least one.
	Keys []string
	// Headers say what the delivery is, by their names: a few that the scheme has, shortened. Those of GitHub and GitLab
	// are not signed.
	Headers map[string]string
	// Challenge is what the sender wants to see in the answer, to know that the URL is its receiver's; "": nothing.
	Challenge string
}

// Known reports whether there is a scheme of that name.
func Known(scheme string) bool { return slices.Contains(schemes, scheme) }

// Check refuses a scheme that there is not, and a secret that its scheme cannot use. An error never has the secret.
func Check(scheme, secret string) error {
	switch {
	case !Known(scheme):
		return fmt.Errorf("%.40q is not a scheme; use %s", scheme, strings.Join(schemes, ", "))
	case scheme == Standard || scheme == GitLab && strings.HasPrefix(secret, SecretPrefix):
		_, err := Key(secret)
		return err
	case len(secret) < 8:
		return errors.New("a secret has at least 8 characters")
	}
	return nil
}

// Verify verifies the headers and the body of a delivery. Errors that are about the delivery are *Error.
func Verify(scheme, secret string, h http.Header, body []byte, now time.Time) (Delivery, error) {
	if secret == "" {
		return Delivery{}, errors.New("there is no secret to verify it with")
	}
	switch scheme {
	case GitHub:
		return github(secret, h, body)
	case GitLab:
		return gitlab(secret, h, body, now)
	case Slack:
		return slack(secret, h, body, now)
	case Standard:
		return standard(secret, h, body, now)
	}
	return Delivery{}, fmt.Errorf("%.40q is not a scheme of signatures", scheme)
}

func github(secret string, h http.Header, body []byte) (Delivery, error) {
	const header = "X-Hub-Signature-256"
	given, err := signed(h, header, "sha256=")
	if err != nil {
		return Delivery{}, err
	}
	sum := mac([]byte(secret), body)
	if !hmac.Equal(given, sum) {
		return Delivery{}, bad(header, "it is not that of the body under the secret")
	}
	d := Delivery{Headers: keep(h, "X-GitHub-Event", "X-GitHub-Delivery", "X-GitHub-Hook-ID")}
	// the id of a delivery is not signed: the same body under another one is a replay too
	d.Keys = keys(h.Get("X-GitHub-Delivery"), hex.EncodeToString(sum))
	return d, nil
}

func gitlab(secret string, h http.Header, body []byte, now time.Time) (d Delivery, err error) {
	const header = "X-Gitlab-Token"
	if strings.HasPrefix(secret, SecretPrefix) {
		d, err = standard(secret, h, body, now)
	} else if subtle.ConstantTimeCompare([]byte(h.Get(header)), []byte(secret)) != 1 {
		err = bad(header, "it is not the secret")
	} else {
		sum := sha256.Sum256(body)
		d.Keys = keys(h.Get("Idempotency-Key"), hex.EncodeToString(sum[:])) // the first since GitLab 17.4
	}
	d.Headers = keep(h, "X-Gitlab-Event", "X-Gitlab-Event-UUID", "X-Gitlab-Instance", "Idempotency-Key")
	return d, err
}

func slack(secret string, h http.Header, body []byte, now time.Time) (Delivery, error) {
	const header, timed = "X-Slack-Signature", "X-Slack-Request-Timestamp"
	given, err := signed(h, header, "v0=")
	if err != nil {
		return Delivery{}, err
	}
	if err := timely(h, timed, now); err != nil {
		return Delivery{}, err
	}
	sum := mac([]byte(secret), []byte("v0:"+h.Get(timed)+":"), body)
	if !hmac.Equal(given, sum) {
		return Delivery{}, bad(header, "it is not that of the time and the body under the secret")
	}
	var event struct {
		Type      string `json:"type"`
		ID        string `json:"event_id"`
		Challenge string `json:"challenge"`
	}
	_ = json.Unmarshal(body, &event) // commands and actions are forms
	d := Delivery{Headers: keep(h, "X-Slack-Retry-Num", "X-Slack-Retry-Reason")}
	if event.Type == "url_verification" {
		d.Challenge = visible.OneLine(event.Challenge, maxHeader)
	}
	if d.Keys = keys(event.ID, hex.EncodeToString(sum)); event.ID != "" {
		d.Headers["event_id"] = visible.OneLine(event.ID, maxHeader)
	}
	return d, nil
}

// signed is the signature that a header has after its prefix, in hex.
func signed(h http.Header, header, prefix string) ([]byte, error) {
	text, ok := strings.CutPrefix(h.Get(header), prefix)
	sum, err := hex.DecodeString(text)
	if !ok || err != nil {
		return nil, bad(header, "it is missing, or not "+prefix+" and hex digits")
	}
	return sum, nil
}

// timely refuses a delivery whose time, in seconds since 1970, is not about now.
func timely(h http.Header, header string, now time.Time) error {
	at, err := strconv.ParseInt(h.Get(header), 10, 64)
	if err != nil {
		return bad(header, "it is missing, or not a number of seconds")
	}
	if away := now.Sub(time.Unix(at, 0)).Abs(); away > Window {
		return bad(header, fmt.Sprintf("it is not within %v of the clock here: a replay, or a clock that is wrong", Window))
	}
	return nil
}

// mac is the HMAC-SHA256 of parts that follow one another.
func mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// keys are short names of deliveries, made of what identifies them; an empty one is none.
func keys(ids ...string) (out []string) {
	for _, id := range ids {
		if id != "" {
			sum := sha256.Sum256([]byte(id))
			out = append(out, base64.RawURLEncoding.EncodeToString(sum[:12]))
		}
	}
	return out
}

// keep returns those of the headers that a delivery has.
func keep(h http.Header, names ...string) map[string]string {
	kept := make(map[string]string, len(names))
	for _, name := range names {
		if v := visible.OneLine(h.Get(name), maxHeader); v != "" {
			kept[name] = v
		}
	}
	return kept
}

// Form returns the JSON that a form has as its field payload, which is how GitHub and Slack send JSON in a form, and
// otherwise nil.
func Form(contentType string, body []byte) []byte {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !json.Valid([]byte(form.Get("payload"))) {
		return nil
	}
	return []byte(form.Get("payload"))
}
