package world

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// What checkers allow.
const (
	// lookEvery is how often the whole is looked at.
	checkEvery = 5 * time.Second
	// writesMost is how many writes to one object, and reconciliations of one, a minute may have.
	writesMost, reconcilesMost = 120, 600
	// idleMost is how many of the writes to one object may change nothing.
	idleMost = 20
	// orphanMost is how long an instance may be without anybody who accounts for it.
	orphanMost = 20 * time.Minute
	// blind is how far the product's picture may be behind.
	blind = 25 * time.Second
	// edited is for how long after an edit of a pool its old word may count.
	edited = 15 * time.Minute
	// forMoney is the reason for which nodes go that cost more than they need.
	forMoney = "Underutilized"
	// idleFor is how long nothing may have happened when the world is at rest.
	idleFor = 15 * time.Minute
)

// Annotations by which the product says what belongs together.
const (
	stepKey     = "dovetail.sh/disruption-step"
	replacesKey = "dovetail.sh/replaces"
)

func newChecks(w *World) *checks {
	c := &checks{
		w: w, writes: map[string]int{}, idle: map[string]int{}, reconciles: map[string]int{}, poolEdited: map[string]time.Time{},
		most: map[string]int{}, lost: map[string]bool{}, boundAt: map[cluster.Key]time.Time{},
	}
	w.api.Watch(c.observe)
	return c
}

// observe judges every write as it happens.
func (c *checks) observe(kind string, was, is client.Object) {
	switch kind {
	case "NodePool":
		if is == nil || was != nil && was.GetGeneration() != is.GetGeneration() {
			c.poolEdited[nameOf(was, is)] = c.w.at
		}
	case "NodeClaim":
		if nc, _ := is.(*karpenterv1.NodeClaim); nc != nil && strings.HasPrefix(nc.Status.ProviderID, provisionalPrefix) {
			c.w.fail("claim %s has the provisional ID %s as its provider ID", nc.Name, nc.Status.ProviderID)
		}
		if was != nil && (is == nil || is.GetDeletionTimestamp() != nil) && was.GetAnnotations()[replacesKey] != "" {
			c.lost[was.GetAnnotations()[replacesKey]] = true
		}
	case "Pod":
		switch pod, _ := is.(*corev1.Pod); {
		case is == nil:
			delete(c.boundAt, cluster.KeyOf(was))
		case pod.Spec.NodeName != "" && (was == nil || was.(*corev1.Pod).Spec.NodeName == ""):
			c.boundAt[cluster.KeyOf(is)] = c.w.at
		}
	case "Node":
		if is != nil {
			c.checkNode(is.(*corev1.Node))
		}
	}
}

func nameOf(was, is client.Object) string {
	if is != nil {
		return is.GetName()
	}
	return was.GetName()
}

