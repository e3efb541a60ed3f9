package world

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/forecast"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/decision/whatif"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var (
	diffSeeds = flag.Uint64("diff-seeds", 3, "how many seeds TestWhatDiffPromisesIsDone plays")
	diffFirst = flag.Uint64("diff-first", 1, "the first of them")
)

const (
	// diffAt is when the NodePool is changed: nodes are not young any more, and nothing is left to be done.
	diffAt = 3 * time.Hour
	// diffLasts is for how long the controller then has time.
	diffLasts = 8 * time.Hour
	// diffNodesMin is which share of the nodes must go or stay as promised, and diffPriceMax by how much the price of
	// all clusters together may differ from what was promised. kube-scheduler binds some pods elsewhere than planned,
	// which diff says in advance.
	diffNodesMin, diffPriceMax = 0.9, 0.05
)

// TestWhatDiffPromisesIsDone changes a NodePool of a random cluster that is at rest, and compares what dovetail diff
// has promised with what the controller does.
func TestWhatDiffPromisesIsDone(t *testing.T) {
	t.Parallel()
	n := *diffSeeds
	if testing.Short() || testkit.Raced {
		n = 1
	}
	same, nodes, promisedPrice, donePrice := 0, 0, 0.0, 0.0
	for seed := *diffFirst; seed < *diffFirst+n; seed++ {
		promised, done, change := playDiff(t, seed)
		if !slices.Equal(promised.drifted, done.drifted) {
			t.Errorf("seed %d: %v drifted, and were promised to be %v", seed, done.drifted, promised.drifted)
		}
		var other []string
		for _, name := range done.before {
			if slices.Contains(promised.gone, name) != slices.Contains(done.gone, name) {
				other = append(other, name)
			}
		}
		nodes, same = nodes+len(done.before), same+len(done.before)-len(other)
		t.Logf("seed %d: %s\n promised %v\n done     %v\n of %d nodes %d went or stayed otherwise %v", seed, change, promised, done, len(done.before), len(other), other)
		promisedPrice, donePrice = promisedPrice+promised.price, donePrice+done.price
	}
	share, off := float64(same)/float64(nodes), promisedPrice/donePrice-1
	t.Logf("of %d nodes %.1f %% went or stayed as promised; $%.4f an hour were promised and $%.4f is paid (%+.1f %%)", nodes, 100*share, promisedPrice, donePrice, 100*off)
	if share < diffNodesMin || math.Abs(off) > diffPriceMax {
		t.Errorf("want at least %.0f %% of the nodes, and the price within %.0f %%", 100*diffNodesMin, 100*diffPriceMax)
	}
}

// outcome is what became of a cluster after a change.
type outcome struct {
	drifted, gone []string
	price         float64
	stay, before  []string
}

func (o *outcome) String() string {
	return fmt.Sprintf("drifted %d gone %d stay %d price %.4f", len(o.drifted), len(o.gone), len(o.stay), o.price)
}

