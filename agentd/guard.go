package agentd

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"holon/responses"
)

// minToken is the shortest bearer token that is accepted, in bytes: 32 bytes of
// base64 or hex are at least 128 bits.
const minToken = 32

// token reads the bearer token that TCP clients must send, "" for none.
func (c *Config) token() (string, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", Problems{{"--token-file", fmt.Sprintf("cannot be read: %v", unwrapPath(err)), "name a file that holds the token"}}
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minToken {
		return "", Problems{{"--token-file", fmt.Sprintf("holds %d characters", len(token)), fmt.Sprintf("use a random token of at least %d", minToken)}}
	}
	return token, nil
}

// guard protects the TCP listener: a browser must not reach it, not even by a
// name that was rebound to loopback, and a token is demanded where there is one.
func guard(next http.Handler, token string) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			writeError(w, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeForbidden, Message: "requests of web pages are refused", Param: "Origin"})
			return
		}
		if token == "" && !localHost(r.Host) {
			writeError(w, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeForbidden, Message: "the Host header must name the loopback address", Param: "Host"})
			return
		}
		if token != "" {
			// Hashes have one length, so the comparison takes the same time for any token.
			got := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
			if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				writeError(w, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeUnauthorized, Message: "the bearer token is missing or wrong", Param: "Authorization"})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func localHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
