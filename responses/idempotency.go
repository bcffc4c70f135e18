package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
)

// HeaderIdempotencyKey is the header of a request for a turn: the same key and body get the same response.
const HeaderIdempotencyKey = "Idempotency-Key"

// MaxIdempotencyKey bounds the value of HeaderIdempotencyKey, in characters.
const MaxIdempotencyKey = 255

// IdempotencyKey returns the key that a request has in its header, "" for none. The error is an *Error that names the
// header.
func IdempotencyKey(h http.Header, r *Request) (string, error) {
	keys := h.Values(HeaderIdempotencyKey)
	if len(keys) == 0 {
		return "", nil
	}
	key := keys[0]
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	message, hint := "", ""
	switch {
	case len(keys) > 1 || key == "" || len(key) > MaxIdempotencyKey || strings.ContainsFunc(key, unprintable):
		message = fmt.Sprintf("%s must be one value of 1 to %d printable ASCII characters", HeaderIdempotencyKey,
			MaxIdempotencyKey)
		hint = "use a UUID"
	case r.Holon.TurnID != "":
		message = "a request has either an " + HeaderIdempotencyKey + " or a holon.turn_id"
		hint = "leave the header out: the turn_id does the same"
	default:
		return key, nil
	}
	e := Invalid(HeaderIdempotencyKey, CodeInvalidValue, message)
	e.Hint = hint
	return "", e
}

// TurnOfKey is the id of the turn that a request with a key makes. A key is thus as durable as its turn, needs no
// memory of its own, and goes when the turn's files go.
func TurnOfKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return PrefixTurn + "key_" + hex.EncodeToString(sum[:20])
}

// IdempotencyConflict is the error of a request with the key of another one.
func IdempotencyConflict() *Error {
	return &Error{Type: TypeInvalidRequest, Code: CodeIdempotencyConflict, Param: HeaderIdempotencyKey,
		Message: "the " + HeaderIdempotencyKey + " was used with another request",
		Hint:    "use a new key for a new request"}
}
