package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"holon/responses/turns"
)

// Reasons of decisions.
const (
	reasonListed           = "listed" // the one that allows
	reasonMalformed        = "request_malformed"
	reasonScheme           = "scheme_not_allowed"
	reasonHostMalformed    = "host_malformed"
	reasonHostNotAllowed   = "host_not_allowed"
	reasonHostMismatch     = "host_mismatch"
	reasonPort             = "port_not_allowed"
	reasonNotResolved      = "not_resolved"
	reasonAddressNotPublic = "address_not_public"
	reasonNotTLS           = "not_tls"
	reasonNameMismatch     = "sni_mismatch"
	reasonHiddenName       = "sni_hidden" // Encrypted Client Hello
)

// target is what a request asks for.
type target struct {
	scheme string // https, http, or "" when it is neither
	host   string // normalised; as sent if it is not a valid host
	port   int

	private netip.Addr // of the operator's own network; else it is not valid
}

// refusal is why a request gets no further.
type refusal struct {
	reason  string
	detail  string // for a person; may hold text of the container
	address string
}

// status is what the client is answered.
func (r *refusal) status() int {
	switch r.reason {
	case reasonMalformed, reasonHostMalformed, reasonHostMismatch:
		return http.StatusBadRequest
	case reasonNotResolved:
		return http.StatusBadGateway
	}
	return http.StatusForbidden
}

// judge decides by what the request says; nothing was looked up yet.
func (p *Proxy) judge(h head) (target, *refusal) {
	t, authority, bad := schemeOf(h)
	if bad != nil {
		return t, bad
	}
	host, port, err := parseAuthority(authority)
	t.host = host
	if addr, ok := p.private.at(host, cmp.Or(port, fmt.Sprint(t.port))); ok && err == nil {
		n, _ := strconv.Atoi(cmp.Or(port, fmt.Sprint(t.port))) // it is one of the list's
		t.port, t.private = n, addr
	}
	want := fmt.Sprint(t.port)
	switch {
	case err != nil:
		t.host = authority
		return t, &refusal{reason: reasonHostMalformed, detail: err.Error()}
	case port != want && (port != "" || t.scheme == "https"):
		t.port, _ = portOf(port) // what was asked for is recorded
		return t, &refusal{reason: reasonPort,
			detail: fmt.Sprintf("port %.20q: only 443 with CONNECT and 80 with http are open", port)}
	case t.scheme == "https" && h.hasBody:
		return t, &refusal{reason: reasonMalformed, detail: "CONNECT has no body"}
	}
	if h.host != "" {
		if also, port, err := parseAuthority(h.host); err != nil || also != host || port != "" && port != want {
			return t, &refusal{reason: reasonHostMismatch,
				detail: fmt.Sprintf("the target is %s and Host is %.100q", host, h.host)}
		}
	}
	if !t.private.IsValid() && !p.hosts.allows(host) {
		return t, &refusal{reason: reasonHostNotAllowed, detail: "the host is not on the list"}
	}
	return t, nil
}

// schemeOf returns a target without its host, and the authority that names it.
func schemeOf(h head) (t target, authority string, bad *refusal) {
	if h.method == http.MethodConnect {
		return target{scheme: "https", port: 443}, h.target, nil
	}
	scheme, rest, ok := strings.Cut(h.target, "://")
	if !ok {
		return target{host: h.host}, "", &refusal{reason: reasonMalformed,
			detail: "this is a proxy: the target must be CONNECT's host:443 or http://host/"}
	}
	authority = rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority = rest[:i]
	}
	if !strings.EqualFold(scheme, "http") {
		return target{host: authority}, "", &refusal{reason: reasonScheme,
			detail: fmt.Sprintf("%.20q is neither http nor CONNECT", scheme)}
	}
	return target{scheme: "http", port: 80}, authority, nil
}

// maxAddresses bounds what is tried of the addresses of one name.
const maxAddresses = 4

// resolve returns the addresses of a target. One that is not public spoils all: a
// name that leads to both is a trick or a mistake.
func (p *Proxy) resolve(ctx context.Context, t target) ([]netip.Addr, *refusal) {
	if t.private.IsValid() {
		return []netip.Addr{t.private}, nil
	}
	host := t.host
	var found []netip.Addr
	if addr, err := netip.ParseAddr(host); err == nil {
		found = []netip.Addr{addr}
	} else {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		if found, err = p.resolver.LookupNetIP(ctx, "ip", host+"."); err != nil || len(found) == 0 {
			return nil, &refusal{reason: reasonNotResolved, detail: resolveProblem(err)}
		}
	}
	for i, addr := range found {
		if why := p.addresses.refuse(addr); why != "" {
			return nil, &refusal{reason: reasonAddressNotPublic, detail: fmt.Sprintf("the address is %s", why),
				address: addr.String()}
		}
		found[i] = addr.Unmap()
	}
	return found[:min(len(found), maxAddresses)], nil
}

// resolveProblem does not tell the container which servers the host asks.
func resolveProblem(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound || err == nil {
		return "the host does not exist"
	}
	return "the name could not be resolved"
}

// dial connects to the first of the addresses that answers. No name is looked up
// here: what was checked is what is reached.
func (p *Proxy) dial(ctx context.Context, addrs []netip.Addr, port int) (conn net.Conn, at netip.Addr, err error) {
	for _, at = range addrs {
		one, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err = p.dialer.DialContext(one, "tcp", netip.AddrPortFrom(at, uint16(port)).String())
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return conn, at, err
}

// decision is the fact of what was decided of t.
func (x *connection) decision(t target, verdict, reason, address, detail string) turns.EgressDecision {
	return turns.EgressDecision{
		EgressID: x.id, Verdict: verdict, Reason: reason, Scheme: t.scheme, Host: clean(t.host), Port: t.port,
		Address: address, Detail: clean(detail),
	}
}

// clean bounds text that a container chose and takes out what a terminal obeys.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s[:min(len(s), 200)])
}
