package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

const (
	// orphanMost is how long an instance may be without a claim, while the controller is
	// killed again and again: it sweeps when it starts.
	orphanMost = 2 * time.Minute
	// ledgerEvery is how often the account's record of operations is read.
	ledgerEvery = 20 * time.Millisecond
)

// rules is what a witness holds the product to.
type rules struct {
	goingMost int   // nodes of the pool that may go at once by choice
	cpusMost  int64 // of the pool
	// budgets are the pods and the most that may be away, by workload; workloads that are not
	// here are not judged.
	budgets map[string]allowance
	held    string // the workload whose pods must not be disrupted
}

// allowance is a workload under a PodDisruptionBudget.
type allowance struct{ pods, awayMost int }

// witness sees every change of pods, claims and Nodes and all operations of an account, and judges
// after each. It shares nothing with what it watches but names.
type witness struct {
	rules         rules
	sim           *awssim.Sim
	isInitialized func(node string) bool

	mu     sync.Mutex // protects all that follows
	pods   map[types.UID]*corev1.Pod
	claims map[types.UID]*karpenterv1.NodeClaim
	nodes  map[types.UID]*corev1.Node
	// noticed are the instances whose end was announced to the product; alone those whose claims
	// are let go by the test.
	noticed    map[string]bool
	lost       map[string]bool   // steps that lost a replacement
	instanceOf map[string]string // by claim, of all there ever were
	orphans    map[string]time.Time
	seen       map[string]int // what happened, by kind
	wake       chan struct{}  // closed at the next thing that happens
	judged     bool           // budgets of pods are judged
	over       bool           // everything is let go
	blind      bool           // what is taken in came at some time, in some order
	changed    time.Time
	broken     []string
}

