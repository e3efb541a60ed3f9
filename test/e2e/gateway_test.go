package e2e

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// border sees everything that replicas ask of the API server and of the account: each has
// gates of its own. Who wrote the lease last is the leader, and nobody else may act.
type border struct {
	mu     sync.Mutex // protects all that follows
	leader string
	terms  int
	acts   map[string]int // by replica
	broken []string
}

// gate is the way of one replica to the servers.
type gate struct {
	border     *border
	replica    string
	kubeconfig string
	env        []string
}

// openGate makes a way for a replica; rights and env are how the servers are reached without one.
func (b *border) openGate(t *testing.T, replica, rights string, env []string) *gate {
	t.Helper()
	g := &gate{border: b, replica: replica, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	server, err := clientcmd.BuildConfigFromFlags("", rights)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(server)
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: g.serve(t, server.Host, transport)}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, g.kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, setting := range env {
		if target, is := strings.CutPrefix(setting, "AWS_ENDPOINT_URL="); is {
			setting = "AWS_ENDPOINT_URL=" + g.serve(t, target, http.DefaultTransport)
		}
		g.env = append(g.env, setting)
	}
	return g
}

// serve passes requests on to a server until the test ends, and returns where.
func (g *gate) serve(t *testing.T, target string, transport http.RoundTripper) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), // of replicas that are killed
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, r.In.Host // which AWS has signed
		},
		ModifyResponse: func(r *http.Response) error { g.answered(r); return nil },
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.asked(r)
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// isLease and isAct report what a request to the API server is.
func isLease(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/leases/karpenter-leader-election")
}

func isAct(r *http.Request) bool {
	free := []string{"/leases", "/events", "/selfsubjectaccessreviews", "/selfsubjectreviews"}
	return r.Method != http.MethodGet && !slices.ContainsFunc(free, func(path string) bool { return strings.Contains(r.URL.Path, path) })
}

// awsAct returns the operation of a request to the account that changes something; empty: it
// does not, or asks whether it may.
func awsAct(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", fmt.Errorf("read a request: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("DryRun") == "true" {
		return "", nil //nolint:nilerr // JSON, as of SQS and SSM, is no form
	}
	for _, verb := range []string{"Create", "Terminate", "Delete", "Add", "Remove", "Run"} {
		if strings.HasPrefix(form.Get("Action"), verb) {
			return form.Get("Action"), nil
		}
	}
	return "", nil
}

// asked judges a request: it may act only who leads.
func (g *gate) asked(r *http.Request) {
	what := r.Method + " " + r.URL.Path
	if strings.HasPrefix(r.Header.Get("Authorization"), "AWS4") {
		action, err := awsAct(r)
		if err != nil || action == "" {
			return
		}
		what = action
	} else if !isAct(r) {
		return
	}
	b := g.border
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acts[g.replica]++
	if b.leader != g.replica {
		b.broken = append(b.broken, fmt.Sprintf("%s %s acts, and %s leads: %s", time.Now().UTC().Format("15:04:05.000"), g.replica, b.leader, what))
	}
}

// answered notes who leads.
func (g *gate) answered(r *http.Response) {
	if !isLease(r.Request) && !(strings.HasSuffix(r.Request.URL.Path, "/leases") && r.Request.Method == http.MethodPost) {
		return
	}
	if r.Request.Method == http.MethodGet || r.StatusCode >= http.StatusMultipleChoices {
		return
	}
	b := g.border
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader != g.replica {
		b.leader = g.replica
		b.terms++
	}
}

func (b *border) leads() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leader
}
