package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
)

// counted counts the requests to a management cluster by verb and kind.
type counted struct {
	mu       sync.Mutex
	requests map[string]int // guarded by mu
}

func (n *counted) add(verb string, o runtime.Object) {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(o).Elem().Name()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests[verb+" "+strings.TrimSuffix(kind, "List")]++
}

// take returns what was counted, and begins again.
func (n *counted) take() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.requests
	n.requests = map[string]int{}
	return was
}

// client returns a client whose requests are counted.
func (n *counted) client(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			n.add("get", o)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			n.add("list", l)
			return c.List(ctx, l, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			n.add("create", o)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			n.add("patch", o)
			return c.Patch(ctx, o, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			n.add("delete", o)
			return c.Delete(ctx, o, opts...)
		},
	})
}

// TestAThousandMachines counts the requests that so many of them cost.
func TestAThousandMachines(t *testing.T) {
	t.Parallel()
	const n, undecided, asked = 1000, 10, 20
	store := inMemory(t, "TestMachine").Build()
	createAll(t, store,
		object(t, "apiVersion: %s/v1beta2\nkind: Cluster\nmetadata: {name: metal, namespace: default}\nspec: {}", coreGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: KubeadmConfigTemplate\nmetadata: {name: worker, namespace: default}\nspec: {template: {spec: {}}}", bootGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: TestMachineTemplate\nmetadata: {name: m, namespace: default}\nspec: {template: {spec: {}}}", infraGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: MachineDeployment\nmetadata: {name: m, namespace: default, labels: {class: many}, annotations: {capacity.cluster-autoscaler.kubernetes.io/cpu: '2', capacity.cluster-autoscaler.kubernetes.io/memory: 4Gi}}\n"+
			"spec: {clusterName: metal, template: {spec: {bootstrap: {configRef: {apiGroup: %s, kind: KubeadmConfigTemplate, name: worker}}, infrastructureRef: {apiGroup: %s, kind: TestMachineTemplate, name: m}}}}", coreGroup, bootGroup, infraGroup))
	class(t, store, "many")
	count := &counted{requests: map[string]int{}}
	c := count.client(store)
	now := time.Now()
	start := func() *clusterapi.Provider {
		p, err := clusterapi.New(c, clusterapi.Options{Management: c, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	costs := func(what string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, count.take()); diff != "" {
			t.Errorf("requests for %s (-want +got):\n%s", what, diff)
		}
	}
	p := start()
	types := map[string]int{"get ClusterAPINodeClass": 1, "list MachineDeployment": 1, "get Cluster": 1, "list Machine": 1, "get TestMachineTemplate": 1, "get KubeadmConfigTemplate": 1}
	r := request(t, p, "many", 0)
	first := maps.Clone(types)
	first["get Namespace"] = 1
	costs("the types", first)

	requests := make([]cloud.LaunchRequest, undecided)
	for i := range requests {
		requests[i] = r
		requests[i].Claim, requests[i].Token = fmt.Sprintf("many-%d", i), fmt.Sprintf("token-%d", i)
	}
	for _, result := range p.Launch(t.Context(), requests) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	const k = undecided
	costs("launches", map[string]int{
		"get ClusterAPINodeClass": k, "get Machine": k, "get TestMachineTemplate": k, "get KubeadmConfigTemplate": k, "get TestMachine": k,
		"create Machine": k, "create TestMachine": k, "create KubeadmConfig": k,
	})
	for i := undecided; i < n; i++ { // as if they had been launched before
		o := machine(t, store, "many-0")
		o.SetName(fmt.Sprintf("many-%d", i))
		o.SetResourceVersion("")
		set(t, o, fmt.Sprintf("test:///%d", i), "spec", "providerID")
		createAll(t, store, o)
	}
	for what, p := range map[string]*clusterapi.Provider{"a list": p, "a list after a restart": start()} {
		if all, err := p.List(t.Context()); err != nil || len(all) != n {
			t.Fatalf("%s has %d instances, %v; want %d", what, len(all), err, n)
		}
		// One for ours, and one for what the earlier provider may have. Those that may still fail are asked about one by one.
		want := map[string]int{"list Machine": 2, "get TestMachine": undecided}
		if what != "a list" {
			want["get Namespace"] = 1
		}
		costs(what, want)
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("test:///%d", i)
		if i < undecided {
			ids[i] = fmt.Sprintf("clusterapi://default/many-%d", i)
		}
	}
	answers, err := p.DriftedOf(t.Context(), ref("many"), ids)
	if err != nil || len(answers) != n {
		t.Fatalf("%d of %d instances have an answer: %v", len(answers), n, err)
	}
	for id, answer := range answers {
		if answer != (cloud.Drift{}) {
			t.Fatalf("%s has drifted: %+v", id, answer)
		}
	}
	costs("the drift of all", map[string]int{"get ClusterAPINodeClass": 1, "list MachineDeployment": 1, "get Cluster": 1, "list Machine": 1, "get KubeadmConfigTemplate": 1})
	if answers, err = p.DriftedOf(t.Context(), ref("many"), []string{"test:///x", "test:///y", "test:///10"}); err != nil || len(answers) != 3 || !errors.Is(answers["test:///y"].Err, cloud.ErrNotFound) {
		t.Fatalf("of two instances that there are not: %v, %v", answers, err)
	}
	costs("the drift of two that there are not", map[string]int{"get ClusterAPINodeClass": 1, "list MachineDeployment": 1, "get Cluster": 1, "list Machine": 3, "get KubeadmConfigTemplate": 1})
	restarted := start()
	for i := n - asked; i < n; i++ {
		if _, err := restarted.Get(t.Context(), fmt.Sprintf("test:///%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	costs("twenty instances, one by one, after a restart", map[string]int{"get Namespace": 1, "list Machine": 1, "get Machine": asked - 1})
	request(t, p, "many", 0)
	costs("the types", types)
}

// oneToken has processes launch for one NodeClaim, all of which have seen that it has no Machine.
func oneToken(t *testing.T, c client.WithWatch) {
	class(t, c, "onetoken", "small")
	const processes = 20
	r := request(t, newProvider(t, c), "onetoken", 0)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ready := make(chan struct{}, processes)
	everybody := make(chan struct{})
	go func() {
		for range processes {
			<-ready
		}
		close(everybody)
	}()
	results := make([]cloud.LaunchResult, processes)
	var all sync.WaitGroup
	for i := range processes {
		var first sync.Once
		p := newProvider(t, interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			first.Do(func() { ready <- struct{}{} })
			select {
			case <-everybody:
			case <-ctx.Done():
			}
			return c.Create(ctx, o, opts...)
		}}))
		all.Go(func() { results[i] = p.Launch(ctx, []cloud.LaunchRequest{r})[0] })
	}
	all.Wait()
	p := newProvider(t, c)
	want := settled(t, p, launch(t, p, r).ID)
	for i, result := range results {
		if result.Err != nil {
			t.Errorf("launch %d: %v", i, result.Err)
		} else if got, err := p.Get(t.Context(), result.Instance.ID); err != nil || got.ID != want.ID {
			t.Errorf("launch %d was answered with %s, which is %s, %v; want %s", i, result.Instance.ID, got.ID, err, want.ID)
		}
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: coreGroup, Version: "v1beta2", Kind: "Machine"}, {Group: infraGroup, Version: "v1beta1", Kind: "TestMachine"}, {Group: bootGroup, Version: "v1beta2", Kind: "KubeadmConfig"},
	} {
		objects := &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(t.Context(), objects); err != nil {
			t.Fatal(err)
		}
		made := 0
		for i := range objects.Items {
			if strings.HasPrefix(objects.Items[i].GetName(), r.Claim) {
				made++
			}
		}
		if made != 1 {
			t.Errorf("there are %d %ss, want one", made, kind.Kind)
		}
	}
	gone(t, p, want.ID)
}

// TestWhatFailsAtOnceWasAccepted has an infrastructure that fails before Launch returns. Launch says that it was accepted,
// and Get that it failed.
func TestWhatFailsAtOnceWasAccepted(t *testing.T) {
	t.Parallel()
	store := inMemory(t, "TestMachine").Build()
	createAll(t, store,
		object(t, "apiVersion: %s/v1beta2\nkind: Cluster\nmetadata: {name: metal, namespace: default}\nspec: {}", coreGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: TestMachineTemplate\nmetadata: {name: m, namespace: default}\nspec: {template: {spec: {}}}", infraGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: MachineDeployment\nmetadata: {name: m, namespace: default, labels: {class: atonce}, annotations: {capacity.cluster-autoscaler.kubernetes.io/cpu: '2', capacity.cluster-autoscaler.kubernetes.io/memory: 4Gi}}\n"+
			"spec: {clusterName: metal, template: {spec: {bootstrap: {dataSecretName: data}, infrastructureRef: {apiGroup: %s, kind: TestMachineTemplate, name: m}}}}", coreGroup, infraGroup))
	class(t, store, "atonce")
	c := interceptor.NewClient(store, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if u, is := o.(*unstructured.Unstructured); is && u.GetKind() == "TestMachine" {
			set(t, u, []any{map[string]any{"type": "Ready", "status": "False", "reason": "InsufficientCapacity", "message": "no host is left"}}, "status", "conditions")
		}
		return c.Create(ctx, o, opts...)
	}})
	p := newProvider(t, c)
	first := launch(t, p, request(t, p, "atonce", 0))
	if !first.Provisional || first.Failed != nil {
		t.Errorf("launched %+v, want that it is accepted", first)
	}
	if got, err := p.Get(t.Context(), first.ID); err != nil || got.Failed == nil || got.Failed.Kind != cloud.NoCapacity {
		t.Errorf("get: %+v, %v; want no capacity", got.Failed, err)
	}
}
