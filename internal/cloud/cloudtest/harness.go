package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// patience is how long the suite waits for something that takes a cloud its time.
const patience = time.Minute

// Harness is a provider to be tested, and what the suite cannot see through it.
type Harness struct {
	Provider cloud.Provider
	// Restart returns another provider over the same cloud that knows nothing of what the
	// first has in memory, as after a crash.
	Restart func(t T) cloud.Provider
	// Class can be launched with; its instances join without delay.
	Class cloud.ClassRef
	// Missing is a class that does not exist.
	Missing cloud.ClassRef
	// Unready is a class that cannot be used yet; without a name, that test is left out.
	Unready cloud.ClassRef
	// Slow is a class whose instances take longer to join than any test; without a name,
	// that test is left out.
	Slow cloud.ClassRef
	// Accepts is a class whose instances get their provider ID within seconds after Launch was answered, and
	// Fails one whose launches are accepted and then fail for want of capacity; without a name, those tests
	// are left out.
	Accepts, Fails cloud.ClassRef
	// Notified: a launch that fails late has a notice.
	Notified bool
	// Change changes what Types answers for the class Changing; nil: the test of that is left out.
	Change   func(t T)
	Changing cloud.ClassRef
	// Registered: an instance joins with the labels of its request and those that its kubelet
	// knows; the rest, and annotations, come with its registration.
	Registered bool
	// Node waits until an instance has joined and its kubelet has reported for the first time, and returns its Node.
	Node func(t T, instanceID string) *corev1.Node
}

// ReadyNode waits until the Node of that name is ready in the cluster, and returns it. Its kubelet has written by then
// what it writes of itself when it starts.
func ReadyNode(t T, c client.Reader, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is not ready", name)
	})
	return node
}

// request returns a request with a token and claim name of the test's own.
func request(t T, class cloud.ClassRef, n int, choices []catalog.Choice) cloud.LaunchRequest {
	t.Helper()
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", t.Name(), n)
	return cloud.LaunchRequest{
		Token: fmt.Sprintf("%016x-token", h.Sum64()),
		Claim: fmt.Sprintf("conformance-%x", h.Sum64()),
		Class: class, Choices: choices,
		Requirements: label.Requirements{
			corev1.LabelOSStable:    label.In("linux"),
			"conformance.test/team": label.In("blue"),
			"conformance.test/open": label.In("a", "b"),
		},
		Requests:    quantity.List{quantity.CPU: 100, quantity.Pods: 1},
		Labels:      map[string]string{"conformance.test/label": "yes"},
		Annotations: map[string]string{"conformance.test/annotation": "yes, too"},
		Taints: []cluster.Taint{
			{Key: "karpenter.sh/unregistered", Effect: cluster.NoExecute},
			{Key: "conformance.test/taint", Value: "v", Effect: cluster.NoSchedule},
		},
	}
}

// choices returns what a small Linux instance may be, cheapest first.
func choices(t T, h Harness) []catalog.Choice {
	t.Helper()
	types, err := h.Provider.Types(t.Context(), h.Class)
	if err != nil {
		t.Fatalf("Types(%s): %v", h.Class, err)
	}
	want := label.Requirements{corev1.LabelOSStable: label.In("linux")}
	found := catalog.Choices(types, want, quantity.List{quantity.CPU: 100, quantity.Pods: 1})
	if len(found) < 2 {
		t.Fatalf("class %s has %d offerings for a small Linux instance, the suite needs two", h.Class, len(found))
	}
	return found
}

// launch launches one instance that must succeed, and ends it with the test.
func launch(t T, p cloud.Provider, r cloud.LaunchRequest) cloud.Instance {
	t.Helper()
	results := p.Launch(t.Context(), []cloud.LaunchRequest{r})
	if len(results) != 1 || results[0].Err != nil {
		t.Fatalf("Launch(%s) = %+v, want one instance", r.Claim, results)
	}
	end(t, p, results[0].Instance.ID)
	return results[0].Instance
}

// end asks for the end of an instance when the test is over.
func end(t T, p cloud.Provider, id string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // which is over when the test is
	t.Cleanup(func() {
		if err := p.Terminate(ctx, id); err != nil && !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("Terminate(%s) after the test: %v", id, err)
		}
	})
}

// terminated terminates an instance and waits until it is gone for good.
func terminated(t T, p cloud.Provider, id string) {
	t.Helper()
	eventually(t, func() error {
		err := p.Terminate(t.Context(), id)
		switch {
		case errors.Is(err, cloud.ErrNotFound):
			return nil
		case err == nil:
			return fmt.Errorf("instance %s is still on its way out", id)
		default:
			return err
		}
	})
}

// Launch launches one instance of the harness's class, and ends it with the test.
func Launch(t T, h Harness) cloud.Instance {
	t.Helper()
	return launch(t, h.Provider, request(t, h.Class, 0, choices(t, h)))
}

// End ends an instance with the test.
func End(t T, p cloud.Provider, id string) {
	t.Helper()
	end(t, p, id)
}

// same compares what identifies two answers about one instance.
func same(a, b cloud.Instance) string {
	type identity struct {
		ID, Token, Claim string
		Labels           map[string]string
	}
	return cmp.Diff(identity{a.ID, a.Token, a.Claim, a.Labels}, identity{b.ID, b.Token, b.Claim, b.Labels})
}

// withToken returns the instances of a token that are not on their way out.
func withToken(t T, p cloud.Provider, token string) []cloud.Instance {
	t.Helper()
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatalf("List(): %v", err)
	}
	var found []cloud.Instance
	for _, instance := range all {
		if instance.Token == token && !instance.Terminating {
			found = append(found, instance)
		}
	}
	return found
}
