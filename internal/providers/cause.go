package providers

import (
	"errors"
	"net"
)

// Cause is why a request got no answer of a provider. It holds no secret.
type Cause struct {
	Connect bool     `json:"connect"` // there was no connection
	Timeout bool     `json:"timeout"`
	Chain   []string `json:"chain"`
}

// maxChain bounds the causes in a Cause, maxLink each of them in bytes.
const (
	maxChain = 8
	maxLink  = 300
)

// CauseOf describes why a request got no answer. show takes what is secret out of a text.
func CauseOf(err error, show func(string) string) (c Cause) {
	var timeout interface{ Timeout() bool }
	c.Timeout = errors.As(err, &timeout) && timeout.Timeout()
	op, ok := errors.AsType[*net.OpError](err)
	_, unnamed := errors.AsType[*net.DNSError](err)
	c.Connect = ok && (op.Op == "dial" || op.Op == "proxyconnect") || unnamed
	for ; err != nil && len(c.Chain) < maxChain; err = errors.Unwrap(err) {
		text := show(err.Error())
		c.Chain = append(c.Chain, text[:min(len(text), maxLink)])
	}
	return c
}
