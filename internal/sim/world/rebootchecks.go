package world

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

const (
	// rebootAsked is for how long the cloud is asked, rebootTakes how long a node may then take. A new life of the
	// product asks anew. Clocks may be wrong by rebootSlack.
	rebootAsked, rebootTakes, rebootSlack = 5 * time.Minute, 20 * time.Minute, 3 * time.Minute
	// rebootLate is how much longer than its bounds a reboot may take.
	rebootLate = 5 * time.Minute
	// rebootsMost is how often one life of the product may begin to reboot a node within rebootsWithin.
	rebootsMost, rebootsWithin = 2, 24 * time.Hour
)

func isRebooting(nc *karpenterv1.NodeClaim) bool {
	_, is := conditionOf(nc, karpenterv1.ConditionTypeRebooting)
	return is
}

// observe takes note of reboots that begin and end, and of pods that wait, and judges what is created.
func (r *reboots) observe(kind string, was, is client.Object) {
	switch kind {
	case "Pod":
		before, _ := was.(*corev1.Pod)
		after, _ := is.(*corev1.Pod)
		if b := r.drained(before, after); b != nil {
			b.drains = true
		}
		if before != nil && before.Spec.NodeName == "" && before.Labels[cluster.AppLabel] != "" && (after == nil || after.Spec.NodeName != "") {
			r.waited = append(r.waited, waited{before, r.w.at})
		}
		if before != nil && before.Spec.NodeName != "" && after == nil && r.of(r.w.cloud.byNode[before.Spec.NodeName]) == nil {
			r.gone = append(r.gone, waited{before, r.w.at})
		}
	case "NodeClaim":
		before, _ := was.(*karpenterv1.NodeClaim)
		after, _ := is.(*karpenterv1.NodeClaim)
		switch goesOn := after != nil && after.DeletionTimestamp == nil && isRebooting(after); {
		case before == nil:
			r.created(after)
		case goesOn && !r.has(after.Name):
			r.begins(after)
		case goesOn:
			r.goesOn(after)
		case r.has(before.Name):
			r.ends(before.Name, after)
		}
	}
}

// begins judges a reboot that is requested: by budgets, and by pods, which hold it only if nothing bounds its drain.
func (r *reboots) begins(nc *karpenterv1.NodeClaim) {
	w := r.w
	w.count("reboots begun")
	b := &reboot{i: w.cloud.byNode[nc.Status.NodeName], at: w.at, from: w.at, crashes: w.lives()}
	if b.i != nil {
		b.booted = b.i.booted
	}
	if bound, err := time.ParseDuration(nc.Annotations[karpenterv1.RebootGraceAnnotationKey]); err == nil {
		b.from, b.hasBound = w.at.Add(bound), true
	}
	r.underway[nc.Name] = b
	w.checks.keepsBudget(nc, string(Reboots))
	if !b.hasBound {
		w.checks.keepsHolds(nc)
	}
	by := begunBy{w.process, nc.UID}
	r.begun[by] = slices.DeleteFunc(append(r.begun[by], w.at), func(at time.Time) bool { return w.at.Sub(at) > rebootsWithin-rebootSlack })
	if n := len(r.begun[by]); n > rebootsMost {
		w.fail("claim %s is rebooted %d times within a day", nc.Name, n)
	}
}

// goesOn takes note of when the cloud is said to have accepted.
func (r *reboots) goesOn(nc *karpenterv1.NodeClaim) {
	b := r.underway[nc.Name]
	if how, _ := conditionOf(nc, karpenterv1.ConditionTypeRebooting); how.Reason == "RebootIssued" && b.issuedAt.IsZero() {
		b.issuedAt = r.w.at
	}
}

// ends judges a reboot that is over: one that has succeeded has happened. nc may be nil.
func (r *reboots) ends(name string, nc *karpenterv1.NodeClaim) {
	b := r.underway[name]
	delete(r.underway, name)
	if nc == nil || nc.DeletionTimestamp != nil {
		r.w.count("reboots ended by the claim's end")
		return
	}
	how, _ := conditionOf(nc, karpenterv1.ConditionTypeRebooting)
	r.w.count("reboots ended: " + how.Reason)
	if how.Reason == "RebootSucceeded" && (b.i == nil || b.i.boots || b.i.booted == b.booted) {
		r.w.fail("claim %s is said to have rebooted, and its instance has not", name)
	}
}

// lives counts how often the product began anew.
func (w *World) lives() int { return w.Stats["crashes"] + w.Stats[string(Stopped)] }

func (r *reboots) has(claim string) bool { return r.underway[claim] != nil }

