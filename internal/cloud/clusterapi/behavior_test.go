package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestAgainstAPIServer runs stories on one dev cluster.
func TestAgainstAPIServer(t *testing.T) {
	t.Parallel()
	c := connect(t, "v1beta2", "v1beta1")
	world(t, c, "v1beta2")
	(&fakeCAPI{t: t, client: c, version: "v1beta2"}).run()
	for name, test := range map[string]func(*testing.T, client.WithWatch){
		"a deletion by somebody else waits for the drain":     deletedByOthers,
		"launches that are decided later give notices":        notices,
		"what a MachineDeployment would make now is compared": drifts,
		"whatever types are made from is watched":             changesReported,
		"capacity is learned from a node":                     learns,
		"a MachineDeployment that cannot be read is left out": leftOut,
		"a failure domain is chosen and becomes the zone":     domains,
		"the largest size of a MachineDeployment is kept":     largestSize,
		"a Machine of that name that is not ours is kept":     foreign,
		"a launch that broke off is completed":                brokenOff,
		"manifests for the earlier provider work as they are": earlierManifests,
		"MachineDeployments of two Clusters are not mixed":    twoClusters,
		"replicas that the earlier provider made are adopted": replicas,
		"many launches with one token make one Machine":       oneToken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// class creates a class of the test's own, with MachineDeployments of the given sizes.
func class(t *testing.T, c client.Client, name string, sizes ...string) {
	t.Helper()
	createAll(t, c, &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterapiv1alpha1.ClusterAPINodeClassSpec{
		ScalableResourceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"class": name}},
	}})
	for _, size := range sizes {
		addDeployment(t, c, "v1beta2", name, size, 2, "{}")
	}
}

func request(t *testing.T, p *clusterapi.Provider, class string, n int) cloud.LaunchRequest {
	t.Helper()
	types, err := p.Types(t.Context(), ref(class))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("story-%s-%d", class, n)
	return cloud.LaunchRequest{
		Token: "uid-of-" + name, Claim: name, Class: ref(class), Choices: catalog.Choices(types, nil, quantity.List{quantity.CPU: 100}),
		Labels: map[string]string{"karpenter.sh/nodepool": "general"}, Taints: []cluster.Taint{{Key: "karpenter.sh/unregistered", Effect: cluster.NoExecute}},
	}
}

func launch(t *testing.T, p *clusterapi.Provider, r cloud.LaunchRequest) cloud.Instance {
	t.Helper()
	result := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	return result.Instance
}

// settled waits until an instance has its provider ID.
func settled(t *testing.T, p *clusterapi.Provider, id string) (instance cloud.Instance) {
	t.Helper()
	testkit.Eventually(t, patience, func() (err error) {
		if instance, err = p.Get(t.Context(), id); err == nil && instance.Provisional {
			err = fmt.Errorf("%s has no provider ID", id)
		}
		return err
	})
	return instance
}

// gone terminates an instance and waits for its end.
func gone(t *testing.T, p *clusterapi.Provider, id string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		err := p.Terminate(t.Context(), id)
		switch {
		case errors.Is(err, cloud.ErrNotFound):
			return nil
		case err == nil:
			return fmt.Errorf("%s is still there", id)
		}
		return err
	})
}

func get(t *testing.T, c client.Client, group, version, kind, name string) (*unstructured.Unstructured, error) {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	return o, c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o)
}

// machine returns the Machine of a name.
func machine(t *testing.T, c client.Client, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := get(t, c, coreGroup, "v1beta2", "Machine", name)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// edit changes an object of v1beta2.
func edit(t *testing.T, c client.Client, group, kind, name string, change func(*unstructured.Unstructured)) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		o, err := get(t, c, group, "v1beta2", kind, name)
		if err != nil {
			return err
		}
		change(o)
		return c.Update(t.Context(), o)
	})
}

func set(t *testing.T, o *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// watched collects what a provider reports until the test ends.
func watched(t *testing.T, p *clusterapi.Provider) func(id string) []cloud.Notice {
	t.Helper()
	var mu sync.Mutex
	var all []cloud.Notice
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Watch(ctx, func(_ context.Context, n cloud.Notice) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, n)
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func(id string) (of []cloud.Notice) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range all {
			if n.InstanceID == id {
				of = append(of, n)
			}
		}
		return of
	}
}

