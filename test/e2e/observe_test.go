package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestObserve has a controller observe a cluster with an empty node and a pod that fits on no node. It logs and keeps
// what it would do about both, once, and sends the API server no write but those of its own lease. Its rights are
// those of deploy/kubernetes/observe, with which every other write would be refused.
func TestObserve(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 4)
	kubeconfig := asInstalled(t, cluster, c, "providers")
	active := controller(t, kubeconfig, "--batch-idle-duration", "300ms")
	deploy(t, c, 1)
	awaitRunning(t, c, 1)
	testkit.Eventually(t, patience, func() error { return allInitialized(t.Context(), c) })
	active.stop() // its node stays, and soon is empty
	deploy(t, c, 0)
	awaitRunning(t, c, 0)
	large := exampleOfCPU(t, c, "large", "3")
	before := changeable(t, c)

	through := passRequests(t, observerOf(t, cluster, c))
	observer := controller(t, through.kubeconfig, "--mode", "observe", "--batch-idle-duration", "300ms")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", observer, through)
		}
	})
	logs := func(message string) int { return strings.Count(observer.String(), `"message":"`+message+`"`) }
	testkit.Eventually(t, patience, func() error {
		if logs("would launch nodes") == 0 || logs("would disrupt nodes") == 0 {
			return fmt.Errorf("no decision is logged:\n%s", observer)
		}
		return nil
	})
	metrics := get(t.Context(), t, observer.address("metrics")+"/metrics")
	for _, want := range []string{
		`nodeclaims_created_total{nodepool="general",reason="provisioned"} 1`, `nodeclaims_disrupted_total{nodepool="general",reason="empty"} 1`,
		`voluntary_disruption_decisions_total{consolidation_type="empty",decision="delete",reason="empty"} 1`, `saving_hourly_dollars `,
	} {
		if !strings.Contains(metrics, "\ndovetail_observed_"+want) {
			t.Errorf("no metric is dovetail_observed_%s", want)
		}
	}
	debug := observer.address("debug")
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"status":          {[]string{"status"}, "this controller only observes (--mode=observe)"},
		"next":            {[]string{"next"}, "this controller only observes (--mode=observe)"},
		"the empty node":  {[]string{"next"}, "would be removed (Empty)"},
		"why no node":     {[]string{"explain", "pod/" + large}, "observe mode: decisions are not carried out"},
		"without address": {[]string{"status", "--kubeconfig", cluster.Kubeconfig}, "this controller only observes (--mode=observe)"},
		"doctor":          {[]string{"doctor", "--kubeconfig", cluster.Kubeconfig, "--cloud-provider", "kwok"}, "only observes (--mode=observe): it launches and removes no node"},
	} {
		if !slices.Contains(c.args, "--kubeconfig") {
			c.args = append(c.args, "--address", debug)
		}
		if got := expect(t, 0, c.args...); !strings.Contains(got, c.want) {
			t.Errorf("%s: dovetail %s does not say %q:\n%s", what, strings.Join(c.args, " "), c.want, got)
		}
	}
	if status := observer.stop(); status != 0 {
		t.Errorf("it ends with %d", status)
	}
	if n, m := logs("would launch nodes"), logs("would disrupt nodes"); n != 1 || m != 1 {
		t.Errorf("it says %d times what it would launch and %d times what it would disrupt, want once each", n, m)
	}
	for _, e := range observer.errors() {
		t.Errorf("it logs an error: %+v", e)
	}
	if writes := through.writes(); len(writes) != 0 {
		t.Errorf("it sent writes: %q", writes)
	}
	if len(through.requests) < 20 {
		t.Errorf("only %d requests were seen", len(through.requests))
	}
	if after := changeable(t, c); !slices.Equal(before, after) {
		t.Errorf("objects have changed:\n%q\n%q", before, after)
	}
}

