package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"holon/responses"
	"holon/state"
)

// Trouble is what the host knows of the request of the turn that failed last, and a container is not told: the
// endpoint, and where the key comes from. It is nil when the provider answered that request, and never holds a key.
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
			u.keys.redact().errors.Text(reason(err))),
		Hint: "check the network, and the endpoint with: holon providers get " + u.name}
}

// keyless is the failure of a request for which there is no key.
func (u *upstream) keyless(err error) *state.Failure {
	f := &state.Failure{Code: responses.CodeMissingCredentials, Param: u.keyName,
		Message: u.keys.redact().errors.Text(err.Error()), Hint: "see: holon credentials list"}
	if e, ok := errors.AsType[*state.Error](err); ok && e.Hint != "" {
		f.Hint = e.Hint
	}
	return f
}

// refusedKey is the failure of a request whose key the provider did not take; nil for another status.
func (u *upstream) refusedKey(status int) *state.Failure {
	if status != http.StatusUnauthorized && status != http.StatusForbidden || u.keyName == "" {
		return nil
	}
	return &state.Failure{Code: responses.CodeProviderAuthentication, Param: u.keyName,
		Hint: "check the key of " + u.name + " there"}
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