// awaitNotice waits for a notice of a kind about an instance.
func awaitNotice(t *testing.T, of func(string) []cloud.Notice, id string, kind cloud.NoticeKind) (n cloud.Notice) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		all := of(id)
		i := slices.IndexFunc(all, func(n cloud.Notice) bool { return n.Kind == kind })
		if i < 0 {
			return fmt.Errorf("no notice %s of %s: %+v", kind, id, all)
		}
		n = all[i]
		return nil
	})
	return n
}

func deletedByOthers(t *testing.T, c client.WithWatch) {
	class(t, c, "others", "small")
	p := newProvider(t, c)
	of := watched(t, p)
	r := request(t, p, "others", 0)
	instance := settled(t, p, launch(t, p, r).ID)
	var node corev1.Node
	testkit.Eventually(t, patience, func() error { return c.Get(t.Context(), client.ObjectKey{Name: r.Claim}, &node) })
	m := machine(t, c, r.Claim)
	if labels := m.GetLabels(); labels["pool"] != "" || labels["cluster.x-k8s.io/cluster-name"] != "metal" {
		t.Errorf("labels of the Machine are %v: a MachineSet would adopt it, or it is of no Cluster", labels)
	}
	if err := c.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	n := awaitNotice(t, of, instance.ID, cloud.MaintenanceScheduled)
	if left := time.Until(n.Ends); left < 8*time.Minute || left > 11*time.Minute {
		t.Errorf("the notice leaves %s for the replacement, want about ten minutes", left)
	}
	if got, err := p.Get(t.Context(), instance.ID); err != nil || got.Terminating {
		t.Errorf("while its node is replaced: %+v, %v; want the instance", got, err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: r.Claim}, &node); err != nil {
		t.Errorf("the Node is gone before its drain: %v", err)
	}
	gone(t, p, instance.ID)
	awaitNotice(t, of, instance.ID, cloud.Ended)
	if _, err := get(t, c, infraGroup, "v1beta1", "TestMachine", r.Claim); !apierrors.IsNotFound(err) {
		t.Errorf("the infrastructure object: %v, want it gone", err)
	}
}

func notices(t *testing.T, c client.WithWatch) {
	p := newProvider(t, c)
	of := watched(t, p)
	later := launch(t, p, request(t, p, "accepts", 0))
	never := launch(t, p, request(t, p, "fails", 0))
	awaitNotice(t, of, later.ID, cloud.LaunchChanged)
	failed := awaitNotice(t, of, never.ID, cloud.LaunchFailed)
	if failed.Failure == nil || failed.Failure.Kind != cloud.NoCapacity || !strings.Contains(failed.Failure.Message, "no host is left") {
		t.Errorf("the failure is %+v, want that of the infrastructure provider", failed.Failure)
	}
	instance := settled(t, p, later.ID)
	testkit.Eventually(t, patience, func() error {
		o := machine(t, c, "story-accepts-0")
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		set(t, o, append(all, any(map[string]any{"type": "OwnerRemediated", "status": "False", "reason": "WaitingForRemediation", "lastTransitionTime": "2026-01-01T00:00:00Z"})), "status", "conditions")
		return c.Status().Update(t.Context(), o)
	})
	if n := awaitNotice(t, of, instance.ID, cloud.MaintenanceScheduled); !n.Ends.Equal(time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)) {
		t.Errorf("a Machine whose health check has failed is to be replaced by %s, want ten minutes after that", n.Ends)
	}
	if !later.Provisional || !never.Provisional {
		t.Errorf("launched %+v and %+v, want provisional IDs", later, never)
	}
	for _, id := range []string{later.ID, never.ID} {
		gone(t, p, id)
	}
}

