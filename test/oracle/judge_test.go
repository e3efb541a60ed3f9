package oracle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// How long a placed pod may stay Pending while nothing else happens: longer than the
// scheduler's longest back-off, or when all that matters is whether its place is right,
// just a moment.
const (
	idleLong  = 8 * time.Second
	idleShort = time.Second
)

// nominateEvery is how soon it is looked for lost nominations again.
const nominateEvery = 250 * time.Millisecond

// manner is how a scenario is judged.
type manner struct {
	nominations bool
	idle        time.Duration
}

// outcome is what became of a scenario.
type outcome struct {
	placed, asPlanned, pending int
	refused                    int
	// later are pods that only the plan after the cloud's answers placed.
	later int
	// failures are the disagreements between Dovetail and kube-scheduler.
	failures []string
}

func (o *outcome) fail(format string, args ...any) {
	o.failures = append(o.failures, fmt.Sprintf(format, args...))
}

func vocabulary() translate.Vocabulary {
	return translate.NewVocabulary([]string{kwokv1alpha1.InstanceCPULabelKey, reservationKey}, []string{kwokv1alpha1.Group})
}

// judge enacts a scenario and lets the scheduler say what it thinks of the plan. The
// error is trouble with the judging, not with the plan.
func (l *lane) judge(ctx context.Context, s *scenario, how manner) (o outcome, err error) {
	id := fmt.Sprintf("r%d", l.runs.Add(1))
	r := &run{lane: l, id: id, s: s.enacted(id, l.namespaces), given: map[cluster.PodRef]nominated{}, constraintSets: map[cluster.PodRef]*cluster.Constraints{}}
	defer func() {
		if clearErr := errors.Join(r.unserve(ctx), l.clear(ctx, id, r.nodes)); err == nil {
			err = clearErr
		}
	}()
	if err := r.set(ctx); err != nil {
		return o, err
	}
	p, err := r.plan()
	if err != nil {
		return o, err
	}
	if err := errors.Join(r.joinAll(ctx, true), r.open(ctx)); err != nil {
		return o, err
	}
	target, err := r.enact(ctx, &p, &o)
	if err != nil {
		return o, err
	}
	o.placed = len(target)
	if how.nominations {
		err = r.release(ctx, target)
	} else {
		err = r.releaseAll(ctx, target)
	}
	if err != nil {
		return o, err
	}
	stuck, err := r.bound(ctx, target, how, &o)
	if err != nil {
		return o, err
	}
	if !how.nominations {
		o.pending = len(stuck)
		return o, nil
	}
	o.refused = len(p.Refusals)
	if len(stuck) > 0 { // there may be room because of them
		return o, r.stuck(ctx, stuck, target, &o)
	}
	if o.asPlanned < o.placed && o.refused > 0 {
		if _, err := r.arrange(ctx, target, cluster.PodRef{}); err != nil {
			return o, err
		}
	}
	if o.refused > 0 && r.inDoubt() {
		if p, err = r.planAgain(ctx, how, &o); err != nil || len(o.failures) > 0 {
			return o, err
		}
	}
	return o, r.refusals(ctx, &p, &o)
}

// inDoubt reports whether the plan was made before the cloud had said what some nodes are:
// those of claims in flight, and those that it launched from pools with minValues, which are
// kept larger choices than one node is.
func (r *run) inDoubt() bool {
	return slices.ContainsFunc(r.s.Nodes, func(n corev1.Node) bool { return n.Annotations[openKey] != "" }) ||
		slices.ContainsFunc(r.launched, func(n corev1.Node) bool { return wantsValues(r.s.pool(n.Labels[label.NodePool])) })
}

// planAgain lets Dovetail plan for the pods that are left, now that the cloud has answered for
// all claims, and judges what it places now. What it refuses still, it refuses knowingly.
func (r *run) planAgain(ctx context.Context, how manner, o *outcome) (plan.Plan, error) {
	r.answered = true
	p, err := r.plan()
	if err != nil {
		return p, err
	}
	target, err := r.enact(ctx, &p, o)
	if err != nil {
		return p, err
	}
	o.later = len(target)
	if err := r.release(ctx, target); err != nil {
		return p, err
	}
	var second outcome
	stuck, err := r.bound(ctx, target, how, &second)
	for _, ref := range stuck {
		o.fail("placed on %s once the claims were answered, but stays Pending: pod %s", target[ref], ref.Name)
	}
	return p, err
}