// checkNode: a Node that is open to pods is one that will be drained.
func (c *checks) checkNode(n *corev1.Node) {
	if n.Labels[karpenterv1.NodeRegisteredLabelKey] != "true" || n.DeletionTimestamp != nil || !c.byProduct {
		return
	}
	if !contains(n.Finalizers, karpenterv1.TerminationFinalizer) {
		c.w.fail("node %s is registered and has no finalizer", n.Name)
	}
	if len(n.OwnerReferences) == 0 {
		c.w.fail("node %s is registered and no claim owns it", n.Name)
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func conditionOf(nc *karpenterv1.NodeClaim, kind string) (metav1.Condition, bool) {
	for i := range nc.Status.Conditions {
		if nc.Status.Conditions[i].Type == kind {
			return nc.Status.Conditions[i], nc.Status.Conditions[i].Status == metav1.ConditionTrue
		}
	}
	return metav1.Condition{}, false
}

// productWrites: no write repeats for ever.
func (c *checks) productWrites(verb, kind string, o client.Object) {
	what := verb + " " + kind + " " + o.GetNamespace() + "/" + o.GetName() + o.GetGenerateName()
	if c.writes[what]++; c.writes[what] > writesMost && verb != "create" {
		c.w.fail("hot loop: %d times in a minute: %s", c.writes[what], what)
	}
}

// idleWrite: no write repeats without change.
func (c *checks) idleWrite(kind string, o client.Object) {
	if !c.byProduct {
		return
	}
	what := kind + " " + o.GetName()
	if c.idle[what]++; c.idle[what] > idleMost {
		c.w.fail("hot loop: %d writes in a minute that change nothing: %s", c.idle[what], what)
	}
}

// reconciled: nothing is looked at all the time.
func (c *checks) reconciled(controller string, r reconcile.Request) {
	what := controller + " " + r.String()
	if c.reconciles[what]++; c.reconciles[what] > reconcilesMost {
		c.w.fail("hot loop: %d reconciliations in a minute: %s", c.reconciles[what], what)
	}
}

// claimOf returns the claim that accounts for an instance.
func (c *checks) claimOf(i *instance) *karpenterv1.NodeClaim {
	if nc, ok := cluster.Find[*karpenterv1.NodeClaim](c.w.api, "", i.Claim); ok && (string(nc.UID) == i.Token || nc.Status.ProviderID == i.ID) {
		return nc
	}
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](c.w.api) {
		if nc.Status.ProviderID == i.ID {
			return nc
		}
	}
	return nil
}

func (c *checks) instanceOf(nc *karpenterv1.NodeClaim) *instance {
	if i := c.w.cloud.byID[nc.Status.ProviderID]; i != nil {
		return i
	}
	if i := c.w.cloud.byToken[string(nc.UID)]; i != nil && i.state != gone {
		return i
	}
	return nil
}

// acts: nobody does anything while another leads.
func (c *checks) acts(p *process, what string) {
	if p != c.w.process {
		c.w.fail("%s by a leader that stood still, while another leads", what)
	}
}

// launched: one instance a claim, no pool beyond its limits, and nothing dearer than need be.
func (c *checks) launched(i *instance) {
	c.lastLaunch, c.why = c.w.at, "launch of "+i.Claim
	for _, o := range i.ordered.Choices {
		place := catalog.Place{Type: o.Type.Name, Zone: o.Offering.Zone, CapacityType: o.Offering.CapacityType}
		// What may fail late also goes by where it has failed before.
		if _, short := c.w.cloud.stock[place]; !short && !c.w.late.failures && o.Offering.Price() < i.price {
			c.w.fail("instance %s for %s costs %.4f, %s would have cost %.4f", i.ID, i.Claim, i.price, place.Type, o.Offering.Price())
		}
	}
	c.w.buffers.launched(i)
	pool, cpu := i.ordered.Labels[karpenterv1.NodePoolLabelKey], int64(0)
	for _, other := range c.w.cloud.live() {
		if other != i && other.Claim == i.Claim {
			c.w.fail("two instances for claim %s: %s and %s", i.Claim, other.ID, i.ID)
		}
		if other.ordered.Labels[karpenterv1.NodePoolLabelKey] == pool {
			if nc := c.claimOf(other); nc != nil && nc.DeletionTimestamp == nil {
				cpu += other.Capacity["cpu"]
			}
		}
	}
	np, ok := cluster.Find[*karpenterv1.NodePool](c.w.api, "", pool)
	if !ok || c.w.at.Sub(c.poolEdited[pool]) < edited {
		return
	}
	if limit, limited := np.Spec.Limits[corev1.ResourceCPU]; limited && cpu > limit.MilliValue() {
		c.w.fail("pool %s has %d milli-cpus, its limit is %s", pool, cpu, limit.String())
	}
}

// terminates: no node goes that is in use.
func (c *checks) terminates(i *instance) {
	if i.state != joined && i.state != booting {
		return
	}
	nc := c.claimOf(i)
	if nc != nil && nc.DeletionTimestamp == nil {
		c.w.fail("instance %s is ended though its claim %s stays", i.ID, nc.Name)
	}
	if nc != nil && c.pastDeadline(nc) || !c.w.cloud.kubeletUp(i.node) {
		return
	}
	for _, pod := range c.w.api.PodsOn(i.node) {
		if pod.Labels[cluster.AppLabel] != "" && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && c.w.at.Sub(c.boundAt[cluster.KeyOf(pod)]) > blind {
			c.w.fail("instance %s is ended though pod %s runs on it", i.ID, pod.Name)
		}
	}
	for _, a := range cluster.All[*storagev1.VolumeAttachment](c.w.api) {
		if pv := *a.Spec.Source.PersistentVolumeName; a.Spec.NodeName == i.node && c.w.at.Sub(a.CreationTimestamp.Time) > blind && !c.isStuck(pv, i.node) {
			c.w.fail("instance %s is ended though volume %s is attached to it", i.ID, pv)
		}
	}
}

// isStuck reports whether the pod that uses a volume should have ended more than a minute ago by
// the product's clock: then neither is waited for.
func (c *checks) isStuck(pv, node string) bool {
	for _, pod := range c.w.api.PodsOn(node) {
		if pod.DeletionTimestamp != nil && c.w.cluster.Volumes.Uses(pod, pv) && c.w.at.Add(c.w.chaos.skew).Sub(pod.DeletionTimestamp.Time) > time.Minute {
			return true
		}
	}
	return false
}

// pastDeadline reports whether a drain may use force.
func (c *checks) pastDeadline(nc *karpenterv1.NodeClaim) bool {
	at, err := time.Parse(time.RFC3339, nc.Annotations[karpenterv1.NodeClaimTerminationTimestampAnnotationKey])
	return err == nil && !c.w.at.Add(3*time.Minute).Before(at) // clocks differ, and pods are given their grace before
}

// evicted: no pod is evicted that must not be, or from a node that stays.
func (c *checks) evicted(pod *corev1.Pod) {
	c.lastEviction, c.why = c.w.at, "eviction of "+pod.Name
	if pod.DeletionTimestamp != nil {
		return
	}
	if pod.Annotations[karpenterv1.DoNotDisruptAnnotationKey] == "true" {
		c.w.fail("pod %s is evicted, which must not be disrupted", pod.Name)
	}
	if node, ok := cluster.Find[*corev1.Node](c.w.api, "", pod.Spec.NodeName); ok && node.DeletionTimestamp == nil && !c.w.reboots.drains(node.Name) {
		c.w.fail("pod %s is evicted from node %s, which stays%s", pod.Name, node.Name, c.w.reboots)
	}
}

// productDeletes judges a deletion that nobody but the product asked for.
func (c *checks) productDeletes(o client.Object, forced bool) {
	if o.GetDeletionTimestamp() != nil && cluster.KindOf(o) != "Pod" {
		return
	}
	switch o := o.(type) {
	case *corev1.Pod:
		c.deletesPod(o, forced)
	case *corev1.Node:
		if i := c.w.cloud.byNode[o.Name]; i != nil {
			if nc := c.claimOf(i); nc != nil && nc.DeletionTimestamp == nil && c.w.at.Sub(nc.CreationTimestamp.Time) > blind {
				c.w.fail("node %s is deleted though its claim %s stays", o.Name, nc.Name)
			}
		}
	case *karpenterv1.NodeClaim:
		c.lastEviction, c.why = c.w.at, "deletion of "+o.Name
		reason, chosen := conditionOf(o, karpenterv1.ConditionTypeDisruptionReason)
		if chosen && reason.Reason == forMoney && !c.w.chaos.stormy {
			c.lastHeld = c.w.at
		}
		c.w.reboots.givesUp(o)
		switch {
		case c.mustGo(o) || c.isInVain(o):
		case chosen:
			c.disrupts(o, reason.Reason)
		case c.w.statics.isSurplus(o):
		default:
			c.w.fail("claim %s is deleted for no reason: its node is fine", o.Name)
		}
	}
}

// deletesPod: only a deadline lets the product delete a pod without asking its budgets.
func (c *checks) deletesPod(pod *corev1.Pod, forced bool) {
	i := c.w.cloud.byNode[pod.Spec.NodeName]
	if i == nil {
		return
	}
	nc := c.claimOf(i)
	if nc == nil {
		return
	}
	at, err := time.Parse(time.RFC3339, nc.Annotations[karpenterv1.NodeClaimTerminationTimestampAnnotationKey])
	if err != nil || !forced || c.w.at.Add(cluster.GraceOf(pod)+3*time.Minute).Before(at) {
		c.w.fail("pod %s is deleted without an eviction and before the deadline of its node", pod.Name)
	}
}

// mustGo reports whether a claim has another reason to go than somebody's choice: it did not
// become a node, has expired, is broken or has lost its instance, or its Node is deleted.
func (c *checks) mustGo(nc *karpenterv1.NodeClaim) bool {
	i := c.instanceOf(nc)
	if _, initialized := conditionOf(nc, karpenterv1.ConditionTypeInitialized); !initialized || i == nil || !c.w.cloud.kubeletUp(i.node) {
		return true
	}
	node, there := cluster.Find[*corev1.Node](c.w.api, "", i.node)
	if !there || node.DeletionTimestamp != nil || cluster.HasTaint(node, corev1.TaintNodeUnreachable) || c.hasJustRecovered(node) {
		return true
	}
	after := nc.Spec.ExpireAfter.Duration
	return after != nil && c.w.at.Sub(nc.CreationTimestamp.Time)+2*time.Minute > *after
}

// hasJustRecovered reports whether a Node was not ready until a moment ago.
func (c *checks) hasJustRecovered(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if x := &node.Status.Conditions[i]; x.Type == corev1.NodeReady {
			return c.w.at.Sub(x.LastTransitionTime.Time) < blind
		}
	}
	return false
}

