package agentd

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"holon/responses"
)

// guard protects the TCP listener: a browser must not reach it, not even by a
// name that was rebound to loopback, and a token is demanded where there is one.
// It stands before every route, the upgrade to WebSocket included.
func (s *Server) guard(next http.Handler, token string) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := admit(r, token != "", want); err != nil {
			if err.Code == responses.CodeUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			s.writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit says why a request is refused, or nil.
func admit(r *http.Request, hasToken bool, want [sha256.Size]byte) *responses.Error {
	refuse := func(code, param, message string) *responses.Error {
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: code, Message: message, Param: param}
	}
	if len(r.Header.Values("Origin")) > 0 {
		return refuse(responses.CodeForbidden, "Origin", "requests of web pages are refused")
	}
	// A page can make a browser fetch without an Origin, an image for one; this
	// header it always sends, and no page can change. "none" means that a
	// person typed the address.
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "none" {
			return refuse(responses.CodeForbidden, "Sec-Fetch-Site", "requests of web pages are refused")
		}
	}
	if !hasToken {
		if !localHost(r.Host) {
			return refuse(responses.CodeForbidden, "Host", "the Host header must name the loopback address")
		}
		return nil
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Hashes have one length, so the comparison takes the same time for any token.
	got := sha256.Sum256([]byte(strings.TrimSpace(given)))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return refuse(responses.CodeUnauthorized, "Authorization", "the bearer token is missing or wrong")
	}
	return nil
}

// localHost reports whether a Host header names loopback in a way that no name
// server can change: a numeric address, or localhost itself.
func localHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	if inner, ok := strings.CutPrefix(host, "["); ok { // an IPv6 address without a port
		host, _ = strings.CutSuffix(inner, "]")
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