func (r *reboots) of(i *instance) *reboot {
	for _, b := range r.underway {
		if i != nil && b.i == i {
			return b
		}
	}
	return nil
}

// asked takes note that the cloud is asked to reboot an instance.
func (r *reboots) asked(i *instance) {
	b := r.of(i)
	switch {
	case b == nil:
		r.w.fail("instance %s is rebooted, and its claim does not say so", i.ID)
	case b.askedAt.IsZero():
		b.askedAt = r.w.at
	}
}

func (r *reboots) refused(i *instance) {
	if b := r.of(i); b != nil {
		b.refused = true
	}
}

// drains reports whether pods may be evicted from a Node because it will be rebooted.
func (r *reboots) drains(node string) bool {
	b := r.of(r.w.cloud.byNode[node])
	return b != nil && (b.issuedAt.IsZero() || r.w.at.Sub(b.issuedAt) < blind)
}

// drained returns the reboot for which a pod has just been evicted; nil: it was not.
func (r *reboots) drained(before, after *corev1.Pod) *reboot {
	if before == nil || after == nil || before.DeletionTimestamp != nil || after.DeletionTimestamp == nil || !r.w.checks.byProduct {
		return nil
	}
	return r.of(r.w.cloud.byNode[after.Spec.NodeName])
}

// isBounded reports whether a claim goes because its node is unhealthy, and its drain has a deadline.
func (r *reboots) isBounded(nc *karpenterv1.NodeClaim) bool {
	why, chosen := conditionOf(nc, karpenterv1.ConditionTypeDisruptionReason)
	_, has := nc.Annotations[karpenterv1.NodeClaimTerminationTimestampAnnotationKey]
	return chosen && why.Reason == "Unhealthy" && has
}

// givesUp: a reboot is not given up before its time, nor when the node is back.
func (r *reboots) givesUp(nc *karpenterv1.NodeClaim) {
	w, b := r.w, r.underway[nc.Name]
	if b == nil || b.i == nil || b.i.state != joined || b.refused || w.statics.isStatic(nc.Labels[karpenterv1.NodePoolLabelKey]) {
		return
	}
	node, there := cluster.Find[*corev1.Node](w.api, "", b.i.node)
	after := nc.Spec.ExpireAfter.Duration
	if !there || node.DeletionTimestamp != nil || after != nil && w.at.Sub(nc.CreationTimestamp.Time)+rebootSlack > *after {
		return
	}
	since, most := b.issuedAt, rebootTakes
	if since.IsZero() {
		since, most = b.askedAt, rebootAsked
	}
	switch isBack := b.i.booted > b.booted && w.cloud.kubeletUp(b.i.node) && w.at.Sub(b.i.bootedAt) > rebootLate; {
	case since.IsZero() || w.at.Sub(since) < most-rebootSlack:
		w.fail("the reboot of claim %s is given up before its time: requested %s ago, asked or accepted %s ago", nc.Name, w.at.Sub(b.at), w.at.Sub(since))
	case isBack:
		w.fail("the reboot of claim %s is given up, and its node is back since %s", nc.Name, w.at.Sub(b.i.bootedAt))
	}
}

// check: a reboot ends.
func (r *reboots) check() {
	w := r.w
	old := func(p waited) bool { return w.at.Sub(p.until) > blind }
	r.waited, r.gone = slices.DeleteFunc(r.waited, old), slices.DeleteFunc(r.gone, old)
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](w.api) {
		b := r.underway[nc.Name]
		if b == nil {
			continue
		}
		if !b.hasBound && b.issuedAt.IsZero() && b.i != nil && w.checks.hasPods(b.i.node) {
			b.from = w.at // its drain takes as long as it takes
		}
		most := rebootAsked + rebootTakes + rebootLate + time.Duration(w.lives()-b.crashes)*(rebootAsked+time.Minute)
		if w.at.Sub(b.from) > most {
			w.fail("claim %s is rebooting since %s", nc.Name, w.at.Sub(b.at))
		}
	}
}