func drifts(t *testing.T, c client.WithWatch) {
	class(t, c, "drift", "small")
	createAll(t, c, object(t, "apiVersion: %s/v1beta2\nkind: KubeadmConfigTemplate\nmetadata: {name: drift, namespace: default}\nspec: {template: {spec: {}}}", bootGroup))
	deployment := func(value any, path ...string) {
		edit(t, c, coreGroup, "MachineDeployment", "drift-small", func(o *unstructured.Unstructured) { set(t, o, value, path...) })
	}
	inTemplate := []string{"spec", "template", "spec"}
	bootstrap := append(slices.Clone(inTemplate), "bootstrap", "configRef", "name")
	deployment("drift", bootstrap...)
	p := newProvider(t, c)
	instance := settled(t, p, launch(t, p, request(t, p, "drift", 0)).ID)
	want := func(reason string) {
		t.Helper()
		got, err := p.Drifted(t.Context(), ref("drift"), instance.ID)
		if err != nil || got != reason {
			t.Errorf("drifted: %q, %v; want %q", got, err, reason)
		}
		if all, err := p.DriftedOf(t.Context(), ref("drift"), []string{instance.ID}); err != nil || all[instance.ID] != (cloud.Drift{Reason: reason}) {
			t.Errorf("drifted among many: %+v, %v; want %q", all, err, reason)
		}
	}
	want("")
	version := append(slices.Clone(inTemplate), "version")
	deployment("v1.38.0", version...)
	want("VersionDrift")
	deployment("v1.37.1", version...)
	infrastructure := append(slices.Clone(inTemplate), "infrastructureRef", "name")
	deployment("default-small", infrastructure...)
	want("TemplateDrift")
	deployment("drift-small", infrastructure...)
	deployment("worker", bootstrap...)
	want("BootstrapDrift")
	deployment("drift", bootstrap...)
	edit(t, c, bootGroup, "KubeadmConfigTemplate", "drift", func(o *unstructured.Unstructured) { set(t, o, "x", "spec", "template", "spec", "format") })
	want("BootstrapDrift")
	edit(t, c, bootGroup, "KubeadmConfigTemplate", "drift", func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "spec", "template", "spec", "format")
	})
	want("")
	deployment("zone-z", append(slices.Clone(inTemplate), "failureDomain")...)
	want("FailureDomainDrift")
	if err := c.Delete(t.Context(), object(t, "apiVersion: %s/v1beta2\nkind: MachineDeployment\nmetadata: {name: drift-small, namespace: default}", coreGroup)); err != nil {
		t.Fatal(err)
	}
	want("MachineDeploymentDrift")
	gone(t, p, instance.ID)
}

