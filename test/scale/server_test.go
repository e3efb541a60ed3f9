package scale

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// kind is a kind that the server serves.
type kind struct {
	name, plural string
	version      schema.GroupVersion
	namespaced   bool
	like         client.Object
}

var kinds = []kind{
	{"Pod", "pods", corev1.SchemeGroupVersion, true, &corev1.Pod{}},
	{"Node", "nodes", corev1.SchemeGroupVersion, false, &corev1.Node{}},
	{"Namespace", "namespaces", corev1.SchemeGroupVersion, false, &corev1.Namespace{}},
	{"ConfigMap", "configmaps", corev1.SchemeGroupVersion, true, &corev1.ConfigMap{}},
	{"LimitRange", "limitranges", corev1.SchemeGroupVersion, true, &corev1.LimitRange{}},
	{"PersistentVolume", "persistentvolumes", corev1.SchemeGroupVersion, false, &corev1.PersistentVolume{}},
	{"PersistentVolumeClaim", "persistentvolumeclaims", corev1.SchemeGroupVersion, true, &corev1.PersistentVolumeClaim{}},
	{"DaemonSet", "daemonsets", appsv1.SchemeGroupVersion, true, &appsv1.DaemonSet{}},
	{"ReplicaSet", "replicasets", appsv1.SchemeGroupVersion, true, &appsv1.ReplicaSet{}},
	{"StatefulSet", "statefulsets", appsv1.SchemeGroupVersion, true, &appsv1.StatefulSet{}},
	{"PodDisruptionBudget", "poddisruptionbudgets", policyv1.SchemeGroupVersion, true, &policyv1.PodDisruptionBudget{}},
	{"RuntimeClass", "runtimeclasses", nodev1.SchemeGroupVersion, false, &nodev1.RuntimeClass{}},
	{"StorageClass", "storageclasses", storagev1.SchemeGroupVersion, false, &storagev1.StorageClass{}},
	{"CSINode", "csinodes", storagev1.SchemeGroupVersion, false, &storagev1.CSINode{}},
	{"VolumeAttachment", "volumeattachments", storagev1.SchemeGroupVersion, false, &storagev1.VolumeAttachment{}},
	{"Lease", "leases", coordinationv1.SchemeGroupVersion, true, &coordinationv1.Lease{}},
	{"NodePool", "nodepools", karpenterv1.GroupVersion, false, &karpenterv1.NodePool{}},
	{"NodeClaim", "nodeclaims", karpenterv1.GroupVersion, false, &karpenterv1.NodeClaim{}},
	{"KWOKNodeClass", "kwoknodeclasses", kwokv1alpha1.GroupVersion, false, &kwokv1alpha1.KWOKNodeClass{}},
}

// server is an API server in memory: internal/sim/cluster over HTTP/2 and TLS. It serves lists, lists by watch, and
// watches, in Protobuf where the client can read that, as kube-apiserver does.
type server struct {
	scheme *runtime.Scheme
	http   *httptest.Server

	mu       sync.Mutex // protects everything below, and the cluster
	api      *cluster.API
	client   *cluster.Client
	version  uint64 // of the last change
	watchers map[*watcher]bool
	history  []change // the last changes, oldest first
	requests map[string]int
	created  chan string // the kinds of what clients create
}

// change is one watch event.
type change struct {
	kind    string
	version uint64
	event   watch.Event
}

const historyMost = 50_000

// stopped is a clock that never runs what comes later: there are no kubelets and no controllers.
type stopped struct{}

// Now returns the time.
func (stopped) Now() time.Time { return time.Now() }

// After forgets.
func (stopped) After(time.Duration, func()) {}

// State says that there are no instances.
func (stopped) State(string) (cluster.InstanceState, bool) { return cluster.InstanceState{}, false }

