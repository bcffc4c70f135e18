package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// authority signs the certificates of a cluster. Each is for serving and for clients, and lives as long as a cluster.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority writes ca.crt and ca.key.
func newAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir}
	return a, a.issue("ca", "holon-test", "")
}

// issue writes NAME.crt and NAME.key in PEM for a user and its group; the names of a server are those of the cluster.
func (a *authority) issue(name, user, group string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	cert := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(10 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost", "kubernetes.default.svc", nodeName},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(nodeIP), net.ParseIP(serviceIP)},
	}
	if group != "" {
		cert.Subject.Organization = []string{group}
	}
	if a.cert == nil {
		cert.IsCA, cert.BasicConstraintsValid, cert.KeyUsage = true, true, x509.KeyUsageCertSign
		a.cert, a.key = cert, key
	}
	signed, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(a.path(name+".key"), "EC PRIVATE KEY", private); err != nil {
		return err
	}
	return writePEM(a.path(name+".crt"), "CERTIFICATE", signed)
}

func writePEM(path, kind string, data []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600)
}

// kubeconfig issues a certificate and writes NAME.kubeconfig for a client of the API at the URL given.
func (a *authority) kubeconfig(name, user, group, server string) error {
	if err := a.issue(name, user, group); err != nil {
		return err
	}
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: server, CertificateAuthority: a.path("ca.crt")}
	config.AuthInfos["test"] = &api.AuthInfo{
		ClientCertificate: a.path(name + ".crt"),
		ClientKey:         a.path(name + ".key"),
	}
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, a.path(name+".kubeconfig"))
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }
