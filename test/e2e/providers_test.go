package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/rack"
)

// TestTwoProviders runs one controller with the providers kwok and remote, the latter a server in Go. Pods that fit only
// nodes of one of them get nodes there. While the server is down, kwok launches and ends nodes, and
// no NodeClaim of the server's goes; in the end all are gone. The controller has the rights of deploy/kubernetes.
func TestTwoProviders(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installRack(t, c)
	installPool(t, c, 4)
	addRackPool(t, c)
	kubeconfig := asInstalled(t, cluster, c, "providers")
	allowClasses(t, c)
	address := "unix://" + filepath.Join(t.TempDir(), "p.sock")
	stop := serveRack(t, c, address, "1")
	process := controller(t, kubeconfig, "--cloud-provider", "kwok,remote", "--provider-address", address, "--batch-idle-duration", "300ms")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", process)
		}
	})

	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), c) })
	workload(t, c, "simulated", 5, map[string]string{kwokv1alpha1.InstanceFamilyLabelKey: "c"})
	workload(t, c, "racked", 5, map[string]string{rack.Row: "north"})
	awaitRunning(t, c, 10)
	onNodesOf(t, c, map[string]string{"simulated": "kwok://", "racked": "rack://"})

	stop()
	before := claimsOf(t, c, "rack")
	scaleWorkload(t, c, "simulated", 9)
	awaitRunning(t, c, 14)
	scaleWorkload(t, c, "simulated", 0)
	testkit.Eventually(t, patience, func() error {
		if left := claimsOf(t, c, "general"); len(left) > 0 {
			return fmt.Errorf("%d NodeClaims of kwok are left", len(left))
		}
		return nil
	})
	for name := range before {
		if !claimsOf(t, c, "rack")[name] {
			t.Errorf("NodeClaim %s went while its provider was down", name)
		}
	}

	defer serveRack(t, c, address, "2")()
	scaleWorkload(t, c, "racked", 0)
	testkit.Eventually(t, patience, func() error {
		p, err := observe(t.Context(), c)
		if err == nil && len(p.claims)+len(p.nodes) > 0 {
			err = fmt.Errorf("%d NodeClaims and %d nodes are left", len(p.claims), len(p.nodes))
		}
		return err
	})
	if status := process.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestTwoProvidersOfOneKind has two providers whose node classes are of one kind. The controller says so and ends.
func TestTwoProvidersOfOneKind(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	address := "unix://" + filepath.Join(t.TempDir(), "p.sock")
	defer serveProvider(t, address, serve.New(namesake{rack.New(c)}, serve.Options{Epoch: "1"}))()
	process := controller(t, cluster.Kubeconfig, "--cloud-provider", "kwok,remote", "--provider-address", address)
	if status := process.awaitEnd(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	const want = "dovetail: --cloud-provider=kwok,remote: the providers kwok and rack both have node classes of the kind KWOKNodeClass.karpenter.kwok.sh: it is not clear which of them a NodePool means"
	if lines := process.errorLines(); len(lines) != 1 || lines[0] != want {
		t.Errorf("it says %q, want %q", lines, want)
	}
}

// namesake is a rack with the node classes of kwok.
type namesake struct{ *rack.Provider }

// ClassKinds returns KWOKNodeClass.
func (namesake) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass")}
}

// installRack applies the definition and the classes of examples/provider-node.
func installRack(t *testing.T, c client.Client) {
	t.Helper()
	example, err := demo.Manifests(os.DirFS(filepath.Join("..", "..", "examples", "provider-node")))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(example, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetKind(), b.GetKind()) }) // its definition first
	testkit.Eventually(t, patience, func() error { return demo.Apply(t.Context(), c, example...) })                                // once it is served
}

// serveRack serves the provider rack for a cluster until stop is called.
func serveRack(t *testing.T, c client.Client, address, epoch string) (stop func()) {
	t.Helper()
	system := &corev1.Namespace{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	return serveProvider(t, address, serve.New(rack.New(c), serve.Options{Epoch: epoch, ClusterUID: string(system.UID)}))
}

func serveProvider(t *testing.T, address string, s *serve.Server) (stop func()) {
	t.Helper()
	listener, err := serve.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	s.Register(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() { server.Stop(); <-done }
}

// addRackPool gives the provider rack a NodePool that is like that of the example.
func addRackPool(t *testing.T, c client.Client) {
	t.Helper()
	np := &karpenterv1.NodePool{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "general"}, np); err != nil {
		t.Fatal(err)
	}
	racked := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "rack"}, Spec: np.Spec}
	racked.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: rack.Group, Kind: rack.Kind, Name: "default"}
	racked.Spec.Template.Spec.Requirements = np.Spec.Template.Spec.Requirements[:2] // system and architecture
	if err := c.Create(t.Context(), racked); err != nil {
		t.Fatal(err)
	}
}

// allowClasses lets the controller read the node classes of the provider remote, as additionalClusterRoleRules does.
func allowClasses(t *testing.T, c client.Client) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "example-classes"}
	_, account, _ := strings.Cut(strings.TrimPrefix(serviceAccount, "system:serviceaccount:"), ":")
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{rack.Group}, Resources: []string{"examplenodeclasses"}, Verbs: []string{"get", "list", "watch"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: account}},
		},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// workload creates a Deployment of pods with one cpu.
func workload(t *testing.T, c client.Client, name string, pods int32, selector map[string]string) {
	t.Helper()
	labels := map[string]string{"app": name}
	if err := c.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{NodeSelector: selector, Containers: []corev1.Container{{
				Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}}}},
		},
	}); err != nil {
		t.Fatal(err)
	}
}

// onNodesOf holds the nodes of workloads to the form of their provider's IDs.
func onNodesOf(t *testing.T, c client.Client, want map[string]string) {
	t.Helper()
	p, err := observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for i := range p.nodes {
		ids[p.nodes[i].Name] = p.nodes[i].Spec.ProviderID
	}
	for i := range p.pods {
		if id, prefix := ids[p.pods[i].Spec.NodeName], want[p.pods[i].Labels["app"]]; !strings.HasPrefix(id, prefix) {
			t.Errorf("pod %s is on the instance %s, want one of %s", p.pods[i].Name, id, prefix)
		}
	}
}

// claimsOf returns the names of a pool's NodeClaims that are not on their way out.
func claimsOf(t *testing.T, c client.Client, pool string) map[string]bool {
	t.Helper()
	var claims karpenterv1.NodeClaimList
	if err := c.List(t.Context(), &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: pool}); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp == nil {
			names[claims.Items[i].Name] = true
		}
	}
	return names
}