// changesReported changes what types are made from, one thing at a time. The provider watches a namespace of its own, in
// which nothing else happens, so that each report is of the last change.
func changesReported(t *testing.T, c client.WithWatch) {
	createAll(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "watched"}})
	class(t, c, "reported")
	watches := make(chan string, 20)
	management := interceptor.NewClient(c, interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, opts...)
			if err == nil {
				watches <- strings.TrimSuffix(list.GetObjectKind().GroupVersionKind().Kind, "List")
			}
			return w, err
		},
	})
	watched := func(kinds ...string) {
		t.Helper()
		for len(kinds) > 0 {
			select {
			case kind := <-watches:
				kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == kind })
			case <-time.After(patience):
				t.Fatalf("%q are not watched", kinds)
			}
		}
	}
	p, err := clusterapi.New(c, clusterapi.Options{Management: management, Namespace: "watched", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan struct{}, 1)
	p.OnTypesChanged(func(class cloud.ClassRef) {
		if class != ref("reported") {
			t.Errorf("%s is reported, which nobody asked for", class)
		}
		select {
		case reported <- struct{}{}:
		default:
		}
	})
	offered := func() (all []string) {
		types, err := p.Types(t.Context(), ref("reported"))
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range types {
			all = append(all, fmt.Sprint(is.Name, " ", is.Capacity[quantity.CPU], " ", is.Offerings[0].Zone))
		}
		return all
	}
	const deploymentKind, templateKind = "MachineDeployment", "TestMachineTemplate"
	offered()
	started(t, p)
	watched(deploymentKind, "Cluster")
	refs := `bootstrap: {dataSecretName: none}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: TestMachineTemplate, name: t}`
	deployment := object(t, "apiVersion: %s/v1beta2\nkind: MachineDeployment\nmetadata: {name: d, namespace: watched, labels: {class: reported}}\n"+
		"spec: {clusterName: c, replicas: 0, selector: {matchLabels: {pool: d}}, template: {metadata: {labels: {pool: d}}, spec: {clusterName: c, version: v1.37.1, "+refs+"}}}", coreGroup)
	cluster := object(t, "apiVersion: %s/v1beta2\nkind: Cluster\nmetadata: {name: c, namespace: watched}\nspec: {}", coreGroup)
	template := object(t, "apiVersion: %s/v1beta1\nkind: TestMachineTemplate\nmetadata: {name: t, namespace: watched}\nspec: {template: {spec: {}}}", infraGroup)
	patch := func(o *unstructured.Unstructured, change string) error {
		return c.Patch(t.Context(), o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(change)))
	}
	patchStatus := func(o *unstructured.Unstructured, change string) error {
		return c.Status().Patch(t.Context(), o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(change)))
	}
	for _, step := range []struct {
		what   string
		change func() error
		want   []string
		// watches is what is watched after the types were read.
		watches []string
	}{
		{"a Cluster is created", func() error { return c.Create(t.Context(), cluster) }, nil, nil},
		{"a MachineDeployment is created", func() error { return c.Create(t.Context(), deployment) }, nil, []string{templateKind}},
		{"its template is created", func() error { return c.Create(t.Context(), template) }, nil, nil},
		{"the template's capacity is known", func() error {
			return patchStatus(template, `{"status": {"capacity": {"cpu": "8", "memory": "16Gi"}}}`)
		}, []string{"d 8000 "}, nil},
		{"the MachineDeployment is annotated", func() error {
			return patch(deployment, `{"metadata": {"annotations": {"capacity.cluster-autoscaler.kubernetes.io/labels": "node.kubernetes.io/instance-type=medium"}}}`)
		}, []string{"medium 8000 "}, nil},
		{"the Cluster has a failure domain", func() error {
			return patchStatus(cluster, `{"status": {"failureDomains": [{"name": "east"}]}}`)
		}, []string{"medium 8000 east"}, nil},
		{"the MachineDeployment is deleted", func() error { return c.Delete(t.Context(), deployment) }, nil, nil},
	} {
		if err := step.change(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		select {
		case <-reported:
		case <-time.After(patience):
			t.Fatalf("%s: nothing is reported", step.what)
		}
		if got := offered(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q are in the catalog, want %q", step.what, got, step.want)
		}
		watched(step.watches...)
	}
}

// refresh writes the status of a class and returns it.
func refresh(t *testing.T, c client.Client, p *clusterapi.Provider, name string) *clusterapiv1alpha1.ClusterAPINodeClass {
	t.Helper()
	class := &clusterapiv1alpha1.ClusterAPINodeClass{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, class); err != nil {
		t.Fatal(err)
	}
	if err := p.Refresh(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, class); err != nil {
		t.Fatal(err)
	}
	return class
}

