package kwok_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const patience = time.Minute

func TestAgainstAPIServer(t *testing.T) {
	t.Parallel()
	c := connect(t)
	for _, class := range []*kwokv1alpha1.KWOKNodeClass{
		newClass("default", 0), newClass("slow", time.Hour), newClass("soon", time.Second), newClass("unready", 0),
	} {
		if err := c.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if class.Name != "unready" {
			continue
		}
		class.Status.Conditions[0].Status, class.Status.Conditions[0].Message = metav1.ConditionFalse, "not today"
		if err := c.Status().Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	// Not parallel: providers with a clock of their own would end each other's joins.
	t.Run("an instance joins though the process died in the delay", func(t *testing.T) { joinsAfterCrash(t, c) })
	t.Run("an instance ended while it joins is taken back", func(t *testing.T) { endedWhileJoining(t, c) })
	t.Run("instances are listed in pages", func(t *testing.T) { listedInPages(t, c) })
	t.Run("conformance", func(t *testing.T) {
		t.Parallel()
		cloudtest.Run(t, func(t *testing.T) cloudtest.Harness { return harness(t, c) })
	})
	for name, test := range map[string]func(*testing.T, client.Client){
		"the node is the one that KWOK and people's tools expect": nodeIsAsPublished,
		"equal offerings are spread over zones":                   spreadOverZones,
		"an instance joins after the delay":                       joinsAfterDelay,
		"an instance ended in the delay never joins":              endedNeverJoins,
		"a refused node is an instance that cannot join":          refusedJoinsLater,
		"a deleted node with a finalizer is gone and listed so":   deletingIsGone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func nodeIsAsPublished(t *testing.T, c client.Client) {
	r := request(t, "default", 0)
	long := strings.Repeat("long-", 20) + "claim"
	r.Claim = long
	instance := launch(t, newProvider(t, c), r)
	node := getNode(t, c, instance.ID)
	if node == nil {
		t.Fatalf("there is no node for %s right after the launch", instance.ID)
	}
	for key, want := range map[string]string{
		"kwok.x-k8s.io/node": "fake", "kwok-partition": "a", "eks-node-viewer/instance-price": "0.019003",
		"node.kubernetes.io/instance-type": "c-1x-amd64-linux", "karpenter.kwok.sh/instance-memory": "2Gi",
		"karpenter.sh/nodepool": "general", "team": "blue",
	} {
		if got := node.Labels[key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	if host := node.Labels[corev1.LabelHostname]; !strings.HasPrefix(host, "long-long-") || len(host) > 63 {
		t.Errorf("hostname of a claim with a long name is %q, want it cut to 63", host)
	}
	if node.Annotations["kwok.x-k8s.io/node"] != "fake" || instance.Claim != long {
		t.Errorf("annotations are %v, claim is %q", node.Annotations, instance.Claim)
	}
	short := launch(t, newProvider(t, c), request(t, "default", 1))
	if name := strings.TrimPrefix(short.ID, "kwok://kwok-"+request(t, "default", 1).Claim+"-"); len(strings.Split(name, "-")) != 2 || strings.Index(name, "-") != 5 {
		t.Errorf("providerID is %q, want kwok://kwok-<claim>-<5 letters>-<number>", short.ID)
	}
	testkit.Eventually(t, patience, func() error {
		for _, condition := range getNode(t, c, short.ID).Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("KWOK does not keep the node ready")
	})
	if got := getNode(t, c, short.ID).Labels[corev1.LabelHostname]; got != request(t, "default", 1).Claim {
		t.Errorf("hostname is %q, want the claim's name", got)
	}
}

func spreadOverZones(t *testing.T, c client.Client) {
	var requests []cloud.LaunchRequest
	for i := range 20 {
		requests = append(requests, request(t, "slow", i))
	}
	zones := map[string]int{}
	for _, result := range newProvider(t, c).Launch(t.Context(), requests) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		zones[result.Instance.Labels[label.Zone]]++
	}
	if len(zones) != 4 {
		t.Errorf("20 instances are in zones %v, want all four", zones)
	}
}

func joinsAfterDelay(t *testing.T, c client.Client) {
	p := newProvider(t, c)
	start(t, p)
	joined(t, c, launch(t, p, request(t, "soon", 0)))
}

func joinsAfterCrash(t *testing.T, c client.Client) {
	instance := launch(t, newProvider(t, c), request(t, "slow", 0)) // and nobody runs its Start
	if getNode(t, c, instance.ID) != nil {
		t.Fatal("the node was there before the delay was over")
	}
	next, err := kwok.New(c, kwok.Options{Now: inTwoHours})
	if err != nil {
		t.Fatal(err)
	}
	start(t, next)
	joined(t, c, instance)
	if again := launch(t, next, request(t, "slow", 0)); again.ID != instance.ID {
		t.Errorf("the repeated launch was answered with %s, the first with %s", again.ID, instance.ID)
	}
}

func endedNeverJoins(t *testing.T, c client.Client) {
	p := newProvider(t, c)
	instance := launch(t, p, request(t, "soon", 0))
	if err := p.Terminate(t.Context(), instance.ID); !errors.Is(err, cloud.ErrNotFound) {
		t.Fatalf("Terminate: error %v, want ErrNotFound", err)
	}
	later := launch(t, p, request(t, "soon", 1))
	start(t, p)
	joined(t, c, later) // which was launched after it
	if node := getNode(t, c, instance.ID); node != nil {
		t.Errorf("node %s joined after its end", node.Name)
	}
}

// endedWhileJoining ends the instance at the worst moment: after Start has decided to let
// it join, before the Node is there.
func endedWhileJoining(t *testing.T, c client.Client) {
	withWatch, ok := c.(client.WithWatch)
	if !ok {
		t.Fatal("the client cannot watch")
	}
	ender := newProvider(t, c)
	instance := launch(t, ender, request(t, "slow", 0))
	created := make(chan struct{})
	p, err := kwok.New(interceptor.NewClient(withWatch, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if "kwok://"+obj.GetName() != instance.ID {
				return c.Create(ctx, obj, opts...)
			}
			if err := ender.Terminate(ctx, instance.ID); !errors.Is(err, cloud.ErrNotFound) {
				t.Errorf("Terminate: error %v, want ErrNotFound", err)
			}
			defer close(created)
			return c.Create(ctx, obj, opts...)
		},
	}), kwok.Options{Now: inTwoHours})
	if err != nil {
		t.Fatal(err)
	}
	start(t, p)
	<-created
	testkit.Eventually(t, patience, func() error {
		if node := getNode(t, c, instance.ID); node != nil {
			return fmt.Errorf("node %s is still there", node.Name)
		}
		return nil
	})
}

func refusedJoinsLater(t *testing.T, c client.Client) {
	policy, binding := refuseNodes("refuse=me")
	for _, object := range []client.Object{policy, binding} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, patience, func() error { // policies take effect a little later
		err := c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Labels: map[string]string{"refuse": "me"}}}, client.DryRunAll)
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("policy does not refuse yet: %w", err)
		}
		return nil
	})
	p := newProvider(t, c)
	r := request(t, "default", 0)
	r.Labels = map[string]string{"refuse": "me"}
	instance := launch(t, p, r)
	if _, err := p.Get(t.Context(), instance.ID); err != nil {
		t.Errorf("Get(%s): %v", instance.ID, err)
	}
	if getNode(t, c, instance.ID) != nil {
		t.Fatal("the node is there though the policy refuses it")
	}
	if err := c.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	start(t, p)
	joined(t, c, instance)
}