// plan lets Dovetail plan for what the API server has.
func (r *run) plan() (plan.Plan, error) {
	opts := mirror.Options{
		Vocabulary: vocabulary(), ReservationKey: reservationKey, Now: time.Now, BatchMax: 10 * time.Second,
		Manages: func(group, kind string) bool {
			return group == class.Group && (kind == class.Kind || kind == "kwoknodeclass")
		},
	}
	if len(r.services)+len(r.owners) > 0 { // without, default constraints select nothing
		defaults, err := translate.DefaultConstraints(defaultSpread)
		if err != nil {
			return plan.Plan{}, err
		}
		opts.DefaultConstraints = defaults
	}
	store := mirror.NewStore(opts)
	var objects []client.Object
	for i := range r.s.Pools {
		objects = append(objects, &r.s.Pools[i])
	}
	if !r.answered {
		for _, nc := range r.claims() {
			objects = append(objects, nc)
		}
	}
	for _, name := range r.nodes {
		n, err := r.world.nodes.Get(name)
		if err != nil {
			return plan.Plan{}, err
		}
		objects = append(objects, n)
	}
	for _, d := range r.daemons {
		objects = append(objects, d)
	}
	for _, c := range r.classes {
		objects = append(objects, c)
	}
	for i := range r.s.LimitRanges {
		objects = append(objects, &r.s.LimitRanges[i])
	}
	for _, svc := range r.services {
		objects = append(objects, svc)
	}
	objects = append(objects, r.owners...)
	storage, err := r.storage()
	if err != nil {
		return plan.Plan{}, err
	}
	objects = append(objects, storage...)
	for _, ns := range r.spaces {
		objects = append(objects, ns)
	}
	pods, err := r.lanePods()
	if err != nil {
		return plan.Plan{}, err
	}
	for _, p := range pods {
		objects = append(objects, asking(p))
	}
	if err := store.Observe(objects...); err != nil {
		return plan.Plan{}, err
	}
	store.Pools().SetTypes(class, r.s.catalog(), nil)
	snap := store.Snapshot()
	for i := range snap.Pending {
		r.constraintSets[snap.Pending[i].PodRef] = snap.Pending[i].Constraints
	}
	return pack.Solve(snap, pack.Options{}), nil
}

// asking returns a gated pod as it would look without the gate, refused by the scheduler.
func asking(p *corev1.Pod) *corev1.Pod {
	if len(p.Spec.SchedulingGates) != 1 || p.Spec.SchedulingGates[0].Name != gateName {
		return p // it runs, or somebody else holds it back
	}
	p = p.DeepCopy()
	p.Spec.SchedulingGates = nil
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}
	return p
}

// enact makes the nodes of the plan and returns where each pod was meant to go. Of
// the offerings that a launch leaves open it takes the cheapest, on odd seeds any.
func (r *run) enact(ctx context.Context, p *plan.Plan, o *outcome) (map[cluster.PodRef]string, error) {
	target := map[cluster.PodRef]string{}
	launched := &budget{s: r.s}
	launched.addNodes(r.s.Nodes)
	launched.addNodes(r.launched)
	rng := rand.New(rand.NewPCG(r.s.Seed, 3))
	for i := range p.Launches {
		l := &p.Launches[i]
		np := r.s.pool(l.Pool)
		claim := translate.NodeClaim(np, l, vocabulary())
		wanted, err := translate.ClaimRequirements(claim)
		if err != nil {
			return nil, err
		}
		choices := catalog.Choices(r.s.catalog(), wanted, l.Requests)
		choices = slices.DeleteFunc(choices, func(of catalog.Choice) bool { return launched.reservedOut(of) })
		if len(choices) == 0 {
			o.fail("launch from pool %s for %v: no offering is %s", l.Pool, l.Pods, wanted)
			continue
		}
		if key, n, least := fewValues(np, choices); n < least && !l.MinValuesRelaxed {
			o.fail("launch from pool %s for %v: %d values of %s, %d wanted", l.Pool, l.Pods, n, key, least)
		}
		choice := choices[0]
		if r.s.Seed%2 == 1 {
			choice = choices[rng.IntN(len(choices))]
		}
		name := fmt.Sprintf("%s-l%d", r.id, len(r.launched)+1)
		n := launchedNode(name, np, choice.Type, choice.Offering, claim.Labels)
		if over := launched.over(np, n); over != "" {
			o.fail("launch from pool %s of a %s: the limit of %s is passed", np.Name, choice.Type.Name, over)
		}
		launched.add(n)
		if err := r.join(ctx, n); err != nil {
			return nil, err
		}
		r.launched = append(r.launched, *n)
		for _, ref := range l.Pods {
			target[ref] = name
		}
	}
	for _, at := range p.Assignments {
		target[at.Pod] = strings.TrimSuffix(at.Node, claimSuffix)
	}
	return target, r.settled(ctx)
}

