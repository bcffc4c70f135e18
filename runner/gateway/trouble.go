package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"holon/internal/providers"
	"holon/responses"
	"holon/state"
)

// Trouble is what the host knows of the request of the turn that failed last: the endpoint and, which a container is
// not told, where the key comes from. It never holds a key, and means nothing for a turn that does not fail with
// its code.
func (l *Lease) Trouble() *state.Failure {
	l.ledger.mu.Lock()
	defer l.ledger.mu.Unlock()
	return l.ledger.failed
}

// trouble replaces what is known of the last request.
func (l *ledger) trouble(f *state.Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = f
}

// unreachable is the failure of a request that got no answer.
func (u *upstream) unreachable(err error) *state.Failure {
	return &state.Failure{Code: responses.CodeProviderUnavailable, Param: u.name,
		Message: fmt.Sprintf("the provider can't be reached at %s: %s", u.host(),
			u.keys.hide(reason(err))),
		Hint: "check the network, and the endpoint with: holon providers get " + u.name}
}

// keyless is the failure of a request for which there is no key.
func (u *upstream) keyless(err error) *state.Failure {
	f := &state.Failure{Code: responses.CodeMissingCredentials, Param: u.keyName,
		Message: u.keys.hide(err.Error()), Hint: "see: holon credentials list"}
	if e, ok := errors.AsType[*state.Error](err); ok && e.Hint != "" {
		f.Hint = e.Hint
	}
	return f
}

// answered is what there is to say of an answer if a turn fails by it: its cause and what to do; nil for nothing. Its
// code is that of the turn.
func (u *upstream) answered(status int, contentType string) *state.Failure {
	f := &state.Failure{Param: u.name}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if u.keyName == "" {
			return nil
		}
		f.Code, f.Param = responses.CodeProviderAuthentication, u.keyName
		f.Hint = fmt.Sprintf("check %s, the key of %s", u.keyName, u.name)
		if u.keyStore != "" {
			f.Hint = "store the right key of " + u.name + " with: " + u.keyStore
		}
		if u.auth == providers.AuthNone {
			f.Hint = fmt.Sprintf("it was asked without a key; set %s, or: holon credentials set %s", u.keyName, u.name)
		}
	case status == http.StatusTooManyRequests || status == http.StatusPaymentRequired:
		f.Code, f.Hint = responses.CodeRateLimit, "wait, look at your account there, or choose another model"
	case status == http.StatusNotFound:
		f.Code, f.Hint = responses.CodeModelError, "check the model; see: holon models list"
	case status >= 500:
		f.Code, f.Hint = responses.CodeProviderUnavailable, "try again later, or choose another model"
	case status < 300 && strings.HasPrefix(contentType, "text/html"): // a page for people, not of the API
		f.Code = responses.CodeModelError
		f.Hint = fmt.Sprintf("check that %s is the endpoint of its API: holon providers get %s", u.host(), u.name)
	case status < 300: // if it fails all the same, the answer broke off
		f.Code, f.Hint = responses.CodeProviderUnavailable, "try again; its endpoint is "+u.host()
	case status >= 400:
		f.Code = responses.CodeModelError
		f.Hint = "check the model, and what is set for its provider: holon providers get " + u.name
	default:
		return nil
	}
	return f
}

// host is the address of the endpoint without anything that could be secret.
func (u *upstream) host() string {
	if u.socket != "" {
		return u.socket
	}
	if at, err := url.Parse(u.base); err == nil {
		return at.Host
	}
	return "its endpoint"
}

// address is the endpoint without anything that could be secret.
func (u *upstream) address() string {
	if u.socket != "" {
		return "unix://" + u.socket
	}
	return u.base
}

// reason is why there was no connection, without what the caller says anyway.
func reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return op.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Err
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return no.Error()
	}
	return err.Error()
}
