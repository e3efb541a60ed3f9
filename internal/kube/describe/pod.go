package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// podsListed is how many pods of a workload are named.
const podsListed = 3

// pods describes the pods of a name.
func (d *describer) pods(s journal.Subject) (states []journal.State) {
	found := d.store.PodsThat(func(p *corev1.Pod) bool {
		return p.Name == s.Name && (s.Namespace == "" || p.Namespace == s.Namespace)
	})
	for i := range found {
		states = append(states, d.pod(&found[i]))
	}
	return states
}

func (d *describer) pod(n *mirror.PodNow) journal.State {
	p := n.Object
	state := journal.State{
		Kind: journal.KindPod, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Node:  p.Spec.NodeName,
		Facts: []string{"created " + p.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z")},
	}
	state.Now, state.Ends = d.podPhase(n)
	return state
}

// podPhase says what a pod does or waits for, and what ends that.
func (d *describer) podPhase(n *mirror.PodNow) (phase, ends string) {
	p := n.Object
	age := d.since(p.CreationTimestamp.Time)
	scheduler := cmp.Or(p.Spec.SchedulerName, corev1.DefaultSchedulerName)
	switch {
	case p.DeletionTimestamp != nil:
		return "is being deleted", "its containers have ended"
	case p.Spec.NodeName != "" && p.Status.Phase == corev1.PodRunning:
		return "runs on node " + p.Spec.NodeName, ""
	case p.Spec.NodeName != "":
		return fmt.Sprintf("is bound to node %s and does not run yet (%s)", p.Spec.NodeName, cmp.Or(p.Status.Phase, corev1.PodPending)), "the kubelet has started its containers: kubectl describe pod says more"
	case len(p.Spec.SchedulingGates) > 0:
		var gates []string
		for _, g := range p.Spec.SchedulingGates {
			gates = append(gates, g.Name)
		}
		return fmt.Sprintf("is left alone for %s: it has the scheduling gates %s", age, strings.Join(gates, ", ")), "whoever set the gates removes them"
	case translate.OwnedByDaemonSet(p):
		return "is left alone: it is of a DaemonSet, for which no node is launched", "the node that it is meant for has room"
	case translate.Unwanted(p):
		return "is left alone: its affinity excludes nodes of NodePools", "the affinity is changed, or another node has room"
	case n.Planned != "":
		return fmt.Sprintf("waits for %s: planned for %s", age, n.Planned), "that node is ready, and the scheduler " + scheduler + " binds the pod"
	case n.AsksForNode:
		return fmt.Sprintf("waits for %s: no node has room for it", age), ""
	default:
		return fmt.Sprintf("is left alone for %s: the scheduler %s has not said that no node has room for it", age, scheduler), "that scheduler says so in the pod's condition PodScheduled (Unschedulable), or binds it; if none of that name runs, neither happens"
	}
}

// workload describes what has made pods, by their owners.
func (d *describer) workload(s journal.Subject) []journal.State {
	found := d.store.PodsThat(func(p *corev1.Pod) bool {
		return (s.Namespace == "" || p.Namespace == s.Namespace) && slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return owns(s, p, &o) })
	})
	byNamespace := map[string][]mirror.PodNow{}
	for _, p := range found {
		byNamespace[p.Object.Namespace] = append(byNamespace[p.Object.Namespace], p)
	}
	var states []journal.State
	for namespace, pods := range byNamespace {
		states = append(states, d.sum(s, namespace, pods))
	}
	return states
}

// owns reports whether an owner of a pod is the workload: itself, or a ReplicaSet of the Deployment.
func owns(s journal.Subject, p *corev1.Pod, o *metav1.OwnerReference) bool {
	kind := strings.ToLower(o.Kind)
	if kind == s.Kind && o.Name == s.Name {
		return true
	}
	hash := p.Labels["pod-template-hash"]
	return s.Kind == "deployment" && kind == "replicaset" && hash != "" && o.Name == s.Name+"-"+hash
}

// sum says how many pods of a workload do what. Those that have no node are explained by the journal.
func (d *describer) sum(s journal.Subject, namespace string, pods []mirror.PodNow) journal.State {
	slices.SortFunc(pods, func(a, b mirror.PodNow) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	state := journal.State{Kind: s.Kind, Namespace: namespace, Name: s.Name}
	nodes, running := map[string]bool{}, 0
	groups := map[string][]string{}
	for i := range pods {
		p := pods[i].Object
		if p.Spec.NodeName != "" {
			nodes[p.Spec.NodeName] = true
			running++
			continue
		}
		state.Waiting = append(state.Waiting, translate.PodRef(p))
		if !pods[i].AsksForNode && pods[i].Planned == "" {
			phase, _ := d.podPhase(&pods[i])
			_, why, _ := strings.Cut(phase, ": ")
			groups[why] = append(groups[why], p.Name)
		}
	}
	state.Now = fmt.Sprintf("%d pods: %d have a node (%d nodes), %d wait", len(pods), running, len(nodes), len(state.Waiting))
	for why, names := range groups {
		state.Facts = append(state.Facts, fmt.Sprintf("%d left alone: %s (%s)", len(names), why, strings.Join(names[:min(podsListed, len(names))], ", ")))
	}
	slices.Sort(state.Facts)
	return state
}