// allInitialized returns an error unless all NodeClaims are initialized.
func allInitialized(ctx context.Context, c client.Client) error {
	p, err := observe(ctx, c)
	if err != nil {
		return err
	}
	for i := range p.claims {
		if !meta.IsStatusConditionTrue(p.claims[i].Status.Conditions, karpenterv1.ConditionTypeInitialized) {
			return fmt.Errorf("NodeClaim %s is not initialized", p.claims[i].Name)
		}
	}
	return nil
}

// observerOf returns a kubeconfig with the rights of deploy/kubernetes/observe, and to read KWOKNodeClasses.
func observerOf(t *testing.T, cluster *testkit.Cluster, c client.Client) (kubeconfig string) {
	t.Helper()
	const account = "dovetail-observe"
	kubeconfig = asAccount(t, cluster, c, "system:serviceaccount:kube-system:"+account, "observe")
	is := metav1.ObjectMeta{Name: account + "-kwok"}
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: is, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"karpenter.kwok.sh"}, Resources: []string{"kwoknodeclasses"}, Verbs: []string{"get", "list", "watch"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: is, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: is.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: account}},
		},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return kubeconfig
}

// exampleOfCPU makes a Deployment of one pod that asks for so many cpus, and returns the pod's name.
func exampleOfCPU(t *testing.T, c client.Client, name, cpus string) (pod string) {
	t.Helper()
	labels := map[string]string{"app": name}
	err := c.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "c", Image: "example.com/none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}},
				}}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		var pods corev1.PodList
		if err := c.List(t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels(labels)); err != nil {
			return err
		}
		if len(pods.Items) != 1 || len(pods.Items[0].Status.Conditions) == 0 {
			return fmt.Errorf("%d pods, or kube-scheduler has not seen it", len(pods.Items))
		}
		pod = "default/" + pods.Items[0].Name
		return nil
	})
	return pod
}

// changeable returns what an autoscaler could have changed: pods, nodes and NodeClaims, by spec and metadata.
func changeable(t *testing.T, c client.Client) (all []string) {
	t.Helper()
	p, err := observe(t.Context(), c)
	noError(t, err)
	for i := range p.pods {
		all = append(all, fmt.Sprint("pod ", p.pods[i].UID, p.pods[i].Spec.NodeName, p.pods[i].DeletionTimestamp, p.pods[i].Status.NominatedNodeName))
	}
	for i := range p.nodes {
		all = append(all, fmt.Sprint("node ", p.nodes[i].UID, p.nodes[i].Spec.Taints, p.nodes[i].Labels, p.nodes[i].Annotations, p.nodes[i].DeletionTimestamp))
	}
	for i := range p.claims {
		all = append(all, fmt.Sprint("claim ", p.claims[i].UID, p.claims[i].ResourceVersion))
	}
	slices.Sort(all)
	return all
}

// passed are the requests of one controller, which go through it.
type passed struct {
	kubeconfig string

	mu       sync.Mutex
	requests []string // guarded by mu
}

// passRequests passes requests on to an API server until the test ends.
func passRequests(t *testing.T, kubeconfig string) *passed {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	noError(t, err)
	transport, err := rest.TransportFor(config)
	noError(t, err)
	target, err := url.Parse(config.Host)
	noError(t, err)
	p := &passed{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests = append(p.requests, r.Method+" "+r.URL.Path)
		p.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	through := clientcmdapi.NewConfig()
	through.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	through.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	through.CurrentContext = "c"
	noError(t, clientcmd.WriteToFile(*through, p.kubeconfig))
	return p
}

// writes returns the requests that could have changed something, but for those of the observer's own lease.
func (p *passed) writes() (writes []string) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if method, path, _ := strings.Cut(r, " "); method != http.MethodGet && r != "POST "+leases && r != "PUT "+leases+"/karpenter-leader-election-observe" {
			writes = append(writes, method+" "+path)
		}
	}
	return writes
}

// String returns the requests.
func (p *passed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.requests, "\n")
}