func learns(t *testing.T, c client.WithWatch) {
	class(t, c, "learns", "small")
	edit(t, c, coreGroup, "MachineDeployment", "learns-small", func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
	p := newProvider(t, c)
	if got := refresh(t, c, p, "learns"); !meta.IsStatusConditionFalse(got.Status.Conditions, "Ready") || !strings.Contains(got.Status.Conditions[0].Message, "default/learns-small: the cpu and memory of its nodes is not known") {
		t.Errorf("before there is a node: %+v, want Ready=False that names the MachineDeployment", got.Status)
	}
	createAll(t, c,
		object(t, "apiVersion: %s/v1beta1\nkind: TestMachine\nmetadata: {name: learns-1, namespace: default, annotations: {cluster.x-k8s.io/cloned-from-name: learns-small}}\nspec: {cpus: 3, memory: 5Gi}", infraGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: KubeadmConfig\nmetadata: {name: learns-1, namespace: default}\nspec: {}", bootGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: Machine\nmetadata: {name: learns-1, namespace: default, labels: {cluster.x-k8s.io/deployment-name: learns-small}}\n"+
			"spec: {clusterName: metal, infrastructureRef: {apiGroup: %s, kind: TestMachine, name: learns-1}, bootstrap: {configRef: {apiGroup: %s, kind: KubeadmConfig, name: learns-1}}}", coreGroup, infraGroup, bootGroup))
	testkit.Eventually(t, patience, func() error {
		if got := refresh(t, c, p, "learns"); !meta.IsStatusConditionTrue(got.Status.Conditions, "Ready") {
			return fmt.Errorf("with a node: %+v, want Ready=True", got.Status)
		}
		return nil
	})
	types, err := newProvider(t, c).Types(t.Context(), ref("learns"))
	if err != nil || len(types) != 1 || types[0].Name != "learns-small" || types[0].Capacity[quantity.CPU] != 3000 {
		t.Errorf("types are %+v, %v; want learns-small with 3 cpus", types, err)
	}
	if types[0].Offerings[0].Priced {
		t.Error("nobody says a price, but there is one")
	}
}

func leftOut(t *testing.T, c client.WithWatch) {
	class(t, c, "leftout", "small", "large", "lost")
	annotate := func(name, key, value string) {
		edit(t, c, coreGroup, "MachineDeployment", name, func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			annotations[key] = value
			o.SetAnnotations(annotations)
		})
	}
	annotate("leftout-large", "capacity.cluster-autoscaler.kubernetes.io/cpu", "a few")
	edit(t, c, coreGroup, "MachineDeployment", "leftout-lost", func(o *unstructured.Unstructured) {
		set(t, o, "nowhere", "spec", "template", "spec", "infrastructureRef", "name")
	})
	p := newProvider(t, c)
	types, err := p.Types(t.Context(), ref("leftout"))
	if err != nil || len(types) != 1 || types[0].Name != "small" {
		t.Errorf("types are %+v, %v; want small alone", types, err)
	}
	got := refresh(t, c, p, "leftout")
	complete := meta.FindStatusCondition(got.Status.Conditions, clusterapiv1alpha1.ConditionTypeCatalogComplete)
	if !meta.IsStatusConditionTrue(got.Status.Conditions, "Ready") || complete == nil || complete.Status != metav1.ConditionFalse {
		t.Fatalf("conditions are %+v, want Ready and not complete", got.Status.Conditions)
	}
	for _, part := range []string{`default/leftout-large: annotation capacity.cluster-autoscaler.kubernetes.io/cpu is "a few"`, "default/leftout-lost: get TestMachineTemplate default/nowhere"} {
		if !strings.Contains(complete.Message, part) {
			t.Errorf("the message is %q, want %q in it", complete.Message, part)
		}
	}
}

func domains(t *testing.T, c client.WithWatch) {
	class(t, c, "domains", "small")
	createAll(t, c, object(t, "apiVersion: %s/v1beta2\nkind: Cluster\nmetadata: {name: zoned, namespace: default}\nspec: {}", coreGroup))
	o, err := get(t, c, coreGroup, "v1beta2", "Cluster", "zoned")
	if err != nil {
		t.Fatal(err)
	}
	set(t, o, []any{map[string]any{"name": "fd-1"}, map[string]any{"name": "fd-2", "attributes": map[string]any{"topology.kubernetes.io/zone": "zone-2"}}}, "status", "failureDomains")
	if err := c.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	edit(t, c, coreGroup, "MachineDeployment", "domains-small", func(o *unstructured.Unstructured) {
		set(t, o, "zoned", "spec", "clusterName")
		set(t, o, "zoned", "spec", "template", "spec", "clusterName")
	})
	p := newProvider(t, c)
	r := request(t, p, "domains", 0)
	if len(r.Choices) != 2 || r.Choices[0].Offering.Zone != "fd-1" || r.Choices[1].Offering.Zone != "zone-2" {
		t.Fatalf("choices are %+v, want the zones fd-1 and zone-2", r.Choices)
	}
	r.Choices = r.Choices[1:]
	instance := launch(t, p, r)
	if got, _, _ := unstructured.NestedString(machine(t, c, r.Claim).Object, "spec", "failureDomain"); got != "fd-2" || instance.Labels[corev1.LabelTopologyZone] != "zone-2" {
		t.Errorf("failure domain %q, labels %v; want fd-2 and its zone", got, instance.Labels)
	}
	gone(t, p, instance.ID)
}

