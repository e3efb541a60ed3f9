package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/cli/savings"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestSavingsOfNodeGroups asks about a cluster that knows neither Dovetail nor Karpenter: plain Nodes with the labels
// of EKS, of two groups, and one whose price nobody knows.
func TestSavingsOfNodeGroups(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	for i := range 6 {
		create(t, c, nodeOfGroup(fmt.Sprintf("web-%d", i), "web", "m5.2xlarge", "ON_DEMAND", 8, 32))
	}
	for i := range 2 {
		create(t, c, nodeOfGroup(fmt.Sprintf("spot-%d", i), "cheap", "m5.4xlarge", "SPOT", 16, 64))
	}
	create(t, c, nodeOfGroup("gke-0", "gke", "e2-standard-4", "ON_DEMAND", 4, 16))
	three := threeWorkloads(t, c)
	three.scale(30, 18, 6)
	three.scale(10, 6, 2)

	types, err := simulate.CatalogNamed("ec2")
	if err != nil {
		t.Fatal(err)
	}
	r, page := three.savings(cluster, types.Types)
	if len(r.Proposed) != 2 || r.Nodes != 8 || r.Pods > 18 {
		t.Errorf("%d nodes, %d pods, %d proposed NodePools", r.Nodes, r.Pods, len(r.Proposed))
	}
	if math.Abs(priceOf(r.Types, "m5.2xlarge on-demand")-6*0.384) > 1e-9 {
		t.Errorf("6 m5.2xlarge cost %.4f, they cost 0.384 each", priceOf(r.Types, "m5.2xlarge on-demand"))
	}
	for _, want := range []string{"no price is known for instance type e2-standard-4", "May 2025", "kind: NodePool", "cheap"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestSavingsOfKarpenter asks about nodes that published Karpenter launched. make karpenter builds that.
func TestSavingsOfKarpenter(t *testing.T) {
	t.Parallel()
	karpenter := testkit.Binary(t, "karpenter")
	cluster := testkit.StartCluster(t)
	m := &migration{t: t, Client: connect(t, cluster), kubeconfig: cluster.Kubeconfig, karpenter: karpenter}
	installDefinitions(t, m)
	installPool(t, m, 8)
	var pool karpenterv1.NodePool
	if err := m.Get(t.Context(), client.ObjectKey{Name: "general"}, &pool); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"disruption":{"consolidationPolicy":"WhenEmptyOrUnderutilized","consolidateAfter":"24h"}}}`))
	if err := m.Patch(t.Context(), &pool, patch); err != nil {
		t.Fatal(err)
	}
	process := m.startKarpenter()
	three := threeWorkloads(t, m)
	three.scale(30, 18, 6)
	testkit.Eventually(t, patience, func() error {
		for _, nc := range m.observe().claims {
			if !meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeInitialized) {
				return fmt.Errorf("NodeClaim %s is not initialized", nc.Name)
			}
		}
		return nil
	})
	process.stop()
	three.scale(10, 6, 2) // what is left is spread over nodes that nobody consolidates

	r, page := three.savings(cluster, kwok.DefaultTypes())
	if len(r.Proposed) != 0 || r.Pods != 18 || len(r.Pools) != 1 || r.Pools[0].Name != "general" {
		t.Errorf("%d pods, NodePools %+v, %d proposed", r.Pods, r.Pools, len(r.Proposed))
	}
	if !strings.Contains(page, "Nobody pays them") {
		t.Error("the page does not say that these prices are made up")
	}
}

// nodeOfGroup returns a Node of a node group, as KWOK plays it.
func nodeOfGroup(name, group, typ, capacity string, cpu, gibibytes int64) *corev1.Node {
	has := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(gibibytes<<30, resource.BinarySI), corev1.ResourcePods: resource.MustParse("58"),
	}
	zone := "us-east-1" + string(rune('a'+int(name[len(name)-1]-'0')%3))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}, Labels: map[string]string{
			"kwok.x-k8s.io/node": "fake", corev1.LabelHostname: name, "eks.amazonaws.com/nodegroup": group, "eks.amazonaws.com/capacityType": capacity,
			corev1.LabelInstanceTypeStable: typ, corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: "us-east-1", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		}},
		Status: corev1.NodeStatus{Allocatable: has, Capacity: has},
	}
}

// workloads are three Deployments: one spread over zones and with a PodDisruptionBudget, one large, and one whose
// PodDisruptionBudget allows nothing.
type workloads struct {
	client.Client
	t *testing.T
}

func threeWorkloads(t *testing.T, c client.Client) *workloads {
	t.Helper()
	for name, most := range map[string]int32{"web": 3, "ledger": 0} {
		create(t, c, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(most)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
		})
	}
	for name, asks := range map[string][2]string{"web": {"500m", "1Gi"}, "api": {"1500m", "2Gi"}, "ledger": {"700m", "4Gi"}} {
		labels := map[string]string{"app": name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(asks[0]), corev1.ResourceMemory: resource.MustParse(asks[1])}},
			}}}},
		}}
		if name == "web" {
			d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
			}}
		}
		create(t, c, d)
	}
	return &workloads{c, t}
}

// scale returns when web, api and ledger have so many pods, and all run.
func (w *workloads) scale(web, api, ledger int) {
	w.t.Helper()
	for name, pods := range map[string]int{"web": web, "api": api, "ledger": ledger} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := w.Patch(w.t.Context(), d, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, pods))); err != nil {
			w.t.Fatal(err)
		}
	}
	testkit.Eventually(w.t, 2*patience, func() error {
		var pods corev1.PodList
		if err := w.List(w.t.Context(), &pods, client.InNamespace("default")); err != nil {
			return err
		}
		running := (&picture{pods: pods.Items}).running()
		if want := web + api + ledger; running != want || len(pods.Items) != want {
			return fmt.Errorf("%d of %d pods run, want %d", running, len(pods.Items), want)
		}
		return nil
	})
}

// savings runs the command with a token that may list and nothing else, and checks its report against the cluster and
// the catalog. It returns the report and the page.
func (w *workloads) savings(cluster *testkit.Cluster, types []*catalog.Type) (*savings.Report, string) {
	w.t.Helper()
	page := filepath.Join(w.t.TempDir(), "page.html")
	p := start(w.t, "savings", "--kubeconfig", w.listsOnly(cluster), "--html", page, "-o", "json")
	if status := p.awaitEnd(); status != 0 {
		w.t.Fatalf("status %d: %s", status, p)
	}
	r := &savings.Report{}
	if err := json.Unmarshal([]byte(strings.Join(p.stdout, "\n")), r); err != nil {
		w.t.Fatalf("%v: %s", err, p)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		w.t.Fatal(err)
	}
	w.judge(r, types)
	w.t.Logf("\n%s", r.Table())
	return r, string(text)
}

// judge works the figures out from the API server's objects and the catalog, and looks at each eviction.
func (w *workloads) judge(r *savings.Report, types []*catalog.Type) {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.List(w.t.Context(), &pods, client.InNamespace("default")); err != nil {
		w.t.Fatal(err)
	}
	app := map[string]string{}
	for i := range pods.Items {
		app["default/"+pods.Items[i].Name] = pods.Items[i].Labels["app"]
	}
	cheapest := map[string]float64{} // by type and capacity type: zones differ in spot prices
	dearest := map[string]float64{}
	for _, t := range types {
		for _, o := range t.Offerings {
			key := t.Name + " " + o.CapacityType
			if had, ok := cheapest[key]; !ok || o.PriceHourly < had {
				cheapest[key] = o.PriceHourly
			}
			dearest[key] = max(dearest[key], o.PriceHourly)
		}
	}
	price, evictions := r.Now, 0
	for i := range r.Steps {
		s := &r.Steps[i]
		for _, n := range append(s.Remove, s.Launch...) {
			if key := n.Type + " " + n.Kind; n.Price < cheapest[key]-1e-9 || n.Price > dearest[key]+1e-9 {
				w.t.Errorf("step %d: %s costs %.4f, the catalog has %.4f to %.4f", i+1, key, n.Price, cheapest[key], dearest[key])
			}
		}
		for _, n := range s.Remove {
			price -= n.Price
		}
		for _, n := range s.Launch {
			price += n.Price
		}
		for _, pod := range s.Evict {
			if evictions++; app[pod] == "" || app[pod] == "ledger" {
				w.t.Errorf("step %d evicts %s of %q", i+1, pod, app[pod])
			}
		}
	}
	if len(r.Steps) == 0 || r.Dropped != "" || math.Abs(price-r.After) > 1e-6 || evictions != r.Evictions || r.After >= r.Now || r.Bound > r.After {
		w.t.Errorf("now %.4f, after %.4f (steps say %.4f), least %.4f; %d evictions (steps say %d), %d steps, dropped: %q", r.Now, r.After, price, r.Bound, r.Evictions, evictions, len(r.Steps), r.Dropped)
	}
}

// listsOnly returns a kubeconfig with the token of an account that has the rights of savings-reader.yaml alone.
func (w *workloads) listsOnly(cluster *testkit.Cluster) string {
	w.t.Helper()
	role, err := demo.Manifests(os.DirFS(filepath.Join("..", "..", "deploy", "kubernetes", "optional")))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range role {
		if o.GetName() != "dovetail-savings-reader" {
			continue
		}
		if err := demo.Apply(w.t.Context(), w, o); err != nil {
			w.t.Fatal(err)
		}
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reader"}}
	create(w.t, w, sa)
	create(w.t, w, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "dovetail-savings-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: sa.Namespace, Name: sa.Name}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := w.SubResource("token").Create(w.t.Context(), sa, request); err != nil {
		w.t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func priceOf(lines []savings.Line, name string) float64 {
	for _, l := range lines {
		if l.Name == name {
			return l.Now
		}
	}
	return 0
}
