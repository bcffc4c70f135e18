package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/test/expect"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	made := a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, time.Hour)
	a.cert, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// sign makes a certificate that holds for some time from now on, for both sides of a connection to 127.0.0.1.
func (a *authority) sign(c *x509.Certificate, valid time.Duration) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(a.t, err)
	c.SerialNumber, c.Subject, c.IPAddresses = big.NewInt(1), pkix.Name{CommonName: "test"}, []net.IP{{127, 0, 0, 1}}
	c.NotBefore, c.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(valid)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	expect.NoError(a.t, err)
	leaf, err := x509.ParseCertificate(der)
	expect.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// certificates writes what the Docker tools read from DOCKER_CERT_PATH.
func (a *authority) certificates(client tls.Certificate) string {
	dir := a.t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
	expect.NoError(a.t, err)
	for name, block := range map[string]*pem.Block{"ca.pem": {Type: "CERTIFICATE", Bytes: a.cert.Raw},
		"cert.pem": {Type: "CERTIFICATE", Bytes: client.Leaf.Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		expect.NoError(a.t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return dir
}

// listen serves the engine by TLS, for clients of the authority, and returns its DOCKER_HOST.
func (a *authority) listen(server tls.Certificate) string {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert})
	expect.NoError(a.t, err)
	socket := strings.TrimPrefix(strings.TrimSpace(docker(a.t, "context", "inspect", "--format",
		"{{.Endpoints.docker.Host}}")), "unix://")
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { tunnel(from, socket) })
		}
	})
	a.t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return "tcp://" + l.Addr().String()
}

// tunnel ends with both connections when one of them ends.
func tunnel(from net.Conn, socket string) {
	defer from.Close()
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(from, to); from.Close() })
	_, _ = io.Copy(to, from)
	_ = to.Close()
	back.Wait()
}

// A run works with an engine behind tcp:// with TLS, and certificates that are not right are named.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t), newAuthority(t)
	server, expired := ours.sign(&x509.Certificate{}, time.Hour), ours.sign(&x509.Certificate{}, -time.Hour)
	client, stranger := ours.sign(&x509.Certificate{}, time.Hour), other.sign(&x509.Certificate{}, time.Hour)
	good := ours.listen(server)
	for name, tc := range map[string]struct{ host, certificates, want string }{
		"good":            {good, ours.certificates(client), ""},
		"wrong authority": {good, other.certificates(client), "ca.pem in DOCKER_CERT_PATH"},
		"expired":         {ours.listen(expired), ours.certificates(client), "ca.pem in DOCKER_CERT_PATH"},
		"client refused":  {good, ours.certificates(stranger), "cert.pem in DOCKER_CERT_PATH"},
		"no certificates": {good, t.TempDir(), "check DOCKER_HOST, DOCKER_CERT_PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "DOCKER_HOST="+tc.host, "DOCKER_CERT_PATH="+tc.certificates, "DOCKER_TLS_VERIFY=1")
			r := h.run(demoProject(t), "run", "--model", "scripted/demo", "fix the failing test")
			if tc.want == "" {
				if r.code != 0 || !strings.Contains(r.stdout, "The test passes now.") {
					t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
				}
				return
			}
			if r.code != 4 || !strings.Contains(r.stderr, "holon: DOCKER_HOST: ") || !strings.Contains(r.stderr, tc.want) {
				t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}
