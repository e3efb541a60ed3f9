package cloudtest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// nodePercentLeast is how much of the promised capacity a Node must have.
const nodePercentLeast = 90

func changeReported(t T, h Harness) {
	p, can := h.Provider.(cloud.TypesChanger)
	if !can || h.Change == nil {
		t.Skip("the provider does not say when types change, or the harness changes none")
	}
	reported := make(chan struct{}, 1)
	p.OnTypesChanged(func(class cloud.ClassRef) {
		if class.Object() != h.Changing {
			return
		}
		select {
		case reported <- struct{}{}:
		default:
		}
	})
	before, err := h.Provider.Types(t.Context(), h.Changing)
	if err != nil {
		t.Fatalf("Types(%s): %v", h.Changing, err)
	}
	h.Change(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			t.Fatalf("a change of what Types(%s) answers was not reported within %s", h.Changing, patience)
		case <-reported: // maybe of something else
		}
		after, err := h.Provider.Types(t.Context(), h.Changing)
		if err != nil {
			t.Fatalf("Types(%s) after the change: %v", h.Changing, err)
		}
		if !reflect.DeepEqual(before, after) {
			return
		}
	}
}

func typesAreWhole(t T, h Harness) {
	types, err := h.Provider.Types(t.Context(), h.Class)
	if err != nil {
		t.Fatalf("Types(%s): %v", h.Class, err)
	}
	suppliesAgree(t, types)
	seen := map[string]bool{}
	for _, typ := range types {
		if seen[typ.Name] {
			t.Errorf("type %s is there twice", typ.Name)
		}
		seen[typ.Name] = true
		if name, ok := typ.Requirements[label.InstanceType].Only(); !ok || name != typ.Name {
			t.Errorf("type %s: requirement of %s is %q, want the name", typ.Name, label.InstanceType, name)
		}
		for _, resource := range []string{quantity.CPU, quantity.Memory, quantity.Pods} {
			if typ.Allocatable()[resource] <= 0 {
				t.Errorf("type %s: nothing of %s is allocatable", typ.Name, resource)
			}
		}
		for i := range typ.Offerings {
			for key, decided := range typ.Offerings[i].Requirements() {
				value, ok := decided.Only()
				if !ok || value == "" || !typ.Requirements[key].Allows(value) {
					t.Errorf("type %s: offering %d has %s %q, which the type's requirements do not list", typ.Name, i, key, value)
				}
			}
		}
	}
	if _, err := h.Provider.Types(t.Context(), h.Missing); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("Types(%s) of a missing class: error %v, want ErrNotFound", h.Missing, err)
	}
	if diff := cmp.Diff(h.Provider.Vocabulary(), h.Restart(t).Vocabulary()); diff != "" {
		t.Errorf("Vocabulary() changed (-before +after a restart):\n%s", diff)
	}
}

// suppliesAgree checks what offerings draw on supplies: a node takes something, and all offerings say the
// same of what is left, which is not below zero.
func suppliesAgree(t T, types []*catalog.Type) {
	left := map[string]int{}
	for _, typ := range types {
		for i := range typ.Offerings {
			for _, d := range typ.Offerings[i].Draws {
				was, had := left[d.Supply]
				switch {
				case d.Supply == "" || d.Units < 1 || d.Left < 0:
					t.Errorf("type %s: offering %d draws %d of supply %q, which has %d left; want a name, 1 or more, and 0 or more", typ.Name, i, d.Units, d.Supply, d.Left)
				case had && was != d.Left:
					t.Errorf("type %s: offering %d says that supply %q has %d left, and another one says %d", typ.Name, i, d.Supply, d.Left, was)
				}
				left[d.Supply] = d.Left
			}
		}
	}
}

func batchInOrder(t T, h Harness) {
	all := choices(t, h)
	var requests []cloud.LaunchRequest
	for n := range 5 {
		requests = append(requests, request(t, h.Class, n, all[n%len(all):][:1]))
	}
	requests[3].Class = h.Missing
	results := h.Provider.Launch(t.Context(), requests)
	if len(results) != len(requests) {
		t.Fatalf("Launch of %d requests has %d answers", len(requests), len(results))
	}
	for n, result := range results {
		if n == 3 {
			if result.Err == nil {
				t.Error("request 3 is for a missing class and was answered with an instance")
			}
			continue
		}
		if result.Err != nil {
			t.Errorf("request %d: %v", n, result.Err)
			continue
		}
		end(t, h.Provider, result.Instance.ID)
		got := []string{result.Instance.Token, result.Instance.Claim, result.Instance.Labels[label.InstanceType]}
		want := []string{requests[n].Token, requests[n].Claim, requests[n].Choices[0].Type.Name}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answer %d: token, claim, type (-want +got):\n%s", n, diff)
		}
	}
}

