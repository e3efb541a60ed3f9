package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// forceAhead is how long before a pod is ended by force it counts as pending.
const forceAhead = 2 * time.Minute

// views derive what snapshots say of nodes.
type views struct {
	pods    *podIndex
	nodes   *nodeIndex
	volumes *volumes
	pdbs    *pdbs
	repair  func(*corev1.Node) *cloud.RepairRules

	autoscaler translate.AutoscalerRules
}

// isDeleting reports whether a Node is known to be going. A Node that is not known may exist
// without having been seen yet, so it is not.
func (x *views) isDeleting(name string, now time.Time) bool {
	n := x.nodes.nodes[name]
	if n == nil {
		return false
	}
	x.nodes.list()
	x.refresh(n, now)
	return n.view.Deleting
}

// refresh brings the view of a node up to date.
func (x *views) refresh(n *node, now time.Time) {
	var nc *karpenterv1.NodeClaim
	if n.claim != nil {
		nc = n.claim.object
	}
	if n.isTimed || n.fromNode != n.object || n.fromClaim != nc {
		n.view, n.fromNode, n.fromClaim = translate.Node(n.object, nc, now), n.object, nc
		if n.object != nil && x.repair != nil {
			n.view.Ailments = x.repair(n.object).Ailments(translate.NodeConditions(n.object), translate.AilingSince(n.object, nc))
		}
		if n.object != nil && n.view.DoNotDisrupt == "" && x.autoscaler.NodeBlocks(n.object) {
			n.view.DoNotDisrupt = "annotation " + translate.ScaleDownDisabledAnnotationKey + " on the node"
		}
		n.isTimed = n.object != nil && dependsOnTime(n.object) || nc != nil && dependsOnTime(nc)
		n.hasPods = false
		x.addLimits(n)
	}
	if n.hasPods {
		return
	}
	n.hasMovable = false
	if n.object == nil {
		n.view.Used, n.view.UsedByDaemons, n.view.Empty = quantity.List{}, quantity.List{}, true
		return
	}
	x.addPods(n, now)
	n.hasPods = !n.view.Deleting && !slices.ContainsFunc(x.pods.byNode[n.name], func(p *pod) bool { return dependsOnTime(p.object) })
}

// dependsOnTime reports whether an object has a do-not-disrupt annotation that ends at some
// time.
func dependsOnTime(o metav1.Object) bool {
	value, is := o.GetAnnotations()[karpenterv1.DoNotDisruptAnnotationKey]
	return is && value != karpenterv1.LabelValueTrue
}

// addLimits adds how many volumes a node can attach.
func (x *views) addLimits(n *node) {
	if n.object == nil {
		return
	}
	if limits := x.volumes.limits[n.name]; len(limits) > 0 {
		n.view.Allocatable = maps.Clone(n.view.Allocatable)
		maps.Copy(n.view.Allocatable, limits)
		maps.DeleteFunc(n.view.Allocatable, func(name string, _ int64) bool { return limits[name] == quantity.Unlimited })
	}
	n.hasLimits = false
	for name := range n.view.Allocatable {
		n.hasLimits = n.hasLimits || strings.HasPrefix(name, quantity.AttachPrefix)
	}
}

// addPods sets what follows from the pods of a node: what they use, whether they keep it from
// disruption, and how many there are of each kind.
func (x *views) addPods(n *node, now time.Time) {
	v := &n.view
	v.Used, v.UsedByDaemons, v.Empty = quantity.List{}, quantity.List{}, true
	v.Ports, v.Daemons, v.Pods = nil, nil, nil
	if v.DoNotDisruptByPods {
		v.DoNotDisrupt, v.DoNotDisruptByPods = "", false
	}
	n.hasClaims = false
	running := map[*sharedConstraints]*cluster.PodCount{}
	for _, p := range x.pods.byNode[n.name] {
		if !v.Deleting || !x.willMove(p.object, v.Deadline, now) {
			countPod(running, p)
		}
		if !v.Rebooting || !translate.Terminating(p.object) { // it is gone before a node that is rebooted takes pods
			v.Used.Add(p.constraints.constraints.Requests)
			v.Ports = append(v.Ports, p.constraints.constraints.Ports...)
		}
		if translate.OwnedByDaemonSet(p.object) {
			v.UsedByDaemons.Add(p.constraints.constraints.Requests)
			v.Daemons = append(v.Daemons, daemonOf(p.object))
		}
		if translate.Reschedulable(p.object) {
			v.Empty = false
		}
		if annotation := x.autoscaler.BlocksDisruption(p.object, now); v.DoNotDisrupt == "" && annotation != "" {
			v.DoNotDisruptByPods = true
			v.DoNotDisrupt = fmt.Sprintf("pod %s/%s has annotation %s", p.object.Namespace, p.object.Name, annotation)
		}
		n.hasClaims = n.hasClaims || p.hasClaims
	}
	slices.Sort(v.Daemons)
	for _, sh := range slices.SortedFunc(maps.Keys(running), func(a, b *sharedConstraints) int { return cmp.Compare(a.key, b.key) }) {
		v.Pods = append(v.Pods, *running[sh])
	}
	v.Ports, v.Daemons, v.Pods, v.Taints = slices.Clip(v.Ports), slices.Clip(v.Daemons), slices.Clip(v.Pods), slices.Clip(v.Taints)
}

// countPod adds a running pod to the counts by constraints.
func countPod(running map[*sharedConstraints]*cluster.PodCount, p *pod) {
	c := running[p.constraints]
	if c == nil {
		c = &cluster.PodCount{Constraints: p.constraints.constraints}
		running[p.constraints] = c
	}
	c.Count++
	if translate.Terminating(p.object) {
		c.Deleting++
	}
}

// willMove reports whether a pod on a node that is going will need another node soon: it can be
// evicted, or it is about to be ended by force.
func (x *views) willMove(p *corev1.Pod, deadline, now time.Time) bool {
	if !translate.Reschedulable(p) {
		return false
	}
	forced := !deadline.IsZero() && now.Add(forceAhead).After(deadline.Add(-translate.Grace(p)))
	return forced || translate.Disruptable(p, now) && !x.pdbs.block(p)
}
