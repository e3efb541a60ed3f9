package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/sim/world"
)

// What goes wrong between the controller and the management cluster, and in it.
const (
	managementDown trouble = "management cluster is not there"
	writeLost      trouble = "answer to a write is lost"
	machineDeleted trouble = "Machine is deleted by somebody else"
)

const (
	namespace = "default"
	finalizer = "machine.cluster.x-k8s.io"
	hook      = "pre-drain.delete.hook.machine.cluster.x-k8s.io/dovetail"
	// providerIDAfter is how long it takes until a Machine has a provider ID.
	providerIDAfter = 5 * time.Second
)

// The kinds of the management cluster.
var (
	coreVersion  = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	infraVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	bootVersion  = schema.GroupVersion{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2"}

	machineKind = coreVersion.WithKind("Machine")
	infraKind   = infraVersion.WithKind("TestMachine")
	bootKind    = bootVersion.WithKind("KubeadmConfig")
)

// clusterAPIProvider is Cluster API's objects in a management cluster in memory, and controllers that launch and end instances of
// the world's cloud for them.
func clusterAPIProvider() provider {
	return provider{
		troubles: map[trouble]float64{managementDown: 0.2, writeLost: 0.4, machineDeleted: 0.04}, start: startClusterAPI,
		// It cannot reboot, and knows no images but those of templates.
		without: []world.Fault{world.Reboots, world.Drift},
	}
}

func startClusterAPI(t *testing.T, w *wire) func(world.Seam) cloud.Provider {
	t.Helper()
	m := &management{t: t, wire: w}
	return func(s world.Seam) cloud.Provider {
		m.seam, m.isUp = s, true
		if m.Client == nil {
			m.furnish()
		}
		p, err := clusterapi.New(m.Client, clusterapi.Options{Management: m.reached(s), Namespace: namespace, Now: s.Now, Reader: m.Client})
		if err != nil {
			t.Fatal(err)
		}
		return machines{Provider: p, m: m, own: s.Cloud}
	}
}

// management is a management cluster, and Cluster API's controllers in it, which work whenever the provider is asked something.
type management struct {
	*wire
	client.Client
	t    *testing.T
	made atomic.Int64
	// left is how many requests the management cluster answers until it is not there; negative: it stays.
	left atomic.Int64
	// deployments are all MachineDeployments.
	deployments unstructured.UnstructuredList
}

// answersMost is after how many requests the management cluster is gone at the latest, within a call of the provider.
const answersMost = 10

// call begins a call of the provider, within which the management cluster may go.
func (m *management) call(ctx context.Context) context.Context {
	ctx = context.WithoutCancel(ctx) // the world goes on when the answer is there, whoever was killed meanwhile
	m.reconcile(ctx)
	m.left.Store(-1)
	if m.draw(managementDown) != "" {
		m.left.Store(m.rand.Int64N(answersMost))
	}
	return ctx
}

// isGone reports whether a request is not answered.
func (m *management) isGone() bool {
	for {
		left := m.left.Load()
		if left <= 0 {
			return left == 0
		}
		if m.left.CompareAndSwap(left, left-1) {
			return false
		}
	}
}

// furnish makes the cluster, with a MachineDeployment for each offering of the world's cloud.
func (m *management) furnish() {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{coreVersion, infraVersion, bootVersion})
	for _, kind := range []schema.GroupVersionKind{
		machineKind, infraKind, bootKind, coreVersion.WithKind("Cluster"), coreVersion.WithKind("MachineDeployment"),
		infraVersion.WithKind("TestMachineTemplate"), bootVersion.WithKind("KubeadmConfigTemplate"),
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterapiv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			m.t.Fatal(err)
		}
	}
	class := &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: class().Name}}
	owner := newObject(coreVersion.WithKind("Cluster"), "world", map[string]any{})
	config := newObject(bootVersion.WithKind("KubeadmConfigTemplate"), "worker", map[string]any{"template": map[string]any{"spec": map[string]any{}}})
	image := newObject(infraVersion.WithKind("TestMachineTemplate"), "image", map[string]any{"template": map[string]any{"spec": map[string]any{}}})
	all := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: clusterUID}}, class, owner, config, image}
	for _, t := range m.seam.Types {
		if cpu := t.Capacity[quantity.CPU]; cpu < 2000 || cpu > 8000 || strings.HasPrefix(t.Name, "c-") {
			continue // these suffice, and each is read anew for each plan
		}
		class.Spec.Types = append(class.Spec.Types, clusterapiv1alpha1.InstanceType{Name: t.Name, Overhead: translate.ResourceList(t.Overhead)})
		for i := range t.Offerings {
			d := deployment(t, &t.Offerings[i])
			m.deployments.Items = append(m.deployments.Items, *d)
			all = append(all, d)
		}
	}
	m.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(all...).Build(), interceptor.Funcs{Create: m.create})
}