// newServer serves a fleet until the test ends.
func newServer(tb testing.TB, f *fleet) *server {
	tb.Helper()
	s := &server{scheme: operator.Scheme(), watchers: map[*watcher]bool{}, requests: map[string]int{}, created: make(chan string, 10_000)}
	s.api = cluster.New(&cluster.Config{Clock: stopped{}, Instances: stopped{}, Between: func(least, _ time.Duration) time.Duration { return least }}).API
	reader := cluster.Reader{Shelf: s.api.Shelf, Check: func() error { return nil }}
	s.client = cluster.NewClient(s.api, reader, s.scheme, &cluster.ClientHooks{
		Write: func(_ context.Context, _ string, _ client.Object, effect func() error) error { return effect() },
	})
	for _, o := range slices.Concat(f.around, f.nodes, f.claims) {
		s.put(o)
	}
	for _, pod := range f.pods {
		s.put(pod)
	}
	s.api.Watch(s.observe)
	first := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	for _, do := range []func() error{func() error { return s.api.Create(first) }, func() error { s.api.Delete(first, 0); return nil }, func() error { return s.api.Create(first) }} {
		if err := do(); err != nil { // what changes from now on is newer than what was put
			tb.Fatal(err)
		}
	}
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.http.StartTLS()
	tb.Cleanup(func() {
		s.drop(false)
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// put adds an object as it is.
func (s *server) put(o client.Object) {
	o.SetResourceVersion("1")
	s.api.Shelf(cluster.KindOf(o)).Put(o)
}

// kubeconfig writes the file with which clients reach the server.
func (s *server) kubeconfig(tb testing.TB) string {
	tb.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
  "clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}],
  "users": [{"name": "c", "user": {"token": "none"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}`,
		s.http.URL, encode64(authority))
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// do has something done that nothing else overlaps.
func (s *server) do(what func(api *cluster.API)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what(s.api)
}

// observe hands a change to the watchers. The lock is held.
func (s *server) observe(name string, was, is client.Object) {
	c := change{kind: name, event: watch.Event{Type: watch.Modified, Object: is}}
	switch {
	case is == nil:
		c.event = watch.Event{Type: watch.Deleted, Object: was}
	case was == nil:
		c.event.Type = watch.Added
	}
	s.version++
	c.version, _ = strconv.ParseUint(c.event.Object.(client.Object).GetResourceVersion(), 10, 64)
	s.version = max(s.version, c.version)
	if len(s.history) >= historyMost {
		s.history = slices.Clone(s.history[historyMost/2:])
	}
	s.history = append(s.history, c)
	for w := range s.watchers {
		w.deliver(c)
	}
}

// drop ends all watches. expired: those that come again must list, since what happened meanwhile is forgotten.
func (s *server) drop(expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.end()
	}
	clear(s.watchers)
	if expired {
		s.history, s.version = nil, s.version+1
	}
}

// watching returns how many watches there are.
func (s *server) watching() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers)
}

// counted returns how many requests came since it was last asked, by verb and kind.
func (s *server) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := s.requests
	s.requests = map[string]int{}
	return counted
}

// count counts a request. The lock is not held.
func (s *server) count(verb, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[verb+" "+name]++
}

// target is what a request is about.
type target struct {
	kind
	namespace, object, subresource string
}

// targetOf reads the path of a request: /api/v1 or /apis/GROUP/VERSION, then perhaps namespaces/NAME, the resource,
// the object and the subresource.
func targetOf(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var version schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		version, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		version, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return target{}, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.version == version && k.plural == parts[0] })
	if at < 0 {
		return target{}, false
	}
	t.kind, t.object, t.subresource = kinds[at], parts[1], parts[2]
	return t, true
}

// empty returns an object of the kind, named as the target says.
func (t target) empty() client.Object {
	o := reflect.New(reflect.TypeOf(t.like).Elem()).Interface().(client.Object)
	o.SetNamespace(t.namespace)
	o.SetName(t.object)
	return o
}

// ServeHTTP answers.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if found := discovery(r.URL.Path); found != nil {
		answerJSON(w, found)
		return
	}
	t, ok := targetOf(r.URL.Path)
	if !ok {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/events") {
			s.count("POST", "Event")
			_, _ = fmt.Fprint(w, `{"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {}}`)
			return
		}
		s.fail(w, r, notServed(r.URL.Path))
		return
	}
	a := answer{server: s, target: t, w: w, r: r}
	if err := a.serve(); err != nil { //nolint:contextcheck // its request has the context
		s.fail(w, r, err)
	}
}

// discovery answers questions about what is served; nil: this is none.
func discovery(path string) any {
	switch path {
	case "/api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, k := range kinds {
			v := metav1.GroupVersionForDiscovery{GroupVersion: k.version.String(), Version: k.version.Version}
			if k.version.Group != "" && !slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.version.Group }) {
				list.Groups = append(list.Groups, metav1.APIGroup{Name: k.version.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		return list
	}
	var list *metav1.APIResourceList
	for _, k := range kinds {
		if path != "/apis/"+k.version.String() && path != "/api/"+k.version.String() {
			continue
		}
		if list == nil {
			list = &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: k.version.String()}
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.plural, SingularName: strings.ToLower(k.name), Namespaced: k.namespaced, Kind: k.name, Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
	}
	if list == nil {
		return nil
	}
	return list
}