func largestSize(t *testing.T, c client.WithWatch) {
	class(t, c, "largest", "small")
	edit(t, c, coreGroup, "MachineDeployment", "largest-small", func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		annotations["cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"] = "2"
		o.SetAnnotations(annotations)
	})
	p := newProvider(t, c)
	types, err := p.Types(t.Context(), ref("largest"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range types[0].Offerings { // of all zones
		if len(o.Draws) != 1 || !strings.HasSuffix(o.Draws[0].Supply, "/largest-small") || o.Draws[0].Units != 1 || o.Draws[0].Left != 2 {
			t.Errorf("an offering in zone %q draws %+v; want 1 of the 2 that the MachineDeployment has left", o.Zone, o.Draws)
		}
	}
	var requests []cloud.LaunchRequest
	for n := range 8 {
		requests = append(requests, request(t, p, "largest", n))
	}
	launched := 0
	// A provider that has read nothing yet: the launches at the same time count each other all the same.
	for _, result := range newProvider(t, c).Launch(t.Context(), requests) {
		var failure *cloud.Failure
		switch {
		case result.Err == nil:
			launched++
			defer gone(t, p, result.Instance.ID)
		case !errors.As(result.Err, &failure) || failure.Kind != cloud.NoCapacity:
			t.Errorf("launch: %v, want no capacity", result.Err)
		}
	}
	if launched != 2 {
		t.Errorf("%d instances were launched, want 2", launched)
	}
	types, err = newProvider(t, c).Types(t.Context(), ref("largest"))
	if err != nil || types[0].Offerings[0].Available {
		t.Errorf("types are %+v, %v; want nothing available", types, err)
	}
}

func foreign(t *testing.T, c client.WithWatch) {
	class(t, c, "foreign", "small")
	p := newProvider(t, c)
	r := request(t, p, "foreign", 0)
	createAll(t, c, object(t, "apiVersion: %s/v1beta2\nkind: Machine\nmetadata: {name: %s, namespace: default}\nspec: {clusterName: metal}", coreGroup, r.Claim))
	var failure *cloud.Failure
	if err := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0].Err; !errors.As(err, &failure) || failure.Kind != cloud.Rejected {
		t.Errorf("launch: %v, want a refusal", err)
	}
	if err := p.Terminate(t.Context(), "clusterapi://default/"+r.Claim); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("terminate: %v, want not found", err)
	}
	if m := machine(t, c, r.Claim); m.GetDeletionTimestamp() != nil {
		t.Error("the Machine of somebody else was deleted")
	}
	first := request(t, p, "foreign", 1)
	instance := launch(t, p, first)
	later := first
	later.Token = "of a NodeClaim of the same name"
	if err := p.Launch(t.Context(), []cloud.LaunchRequest{later})[0].Err; !errors.As(err, &failure) || failure.Kind != cloud.Rejected {
		t.Errorf("launch for another NodeClaim of that name: %v, want a refusal", err)
	}
	if m := machine(t, c, first.Claim); m.GetDeletionTimestamp() != nil {
		t.Error("the Machine of another NodeClaim was deleted")
	}
	gone(t, p, instance.ID)
}

func brokenOff(t *testing.T, c client.WithWatch) {
	class(t, c, "broken", "small")
	r := request(t, newProvider(t, c), "broken", 0)
	for _, kind := range []string{"Machine", "TestMachine", "KubeadmConfig"} {
		failing := interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == kind {
				return errors.New("the connection broke")
			}
			return c.Create(ctx, o, opts...)
		}})
		result := newProvider(t, failing).Launch(t.Context(), []cloud.LaunchRequest{r})[0]
		var failure *cloud.Failure
		if result.Err == nil || errors.As(result.Err, &failure) {
			t.Errorf("launch without %s: %v, want an error that asks for a repeat", kind, result.Err)
		}
	}
	p := newProvider(t, c)
	instance := settled(t, p, launch(t, p, r).ID)
	if instance.Token != r.Token {
		t.Errorf("launched %+v, want the token %s", instance, r.Token)
	}
	gone(t, p, instance.ID)
}