// isInitialized reports whether a claim or its Node says that it takes pods: one is written after
// the other.
func (c *checks) isInitialized(nc *karpenterv1.NodeClaim) bool {
	if _, is := conditionOf(nc, karpenterv1.ConditionTypeInitialized); is {
		return true
	}
	i := c.instanceOf(nc)
	if i == nil {
		return false
	}
	node, there := cluster.Find[*corev1.Node](c.w.api, "", i.node)
	return there && node.Labels[karpenterv1.NodeInitializedLabelKey] == "true"
}

// isInVain reports whether a claim was launched for a step that is still under way: then it
// may be dropped again.
func (c *checks) isInVain(nc *karpenterv1.NodeClaim) bool {
	for _, other := range cluster.All[*karpenterv1.NodeClaim](c.w.api) {
		if words := strings.Fields(other.Annotations[stepKey]); len(words) == 3 && words[0] == nc.Annotations[replacesKey] && other.DeletionTimestamp == nil {
			return true
		}
	}
	return c.lost[nc.Annotations[replacesKey]]
}

// disrupts judges a disruption by choice.
func (c *checks) disrupts(nc *karpenterv1.NodeClaim, reason string) {
	c.w.count("disrupted: " + reason)
	if reason == "Expired" {
		c.lastExpired = c.w.at
	}
	if !c.w.reboots.has(nc.Name) { // else it was judged when the reboot began
		c.keepsBudget(nc, reason)
		c.keepsHolds(nc)
	}
	c.w.gangs.disrupts(nc, reason)
	words := strings.Fields(nc.Annotations[stepKey])
	if len(words) == 3 {
		launches, _ := strconv.Atoi(words[2]) // a word of another kind is none
		c.keepsStep(nc, words[0], launches, reason)
	}
}