func newObject(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// deployment returns the MachineDeployment for an offering.
func deployment(t *catalog.Type, o *catalog.Offering) *unstructured.Unstructured {
	ref := func(group, kind, name string) map[string]any {
		return map[string]any{"apiGroup": group, "kind": kind, "name": name}
	}
	d := newObject(coreVersion.WithKind("MachineDeployment"), t.Name+"-"+o.Zone+"-"+o.CapacityType, map[string]any{
		"clusterName": "world", "replicas": int64(0),
		"template": map[string]any{"spec": map[string]any{
			"clusterName": "world", "bootstrap": map[string]any{"configRef": ref(bootVersion.Group, "KubeadmConfigTemplate", "worker")},
			"infrastructureRef": ref(infraVersion.Group, "TestMachineTemplate", "image"),
		}},
	})
	d.SetLabels(map[string]string{clusterapi.MemberLabel: ""})
	labels := []string{label.Zone + "=" + o.Zone, label.CapacityType + "=" + o.CapacityType}
	for key, r := range t.Requirements {
		if value, ok := r.Only(); ok && key != label.Zone && key != label.CapacityType {
			labels = append(labels, key+"="+value)
		}
	}
	annotations := map[string]string{"cluster.x-k8s.io/machine-current-price": fmt.Sprint(o.PriceHourly)}
	const capacity = "capacity.cluster-autoscaler.kubernetes.io/"
	annotations[capacity+"labels"] = strings.Join(labels, ",")
	for name, key := range map[corev1.ResourceName]string{corev1.ResourceCPU: "cpu", corev1.ResourceMemory: "memory", corev1.ResourceEphemeralStorage: "ephemeral-disk", corev1.ResourcePods: "maxPods"} {
		q := translate.ResourceList(t.Capacity)[name]
		annotations[capacity+key] = q.String()
	}
	d.SetAnnotations(annotations)
	return d
}

// create does what the API server and Cluster API's controllers do with a new object at once.
func (m *management) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	o.SetUID(types.UID(fmt.Sprintf("made-%d", m.made.Add(1))))
	o.SetCreationTimestamp(metav1.NewTime(m.seam.Time().Truncate(time.Second)))
	if o.GetObjectKind().GroupVersionKind() == machineKind {
		o.SetFinalizers([]string{finalizer})
	}
	return c.Create(ctx, o, opts...)
}

// reached is the management cluster as one life of the product reaches it.
func (m *management) reached(s world.Seam) client.WithWatch {
	write := func(do func() error) error {
		if err := s.May(); err != nil {
			return err
		}
		if m.isGone() {
			return apierrors.NewServiceUnavailable("test: down")
		}
		err := do()
		if m.draw(writeLost) != "" {
			return apierrors.NewTimeoutError("test: lost", 1)
		}
		return err
	}
	read := func(do func() error) error {
		if m.isGone() {
			return apierrors.NewServiceUnavailable("test: down")
		}
		return do()
	}
	return interceptor.NewClient(m.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return read(func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return read(func() error {
				if all, plain := list.(*unstructured.UnstructuredList); plain && all.GetKind() == "MachineDeploymentList" {
					m.deployments.DeepCopyInto(all) // which nobody changes, and the fake is slow
					return nil
				}
				return c.List(ctx, list, opts...)
			})
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, o, opts...) })
		},
	})
}

// reconcile has Cluster API's controllers do what there is to do.
func (m *management) reconcile(ctx context.Context) {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(machineKind)
	if err := m.List(ctx, all); err != nil {
		m.t.Error(err)
	}
	for i := range all.Items {
		o := &all.Items[i]
		id, _, _ := unstructured.NestedString(o.Object, "spec", "providerID")
		var err error
		switch {
		case o.GetDeletionTimestamp() != nil:
			err = m.finalize(ctx, o)
		case id == "":
			err = m.provision(ctx, o)
		case m.draw(machineDeleted) != "":
			err = m.Delete(ctx, o)
		}
		if err != nil {
			m.t.Error(err)
		}
	}
}

// launchOf is what the record of a Machine says of its launch.
type launchOf struct {
	Claim  string
	Labels map[string]string
}

func recordOf(o *unstructured.Unstructured) (r launchOf, err error) {
	err = json.Unmarshal([]byte(o.GetAnnotations()["dovetail.sh/launch"]), &r)
	return r, err
}

func taintOf(entry map[string]any) cluster.Taint {
	value, _ := entry["value"].(string)
	return cluster.Taint{Key: entry["key"].(string), Value: value, Effect: entry["effect"].(string)}
}

// finalize ends what belongs to a Machine, and the Machine, unless a hook holds it.
func (m *management) finalize(ctx context.Context, o *unstructured.Unstructured) error {
	if _, holds := o.GetAnnotations()[hook]; holds {
		return nil
	}
	instances, err := m.seam.Cloud.List(ctx)
	if err != nil {
		return nil //nolint:nilerr // the cloud is not there: the next time
	}
	for i := range instances {
		if instances[i].Token == string(o.GetUID()) {
			_ = m.seam.Cloud.Terminate(ctx, instances[i].ID) // until it is not listed any more
			return nil
		}
	}
	for _, kind := range []schema.GroupVersionKind{infraKind, bootKind} {
		if err := client.IgnoreNotFound(m.Delete(ctx, newObject(kind, o.GetName(), nil))); err != nil {
			return err
		}
	}
	o.SetFinalizers(nil)
	return m.Update(ctx, o)
}