// earlierManifests has objects of the form that the earlier provider for Cluster API documents: v1beta1,
// the label on the MachineDeployment and in its template, and the annotations of Cluster Autoscaler.
func earlierManifests(t *testing.T, c client.WithWatch) {
	createAll(t, c,
		object(t, "apiVersion: karpenter.cluster.x-k8s.io/v1alpha1\nkind: ClusterAPINodeClass\nmetadata: {name: earlier}\nspec: {}"),
		object(t, "apiVersion: %s/v1beta1\nkind: TestMachineTemplate\nmetadata: {name: earlier, namespace: default}\nspec: {template: {spec: {cpus: 2, memory: 8Gi}}}", infraGroup),
		object(t, `apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata:
  name: md-karpenter
  namespace: default
  labels:
    node.cluster.x-k8s.io/karpenter-member: ""
  annotations:
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: "0"
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: "5"
    capacity.cluster-autoscaler.kubernetes.io/cpu: "2"
    capacity.cluster-autoscaler.kubernetes.io/memory: "8Gi"
    capacity.cluster-autoscaler.kubernetes.io/labels: "kubernetes.io/arch=amd64,kubernetes.io/os=linux,node.kubernetes.io/instance-type=earlier,topology.kubernetes.io/zone=dc1"
spec:
  clusterName: metal
  replicas: 0
  selector:
    matchLabels: {cluster.x-k8s.io/deployment-name: md-karpenter}
  template:
    metadata:
      labels:
        node.cluster.x-k8s.io/karpenter-member: ""
        cluster.x-k8s.io/deployment-name: md-karpenter
    spec:
      clusterName: metal
      version: v1.37.1
      bootstrap:
        configRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, name: worker}
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: TestMachineTemplate, name: earlier}
`))
	p := newProvider(t, c)
	if got := refresh(t, c, p, "earlier"); !meta.IsStatusConditionTrue(got.Status.Conditions, "Ready") || !meta.IsStatusConditionTrue(got.Status.Conditions, clusterapiv1alpha1.ConditionTypeCatalogComplete) {
		t.Fatalf("conditions are %+v, want Ready", got.Status.Conditions)
	}
	r := request(t, p, "earlier", 0)
	instance := settled(t, p, launch(t, p, r).ID)
	if instance.Labels[corev1.LabelInstanceTypeStable] != "earlier" || instance.Labels[corev1.LabelTopologyZone] != "dc1" {
		t.Errorf("labels are %v, want those of the MachineDeployment", instance.Labels)
	}
	if labels := machine(t, c, r.Claim).GetLabels(); labels["cluster.x-k8s.io/deployment-name"] != "" {
		t.Errorf("labels are %v: a MachineSet would adopt the Machine", labels)
	}
	gone(t, p, instance.ID)
}

func twoClusters(t *testing.T, c client.WithWatch) {
	class(t, c, "clusters", "small", "large")
	edit(t, c, coreGroup, "MachineDeployment", "clusters-large", func(o *unstructured.Unstructured) { set(t, o, "other", "spec", "clusterName") })
	p := newProvider(t, c)
	got := refresh(t, c, p, "clusters")
	if ready := meta.FindStatusCondition(got.Status.Conditions, "Ready"); ready.Status != metav1.ConditionFalse || ready.Reason != "ClusterAmbiguous" || !strings.Contains(ready.Message, "default/metal, default/other") {
		t.Errorf("Ready is %+v, want the two Clusters", ready)
	}
	got.Spec.ClusterRef = &clusterapiv1alpha1.ClusterReference{Namespace: "default", Name: "metal"}
	if err := c.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	types, err := p.Types(t.Context(), ref("clusters"))
	if err != nil || len(types) != 1 || types[0].Name != "small" {
		t.Errorf("types are %+v, %v; want small of the Cluster metal", types, err)
	}
}
