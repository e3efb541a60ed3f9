package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// terminationGrace is how long Kubernetes waits by default between SIGTERM and SIGKILL. The process
// needs ten seconds at most; this bound is for a computer that has much else to do.
const terminationGrace = 30 * time.Second

// mute is an API server that knows all that is needed and stops answering where the test wants it.
type mute struct {
	kubeconfig string
	asked      chan struct{} // closed when it was first asked for what it does not answer
}

// silentAt starts an API server that does not answer requests whose path has the word.
func silentAt(t *testing.T, word string) *mute {
	t.Helper()
	m := &mute{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), asked: make(chan struct{})}
	var once sync.Once
	over := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, word) {
			once.Do(func() { close(m.asked) })
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, known(r))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(func() { close(over); server.Close() })
	text := strings.Replace(nowhere, `server: "https://127.0.0.1:1"`, fmt.Sprintf(`server: %q, insecure-skip-tls-verify: true`, server.URL), 1)
	if err := os.WriteFile(m.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// resources are what that API server has, by path of discovery.
var resources = map[string][]string{
	"/api/v1":                          {"Pod pods", "Node nodes", "Namespace namespaces", "PersistentVolumeClaim persistentvolumeclaims", "PersistentVolume persistentvolumes", "LimitRange limitranges", "ConfigMap configmaps"},
	"/apis/apps/v1":                    {"DaemonSet daemonsets", "ReplicaSet replicasets", "StatefulSet statefulsets"},
	"/apis/policy/v1":                  {"PodDisruptionBudget poddisruptionbudgets"},
	"/apis/storage.k8s.io/v1":          {"StorageClass storageclasses", "CSINode csinodes", "VolumeAttachment volumeattachments"},
	"/apis/node.k8s.io/v1":             {"RuntimeClass runtimeclasses"},
	"/apis/coordination.k8s.io/v1":     {"Lease leases"},
	"/apis/karpenter.sh/v1":            {"NodePool nodepools", "NodeClaim nodeclaims"},
	"/apis/karpenter.kwok.sh/v1alpha1": {"KWOKNodeClass kwoknodeclasses"},
}

// known answers a request for what is there, and for lists of it: empty ones. Watches end at once.
func known(r *http.Request) string {
	switch path := r.URL.Path; {
	case path == "/version":
		return `{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}`
	case path == "/api":
		return `{"kind": "APIVersions", "versions": ["v1"]}`
	case path == "/apis":
		var groups []string
		for _, at := range slices.Sorted(maps.Keys(resources)) {
			if words := strings.Split(at, "/"); words[1] == "apis" {
				version := fmt.Sprintf(`{"groupVersion": %q, "version": %q}`, words[2]+"/"+words[3], words[3])
				groups = append(groups, fmt.Sprintf(`{"name": %q, "versions": [%s], "preferredVersion": %s}`, words[2], version, version))
			}
		}
		return fmt.Sprintf(`{"kind": "APIGroupList", "apiVersion": "v1", "groups": [%s]}`, strings.Join(groups, ", "))
	case resources[path] != nil:
		var list []string
		for _, words := range resources[path] {
			kind, name, _ := strings.Cut(words, " ")
			list = append(list, fmt.Sprintf(`{"name": %q, "kind": %q, "namespaced": %t, "verbs": ["get", "list", "watch"]}`, name, kind, kind == "ConfigMap")) // the others are watched everywhere
		}
		version := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
		return fmt.Sprintf(`{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": %q, "resources": [%s]}`, version, strings.Join(list, ", "))
	case r.URL.Query().Get("watch") != "":
		return ""
	}
	words := strings.Split(regexp.MustCompile("/namespaces/[^/]+/").ReplaceAllString(r.URL.Path, "/"), "/")
	group, version := strings.Join(words[2:len(words)-1], "/"), "/"+strings.Join(words[1:len(words)-1], "/")
	for _, entry := range resources[version] {
		if kind, name, _ := strings.Cut(entry, " "); name == words[len(words)-1] {
			return fmt.Sprintf(`{"kind": "%sList", "apiVersion": %q, "metadata": {"resourceVersion": "1"}, "items": []}`, kind, group)
		}
	}
	return "{}"
}

// TestSIGTERMEndsTheProcessWhateverItWaitsFor asks it to end while the API server is silent: from the
// first connection on, while it is asked what it has, while caches are filled, and while it is asked
// for the lease.
func TestSIGTERMEndsTheProcessWhateverItWaitsFor(t *testing.T) {
	t.Parallel()
	for name, word := range map[string]string{
		"the API server":    "/",
		"what kinds it has": "/apis/karpenter.sh/v1",
		"the kinds of pods": "/api/v1",
		"a cache":           "/limitranges",
		"all NodeClaims":    "/nodeclaims",
		"the lease":         "/leases",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := silentAt(t, word)
			p := controller(t, server.kubeconfig, "--leader-election-namespace", "kube-system")
			within := time.NewTimer(patience)
			defer within.Stop()
			select {
			case <-server.asked:
			case <-p.gone:
				t.Fatalf("dovetail ended by itself:\n%s", p)
			case <-within.C:
				t.Fatalf("dovetail does not come to where it waits:\n%s", p)
			}
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			grace := time.NewTimer(terminationGrace)
			defer grace.Stop()
			select {
			case <-p.gone:
			case <-grace.C:
				t.Fatalf("SIGTERM has not ended it within %s:\n%s", terminationGrace, p)
			}
		})
	}
}