func deletingIsGone(t *testing.T, c client.Client) {
	p := newProvider(t, c)
	instance := launch(t, p, request(t, "default", 0))
	node := getNode(t, c, instance.ID)
	held := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`))
	if err := c.Patch(t.Context(), node, held); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Terminate(t.Context(), instance.ID); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("Terminate: error %v, want ErrNotFound", err)
		}
	}
	if _, err := p.Get(t.Context(), instance.ID); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("Get: error %v, want ErrNotFound", err)
	}
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range all {
		if listed.ID == instance.ID && listed.Terminating {
			return
		}
	}
	t.Errorf("List() does not have %s as terminating", instance.ID)
}

// connect starts a cluster with our CRDs and returns a client without a cache.
func connect(t *testing.T) client.Client {
	t.Helper()
	devcluster := testkit.StartCluster(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kwokv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := envtest.InstallCRDs(devcluster.Config, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(devcluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func harness(t *testing.T, c client.Client) cloudtest.Harness {
	ref := func(name string) cloud.ClassRef {
		return cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: name}
	}
	return cloudtest.Harness{
		Provider: newProvider(t, c),
		Restart:  func(cloudtest.T) cloud.Provider { return newProvider(t, c) },
		Class:    ref("default"), Missing: ref("missing"), Unready: ref("unready"), Slow: ref("slow"),
		Node: func(t cloudtest.T, id string) *corev1.Node {
			return cloudtest.ReadyNode(t, c, strings.TrimPrefix(id, "kwok://"))
		},
	}
}

// listedInPages has the API server give one Node at a time, and looks for all instances.
func listedInPages(t *testing.T, c client.Client) {
	t.Helper()
	want := map[string]bool{}
	for i := range 3 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("page-%d", i)}}
		node.Spec.ProviderID = "kwok://" + node.Name
		if err := c.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Delete(t.Context(), node) }()
		want[node.Spec.ProviderID] = true
	}
	pages := 0
	watching, is := c.(client.WithWatch)
	if !is {
		t.Fatal("the client cannot watch")
	}
	p := newProvider(t, interceptor.NewClient(watching, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, isNodes := list.(*corev1.NodeList); isNodes {
			pages++
			opts = append(opts, client.Limit(1))
		}
		return c.List(ctx, list, opts...)
	}}))
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		delete(want, all[i].ID)
	}
	if len(want) > 0 || pages < 3 {
		t.Errorf("in %d pages there are not %v", pages, want)
	}
}

func newProvider(t *testing.T, c client.Client) *kwok.Provider {
	t.Helper()
	p, err := kwok.New(c, kwok.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs the provider's background work until the test ends.
func start(t *testing.T, p *kwok.Provider) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Start(ctx); err != nil {
			t.Errorf("Start: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func newClass(name string, delay time.Duration) *kwokv1alpha1.KWOKNodeClass {
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if delay > 0 {
		class.Spec.NodeRegistrationDelay = &metav1.Duration{Duration: delay}
	}
	return class
}

// inTwoHours is when the delay of class slow is over.
func inTwoHours() time.Time { return time.Now().Add(2 * time.Hour) }

// request asks for the smallest Linux instance; its name is the test's own.
func request(t *testing.T, class string, n int) cloud.LaunchRequest {
	t.Helper()
	words := strings.FieldsFunc(strings.ToLower(t.Name()), func(r rune) bool { return r == '/' || r == '_' || r == '\'' })
	name := fmt.Sprintf("%s-%d", strings.Join(words[len(words)-3:], "-"), n)
	instanceTypes, err := newProvider(t, classOnly{}).Types(t.Context(), cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: class})
	if err != nil {
		t.Fatal(err)
	}
	want := label.Requirements{corev1.LabelOSStable: label.In("linux"), corev1.LabelArchStable: label.In("amd64"), "team": label.In("blue")}
	return cloud.LaunchRequest{
		Token: "uid-of-" + name, Claim: name,
		Class:        cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: class},
		Choices:      catalog.Choices(instanceTypes, want, quantity.List{quantity.CPU: 100}),
		Requirements: want,
		Labels:       map[string]string{"karpenter.sh/nodepool": "general"},
		Taints:       []cluster.Taint{{Key: "karpenter.sh/unregistered", Effect: cluster.NoExecute}},
	}
}

// classOnly is a client that has every class.
type classOnly struct{ client.Client }

func (classOnly) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func launch(t *testing.T, p *kwok.Provider, r cloud.LaunchRequest) cloud.Instance {
	t.Helper()
	result := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	return result.Instance
}

// joined waits until the instance's Node is there and its record is not.
func joined(t *testing.T, c client.Client, instance cloud.Instance) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if getNode(t, c, instance.ID) == nil {
			return fmt.Errorf("%s has not joined", instance.ID)
		}
		var leases coordinationv1.LeaseList
		if err := c.List(t.Context(), &leases, client.HasLabels{"karpenter.kwok.sh/launch"}); err != nil {
			return err
		}
		for _, lease := range leases.Items {
			if lease.Name == "launch-"+strings.TrimPrefix(instance.ID, "kwok://") {
				return fmt.Errorf("record %s is still there", lease.Name)
			}
		}
		return nil
	})
}

func getNode(t *testing.T, c client.Client, instanceID string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	err := c.Get(t.Context(), client.ObjectKey{Name: strings.TrimPrefix(instanceID, "kwok://")}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// refuseNodes returns an admission policy against new Nodes with a label.
func refuseNodes(selector string) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	key, value, _ := strings.Cut(selector, "=")
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse-nodes"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "not in this cluster"}},
		},
	}
	return policy, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse-nodes"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "refuse-nodes", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
}
