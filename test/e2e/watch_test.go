package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// everything sees every change of pods and claims, in order, and judges after each. It
// shares nothing with what it watches.
type everything struct {
	replicas map[string]int // of workloads that are guarded; others are not judged

	mu          sync.Mutex // protects all that follows
	pods        map[types.UID]podSeen
	claims      map[types.UID]claimSeen
	healthy     map[string]int // pods by workload
	fewest      map[string]int // the least of healthy ever, by workload
	broken      []string       // promises
	events      int
	evictions   int
	again       []string // pods that were evicted and had come for one that was
	launches    int
	launchAt    time.Time
	softTainted map[string]bool // whether pods are kept away softly, by Node; those that ever were
	calm        bool            // claims that are made from now on should stay
	changed     time.Time
}

// podSeen is a pod as it was last seen.
type podSeen struct {
	workload         string
	healthy, evicted bool
	late             bool // it came after the watch had begun
}

// claimSeen is a claim as it was last seen.
type claimSeen struct {
	going bool
	calm  bool // it was made when all was calm
}

// watchEverything begins to watch the cluster as it is, until the test ends.
func watchEverything(t *testing.T, th *thinned) *everything {
	t.Helper()
	c, err := client.NewWithWatch(th.cluster.Config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := &everything{
		replicas: th.replicas, pods: map[types.UID]podSeen{}, claims: map[types.UID]claimSeen{},
		softTainted: map[string]bool{}, healthy: map[string]int{}, fewest: map[string]int{}, changed: time.Now(),
	}
	var pods corev1.PodList
	var claims karpenterv1.NodeClaimList
	var nodes corev1.NodeList
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for _, list := range []client.ObjectList{&pods, &claims, &nodes} {
		if err := c.List(ctx, list, client.InNamespace("")); err != nil {
			t.Fatal(err)
		}
		from := list.GetResourceVersion()
		if err := meta.EachListItem(list, func(o runtime.Object) error { w.see(o, false, false); return nil }); err != nil {
			t.Fatal(err)
		}
		// Who is slow is cut off by the API server, and goes on where he was.
		changes, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, list, &client.ListOptions{Raw: &o})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() { w.follow(ctx, changes) })
	}
	t.Cleanup(func() { cancel(); readers.Wait() })
	w.events, w.evictions, w.launches = 0, 0, 0
	for name := range w.replicas {
		w.fewest[name] = w.healthy[name]
	}
	return w
}

func (w *everything) follow(ctx context.Context, changes watch.Interface) {
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-changes.ResultChan():
			if !ok || e.Type == watch.Error {
				w.mu.Lock()
				if ctx.Err() == nil {
					w.broken = append(w.broken, fmt.Sprintf("the watch ended: %v", e.Object))
				}
				w.mu.Unlock()
				return
			}
			w.see(e.Object, true, e.Type == watch.Deleted)
		}
	}
}

// see takes in one object as it has become; late says that the watch had begun.
func (w *everything) see(o any, late, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events++
	switch o := o.(type) {
	case *corev1.Pod:
		w.seePod(o, late, gone)
	case *karpenterv1.NodeClaim:
		w.seeClaim(o, gone)
	case *corev1.Node:
		w.seeNode(o, gone)
	}
}

func (w *everything) seePod(pod *corev1.Pod, late, gone bool) {
	name := pod.Labels["app"]
	was, known := w.pods[pod.UID]
	is := was
	if !known {
		is = podSeen{workload: name, late: late}
	}
	is.healthy = !gone && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, isReady)
	if !is.evicted && slices.ContainsFunc(pod.Status.Conditions, isEvicted) {
		is.evicted = true
		w.evictions++
		if is.late && w.replicas[name] > 0 {
			w.again = append(w.again, pod.Name)
		}
	}
	if is != was || gone {
		w.changed = time.Now()
	}
	w.pods[pod.UID] = is
	if gone {
		delete(w.pods, pod.UID)
	}
	if is.healthy != was.healthy {
		w.healthy[name] += map[bool]int{true: 1, false: -1}[is.healthy]
		w.judge(name, late)
	}
}