// provision launches the instance of a Machine, if what it refers to is there.
func (m *management) provision(ctx context.Context, o *unstructured.Unstructured) error {
	infra, config := newObject(infraKind, o.GetName(), nil), newObject(bootKind, o.GetName(), nil)
	for _, part := range []*unstructured.Unstructured{infra, config} {
		if err := m.Get(ctx, client.ObjectKeyFromObject(o), part); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	_, hasFailed, _ := unstructured.NestedSlice(infra.Object, "status", "conditions")
	if hasFailed || m.seam.Time().Sub(o.GetCreationTimestamp().Time) < providerIDAfter {
		return nil
	}
	r, err := recordOf(o)
	if err != nil {
		return err
	}
	request := m.request(r, config)
	request.Token = string(o.GetUID()) // another Machine would be another instance
	result := m.seam.Cloud.Launch(ctx, []cloud.LaunchRequest{request})[0]
	var failure *cloud.Failure
	switch {
	case errors.As(result.Err, &failure) && failure.Kind == cloud.NoCapacity:
		m.seam.Count("late failures of Machines")
		_ = unstructured.SetNestedSlice(infra.Object, []any{map[string]any{"type": "Ready", "status": "False", "reason": "InsufficientCapacity", "message": failure.Message}}, "status", "conditions")
		return m.Update(ctx, infra)
	case result.Err != nil:
		return nil //nolint:nilerr // a controller of Cluster API tries again the next time
	}
	if err := unstructured.SetNestedField(o.Object, result.Instance.ID, "spec", "providerID"); err != nil {
		return err
	}
	return m.Update(ctx, o)
}

// request returns what is launched for a Machine: its record says which offering, and its KubeadmConfig what the Node has.
func (m *management) request(r launchOf, config *unstructured.Unstructured) cloud.LaunchRequest {
	request := cloud.LaunchRequest{Claim: r.Claim, Class: class(), Labels: map[string]string{}}
	for _, t := range m.seam.Types {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; t.Name == r.Labels[label.InstanceType] && o.Zone == r.Labels[label.Zone] && o.CapacityType == r.Labels[label.CapacityType] {
				request.Choices = append(request.Choices, catalog.Choice{Type: t, Offering: o})
			}
		}
	}
	at := []string{"spec", "joinConfiguration", "nodeRegistration"}
	taints, _, _ := unstructured.NestedSlice(config.Object, append(at, "taints")...)
	for _, entry := range taints {
		request.Taints = append(request.Taints, taintOf(entry.(map[string]any)))
	}
	args, _, _ := unstructured.NestedSlice(config.Object, append(at, "kubeletExtraArgs")...)
	for _, entry := range args {
		if arg := entry.(map[string]any); arg["name"] == "node-labels" {
			for pair := range strings.SplitSeq(arg["value"].(string), ",") {
				key, value, _ := strings.Cut(pair, "=")
				request.Labels[key] = value
			}
		}
	}
	return request
}

// machines is the provider, as the world's NodePools know it.
type machines struct {
	*clusterapi.Provider
	m   *management
	own cloud.Provider
}

// ClassKinds and Vocabulary are those of the world's cloud: its NodePools have requirements in these words.
func (p machines) ClassKinds() []schema.GroupVersionKind { return p.own.ClassKinds() }
func (p machines) Vocabulary() cloud.Vocabulary          { return p.own.Vocabulary() }

func (p machines) Types(ctx context.Context, _ cloud.ClassRef) ([]*catalog.Type, error) {
	return p.Provider.Types(p.m.call(ctx), apiClass())
}

func (p machines) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	renamed := append([]cloud.LaunchRequest(nil), requests...)
	for i := range renamed {
		renamed[i].Class = apiClass()
	}
	return p.Provider.Launch(p.m.call(ctx), renamed)
}

func (p machines) Terminate(ctx context.Context, id string) error {
	return p.Provider.Terminate(p.m.call(ctx), id)
}

func (p machines) Get(ctx context.Context, id string) (cloud.Instance, error) {
	return p.Provider.Get(p.m.call(ctx), id)
}

func (p machines) List(ctx context.Context) ([]cloud.Instance, error) {
	ctx = p.m.call(ctx)
	all, err := p.Provider.List(ctx)
	if err == nil {
		p.m.isWhole(ctx, p.m.t, all)
	}
	return all, err
}

func (p machines) Drifted(ctx context.Context, _ cloud.ClassRef, id string) (string, error) {
	return p.Provider.Drifted(p.m.call(ctx), apiClass(), id)
}

func (p machines) Patience(cloud.ClassRef) lifecycle.Patience {
	return p.Provider.Patience(apiClass())
}

func apiClass() cloud.ClassRef {
	return cloud.ClassRef{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.Kind, Name: class().Name}
}