// release nominates the placed pods and lets the scheduler try one after the other: first
// those without pod affinity; of a workload one in every zone, then the next. As the
// controller does, it gives a nomination again that the scheduler took from a pod that must wait.
func (r *run) release(ctx context.Context, target map[cluster.PodRef]string) error {
	type turn struct {
		ref        cluster.PodRef
		daemonPods bool
		round      int
	}
	var changes []turn
	rounds := map[string]int{}
	for _, ref := range slices.SortedFunc(maps.Keys(target), byName) {
		p, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
		if err != nil {
			return err
		}
		n, err := r.world.nodes.Get(target[ref])
		if err != nil {
			return err
		}
		domain := ref.Namespace + "/" + p.Labels["app"] + "/" + n.Labels[label.Zone]
		a := p.Spec.Affinity
		daemonPods := a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
		changes = append(changes, turn{ref, daemonPods, rounds[domain]})
		rounds[domain]++
	}
	slices.SortStableFunc(changes, func(a, b turn) int {
		if a.daemonPods != b.daemonPods {
			return map[bool]int{true: 1, false: -1}[a.daemonPods]
		}
		return cmp.Compare(a.round, b.round)
	})
	if err := r.handOver(ctx, target); err != nil {
		return err
	}
	for _, t := range changes {
		err := r.ungate(ctx, t.ref)
		if err == nil {
			err = r.decided(ctx, t.ref)
		}
		if err == nil {
			err = r.handOver(ctx, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// handOver gives pods that wait the nominations that the product would give them now, all nodes
// being open.
func (r *run) handOver(ctx context.Context, target map[cluster.PodRef]string) error {
	v := nominate.View{At: time.Now(), LastPodEvent: time.Now()}
	for _, name := range slices.Sorted(maps.Values(target)) {
		if n := len(v.Nodes); n == 0 || v.Nodes[n-1].Name != name {
			v.Nodes = append(v.Nodes, nominate.Node{Name: name})
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(target), byName) {
		p, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
		if err != nil {
			return err
		}
		if p.Spec.NodeName != "" {
			continue
		}
		given := r.given[ref]
		v.Pods = append(v.Pods, nominate.Pod{
			PodRef: ref, Node: target[ref], Nominated: p.Status.NominatedNodeName, Ours: p.Status.NominatedNodeName == target[ref], Stands: true,
			Given: given.times, GivenAt: given.at, Constraints: r.constraintSets[ref],
		})
	}
	for _, p := range nominate.Next(v).Set {
		r.given[p.PodRef] = nominated{times: r.given[p.PodRef].times + 1, at: v.At}
		if err := r.nominate(ctx, p.PodRef, p.Node); err != nil {
			return err
		}
	}
	return nil
}

func byName(a, b cluster.PodRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// releaseAll lets the scheduler look at the placed pods as it likes.
func (r *run) releaseAll(ctx context.Context, target map[cluster.PodRef]string) error {
	for ref := range target {
		if err := r.ungate(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) nominate(ctx context.Context, ref cluster.PodRef, node string) error {
	patch := fmt.Sprintf(`{"status":{"nominatedNodeName":%q}}`, node)
	_, err := r.client.CoreV1().Pods(ref.Namespace).Patch(ctx, ref.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsInvalid(err) { // it has just been bound
		return fmt.Errorf("nominate %s: %w", ref, err)
	}
	return nil
}

func (r *run) ungate(ctx context.Context, ref cluster.PodRef) error {
	patch := []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`)
	if p, err := r.pods.Pods(ref.Namespace).Get(ref.Name); err == nil && len(p.Spec.SchedulingGates) == 0 {
		return nil // it never had one
	}
	if _, err := r.client.CoreV1().Pods(ref.Namespace).Patch(ctx, ref.Name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("open the gate of %s: %w", ref, err)
	}
	return nil
}

// decided waits until the scheduler has bound the pod or refused it.
func (r *run) decided(ctx context.Context, ref cluster.PodRef) error {
	return until(ctx, func() error {
		p, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
		if err == nil && p.Spec.NodeName == "" && refusal(p) == "" && !r.volumesChosen(p) {
			err = fmt.Errorf("the scheduler has not decided about %s", ref)
		}
		return err
	})
}

// bound waits until the placed pods are bound, and returns those that are not when
// nothing has happened for a while.
func (r *run) bound(ctx context.Context, target map[cluster.PodRef]string, how manner, o *outcome) (stuck []cluster.PodRef, err error) {
	best := len(target) + 1
	deadline, handed := time.Now().Add(how.idle), time.Time{}
	err = until(ctx, func() error {
		stuck, o.asPlanned = nil, 0
		binding := false
		for ref, node := range target {
			p, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
			switch {
			case err != nil:
				return err
			case p.Spec.NodeName == node:
				o.asPlanned++
			case p.Spec.NodeName == "":
				stuck = append(stuck, ref)
				binding = binding || refusal(p) == "" && r.volumesChosen(p)
			}
		}
		if how.nominations && len(stuck) > 0 && time.Since(handed) > nominateEvery {
			handed = time.Now()
			if err := r.handOver(ctx, target); err != nil {
				return err
			}
		}
		if len(stuck) < best || binding {
			best, deadline = len(stuck), time.Now().Add(how.idle)
		}
		if len(stuck) > 0 && time.Now().Before(deadline) {
			return fmt.Errorf("%d pods are Pending", len(stuck))
		}
		return nil
	})
	slices.SortFunc(stuck, func(a, b cluster.PodRef) int { return cmp.Compare(a.Name, b.Name) })
	return stuck, err
}

// stuck says why placed pods are Pending: with all others where they were planned, does
// the scheduler agree to the pod's place?
func (r *run) stuck(ctx context.Context, stuck []cluster.PodRef, target map[cluster.PodRef]string, o *outcome) error {
	for _, ref := range stuck {
		gated, err := r.arrange(ctx, target, ref)
		if err != nil {
			return err
		}
		if err := r.nominate(ctx, gated, target[ref]); err != nil {
			return err
		}
		if err := r.ungate(ctx, gated); err != nil {
			return err
		}
		if err := r.decided(ctx, gated); err != nil {
			return err
		}
		p, err := r.pods.Pods(gated.Namespace).Get(gated.Name)
		if err != nil {
			return err
		}
		if p.Spec.NodeName != "" || refusal(p) == "" {
			o.fail("placed on %s, where the scheduler would bind it, but Pending because others went elsewhere: pod %s", target[ref], ref.Name)
			continue
		}
		o.fail("placed on %s, but the scheduler refuses it there: pod %s: %s", target[ref], ref.Name, refusal(p))
	}
	return nil
}

// arrange puts all placed pods where they were planned, past the scheduler, but for one,
// which it makes anew behind its gate. A pod made anew has another name.
func (r *run) arrange(ctx context.Context, target map[cluster.PodRef]string, but cluster.PodRef) (gated cluster.PodRef, err error) {
	now := int64(0)
	for ref, name := range r.current(target) {
		if err := r.client.CoreV1().Pods(ref.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			return gated, fmt.Errorf("make %s anew: %w", ref, err)
		}
	}
	r.arranged++
	for ref, name := range r.current(target) {
		i := slices.IndexFunc(r.s.Pending, func(p corev1.Pod) bool { return p.Name == ref.Name && p.Namespace == ref.Namespace })
		p := r.s.Pending[i].DeepCopy()
		p.Name = name
		if ref == but {
			gated = cluster.PodRef{Namespace: ref.Namespace, Name: name}
		} else {
			p.Spec.NodeName, p.Spec.SchedulingGates = target[ref], nil
		}
		if _, err := r.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return gated, fmt.Errorf("place %s as planned: %w", name, err)
		}
	}
	return gated, nil
}

// current returns what the placed pods are called now.
func (r *run) current(target map[cluster.PodRef]string) map[cluster.PodRef]string {
	names := map[cluster.PodRef]string{}
	for ref := range target {
		names[ref] = ref.Name
		if r.arranged > 0 {
			names[ref] = fmt.Sprintf("%s-x%d", ref.Name, r.arranged)
		}
	}
	return names
}