// keepsHolds: nothing goes that a pod holds.
func (c *checks) keepsHolds(nc *karpenterv1.NodeClaim) {
	i := c.instanceOf(nc)
	if i == nil || nc.Spec.TerminationGracePeriod != nil || c.w.reboots.isBounded(nc) {
		return
	}
	for _, pod := range c.w.api.PodsOn(i.node) {
		if pod.Annotations[karpenterv1.DoNotDisruptAnnotationKey] == "true" && cluster.IsActive(pod) && pod.DeletionTimestamp == nil && c.w.at.Sub(c.boundAt[cluster.KeyOf(pod)]) > blind {
			c.w.fail("claim %s is disrupted though pod %s must not be", nc.Name, pod.Name)
		}
	}
}

// keepsStep: what replaces a node is there, and cheaper if that is why.
func (c *checks) keepsStep(nc *karpenterv1.NodeClaim, id string, launches int, reason string) {
	there, before, after, ended := 0, 0.0, 0.0, false
	for _, other := range cluster.All[*karpenterv1.NodeClaim](c.w.api) {
		if words := strings.Fields(other.Annotations[stepKey]); len(words) == 3 && words[0] == id {
			if i := c.instanceOf(other); i != nil {
				before += i.price
			} else {
				ended = true
			}
		}
		if other.Annotations[replacesKey] != id || other.DeletionTimestamp != nil {
			continue
		}
		if !c.isInitialized(other) {
			c.w.fail("claim %s goes before its replacement %s is initialized", nc.Name, other.Name)
		}
		i := c.instanceOf(other)
		if i == nil {
			i = c.endedUnseen(other)
		}
		if i != nil {
			there, after = there+1, after+i.price
		}
	}
	if c.lost[id] || c.w.cloud.byID[nc.Status.ProviderID] == nil {
		return
	}
	if there < launches {
		c.w.fail("claim %s goes with %d of %d replacements", nc.Name, there, launches)
	}
	if reason == forMoney && after >= before && !ended {
		c.w.fail("step %s of claim %s saves nothing: %.3f before, %.3f after", id, nc.Name, before, after)
	}
}