// created: nothing is launched for pods that have room where a node comes back from its reboot.
func (r *reboots) created(nc *karpenterv1.NodeClaim) {
	w := r.w
	pool := nc.Labels[karpenterv1.NodePoolLabelKey]
	if w.buffers.on || nc.Annotations[replacesKey] != "" || w.statics.isStatic(pool) || pool == gangPool || !r.alone() {
		return
	}
	var waiting, back []*corev1.Pod
	wait := func(pod *corev1.Pod) {
		pod = pod.DeepCopy()
		waiting = append(waiting, pod)
		pod = pod.DeepCopy()
		for _, taint := range []string{karpenterv1.RebootingTaintKey, corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists})
		}
		back = append(back, pod)
	}
	for _, pod := range cluster.All[*corev1.Pod](w.api) {
		_, has := cluster.Find[*corev1.Node](w.api, "", pod.Spec.NodeName) // else it goes, and another comes in its place
		if !has && pod.Labels[cluster.AppLabel] != "" && pod.Spec.SchedulingGroup == nil {
			wait(pod)
		}
	}
	for _, p := range r.waited {
		wait(p.pod)
	}
	if slices.ContainsFunc(waiting, func(pod *corev1.Pod) bool {
		return len(pod.Spec.TopologySpreadConstraints) > 0 || pod.Spec.Affinity != nil
	}) {
		return // FitTogether does not know of it
	}
	if w.cluster.Scheduler.FitTogether(waiting) == len(waiting) {
		return
	}
	for _, p := range r.gone { // the product may not know that they have left their room on other nodes
		back = append(back, p.pod)
	}
	if len(back) > 1 { // where they only just fit, the order in which they are placed decides
		back = append(back, slices.MinFunc(back, func(a, b *corev1.Pod) int {
			return a.Spec.Containers[0].Resources.Requests.Cpu().Cmp(*b.Spec.Containers[0].Resources.Requests.Cpu())
		}))
	}
	w.cluster.Scheduler.Without(r.leave(), func() {
		if w.cluster.Scheduler.FitTogether(back) == len(back) {
			w.fail("claim %s is created, and all %d pods that wait have room with nodes that are rebooting", nc.Name, len(waiting))
		}
	})
}

// leave returns the pods that are being deleted on nodes which are rebooting, as the product must have seen.
func (r *reboots) leave() (pods []*corev1.Pod) {
	for _, node := range cluster.All[*corev1.Node](r.w.api) {
		if r.of(r.w.cloud.byNode[node.Name]) != nil {
			pods = append(pods, slices.DeleteFunc(r.w.api.PodsOn(node.Name), func(pod *corev1.Pod) bool {
				if pod.DeletionTimestamp == nil {
					return true
				}
				grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
				return r.w.at.Sub(pod.DeletionTimestamp.Add(-grace)) < blind
			})...)
		}
	}
	return pods
}

// alone reports whether nodes are being rebooted, as the product must have seen, and no other is away.
func (r *reboots) alone() bool {
	w, some := r.w, false
	for _, node := range cluster.All[*corev1.Node](w.api) {
		i := w.cloud.byNode[node.Name]
		if i == nil || i.state != joined {
			return false
		}
		switch b, nc := r.of(i), w.checks.claimOf(i); {
		case nc == nil || nc.DeletionTimestamp != nil || node.DeletionTimestamp != nil || cluster.HasTaint(node, karpenterv1.DisruptedTaintKey):
			return false
		case nc.Annotations[stepKey] != "":
			return false // it is chosen to go, though its taint is not there yet, or no more
		case b != nil && !b.hasBound && b.issuedAt.IsZero():
			return false // its drain may wait for the very pods
		case b != nil && w.at.Sub(b.at) > blind: // by then most of its pods have been evicted
			some = true
		case b != nil, !w.cloud.kubeletUp(node.Name), cluster.HasTaint(node, corev1.TaintNodeUnreachable), cluster.HasTaint(node, corev1.TaintNodeNotReady):
			return false
		}
	}
	return some
}

// atRest: nothing is left of reboots.
func (r *reboots) atRest() {
	w := r.w
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](w.api) {
		i := w.checks.instanceOf(nc)
		if nc.DeletionTimestamp != nil || i != nil && w.checks.heldFor(i.node) {
			continue
		}
		if b := r.underway[nc.Name]; b != nil {
			w.fail("at rest, claim %s is rebooting since %s", nc.Name, w.at.Sub(b.at))
		}
		if _, left := nc.Annotations[karpenterv1.RebootBootIDAnnotationKey]; left {
			w.fail("at rest, claim %s has the boot ID of before its reboot", nc.Name)
		}
		if i == nil {
			continue
		}
		if node, there := cluster.Find[*corev1.Node](w.api, "", i.node); there && cluster.HasTaint(node, karpenterv1.RebootingTaintKey) {
			w.fail("at rest, node %s has the taint of its reboot", node.Name)
		}
	}
}

// String returns which reboots are underway.
func (r *reboots) String() (all string) {
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](r.w.api) {
		if b := r.underway[nc.Name]; b != nil {
			all += fmt.Sprintf(", %s is rebooting since %s (accepted %s)", nc.Name, b.at.Format("15:04:05"), b.issuedAt.Format("15:04:05"))
		}
	}
	return all
}
