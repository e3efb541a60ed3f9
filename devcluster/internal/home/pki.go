package home

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// identity is a name under which something presents itself to the API server.
type identity struct {
	file  string // name of its files, without ending
	name  string
	group string // may be empty
}

// identities are all the clients of a cluster. The first is its user's.
var identities = []identity{
	{"admin", "devcluster-admin", "system:masters"},
	{"kube-controller-manager", "system:kube-controller-manager", ""},
	{"kube-scheduler", "system:kube-scheduler", ""},
	{"kwok", "devcluster-kwok", "system:masters"},
}

const validYears = 10

// ensurePKI makes the certificates of a cluster, once in its life: tokens of service
// accounts and kubeconfigs that were handed out must outlive a restart.
func (h *Home) ensurePKI(now time.Time) error {
	_, err := os.Stat(h.Path("pki"))
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read certificates: %w", err)
	}
	temp := h.Path("pki.new")
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	if err := writePKI(temp, now); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	if err := os.Rename(temp, h.Path("pki")); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	return nil
}

func writePKI(dir string, now time.Time) error {
	a, err := newAuthority(now)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", a.cert.Raw); err != nil {
		return err
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	if err := a.issue(filepath.Join(dir, "apiserver"), server); err != nil {
		return err
	}
	for _, id := range identities {
		client := &x509.Certificate{
			Subject:     pkix.Name{CommonName: id.name},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		if id.group != "" {
			client.Subject.Organization = []string{id.group}
		}
		if err := a.issue(filepath.Join(dir, id.file), client); err != nil {
			return err
		}
	}
	// The key that signs service-account tokens needs no certificate.
	_, err = writeKey(filepath.Join(dir, "sa.key"))
	return err
}

// authority is the certificate authority of one cluster. Its key is never stored, since
// nothing is issued after the first start.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "devcluster-ca"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(validYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key, serial: 1}, err
}

// issue signs a certificate for a new key and writes base.crt and base.key. It fills in
// what all certificates have in common.
func (a *authority) issue(base string, template *x509.Certificate) error {
	key, err := writeKey(base + ".key")
	if err != nil {
		return err
	}
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore, template.NotAfter = a.cert.NotBefore, a.cert.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writePEM(base+".crt", "CERTIFICATE", der)
}

func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
