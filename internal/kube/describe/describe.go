// Package describe says what a pod, node, NodeClaim, NodePool or workload is now, in words, from
// the objects that the mirror has: what stands above all that the journal knows of it. Whatever
// exists is described, also what Dovetail leaves alone.
//
// It may import the mirror, translate and the journal. Read live.go first, then pod.go.
package describe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

type describer struct {
	store *mirror.Store
	now   func() time.Time
}

// since says for how long something has been so.
func (d *describer) since(t time.Time) string {
	return d.now().Sub(t).Truncate(time.Second).String()
}

// node describes a node or NodeClaim by either's name.
func (d *describer) node(s journal.Subject) []journal.State {
	n, ok := d.store.FindNode(s.Name)
	if !ok {
		return nil
	}
	state := journal.State{Kind: s.Kind, Name: s.Name}
	if state.Kind == "" {
		state.Kind = journal.KindNode
	}
	if n.Node != nil {
		state.Node = n.Node.Name
	}
	if n.Claim == nil {
		state.Now = "runs; it has no NodeClaim"
		state.Ends = "never: Dovetail removes only nodes that it has launched; pods may be planned for it"
		if n.Node.DeletionTimestamp != nil {
			state.Now = "is being deleted since " + d.since(n.Node.DeletionTimestamp.Time)
		}
		return []journal.State{state}
	}
	state.Claim, state.Pool = n.Claim.Name, n.Claim.Labels[karpenterv1.NodePoolLabelKey]
	state.Now, state.Ends = d.phase(n)
	return []journal.State{state}
}

// phase says where in its life a node of ours is, and what ends that.
func (d *describer) phase(n mirror.NodeNow) (phase, ends string) {
	nc := n.Claim
	isTrue := func(kind string) bool { return meta.IsStatusConditionTrue(nc.Status.Conditions, kind) }
	age := d.since(nc.CreationTimestamp.Time)
	for _, c := range nc.Status.Conditions {
		if c.Type == karpenterv1.ConditionTypeLaunched && c.Status == "False" && nc.DeletionTimestamp == nil {
			return fmt.Sprintf("is not launched after %s: %s: %s", age, c.Reason, c.Message), "the launch is tried again and succeeds, or the NodeClaim is replaced by one that asks for something else"
		}
	}
	switch {
	case nc.DeletionTimestamp != nil:
		return fmt.Sprintf("leaves since %s: %d pods left", d.since(nc.DeletionTimestamp.Time), n.Pods), "its pods are gone and its instance has ended"
	case !isTrue(karpenterv1.ConditionTypeLaunched):
		return "is being launched since " + age, "the cloud has answered"
	case !isTrue(karpenterv1.ConditionTypeRegistered):
		return "is launched and has not joined after " + age, "its Node joins; after 15m it is replaced"
	case !isTrue(karpenterv1.ConditionTypeInitialized):
		return "has joined and is not initialized after " + age, "the Node is ready, its startup taints are gone and its resources are reported"
	}
	phase = fmt.Sprintf("runs with %d pods for %s", n.Pods, age)
	if n.Node != nil {
		if why := notReady(n.Node); why != "" {
			phase += ", is not ready (" + why + ")"
		}
		if n.Node.Spec.Unschedulable {
			phase += ", is cordoned"
		}
		if slices.ContainsFunc(n.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpenterv1.DisruptedTaintKey }) {
			phase += ", has the disrupted taint"
		}
	}
	if c := meta.FindStatusCondition(nc.Status.Conditions, karpenterv1.ConditionTypeDrifted); c != nil && c.Status == "True" {
		phase += ", is drifted (" + c.Reason + ")"
	}
	if at := translate.Expires(nc); !at.IsZero() {
		ends = "it expires at " + at.UTC().Format(time.RFC3339) + ", if nothing removes it before"
	}
	return phase, ends
}

func notReady(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}

// pool describes a NodePool.
func (d *describer) pool(s journal.Subject) []journal.State {
	np, ok := d.store.PoolObject(s.Name)
	if !ok {
		return nil
	}
	state := journal.State{Kind: journal.KindPool, Name: s.Name}
	nodes := d.store.NodeCount(s.Name)
	state.Now = fmt.Sprintf("is ready, %d nodes", nodes)
	if c := meta.FindStatusCondition(np.Status.Conditions, "Ready"); c == nil || c.Status != "True" {
		why := "it has no condition Ready yet"
		if c != nil {
			why = strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
		state.Now, state.Ends = fmt.Sprintf("is not ready (%s), %d nodes", why, nodes), "its conditions are met: nothing is launched from it before"
	}
	if np.DeletionTimestamp != nil {
		state.Now, state.Ends = fmt.Sprintf("is being deleted, %d nodes left", nodes), "its nodes are gone"
	}
	if np.Spec.Replicas != nil {
		state.Facts = append(state.Facts, fmt.Sprintf("has %d replicas, whatever pods ask for", *np.Spec.Replicas))
	}
	for name, limit := range np.Spec.Limits {
		used := np.Status.Resources[name]
		state.Facts = append(state.Facts, fmt.Sprintf("limit %s %s, %s used", name, limit.String(), used.String()))
	}
	slices.Sort(state.Facts)
	return []journal.State{state}
}
