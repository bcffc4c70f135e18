package providers

import (
	"crypto/tls"
	"errors"
	"net"
)

// Permanent reports whether err is why a provider cannot be reached until someone changes a setting: no host has its
// name, or its certificate is not valid. Waiting would not help.
func Permanent(err error) bool {
	name, ok := errors.AsType[*net.DNSError](err)
	if ok && name.IsNotFound {
		return true
	}
	_, ok = errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}
