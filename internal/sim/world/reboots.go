package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// What happens with nodes that a reboot may mend. Reboots is that there are any.
const (
	Reboots       Fault = "reboots"
	Wedged        Fault = "node-wedged"
	RebootRefused Fault = "reboot-refused"
	RebootError   Fault = "reboot-error"
	RebootLost    Fault = "reboot-answer-lost"
	RebootCrash   Fault = "crash-after-reboot"
	NeverBoots    Fault = "node-never-boots"
)

// wedged is the condition of a Node that is to be rebooted.
const wedged corev1.NodeConditionType = "KernelWedged"

// rebootFaults are what may become of a request, with their odds in a storm.
//
//nolint:gochecknoglobals // what there is, which nobody changes
var rebootFaults = []struct {
	fault Fault
	odds  float64
}{{RebootRefused, 0.06}, {RebootError, 0.2}, {RebootLost, 0.15}, {RebootCrash, 0.04}}

func newReboots(w *World, seed uint64) *reboots {
	return &reboots{
		beside: newBeside(w, seed, 0x7265626f, Reboots), accepted: map[string]bool{},
		underway: map[string]*reboot{}, begun: map[begunBy][]time.Time{},
	}
}

// begin draws the policy, and has nodes become such that it is about.
func (r *reboots) begin() {
	if !r.on {
		return
	}
	policy := cloud.RepairPolicy{
		ConditionType: string(wedged), ConditionStatus: string(corev1.ConditionTrue), ReasonRegex: "Wedged",
		Toleration: r.between(20*time.Second, 4*time.Minute).Round(time.Second), Priority: r.upTo(0, 10), Action: cloud.RebootNode,
	}
	if r.chance(0.7) {
		policy.TerminationGracePeriod = new(one(&r.beside, 0, time.Minute, 4*time.Minute, 12*time.Minute))
	}
	r.policies = append(r.policies, policy)
	r.w.api.Watch(r.observe)
	r.w.every(checkEvery, r.check)
	r.again(Wedged, 4*time.Minute, r.wedge)
}

// wedge gives a node the condition. Some are rid of it by themselves, some by a reboot, some never. Nodes of gangs
// are spared: with one of their nodes away a gang waits.
func (r *reboots) wedge() {
	var nodes []*corev1.Node
	for _, node := range cluster.All[*corev1.Node](r.w.api) {
		if r.w.cloud.kubeletUp(node.Name) && node.Labels[karpenterv1.NodePoolLabelKey] != gangPool {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return
	}
	node := one(&r.beside, nodes...)
	i := r.w.cloud.byNode[node.Name]
	i.mends = r.chance(0.6)
	r.setWedged(node, corev1.ConditionTrue)
	if r.chance(0.25) {
		r.w.after(r.between(30*time.Second, 20*time.Minute), func() { r.unwedge(i) })
	}
}

// unwedge takes the condition from a node whose kubelet works.
func (r *reboots) unwedge(i *instance) {
	if node, there := cluster.Find[*corev1.Node](r.w.api, "", i.node); there && isWedged(node) && r.w.cloud.kubeletUp(i.node) {
		r.setWedged(node, corev1.ConditionFalse)
	}
}

func isWedged(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == wedged && c.Status == corev1.ConditionTrue })
}

func (r *reboots) setWedged(node *corev1.Node, status corev1.ConditionStatus) {
	if isWedged(node) == (status == corev1.ConditionTrue) {
		return
	}
	cluster.Edit(r.w.api, node, func(n *corev1.Node) {
		n.Status.Conditions = slices.DeleteFunc(slices.Clone(n.Status.Conditions), func(c corev1.NodeCondition) bool { return c.Type == wedged })
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: wedged, Status: status, Reason: "Wedged", LastTransitionTime: cluster.WireTime(r.w.at)})
	})
}

// end is the end of the storm: no node is wedged.
func (r *reboots) end() {
	for _, i := range r.w.cloud.live() {
		i.mends = true
		r.unwedge(i)
	}
}

// fate draws what becomes of a request.
func (r *reboots) fate() Fault {
	if !r.w.chaos.stormy {
		return ""
	}
	x := r.rand.Float64()
	for _, f := range rebootFaults {
		if x -= f.odds; x < 0 && !slices.Contains(r.w.opts.Without, f.fault) {
			r.w.count(string(f.fault))
			return f.fault
		}
	}
	return ""
}

// Reboot restarts an instance.
func (s *provider) Reboot(_ context.Context, request cloud.RebootRequest) error {
	w, r := s.cloud.w, s.cloud.w.reboots
	if s.p.mayAct() != nil {
		return errGone
	}
	i := s.cloud.byID[request.InstanceID]
	if i == nil || i.state != joined {
		return cloud.ErrNotFound
	}
	w.checks.acts(s.p, "reboot")
	r.asked(i)
	fate := r.fate()
	w.note("product reboots %s with %s: %q", i.ID, request.Token, fate)
	switch {
	case r.accepted[request.Token]:
		return nil
	case fate == RebootRefused:
		r.refused(i)
		return fmt.Errorf("world: %w", cloud.ErrRebootRefused)
	case fate == RebootError:
		return errCloud
	}
	r.accepted[request.Token] = true
	r.reboot(i)
	switch fate {
	case RebootLost:
		return errCloud
	case RebootCrash:
		s.p.crash()
		return errGone
	default:
		return nil
	}
}

// reboot takes an instance's kubelet away until it has booted, which it may never do.
func (r *reboots) reboot(i *instance) {
	r.w.count("reboots")
	i.boots = true
	if i.silentSince.IsZero() {
		i.silentSince = r.w.at
	}
	takes := r.between(15*time.Second, one(&r.beside, 2*time.Minute, 9*time.Minute))
	odds := 0.1
	if slices.Contains(r.w.opts.With, NeverBoots) {
		odds = 1
	}
	if r.w.chaos.stormy && r.chance(odds) && !slices.Contains(r.w.opts.Without, NeverBoots) {
		r.w.count(string(NeverBoots))
		return
	}
	r.w.after(takes, func() { r.boot(i) })
}

// boot brings an instance back with another boot ID. It is ready a little later.
func (r *reboots) boot(i *instance) {
	w := r.w
	if i.state != joined {
		return
	}
	i.boots, i.bootedAt = false, w.at
	i.booted++
	w.note("cloud booted %s", i.ID)
	if !i.frozen.After(w.at) {
		i.silentSince = time.Time{}
	}
	node, there := cluster.Find[*corev1.Node](w.api, "", i.node)
	if !there {
		return
	}
	cluster.Edit(w.api, node, func(n *corev1.Node) { n.Status.NodeInfo.BootID = i.bootID() })
	if i.mends {
		r.unwedge(i)
	}
	w.after(r.between(time.Second, 10*time.Second), func() {
		if now, ok := cluster.Find[*corev1.Node](w.api, "", i.node); ok && w.cloud.kubeletUp(i.node) {
			w.cluster.Kubelets.SetReady(now, true)
		}
	})
}

// bootID is what an instance's Node has as long as it is not rebooted.
func (i *instance) bootID() string { return fmt.Sprintf("%s-boot-%d", i.node, i.booted) }

// unescalated forgets how often nodes were rebooted.
type unescalated struct{ disruption.Reboots }

// IsEscalated says no.
func (unescalated) IsEscalated(types.UID) bool { return false }
