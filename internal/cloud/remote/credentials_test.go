package remote_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
)

// authority signs certificates and writes them to files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key = newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	content, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(content); err != nil {
		t.Fatal(err)
	}
	a.write("ca.crt", "CERTIFICATE", content)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, content []byte) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes name.crt and name.key, valid for so long from now.
func (a *authority) issue(name string, valid time.Duration) {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	content, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".crt", "CERTIFICATE", content)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "PRIVATE KEY", secret)
}

func (a *authority) files(name, server string) remote.Files {
	file := func(name string) string { return filepath.Join(a.dir, name) }
	return remote.Files{CA: file("ca.crt"), Cert: file(name + ".crt"), Key: file(name + ".key"), ServerName: server}
}

// TestOnlyTheRightCertificatesConnect dials a server that demands certificates, with several.
func TestOnlyTheRightCertificatesConnect(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	ours.issue("provider", time.Hour)
	ours.issue("controller", time.Hour)
	ours.issue("old", -time.Minute)
	others.issue("controller", time.Hour)
	pair, err := tls.LoadX509KeyPair(ours.files("provider", "").Cert, ours.files("provider", "").Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})))
	serve.New(&shop{}, serve.Options{Epoch: epoch()}).Register(g)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	describe := func(files remote.Files, plaintext bool) error {
		link, err := remote.Open(remote.Options{Address: "dns:///" + l.Addr().String(), Files: files, Plaintext: plaintext, Cluster: here, Now: time.Now})
		if err != nil {
			return err
		}
		defer func() { _ = link.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = link.Describe(ctx)
		return err
	}
	for name, c := range map[string]struct {
		files     remote.Files
		plaintext bool
		want      string
	}{
		"the right pair":    {ours.files("controller", "provider"), false, ""},
		"another name":      {ours.files("controller", "other"), false, "provider is not there"},
		"expired":           {ours.files("old", "provider"), false, "provider is not there"},
		"another authority": {others.files("controller", "provider"), false, "provider is not there"},
		"no TLS":            {remote.Files{}, true, "provider is not there"},
		"no file":           {ours.files("absent", "provider"), false, "read the controller's certificate"},
	} {
		if err := describe(c.files, c.plaintext); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	// What is expired now can connect once the files have been replaced: nothing is kept.
	ours.issue("old", time.Hour)
	if err := describe(ours.files("old", "provider"), false); err != nil {
		t.Errorf("after the certificate was replaced: %v", err)
	}
}