// bearWitness watches a cluster and an account until the test ends.
func bearWitness(t *testing.T, config *rest.Config, sim *awssim.Sim, r rules) *witness {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{
		rules: r, sim: sim, pods: map[types.UID]*corev1.Pod{}, claims: map[types.UID]*karpenterv1.NodeClaim{}, nodes: map[types.UID]*corev1.Node{},
		noticed: map[string]bool{}, lost: map[string]bool{}, instanceOf: map[string]string{}, orphans: map[string]time.Time{}, seen: map[string]int{},
		wake: make(chan struct{}), changed: time.Now(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.isInitialized = func(node string) bool { return isInitialized(ctx, c, node) }
	var readers sync.WaitGroup
	t.Cleanup(func() { cancel(); readers.Wait() })
	for _, list := range []client.ObjectList{&corev1.PodList{}, &karpenterv1.NodeClaimList{}, &corev1.NodeList{}} {
		readers.Go(func() {
			for changes := w.begin(ctx, c, list); ctx.Err() == nil; changes = w.begin(ctx, c, list) {
				w.follow(changes)
			}
		})
	}
	readers.Go(func() { w.readLedger(ctx) })
	return w
}

// begin takes in all that there is of a kind, and watches from there on. Who is slow is cut off
// by the API server: what came between is not judged.
func (w *witness) begin(ctx context.Context, c client.WithWatch, list client.ObjectList) watch.Interface {
	if err := c.List(ctx, list); err != nil {
		return watch.NewEmptyWatch()
	}
	w.mu.Lock()
	w.blind = true
	there := map[types.UID]bool{}
	_ = meta.EachListItem(list, func(o runtime.Object) error { // which never fails
		there[o.(client.Object).GetUID()] = true
		w.see(o, false)
		return nil
	})
	for _, o := range w.known(list) {
		if !there[o.GetUID()] {
			w.see(o, true)
		}
	}
	w.blind = false
	w.mu.Unlock()
	changes, err := c.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
	if err != nil {
		return watch.NewEmptyWatch()
	}
	return changes
}

// known returns what was seen of a kind and is not gone.
func (w *witness) known(list client.ObjectList) (all []client.Object) {
	switch list.(type) {
	case *corev1.PodList:
		for _, o := range w.pods {
			all = append(all, o)
		}
	case *karpenterv1.NodeClaimList:
		for _, o := range w.claims {
			all = append(all, o)
		}
	default:
		for _, o := range w.nodes {
			all = append(all, o)
		}
	}
	return all
}

// follow takes in changes until the watch ends.
func (w *witness) follow(changes watch.Interface) {
	defer changes.Stop()
	for e := range changes.ResultChan() {
		w.mu.Lock()
		w.see(e.Object, e.Type == watch.Deleted)
		w.mu.Unlock()
	}
}

// see takes in one object as it has become.
func (w *witness) see(o runtime.Object, gone bool) {
	switch o := o.(type) {
	case *corev1.Pod:
		if o.Namespace == metav1.NamespaceDefault {
			w.seePod(o, gone)
		}
	case *karpenterv1.NodeClaim:
		w.seeClaim(o, gone)
	case *corev1.Node:
		w.seeNode(o, gone)
	}
}

func (w *witness) fail(format string, args ...any) {
	if w.blind {
		return
	}
	w.broken = append(w.broken, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// happened counts something, and wakes who waits for it.
func (w *witness) happened(what string) {
	w.seen[what]++
	w.changed = time.Now()
	close(w.wake)
	w.wake = make(chan struct{})
}

func (w *witness) seePod(pod *corev1.Pod, gone bool) {
	was := w.pods[pod.UID]
	w.pods[pod.UID] = pod
	if gone {
		delete(w.pods, pod.UID)
	}
	name := pod.Labels["app"]
	switch {
	case was == nil:
		w.happened("pod created")
	case was.Spec.NodeName == "" && pod.Spec.NodeName != "":
		w.happened("pod bound")
	case gone:
		w.happened("pod gone")
	}
	if slices.ContainsFunc(pod.Status.Conditions, isEvicted) && (was == nil || !slices.ContainsFunc(was.Status.Conditions, isEvicted)) {
		w.happened("pod evicted")
		w.checkEviction(pod)
	}
	if b, ok := w.rules.budgets[name]; ok && w.judged && was != nil && isHealthy(was) && (gone || !isHealthy(pod)) {
		healthy := 0
		for _, other := range w.pods {
			if other.Labels["app"] == name && isHealthy(other) {
				healthy++
			}
		}
		if healthy < b.pods-b.awayMost {
			w.fail("%d of %d pods of %s are healthy, its PodDisruptionBudget lets %d be away: %s on %s went", healthy, b.pods, name, b.awayMost, pod.Name, pod.Spec.NodeName)
		}
	}
}

// checkEviction: nothing is evicted that must not be, or from a node that stays.
func (w *witness) checkEviction(pod *corev1.Pod) {
	if pod.Labels["app"] == w.rules.held && !w.over {
		w.fail("pod %s was evicted, which must not be disrupted", pod.Name)
	}
	for _, n := range w.nodes {
		if n.Name == pod.Spec.NodeName && n.DeletionTimestamp == nil && !w.isGoing(n) {
			w.fail("pod %s was evicted from node %s, which stays", pod.Name, n.Name)
		}
	}
}

// isGoing reports whether the claim of a Node is on its way out: the watches of the two are
// not in step.
func (w *witness) isGoing(n *corev1.Node) bool {
	for _, nc := range w.claims {
		if nc.Status.ProviderID == n.Spec.ProviderID {
			return nc.DeletionTimestamp != nil
		}
	}
	return true
}

func isHealthy(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, isReady)
}

func (w *witness) seeNode(n *corev1.Node, gone bool) {
	was := w.nodes[n.UID]
	w.nodes[n.UID] = n
	switch {
	case gone:
		delete(w.nodes, n.UID)
		w.happened("node gone")
	case was == nil:
		w.happened("node joined")
	case was.DeletionTimestamp == nil && n.DeletionTimestamp != nil:
		w.happened("node deleted")
	case len(was.Spec.Taints) != len(n.Spec.Taints):
		w.happened("node tainted")
	}
	registered := n.Labels[karpenterv1.NodeRegisteredLabelKey] == "true" && n.DeletionTimestamp == nil
	if registered && (!slices.Contains(n.Finalizers, karpenterv1.TerminationFinalizer) || len(n.OwnerReferences) == 0) {
		w.fail("node %s is registered without a finalizer and an owner", n.Name)
	}
}

func is(nc *karpenterv1.NodeClaim, condition string) bool {
	return meta.IsStatusConditionTrue(nc.Status.Conditions, condition)
}

func (w *witness) seeClaim(nc *karpenterv1.NodeClaim, gone bool) {
	was := w.claims[nc.UID]
	w.claims[nc.UID] = nc
	if was == nil {
		w.happened("claim created")
		was = &karpenterv1.NodeClaim{}
	}
	if id := nc.Status.ProviderID; was.Status.ProviderID != id {
		w.happened("claim launched")
		w.name(nc.Name, id)
		w.checkLimit(nc)
	}
	for _, condition := range []string{karpenterv1.ConditionTypeRegistered, karpenterv1.ConditionTypeInitialized, karpenterv1.ConditionTypeDisruptionReason} {
		if is(nc, condition) && !is(was, condition) {
			w.happened("claim " + condition)
		}
	}
	if was.DeletionTimestamp == nil && nc.DeletionTimestamp != nil {
		w.happened("claim deleted")
		w.checkDeletion(nc)
	}
	if (gone || nc.DeletionTimestamp != nil) && nc.Annotations[translate.ReplacesAnnotationKey] != "" {
		w.lost[nc.Annotations[translate.ReplacesAnnotationKey]] = true
	}
	if gone {
		w.happened("claim gone")
		delete(w.claims, nc.UID)
	}
	w.checkGoing()
}

// name notes that a claim has an instance: it has one in all its life.
func (w *witness) name(claim, providerID string) {
	id := instanceID(providerID)
	if had := w.instanceOf[claim]; had != "" && had != id {
		w.fail("claim %s has instance %s, and had %s", claim, id, had)
	}
	w.instanceOf[claim] = id
}

func instanceID(providerID string) string { return providerID[strings.LastIndex(providerID, "/")+1:] }

// checkLimit: the pool never holds more than it may.
func (w *witness) checkLimit(launched *karpenterv1.NodeClaim) {
	var milli int64
	for _, nc := range w.claims {
		if nc.DeletionTimestamp == nil {
			milli += nc.Status.Capacity.Cpu().MilliValue()
		}
	}
	if milli > w.rules.cpusMost*1000 {
		w.fail("claim %s was launched: the pool has %d milli-cpus, its limit is %d cpus", launched.Name, milli, w.rules.cpusMost)
	}
}

// checkGoing: no more go at once by choice than the pool's budget lets.
func (w *witness) checkGoing() {
	var going []string
	for _, nc := range w.claims {
		chosen := is(nc, karpenterv1.ConditionTypeDisruptionReason) && !w.noticed[instanceID(nc.Status.ProviderID)]
		if chosen && !is(nc, karpenterv1.ConditionTypeInstanceTerminating) {
			going = append(going, nc.Name)
		}
	}
	if len(going) > w.rules.goingMost && !w.over {
		slices.Sort(going)
		w.fail("%d nodes are on their way out, the budget lets %d: %s", len(going), w.rules.goingMost, going)
	}
}

// checkDeletion: a node goes for a reason, and after what replaces it takes pods; a
// replacement that has none goes when its step is taken back.
func (w *witness) checkDeletion(nc *karpenterv1.NodeClaim) {
	if w.over || w.noticed[instanceID(nc.Status.ProviderID)] || !is(nc, karpenterv1.ConditionTypeInitialized) {
		return
	}
	if nc.Annotations[translate.ReplacesAnnotationKey] != "" && !w.isUsed(nc.Status.NodeName) {
		w.happened("replacement dropped")
		return
	}
	if !is(nc, karpenterv1.ConditionTypeDisruptionReason) {
		w.fail("claim %s was deleted for no reason: instance %s, annotations %v", nc.Name, nc.Status.ProviderID, nc.Annotations)
		return
	}
	var step, kind string
	var launches int
	if _, err := fmt.Sscan(nc.Annotations[translate.StepAnnotationKey], &step, &kind, &launches); err != nil || w.lost[step] {
		return
	}
	ready := 0
	for _, other := range w.claims {
		if other.Annotations[translate.ReplacesAnnotationKey] == step && (is(other, karpenterv1.ConditionTypeInitialized) || w.isInitialized(other.Status.NodeName)) {
			ready++
		}
	}
	if ready < launches {
		w.fail("claim %s goes, and %d of the %d that replace it take pods", nc.Name, ready, launches)
	}
	w.happened("claim deleted with " + map[bool]string{true: "replacements", false: "none"}[launches > 0])
}

// isInitialized reports whether a Node is labelled as initialized. The label is written before the
// condition of the NodeClaim, and the controller may be killed in between. The Node is read from the
// API server, because the watches of Nodes and NodeClaims are not in step.
func isInitialized(ctx context.Context, c client.Client, node string) bool {
	n := &corev1.Node{}
	err := c.Get(ctx, client.ObjectKey{Name: node}, n)
	return err == nil && n.Labels[karpenterv1.NodeInitializedLabelKey] == karpenterv1.LabelValueTrue
}

// isUsed reports whether pods of a workload are on a node that are not being deleted.
func (w *witness) isUsed(node string) bool {
	for _, pod := range w.pods {
		if pod.Spec.NodeName == node && pod.Labels["app"] != "" && pod.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

// readLedger looks at the account again and again.
func (w *witness) readLedger(ctx context.Context) {
	tick := time.NewTicker(ledgerEvery)
	defer tick.Stop()
	for calls := map[string]int{}; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		w.mu.Lock()
		for call, n := range w.sim.Calls() {
			if n > calls[call] && !strings.Contains(call, "Describe") && !strings.Contains(call, "Receive") {
				w.happened(call)
			}
			calls[call] = n
		}
		w.checkLedger()
		w.mu.Unlock()
	}
}

// checkLedger: one instance a claim, and no instance without one for long.
func (w *witness) checkLedger() {
	known := map[string]bool{}
	for _, nc := range w.claims {
		known[instanceID(nc.Status.ProviderID)] = true
		known[nc.Name] = true
	}
	instances := w.sim.Instances()
	live := map[string]string{}
	for i := range instances {
		in := &instances[i]
		claim := in.Tags[awsv1.TagNodeClaim]
		if claim != "" {
			w.name(claim, in.ID)
		}
		if !in.Live() {
			delete(w.orphans, in.ID)
			continue
		}
		if other := live[claim]; claim != "" && other != "" {
			w.fail("claim %s has two instances, %s and %s", claim, other, in.ID)
		}
		live[claim] = in.ID
		since, before := w.orphans[in.ID]
		switch {
		case known[in.ID] || claim != "" && known[claim]:
			delete(w.orphans, in.ID)
		case !before:
			w.orphans[in.ID] = time.Now()
		case time.Since(since) > orphanMost:
			w.fail("instance %s has been without a claim for %s", in.ID, orphanMost)
			w.orphans[in.ID] = time.Now()
		}
	}
}

// count returns how often something has happened.
func (w *witness) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[what]
}

// await returns when something has happened so often, or the time is over.
func (w *witness) await(what string, times int, within time.Duration) {
	end := time.NewTimer(within)
	defer end.Stop()
	for {
		w.mu.Lock()
		n, wake := w.seen[what], w.wake
		w.mu.Unlock()
		if n >= times {
			return
		}
		select {
		case <-end.C:
			return
		case <-wake:
		}
	}
}

// expect notes that an instance is about to be given its notice.
func (w *witness) expect(instance string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noticed[instance] = true
}

// letGo notes that all that is there may go.
func (w *witness) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.judged = true, false
}

// idle is for how long nothing has happened.
func (w *witness) idle() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.changed)
}

// String says how things stand.
func (w *witness) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	bound := 0
	for _, pod := range w.pods {
		if pod.Spec.NodeName != "" {
			bound++
		}
	}
	return fmt.Sprintf("%d claims, %d nodes, %d of %d pods bound, %d promises broken", len(w.claims), len(w.nodes), bound, len(w.pods), len(w.broken))
}