func playDiff(t *testing.T, seed uint64) (promised, done *outcome, change string) {
	t.Helper()
	w := newWorld(seed, Options{Calm: diffAt + diffLasts, Nodes: 4 + int(seed%12), Without: append(quietly(), LateIDs, LateFailures, LateNotices)})
	defer func() { w.process.end() }()
	w.chaos.begin()
	w.playUntil(start.Add(diffAt))
	np, change := changedPool(w, seed)
	v, err := whatif.Answer(&whatif.Input{Objects: w.present(), Cluster: "world", At: w.at, From: w.catalog(), Options: w.forecasts(), Change: whatif.Change{Pools: []*karpenterv1.NodePool{np}}})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	before := w.nodesNow()
	promised = &outcome{price: v.Then.Price.Hourly}
	for _, d := range v.Drift {
		if slices.Contains(before, d.Node) { // others are NodeClaims that have no Node yet
			promised.drifted = append(promised.drifted, d.Node)
		}
	}
	for _, s := range v.Steps {
		for _, r := range s.Remove {
			if !s.DoneAt.IsZero() && slices.Contains(before, r.Name) {
				promised.gone = append(promised.gone, r.Name)
			}
		}
	}
	for _, d := range v.Stay {
		promised.stay = append(promised.stay, d.Node)
	}
	had, _ := cluster.Find[*karpenterv1.NodePool](w.api, "", np.Name)
	cluster.Edit(w.api, had, func(is *karpenterv1.NodePool) { is.Spec = *np.Spec.DeepCopy() })
	done = &outcome{}
	drifted := map[string]bool{}
	for at, end := w.at, w.at.Add(diffLasts); at.Before(end) && w.said == ""; at = at.Add(10 * time.Second) {
		w.playUntil(at)
		for _, nc := range cluster.All[*karpenterv1.NodeClaim](w.api) {
			for _, c := range nc.Status.Conditions {
				if c.Type == karpenterv1.ConditionTypeDrifted && slices.Contains(before, nc.Status.NodeName) {
					drifted[nc.Status.NodeName] = true
				}
			}
		}
	}
	if w.said != "" {
		t.Fatalf("seed %d: %s", seed, w.said)
	}
	after := w.nodesNow()
	for name := range drifted {
		done.drifted = append(done.drifted, name)
		if slices.Contains(after, name) {
			done.stay = append(done.stay, name)
		}
	}
	for _, name := range before {
		if !slices.Contains(after, name) {
			done.gone = append(done.gone, name)
		}
	}
	done.price = w.cloud.costs()
	done.before = before
	for _, o := range []*outcome{promised, done} {
		slices.Sort(o.drifted)
		slices.Sort(o.gone)
	}
	return promised, done, change
}

// changedPool returns one of the world's NodePools with a change that the seed chooses.
func changedPool(w *World, seed uint64) (np *karpenterv1.NodePool, change string) {
	r := rand.New(rand.NewPCG(seed, 0x64696666))
	np = w.chaos.pools[r.IntN(len(w.chaos.pools))].DeepCopy()
	had, _ := cluster.Find[*karpenterv1.NodePool](w.api, "", np.Name)
	np = had.DeepCopy()
	spec := &np.Spec.Template.Spec
	switch r.IntN(4) {
	case 0:
		np.Spec.Template.Labels = map[string]string{"v": "two"}
		return np, np.Name + " template label"
	case 1:
		spec.Requirements = append(spec.Requirements, requirement(karpenterv1.CapacityTypeLabelKey, label.OnDemand))
		return np, np.Name + " on demand only"
	case 2:
		spec.Requirements = append(spec.Requirements, requirement(corev1.LabelTopologyZone, zones[0]))
		return np, np.Name + " one zone"
	default:
		np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "50%"}}
		np.Spec.Template.Annotations = map[string]string{"a": "b"}
		return np, np.Name + " template annotation, budget 50 %"
	}
}

func (w *World) nodesNow() (names []string) {
	for _, n := range cluster.All[*corev1.Node](w.api) {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// present returns the objects that dovetail diff reads.
func (w *World) present() (all []client.Object) {
	add := func(objects ...client.Object) { all = append(all, objects...) }
	for _, o := range cluster.All[*karpenterv1.NodePool](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*corev1.Namespace](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*karpenterv1.NodeClaim](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*corev1.Node](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*storagev1.StorageClass](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*corev1.PersistentVolume](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*corev1.PersistentVolumeClaim](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*policyv1.PodDisruptionBudget](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*appsv1.DaemonSet](w.api) {
		add(o)
	}
	for _, o := range cluster.All[*corev1.Pod](w.api) {
		add(o)
	}
	return all
}

func (w *World) catalog() simulate.Catalog {
	return simulate.Catalog{Types: w.cloud.types, Vocabulary: w.cloud.words.Vocabulary()}
}

// forecasts are the settings of the product in this world.
func (w *World) forecasts() (opts forecast.Options) {
	opts.Disrupt.Terms.SpotToSpot, opts.Disrupt.Repair.On = true, true
	return opts
}
