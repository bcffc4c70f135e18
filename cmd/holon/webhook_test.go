package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdWebhook sends the file BODY as a service does, signed with the secret of a file, to the URL that is printed in the
// file TRIGGER, over the socket of the daemon. ID names the delivery. It prints the status and the answer.
//
//	webhook SCHEME SECRET TRIGGER BODY ID
func cmdWebhook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: webhook SCHEME SECRET TRIGGER BODY ID")
	}
	_, shown, _ := strings.Cut(ts.ReadFile(args[2]), "\nurl\t")
	shown, _, _ = strings.Cut(shown, "\n")
	to, err := url.Parse(shown)
	ts.Check(err)
	body := []byte(ts.ReadFile(args[3]))
	r, err := http.NewRequest(http.MethodPost, "http://daemon"+to.Path, bytes.NewReader(body))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/json")
	signAs(r.Header, args[0], strings.TrimSpace(ts.ReadFile(args[1])), body, args[4], strconv.FormatInt(time.Now().Unix(), 10))
	socket := filepath.Join(ts.Getenv("HOLON_HOME"), "run", "holon.sock")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	ts.Check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write([]byte(answer.Status + "\n" + string(text) + "\n"))
	ts.Check(err)
}

// signAs sets the headers of a service.
func signAs(h http.Header, scheme, secret string, body []byte, id, now string) {
	sum := func(key []byte, before string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write(append([]byte(before), body...))
		return m.Sum(nil)
	}
	set := func(pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
	}
	switch scheme {
	case "github":
		set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum([]byte(secret), "")), "X-GitHub-Event", "workflow_run",
			"X-GitHub-Delivery", id)
	case "gitlab":
		set("X-Gitlab-Token", secret, "X-Gitlab-Event", "Pipeline Hook", "Idempotency-Key", id)
	case "slack":
		set("X-Slack-Request-Timestamp", now, "X-Slack-Signature",
			"v0="+hex.EncodeToString(sum([]byte(secret), "v0:"+now+":")))
	case "standard":
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		set("webhook-id", id, "webhook-timestamp", now, "webhook-signature",
			"v1,"+base64.StdEncoding.EncodeToString(sum(key, id+"."+now+".")))
	}
}
