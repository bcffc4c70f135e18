package websocket

import (
	"encoding/base64"
	"net/http"
	"strings"

	"holon/responses"
)

// CheckUpgrade refuses a request that is not a handshake, with the error that
// answers it.
func CheckUpgrade(w http.ResponseWriter, r *http.Request) error {
	h := r.Header
	if r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || !hasToken(h, "Connection", "upgrade") ||
		!hasToken(h, "Upgrade", "websocket") {
		w.Header().Set("Allow", "POST, OPTIONS")
		e := responses.Invalid("", responses.CodeMethodNotAllowed,
			"a GET of this path must ask for an upgrade to a WebSocket")
		e.Hint = "use POST to create a response"
		return e
	}
	if h.Get("Origin") != "" {
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeForbidden,
			Message: "requests of web pages are refused", Param: "Origin"}
	}
	if h.Get("Sec-WebSocket-Version") != "13" {
		w.Header().Set("Sec-WebSocket-Version", "13")
		return responses.Invalid("Sec-WebSocket-Version", responses.CodeInvalidValue,
			"only version 13 of the WebSocket protocol is spoken")
	}
	keys := h.Values("Sec-WebSocket-Key")
	if len(keys) == 1 {
		if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0])); err == nil && len(key) == 16 {
			return nil
		}
	}
	return responses.Invalid("Sec-WebSocket-Key", responses.CodeInvalidValue,
		"the key of the handshake must be 16 bytes in base64")
}

// hasToken reports whether a header lists a token.
func hasToken(h http.Header, name, token string) bool {
	for _, v := range h.Values(name) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}
