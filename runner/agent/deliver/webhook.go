package deliver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"

	"holon/internal/visible"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/signature"
	"holon/runner/egress"
	"holon/state/ledger"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 10

// post sends a notification to the URL of a binding. Any answer 2xx means that the transport has it.
func (d *Deliverer) post(ctx context.Context, sub scheduler.Submission, body []byte) (receipt string, err error) {
	to, err := d.urlOf(sub.Binding)
	if err != nil {
		return "", fmt.Errorf("find the URL of the binding: %w", err)
	}
	secret, err := d.Secrets.Get(profile(sub.Binding.ID, "secret"))
	if err != nil {
		return "", fmt.Errorf("find the secret of the binding: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return "", errors.New("the URL of the binding is malformed")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "holon")
	r.Header.Set("Idempotency-Key", sub.Delivery.ID)
	if sub.Binding.Auth.Kind == ledger.AuthBearer {
		r.Header.Set("Authorization", "Bearer "+secret.Reveal())
		signature.Name(r.Header, sub.Delivery.ID, d.Now().Unix())
	} else if err := signature.Sign(r.Header, secret.Reveal(), sub.Delivery.ID, d.Now().Unix(), body); err != nil {
		return "", err
	}
	client := d.public
	if sub.Binding.AllowPrivate {
		client = d.private
	}
	answer, err := client.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // it would show the URL
	}
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // the status says what counts
	switch {
	case answer.StatusCode/100 == 3:
		return "", fmt.Errorf("it answered %d: redirects are not followed", answer.StatusCode)
	case answer.StatusCode/100 != 2:
		return "", fmt.Errorf("it answered %d %s", answer.StatusCode, visible.OneLine(string(text), 160))
	}
	return receiptOf(text), nil
}

// receiptOf is the id that a transport gives a delivery in its answer, "" for none.
func receiptOf(answer []byte) string {
	var given struct {
		Delivery string `json:"transport_delivery_id"`
		ID       string `json:"id"`
	}
	if json.Unmarshal(answer, &given) != nil {
		return ""
	}
	if given.Delivery == "" {
		given.Delivery = given.ID
	}
	return visible.OneLine(given.Delivery, 200)
}

// newClient returns a client that connects to public addresses alone, or to those of private networks and of this
// machine too. The address is checked when a connection to it is made: what a name resolved to before does not count.
func newClient(private bool) *http.Client {
	refuse := egress.PublicOnly()
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("check the address: %w", err)
		}
		why := refuse(to.Addr())
		if why == "" || private && slices.Contains(nearby, why) {
			return nil
		}
		return fmt.Errorf("the address %s is %s, and the binding does not allow it", to.Addr(), why)
	}}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true,
			ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxAnswer},
	}
}

// nearby are the addresses that a binding may allow. Services for the machine, such as those of clouds, are not.
var nearby = []string{"private", "loopback", "shared (carrier NAT)", "this machine's own"}