func tokenRepeated(t T, h Harness) {
	all := choices(t, h)
	r := request(t, h.Class, 0, all)
	first := launch(t, h.Provider, r)
	slices.Reverse(all) // the world has changed since
	r.Choices = all
	for name, p := range map[string]cloud.Provider{"the same provider": h.Provider, "one after a crash": h.Restart(t)} {
		if diff := same(first, launch(t, p, r)); diff != "" {
			t.Errorf("repeated to %s (-first +repeated):\n%s", name, diff)
		}
	}
	if found := withToken(t, h.Provider, r.Token); len(found) != 1 {
		t.Errorf("%d instances have the token, want one", len(found))
	}
}

func tokenAtOnce(t T, h Harness) {
	r := request(t, h.Class, 0, choices(t, h))
	providers := []cloud.Provider{h.Provider, h.Restart(t)}
	var all sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		all.Go(func() {
			result := providers[i%2].Launch(t.Context(), []cloud.LaunchRequest{r})[0]
			var failure *cloud.Failure
			if errors.As(result.Err, &failure) {
				t.Errorf("launch %d was refused: %v", i, failure)
			}
			ids[i] = result.Instance.ID // empty after an error, which asks for a repeat
		})
	}
	all.Wait()
	want := launch(t, h.Provider, r).ID
	for i, id := range ids {
		if id != "" && id != want {
			t.Errorf("launch %d was answered with %s, others with %s", i, id, want)
		}
	}
	if found := withToken(t, h.Provider, r.Token); len(found) != 1 {
		t.Errorf("%d instances have the token, want one", len(found))
	}
}

func firstChoiceWins(t T, h Harness) {
	all := choices(t, h)
	slices.Reverse(all)
	got := launch(t, h.Provider, request(t, h.Class, 0, all)).Labels
	if got[label.InstanceType] != all[0].Type.Name || got[label.CapacityType] != all[0].Offering.CapacityType {
		t.Errorf("launched %s %s, want the first offering, %s %s", got[label.InstanceType], got[label.CapacityType], all[0].Type.Name, all[0].Offering.CapacityType)
	}
}

func nodeAsPromised(t T, h Harness) {
	all := choices(t, h)
	r := request(t, h.Class, 0, all)
	instance := launch(t, h.Provider, r)
	chosen := all[slices.IndexFunc(all, func(o catalog.Choice) bool { return o.Type.Name == instance.Labels[label.InstanceType] })]
	if key, ok := chosen.Type.Requirements.Matches(instance.Labels); !ok {
		t.Errorf("instance has %s=%q, which the type does not allow", key, instance.Labels[key])
	}
	if diff := cmp.Diff(chosen.Type.Capacity, instance.Capacity); diff != "" {
		t.Errorf("capacity (-type +instance):\n%s", diff)
	}
	if diff := cmp.Diff(chosen.Type.Allocatable(), instance.Allocatable); diff != "" {
		t.Errorf("allocatable (-type +instance):\n%s", diff)
	}
	node := h.Node(t, instance.ID)
	if node.Spec.ProviderID != instance.ID {
		t.Errorf("node has providerID %q, want %q", node.Spec.ProviderID, instance.ID)
	}
	nodeHasLabels(t, h, node, r, instance)
	nodeHasTaints(t, node, r)
	nodeHasCapacity(t, node, instance)
}

// nodeHasLabels checks labels and annotations, as far as the cloud's instances put them on
// themselves.
func nodeHasLabels(t T, h Harness, node *corev1.Node, r cloud.LaunchRequest, instance cloud.Instance) {
	t.Helper()
	for key, want := range r.Labels {
		if node.Labels[key] != want {
			t.Errorf("node has label %s=%q, the request has %q", key, node.Labels[key], want)
		}
	}
	for _, labels := range []map[string]string{instance.Labels, {"conformance.test/team": "blue", corev1.LabelOSStable: "linux"}} {
		for key, want := range labels {
			if got, ok := node.Labels[key]; got != want && (ok || !h.Registered) {
				t.Errorf("node has label %s=%q, want %q", key, got, want)
			}
		}
	}
	for key, want := range r.Annotations {
		if node.Annotations[key] != want && !h.Registered {
			t.Errorf("node has annotation %s=%q, want %q", key, node.Annotations[key], want)
		}
	}
}

// nodeHasTaints checks the taints of the request. That they were there from the first
// moment is shown by one that nothing in a test cluster ever takes away or puts on.
func nodeHasTaints(t T, node *corev1.Node, r cloud.LaunchRequest) {
	t.Helper()
	for _, want := range r.Taints {
		if !slices.ContainsFunc(node.Spec.Taints, func(got corev1.Taint) bool {
			return got.Key == want.Key && got.Value == want.Value && string(got.Effect) == want.Effect
		}) {
			t.Errorf("node has taints %v, want %s among them", node.Spec.Taints, want)
		}
	}
}

func nodeHasCapacity(t T, node *corev1.Node, instance cloud.Instance) {
	t.Helper()
	for name, promised := range instance.Capacity {
		q := node.Status.Capacity[corev1.ResourceName(name)]
		got := q.Value()
		if name == quantity.CPU {
			got = q.MilliValue()
		}
		if got*100 < promised*nodePercentLeast {
			t.Errorf("node has %d of %s, the instance promised %d", got, name, promised)
		}
	}
}
