package signature

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// SecretPrefix begins the secrets of standard-webhooks; base64 of the key follows.
const SecretPrefix = "whsec_"

// Headers of standard-webhooks.
const (
	headerID        = "webhook-id"
	headerTime      = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// Key is the key of a secret of standard-webhooks, of 24 to 64 bytes.
func Key(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, SecretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("a signing secret is whsec_ and base64 of 24 to 64 bytes")
	}
	return key, nil
}

// Name sets the headers of standard-webhooks that name a delivery and its time, in seconds since 1970.
func Name(h http.Header, id string, at int64) {
	h.Set(headerID, id)
	h.Set(headerTime, strconv.FormatInt(at, 10))
}

// Sign sets the headers of standard-webhooks. at is in seconds since 1970.
func Sign(h http.Header, secret, id string, at int64, body []byte) error {
	key, err := Key(secret)
	if err != nil {
		return err
	}
	Name(h, id, at)
	h.Set(headerSignature, "v1,"+base64.StdEncoding.EncodeToString(mac(key, fmt.Appendf(nil, "%s.%d.", id, at), body)))
	return nil
}

func standard(secret string, h http.Header, body []byte, now time.Time) (Delivery, error) {
	key, err := Key(secret)
	if err != nil {
		return Delivery{}, err
	}
	id := h.Get(headerID)
	if id == "" || len(id) > maxHeader {
		return Delivery{}, bad(headerID, "it is missing, or longer than an id")
	}
	if err := timely(h, headerTime, now); err != nil {
		return Delivery{}, err
	}
	want := mac(key, []byte(id+"."+h.Get(headerTime)+"."), body)
	valid := false
	for _, one := range strings.Fields(h.Get(headerSignature)) { // several while a secret is replaced
		text, v1 := strings.CutPrefix(one, "v1,")
		given, err := base64.StdEncoding.DecodeString(text)
		valid = v1 && err == nil && hmac.Equal(given, want) || valid
	}
	if !valid {
		return Delivery{}, bad(headerSignature, "none is that of the id, the time and the body under the secret")
	}
	return Delivery{Keys: keys(id), Headers: keep(h, headerID, headerTime)}, nil
}
