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

// admit says why a request may not come through a door, or nil. What carries a
// capability in its path needs no bearer, and may be addressed by any name: a
// tunnel may have changed it.
func (d door) admit(r *http.Request, capability bool) error {
	if d.local || capability {
		return nil
	}
	if err := d.refusePages(r); err != nil {
		return err
	}
	if d.auth == AuthDisabled {
		return nil
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Digests have one length, so the comparison takes the same time for any token.
	got := sha256.Sum256([]byte(strings.TrimSpace(given)))
	if subtle.ConstantTimeCompare(got[:], d.token[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return &state.Error{Code: wire.CodeUnauthorized, Param: "Authorization",
			Message: "the bearer token is missing or wrong", Hint: "send Authorization: Bearer TOKEN"}
	}
	return nil
}

// refusePages refuses what a web page made a browser send, also by a name that
// was bound anew to this address.
func (d door) refusePages(r *http.Request) error {
	forbidden := func(param, message, hint string) error {
		return &state.Error{Code: wire.CodeForbidden, Param: param, Message: message, Hint: hint}
	}
	if len(r.Header.Values("Origin")) > 0 {
		return forbidden("Origin", "requests of web pages are refused", "use holon, or a program")
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "none" { // a person who typed the address
			return forbidden("Sec-Fetch-Site", "requests of web pages are refused", "use holon, or a program")
		}
	}
	if !d.named(r.Host) {
		return forbidden("Host", "the Host header does not name this server",
			"use its address, or start it with --advertise URL")
	}
	return nil
}

// named reports whether a Host header is one that no name server can bind to
// this address: a number, localhost, or a name that the operator gave.
func (d door) named(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if net.ParseIP(host) != nil || host == "localhost" {
		return true
	}
	return host != "" && slices.ContainsFunc(d.hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

// authMode is what a handshake says of the door.
func (d door) authMode() wire.Auth {
	switch {
	case d.local:
		return wire.Auth{Mode: "local_socket"}
	case d.auth == AuthDisabled:
		return wire.Auth{Mode: "disabled"}
	}
	return wire.Auth{Mode: "bearer", Required: true}
}

// operatorContext is how the operator came in, and publicContext how a message
// from outside did. A port without a token is on loopback, by the operator's
// wish: for the operator it is as good as the socket, for others it proves
// nothing.
func (d door) operatorContext() ledger.AdmissionContext {
	if d.local || d.auth == AuthDisabled {
		return ledger.LocalProcess
	}
	return ledger.ControlAuthenticated
}

func (d door) publicContext() ledger.AdmissionContext {
	switch {
	case d.local:
		return ledger.LocalProcess
	case d.auth == AuthDisabled:
		return ledger.PublicUnauthenticated
	}
	return ledger.ControlAuthenticated
}

type doorKey struct{}

// through returns the door that a request came through.
func through(ctx context.Context) door {
	d, _ := ctx.Value(doorKey{}).(door)
	return d
}