// endedUnseen returns the instance of a claim that has ended though its Node is still called ready, or was
// until a moment ago.
func (c *checks) endedUnseen(nc *karpenterv1.NodeClaim) *instance {
	i := c.w.cloud.byToken[string(nc.UID)]
	if i == nil {
		return nil
	}
	node, there := cluster.Find[*corev1.Node](c.w.api, "", i.node)
	if !there {
		return nil
	}
	for j := range node.Status.Conditions {
		if x := &node.Status.Conditions[j]; x.Type == corev1.NodeReady && (x.Status == corev1.ConditionTrue || c.w.at.Sub(x.LastTransitionTime.Time) < blind) {
			return i
		}
	}
	return nil
}

// keepsBudget: no more nodes of a pool go at once than its budgets allow.
func (c *checks) keepsBudget(nc *karpenterv1.NodeClaim, reason string) {
	pool := nc.Labels[karpenterv1.NodePoolLabelKey]
	np, ok := cluster.Find[*karpenterv1.NodePool](c.w.api, "", pool)
	if !ok || c.w.at.Sub(c.poolEdited[pool]) < edited {
		return
	}
	going := 1
	for _, other := range cluster.All[*karpenterv1.NodeClaim](c.w.api) {
		_, chosen := conditionOf(other, karpenterv1.ConditionTypeDisruptionReason)
		_, ending := conditionOf(other, karpenterv1.ConditionTypeInstanceTerminating) // it counts no more
		away := other.DeletionTimestamp != nil || isRebooting(other)
		if other.Name != nc.Name && chosen && !ending && away && other.Labels[karpenterv1.NodePoolLabelKey] == pool {
			going++
		}
	}
	for i := range np.Spec.Disruption.Budgets {
		b := &np.Spec.Disruption.Budgets[i]
		allowed, err := strconv.Atoi(b.Nodes)
		if share, isShare := strings.CutSuffix(b.Nodes, "%"); isShare {
			n, _ := strconv.Atoi(share) // the world wrote it
			allowed, err = int(math.Ceil(float64(c.most[pool])*float64(n)/100)), nil
		}
		if err == nil && len(b.Reasons) == 0 && going > allowed {
			c.w.fail("claim %s is disrupted (%s): %d of pool %s go at once, %s of %d may", nc.Name, reason, going, pool, b.Nodes, c.most[pool])
		}
	}
}

