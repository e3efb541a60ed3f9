package mirror_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	randomPods = 60
	closed     = "example.com/closed"
)

// TestKubeSchedulerAgreesAboutRandomVolumes makes pods up, with one or two volumes that
// can be reached from somewhere. Once the nodes are open, just those pods for which the
// mirror had one of them are bound, each to a node that the mirror had for it.
func TestKubeSchedulerAgreesAboutRandomVolumes(t *testing.T) {
	t.Parallel()
	c, store := startJudge(t)
	nodes := []*corev1.Node{node("node-a", "zone-a"), node("node-b", "zone-b"), node("node-c", "zone-c")}
	nodes[0].Labels["rack"], nodes[1].Labels["rack"] = "1", "2"
	for _, n := range nodes {
		// A pod that finds a node closed is judged again when it opens.
		n.Spec.Taints = []corev1.Taint{{Key: closed, Effect: corev1.TaintEffectNoSchedule}}
		must(t, c.Create(t.Context(), n))
	}
	makeRandomPods(t, c)
	var right map[string]string
	testkit.Eventually(t, patience, func() (err error) {
		right, err = rightNodes(store, nodes)
		return err
	})
	for _, n := range nodes {
		testkit.Eventually(t, patience, func() error { return open(t.Context(), c, n.Name) })
	}
	testkit.Eventually(t, patience, func() error { return boundAsSaid(t.Context(), c, right) })
	none := 0
	for _, names := range right {
		if names == "" {
			none++
		}
	}
	if none < randomPods/10 || none > randomPods*9/10 {
		t.Errorf("%d of %d pods have no node: too few or too many to show anything", none, randomPods)
	}
}

// open takes our taint from a node.
func open(ctx context.Context, c client.Client, name string) error {
	var n corev1.Node
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &n); err != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == closed })
	return c.Update(ctx, &n)
}

func makeRandomPods(t *testing.T, c client.Client) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same volumes each time
	for i := range randomPods {
		var claims []string
		for j := range 1 + rng.IntN(2) {
			name := fmt.Sprintf("v%d-%d", i, j)
			claims = append(claims, name)
			must(t, c.Create(t.Context(), randomPV(rng, name)))
			must(t, c.Create(t.Context(), pvc(name, "", name)))
		}
		p := podWith(fmt.Sprintf("p%d", i), claims...)
		if rng.IntN(4) == 0 {
			p.Spec.NodeSelector = map[string]string{"rack": "1"}
		}
		testkit.Eventually(t, patience, func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), p)) })
	}
}

func randomPV(rng *rand.Rand, name string) *corev1.PersistentVolume {
	v := pv(name, "", "")
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	v.Spec.NodeAffinity.Required.NodeSelectorTerms = nil
	for range 1 + rng.IntN(2) {
		var term corev1.NodeSelectorTerm
		for range 1 + rng.IntN(2) {
			zone, rack := pick("zone-a", "zone-b", "zone-c", "zone-d"), pick("1", "2", "3")
			e := []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone, pick("zone-a", "zone-c")}},
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{zone}},
				{Key: "rack", Operator: corev1.NodeSelectorOpNotIn, Values: []string{rack}},
				{Key: "rack", Operator: corev1.NodeSelectorOpGt, Values: []string{rack}},
				{Key: "rack", Operator: corev1.NodeSelectorOpDoesNotExist},
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{pick("node-a", "node-b", "gone")}},
			}[rng.IntN(6)]
			term.MatchExpressions = append(term.MatchExpressions, e)
		}
		v.Spec.NodeAffinity.Required.NodeSelectorTerms = append(v.Spec.NodeAffinity.Required.NodeSelectorTerms, term)
	}
	if rng.IntN(5) == 0 {
		v.Labels = map[string]string{corev1.LabelTopologyZone: pick("zone-a", "zone-b__zone-c")}
	}
	return v
}

// rightNodes returns which of the nodes the mirror has for each pod, once all volumes are
// bound.
func rightNodes(store *mirror.Store, nodes []*corev1.Node) (map[string]string, error) {
	right := map[string]string{}
	for _, p := range store.Snapshot().Pending {
		if strings.Contains(p.Constraints.Invalid, " yet") || strings.Contains(p.Constraints.Invalid, "does not exist") {
			return nil, fmt.Errorf("pod %s: %s", p.Name, p.Constraints.Invalid)
		}
		right[p.Name] = ""
		for _, n := range nodes {
			if p.Constraints.Invalid == "" && fit.Labels(p.Constraints.Terms, n.Labels).IsYes() {
				right[p.Name] += n.Name + " "
			}
		}
	}
	if len(right) < randomPods {
		return nil, fmt.Errorf("%d pods of %d ask for a node", len(right), randomPods)
	}
	return right, nil
}

// boundAsSaid returns nil when all pods that should be are bound, and all others were
// refused by every node, none of them closed.
func boundAsSaid(ctx context.Context, c client.Client, right map[string]string) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		on, said := p.Spec.NodeName, right[p.Name]
		why := ""
		for _, cond := range p.Status.Conditions {
			why = cond.Message
		}
		switch {
		case on == "" && said == "" && strings.HasPrefix(why, "0/3 nodes") && !strings.Contains(why, "taint"):
		case on != "" && strings.Contains(said, on+" "):
		default:
			return fmt.Errorf("pod %s is on %q, the mirror said %q: %s", p.Name, on, said, why)
		}
	}
	return nil
}