// judge fails when more pods of a workload are away than its budget allows.
func (w *everything) judge(name string, late bool) {
	want, guarded := w.replicas[name]
	if !late || !guarded {
		return
	}
	w.fewest[name] = min(w.fewest[name], w.healthy[name])
	if w.healthy[name] < want-awayMost {
		w.broken = append(w.broken, fmt.Sprintf("%d of %d pods of %s are healthy, its PodDisruptionBudget lets %d be away", w.healthy[name], want, name, awayMost))
	}
}

func (w *everything) seeClaim(nc *karpenterv1.NodeClaim, gone bool) {
	was, known := w.claims[nc.UID]
	is := claimSeen{calm: was.calm, going: nc.DeletionTimestamp != nil || meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeDisruptionReason)}
	if !known {
		w.launches++
		w.launchAt = time.Now()
		is.calm = w.calm
	}
	if gone && is.calm {
		w.broken = append(w.broken, fmt.Sprintf("%s was launched when the load had stopped, and removed again", nc.Name))
	}
	if is != was || !known || gone {
		w.changed = time.Now()
	}
	w.claims[nc.UID] = is
	if gone {
		delete(w.claims, nc.UID)
	}
}

func (w *everything) seeNode(n *corev1.Node, gone bool) {
	softTainted := !gone && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == translate.PreferOthersTaintKey })
	if was, ever := w.softTainted[n.Name]; ever || softTainted {
		if was != softTainted {
			w.changed = time.Now()
		}
		w.softTainted[n.Name] = softTainted
	}
}

func isReady(c corev1.PodCondition) bool {
	return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
}

func isEvicted(c corev1.PodCondition) bool {
	return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI"
}

// everShunned returns how many Nodes ever were softTainted.
func (w *everything) everShunned() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.softTainted)
}

// runs returns an error unless so many pods of a workload are there, all healthy.
func (w *everything) runs(workload string, want int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := 0
	for _, p := range w.pods {
		if p.workload == workload {
			there++
		}
	}
	if there != want || w.healthy[workload] != want {
		return fmt.Errorf("%d of %d pods of %s are healthy, want %d; seen so far: %d changes, the last %s ago, and broken %q",
			w.healthy[workload], there, workload, want, w.events, time.Since(w.changed).Round(time.Second), w.broken)
	}
	return nil
}

// awaitBegun returns when something is on its way out, or softTainted because it will be.
func (w *everything) awaitBegun(t *testing.T, within time.Duration) {
	t.Helper()
	testkit.Eventually(t, within, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.claims {
			if c.going {
				return nil
			}
		}
		if len(w.softTainted) == 0 && w.evictions == 0 {
			return errors.New("nothing has begun")
		}
		return nil
	})
}

// awaitStill returns when nothing has changed for a while and nothing is on its way out, nor
// softTainted.
func (w *everything) awaitStill(t *testing.T, within time.Duration) {
	t.Helper()
	testkit.Eventually(t, within, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		going, softTainted, away := 0, 0, len(w.pods)
		for _, c := range w.claims {
			if c.going {
				going++
			}
		}
		for _, p := range w.pods {
			if p.healthy {
				away--
			}
		}
		for _, is := range w.softTainted {
			if is {
				softTainted++
			}
		}
		if idle := time.Since(w.changed); going > 0 || softTainted > 0 || away > 0 || idle < stillFor {
			return fmt.Errorf("%d claims, %d on their way out, %d with the soft taint, %d launched, %d evictions, %d pods do not run; nothing happened for %s", len(w.claims), going, softTainted, w.launches, w.evictions, away, idle)
		}
		return nil
	})
}

// calmDown returns how many claims were launched so far. Those that come now must stay.
func (w *everything) calmDown() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
	return w.launches
}

func (w *everything) launched() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.launches
}

func (w *everything) lastLaunch() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.launchAt
}

// report says what was seen, and fails when a promise was broken.
func (w *everything) report(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	away := 0
	for name, want := range w.replicas {
		away = max(away, want-w.fewest[name])
	}
	t.Logf("%d nodes are left, %d were launched; %d evictions; at most %d pods of a workload were away, in %d changes", len(w.claims), w.launches, w.evictions, away, w.events)
	for _, b := range w.broken {
		t.Error(b)
	}
	if len(w.again) > 0 {
		t.Errorf("%d of the evicted pods had come for others that were: %s", len(w.again), w.again)
	}
}