// bugs: the product found no bug in itself.
func (c *checks) bugs(p *process) {
	var m dto.Metric
	if err := p.parts.Metrics.Bugs.Write(&m); err == nil && m.GetCounter().GetValue() > 0 {
		c.w.fail("the product found a bug in itself")
	}
}

// checkAll checks the whole from time to time.
func (c *checks) checkAll() {
	w := c.w
	if w.at.Sub(c.minute) >= time.Minute {
		c.minute = w.at
		clear(c.writes)
		clear(c.idle)
		clear(c.reconciles)
	}
	if w.at.Sub(c.mostSince) >= edited {
		c.mostSince = w.at
		clear(c.most)
	}
	if w.process != nil {
		c.bugs(w.process)
	}
	c.nodeHours += float64(w.api.Shelf("Node").Len()) * checkEvery.Hours()
	w.api.Shelf("NodeClaim").CountBy(karpenterv1.NodePoolLabelKey, func(pool string, claims int) {
		c.most[pool] = max(c.most[pool], claims)
	})
	w.late.check()
	if !w.chaos.stormy && c.waitsForTurn() {
		c.lastHeld = w.at
	}
	for _, i := range w.cloud.live() {
		if nc := c.claimOf(i); nc != nil {
			i.orphanSince = time.Time{}
			if !w.chaos.stormy && nc.DeletionTimestamp != nil && nc.Spec.TerminationGracePeriod != nil && c.heldFor(i.node) {
				c.lastHeld = w.at
			}
			continue
		}
		if i.orphanSince.IsZero() {
			i.orphanSince = w.at
		}
		if w.at.Sub(i.orphanSince) > orphanMost && !c.hasPods(i.node) {
			w.fail("instance %s has been without a claim for %s", i.ID, orphanMost)
		}
	}
}

// waitsForTurn reports whether a node has drifted, and is still there.
func (c *checks) waitsForTurn() bool {
	return slices.ContainsFunc(cluster.All[*karpenterv1.NodeClaim](c.w.api), func(nc *karpenterv1.NodeClaim) bool {
		_, drifted := conditionOf(nc, karpenterv1.ConditionTypeDrifted)
		return drifted && !c.w.statics.isFull(nc.Labels[karpenterv1.NodePoolLabelKey]) && !c.w.gangs.holds(nc)
	})
}

// hasPods reports whether something keeps a Node's drain.
func (c *checks) hasPods(node string) bool {
	for _, pod := range c.w.api.PodsOn(node) {
		if pod.Labels[cluster.AppLabel] != "" {
			return true
		}
	}
	return false
}

// heldFor reports whether a pod holds a Node's drain for good: it must not be disrupted, or its
// budget never lets one go, be it that others of it have nowhere to run.
func (c *checks) heldFor(node string) bool {
	for _, pod := range c.w.api.PodsOn(node) {
		if pod.Annotations[karpenterv1.DoNotDisruptAnnotationKey] == "true" {
			return true
		}
		for _, b := range c.w.api.BudgetsOf(pod) {
			stuck := b.Status.DisruptionsAllowed == 0 && slices.ContainsFunc(c.w.api.PodsOf(pod.Labels[cluster.AppLabel]), c.fitsNowhere)
			if stuck || b.Status.DesiredHealthy >= b.Status.ExpectedPods {
				return true
			}
		}
	}
	return false
}

// fitsNowhere reports whether a pod waits for good: in the zone of its volume there are more of its
// kind than its rules allow.
func (c *checks) fitsNowhere(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" {
		return false
	}
	return !slices.ContainsFunc(zones, func(zone string) bool { return c.w.cluster.Scheduler.FitsIn(pod, zone) })
}
