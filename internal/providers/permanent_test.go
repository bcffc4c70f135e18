package providers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"holon/test/expect"
	"net"
	"net/url"
	"syscall"
	"testing"
)

func TestPermanent(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err  error
		want bool
	}{
		"no such host":      {&net.DNSError{Err: "no such host", IsNotFound: true}, true},
		"no answer of DNS":  {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, false},
		"a certificate":     {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, true},
		"nothing listens":   {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false},
		"it takes too long": {context.DeadlineExceeded, false},
		"nothing":           {nil, false},
		"wrapped": {fmt.Errorf("ask: %w", &url.Error{Op: "Post", Err: errors.Join(errors.New("x"),
			&net.DNSError{IsNotFound: true})}), true},
	} {
		expect.Equal(t, name, Permanent(row.err), row.want)
	}
}
