package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// admit returns why a listener refuses a request, or nil. A request with a capability in its path needs no bearer
// token, and may use any host name: a tunnel may have changed it.
func (l listener) admit(r *http.Request, capability bool) error {
	if l.local || capability {
		return nil
	}
	if err := l.refusePages(r); err != nil {
		return err
	}
	if l.auth == authDisabled {
		return nil
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Digests have one length, so the comparison takes the same time for any token.
	got := sha256.Sum256([]byte(strings.TrimSpace(given)))
	if subtle.ConstantTimeCompare(got[:], l.token[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return &state.Error{Code: wire.CodeUnauthorized, Param: "Authorization",
			Message: "the bearer token is missing or wrong", Hint: "send Authorization: Bearer TOKEN"}
	}
	return nil
}

// refusePages refuses requests that a web page made a browser send, also by a host name
// that was rebound to this address.
func (l listener) refusePages(r *http.Request) error {
	forbidden := func(param, message, hint string) error {
		return &state.Error{Code: wire.CodeForbidden, Param: param, Message: message, Hint: hint}
	}
	if len(r.Header.Values("Origin")) > 0 {
		return forbidden("Origin", "requests of web pages are refused", "use holon, or a program")
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "none" { // a person typed the address
			return forbidden("Sec-Fetch-Site", "requests of web pages are refused", "use holon, or a program")
		}
	}
	if !l.named(r.Host) {
		return forbidden("Host", "the Host header does not name this server",
			"use its address, or start it with --advertise URL")
	}
	return nil
}

// named reports whether a Host header is one that no name server can bind to
// this address: a number, localhost, or a name that the operator gave.
func (l listener) named(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if net.ParseIP(host) != nil || host == "localhost" {
		return true
	}
	return host != "" && slices.ContainsFunc(l.hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

// authMode is what a handshake reports of the listener.
func (l listener) authMode() wire.Auth {
	switch {
	case l.local:
		return wire.Auth{Mode: "local_socket"}
	case l.auth == authDisabled:
		return wire.Auth{Mode: "disabled"}
	}
	return wire.Auth{Mode: "bearer", Required: true}
}

// operatorContext is how the operator came in, and publicContext how a message from outside did. A port without a token
// is on loopback, by the operator's wish: for the operator it is as good as the socket, for others it proves nothing.
func (l listener) operatorContext() ledger.AdmissionContext {
	if l.local || l.auth == authDisabled {
		return ledger.LocalProcess
	}
	return ledger.ControlAuthenticated
}

func (l listener) publicContext() ledger.AdmissionContext {
	switch {
	case l.local:
		return ledger.LocalProcess
	case l.auth == authDisabled:
		return ledger.PublicUnauthenticated
	}
	return ledger.ControlAuthenticated
}

type listenerKey struct{}

// listenerOf returns the listener that a request came through.
func listenerOf(ctx context.Context) listener {
	l, _ := ctx.Value(listenerKey{}).(listener)
	return l
}
