package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"holon/runner/access"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// admit returns who makes a request, or why a listener refuses it. A request with a capability in its path needs no
// bearer token, and may use any host name: a tunnel may have changed it.
func (l listener) admit(r *http.Request, capability bool) (access.Caller, error) {
	if l.local {
		return access.OfOperator(access.Operator), nil
	}
	if capability {
		return access.Caller{}, nil
	}
	if err := l.refusePages(r); err != nil {
		return access.Caller{}, err
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if given = strings.TrimSpace(given); !strings.EqualFold(scheme, "Bearer") {
		given = ""
	}
	// Digests have one length, so the comparison takes the same time for any token.
	got := sha256.Sum256([]byte(given))
	if l.auth != authDisabled && subtle.ConstantTimeCompare(got[:], l.token[:]) == 1 {
		return access.OfOperator(access.Operator), nil
	}
	if l.tokens != nil && given != "" {
		if c, ok := l.tokens.Find(given); ok {
			return c, nil
		}
	}
	if l.auth == authDisabled {
		return access.OfOperator(access.Operator), nil
	}
	return access.Caller{}, &state.Error{Code: wire.CodeUnauthorized, Param: "Authorization",
		Message: "the bearer token is missing or wrong", Hint: "send Authorization: Bearer TOKEN"}
}

// forOperators refuses a caller that is not an operator.
func forOperators(c access.Caller) error {
	if c.Operator {
		return nil
	}
	return &state.Error{Code: wire.CodeForbidden, Param: "Authorization",
		Message: "the token of " + c.Name + " may use what is below /v1/ only",
		Hint:    "use the control token, or one of the tokens file with the right operator"}
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
