package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	// publicRegistry is where the commands of tutorials find Karpenter's chart. In these tests the name
	// leads to a registry on loopback, and every other name to nothing.
	publicRegistry = "public.ecr.aws"
	roleARN        = "arn:aws:iam::111122223333:role/KarpenterControllerRole-demo"
	// charts is where ours are.
	charts = "../../deploy/charts"
	// commandPatience bounds one command. helm --wait waits for five minutes.
	commandPatience = 6 * time.Minute
)

// shell runs commands as a user would type them: with kubectl, helm and dovetail on the path, and one
// cluster.
type shell struct {
	t   testing.TB
	dir string // where commands run
	env []string
}

// newShell returns a shell for a cluster. The programs are those of bin, by the name that users call
// them by: helm is "helm", version 4, or "helm3".
func newShell(t testing.TB, kubeconfig, helm string) *shell {
	t.Helper()
	s := &shell{t: t, dir: t.TempDir()}
	path := t.TempDir()
	for name, program := range map[string]string{
		"kubectl": "kubectl", "helm": helm, "devcluster": "devcluster",
		"dovetail": "dovetail", "karpenter": "dovetail", "kubectl-dovetail": "dovetail", "kubectl-karpenter": "dovetail",
	} {
		if err := os.Symlink(testkit.Binary(t, program), filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.env = []string{"HOME=" + s.dir, "KUBECONFIG=" + kubeconfig, "PATH=" + path + ":/usr/local/bin:/usr/bin:/bin"}
	return s
}

// try runs a command and returns what it prints, errors included.
func (s *shell) try(command string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), commandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command) //nolint:gosec // the commands are those of testdata and documents
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try for a command that must succeed.
func (s *shell) run(command string) string {
	s.t.Helper()
	out, err := s.try(command)
	if err != nil {
		s.t.Fatalf("%s\n%s\n%v", command, out, err)
	}
	return out
}

// apply gives a manifest to kubectl apply.
func (s *shell) apply(manifest string) string {
	s.t.Helper()
	return s.run("kubectl apply -f - <<'END'\n" + manifest + "\nEND")
}

// seed returns a file of testdata/install, with the variables of the tutorials set.
func seed(t testing.TB, name, cluster string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "install", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("${CLUSTER}", cluster, "${ROLE_ARN}", roleARN).Replace(string(text))
}

// serveRegistry has the public registry's name lead to an empty registry on loopback, for commands of
// this shell, and returns that registry's address.
func (s *shell) serveRegistry() string {
	s.t.Helper()
	address := startRegistry(s.t)
	certificate := certify(s.t, publicRegistry)
	front := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address}))
	front.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}} //nolint:gosec // httptest decides what it speaks
	front.StartTLS()
	proxy := httptest.NewServer(tunnel{publicRegistry + ":443", front.Listener.Addr().String()})
	s.t.Cleanup(front.Close)
	s.t.Cleanup(proxy.Close)
	roots := filepath.Join(s.t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.env = append(s.env, "HTTPS_PROXY="+proxy.URL, "SSL_CERT_FILE="+roots)
	return address
}

// startRegistry starts a registry that ends with the test, and returns its address.
func startRegistry(t testing.TB) string {
	t.Helper()
	cmd := exec.Command(testkit.Binary(t, "registry"))
	stdin, err := cmd.StdinPipe() // the registry ends when this does
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	var line bytes.Buffer
	for !bytes.HasSuffix(line.Bytes(), []byte("\n")) {
		if _, err := io.CopyN(&line, stdout, 1); err != nil {
			t.Fatalf("the registry ended: %v", err)
		}
	}
	return strings.TrimSpace(line.String())
}

// tunnel is a proxy that leads one host to an address, and refuses all others.
type tunnel struct{ host, to string }

func (p tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || r.Host != p.host {
		http.Error(w, r.Host+" cannot be reached from here", http.StatusForbidden)
		return
	}
	there, err := net.Dial("tcp", p.to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	// The answer comes after: the server may have read what follows it already, into the buffer.
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(there, buffered); _ = there.Close() }()
	_, _ = io.Copy(here, there)
	_ = here.Close()
}

// certify returns a certificate for a host that vouches for itself.
func certify(t testing.TB, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	text, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}
}

// publish packages our charts and pushes them under the names of Karpenter's, with a tag besides that
// tutorials pin.
func (s *shell) publish() {
	s.t.Helper()
	address := s.serveRegistry()
	dir, err := filepath.Abs(charts)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, chart := range []string{"karpenter", "karpenter-crd"} {
		s.run("helm package -d packages " + filepath.Join(dir, chart))
		s.run("helm push packages/" + chart + "-[0-9]*.tgz oci://" + publicRegistry + "/karpenter")
		version := strings.TrimSpace(s.run("ls packages/" + chart + "-[0-9]*.tgz"))
		version = strings.TrimSuffix(strings.TrimPrefix(version, "packages/"+chart+"-"), ".tgz")
		retag(s.t, "http://"+address+"/v2/karpenter/"+chart+"/manifests/", version, pinned)
	}
}

// retag gives a manifest of a registry another tag.
func retag(t testing.TB, manifests, from, to string) {
	t.Helper()
	const kind = "application/vnd.oci.image.manifest.v1+json"
	ask := func(method, tag string, body io.Reader) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, manifests+tag, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", kind)
		r.Header.Set("Content-Type", kind)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close() //nolint:errcheck // it was read only
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode >= http.StatusMultipleChoices {
			t.Fatalf("%s %s: %s %s %v", method, r.URL, answer.Status, text, err)
		}
		return text
	}
	ask(http.MethodPut, to, bytes.NewReader(ask(http.MethodGet, from, nil)))
}

// addHosts creates two Nodes in two zones, which only the controller's pods tolerate.
func (s *shell) addHosts() {
	s.t.Helper()
	var manifests []string
	for i, zone := range []string{"us-east-1a", "us-east-1b"} {
		manifests = append(manifests, fmt.Sprintf(`apiVersion: v1
kind: Node
metadata:
  name: host-%d
  labels: {kwok.x-k8s.io/node: fake, kubernetes.io/os: linux, kubernetes.io/hostname: host-%d, topology.kubernetes.io/zone: %s}
spec:
  taints: [{key: CriticalAddonsOnly, effect: NoSchedule}]
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}`, i, i, zone))
	}
	s.apply(strings.Join(manifests, "\n---\n"))
}
