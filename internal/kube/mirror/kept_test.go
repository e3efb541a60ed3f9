package mirror

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// TestSnapshotsOfKeptPartsEqualFreshOnes: a snapshot that is made of what the last ones found out is the
// same as that of a store that got all of it and was never asked before, whatever happens
// between two of them; and none changes once it is taken.
func TestSnapshotsOfKeptPartsEqualFreshOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := noon
		asked := newTestStore(func() time.Time { return now })
		asked.evictions.started = noon
		var observed []reported
		var last, lastWant *cluster.Snapshot
		ops := map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 5400).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				got, want := asked.Snapshot(), neverAsked(observed, now).Snapshot()
				wantSame(t, "a snapshot", want, got)
				wantSame(t, "the one before it", lastWant, last)
				last, lastWant = got, want
				if got, want := asked.IsDraining(), anyGoing(asked.nodes); got != want {
					t.Errorf("something is going: %v, not %v", got, want)
				}
				observed = append(observed, reported{now, (*Store).forget})
			},
		}
		for name, any := range triggers {
			ops[name] = func(t *rapid.T) {
				e := reported{now, any(t)}
				observed = append(observed, e)
				e.by(asked)
			}
		}
		t.Repeat(ops)
	})
}

// anyGoing looks at all Nodes and NodeClaims for one that is going.
func anyGoing(x *nodeIndex) bool {
	for _, c := range x.claims {
		if c.object.DeletionTimestamp != nil {
			return true
		}
	}
	for _, n := range x.nodes {
		if isGoing(n.object) {
			return true
		}
	}
	return false
}

// keptCase is a change of something that what was kept was made of.
type keptCase struct {
	before []client.Object
	change func(*Store)
}

// volumeCases change volumes, and what they depend on.
func volumeCases() map[string]keptCase {
	claim, volume := boundPair("v", "a")
	_, moved := boundPair("v", "b")
	p := withClaims(boundPod("p", "n0"), "v")

	own, _ := boundPair("e-own", "a")
	own.OwnerReferences = []metav1.OwnerReference{{UID: "e", Controller: ptr.To(true)}}
	ephemeral := boundPod("e", "n0")
	ephemeral.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}

	waiting := waitingPVC("w")
	waiting.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n0"}
	far := withClaims(boundPod("far", "n1"), "w")
	renamed := testNode("n0", "kwok://n0", true)
	renamed.Labels[corev1.LabelHostname] = "h"

	single, other := claim.DeepCopy(), withClaims(boundPod("q", "n1"), "v")
	single.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}

	return map[string]keptCase{
		"a volume goes":                             {[]client.Object{p, claim, volume}, func(s *Store) { remove(s, volume) }},
		"a volume is in another zone":               {[]client.Object{p, claim, volume}, func(s *Store) { upsert(s, moved) }},
		"a volume claim goes":                       {[]client.Object{p, claim, volume}, func(s *Store) { remove(s, claim) }},
		"a class is another":                        {[]client.Object{ephemeral, own, volume, zonalClass("a")}, func(s *Store) { upsert(s, zonalClass("b")) }},
		"a class goes":                              {[]client.Object{ephemeral, own, volume, zonalClass("a")}, func(s *Store) { remove(s, zonalClass("a")) }},
		"the Node of a volume has another hostname": {[]client.Object{far, waiting, zonalClass("a")}, func(s *Store) { upsert(s, renamed) }},
		"the only pod that may have a volume goes":  {[]client.Object{p, other, single, volume}, func(s *Store) { remove(s, p) }},
	}
}

// planCases change what is meant for pods.
func planCases() map[string]keptCase {
	p := boundPod("p", "n0")
	p.Labels = map[string]string{"app": "a"}
	joined, deleting := testClaim("c0", "kwok://n0"), testClaim("c0", "kwok://n0")
	joined.Annotations = map[string]string{translate.StepAnnotationKey: translate.StepAnnotation(&plan.Command{ID: "step1", Remove: make([]plan.Removal, 1)})}
	deleting.DeletionTimestamp = &metav1.Time{Time: noon}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	budget.Spec.Selector, budget.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: p.Labels}, ptr.To(intstr.FromInt32(0))
	return map[string]keptCase{
		"a step means a pod for a home":            {[]client.Object{p, joined}, func(s *Store) { s.AssignFor("step1", []cluster.PodRef{translate.PodRef(p)}, "n1") }},
		"a budget holds a pod of a node that goes": {[]client.Object{p, deleting}, func(s *Store) { upsert(s, budget) }},
	}
}

// TestKeptPartsAreDroppedWithTheirObjects: what chance rarely brings about.
func TestKeptPartsAreDroppedWithTheirObjects(t *testing.T) {
	t.Parallel()
	cases := volumeCases()
	maps.Copy(cases, planCases())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setUp := func(s *Store) {
				if err := s.Observe(append(tc.before, testNode("n0", "kwok://n0", true), testNode("n1", "kwok://n1", true))...); err != nil {
					t.Error(err)
				}
			}
			observed := []reported{{noon, setUp}, {noon, tc.change}}
			s := newTestStore(atNoon)
			s.evictions.started = noon
			setUp(s)
			before := s.Snapshot()
			wantSame(t, "a snapshot", neverAsked(observed[:1], noon).Snapshot(), before)
			tc.change(s)
			after := s.Snapshot()
			wantSame(t, "the next one", neverAsked(observed, noon).Snapshot(), after)
			wantSame(t, "the first one", neverAsked(observed[:1], noon).Snapshot(), before)
			if cmp.Equal(before, after, cmp.AllowUnexported(cluster.Snapshot{})) {
				t.Error("nothing has changed")
			}
		})
	}
}

// reported is an event that a store got, and when.
type reported struct {
	at time.Time
	by func(*Store)
}

// neverAsked returns a store that got all events, and from which no snapshot was taken.
func neverAsked(observed []reported, now time.Time) *Store {
	var at time.Time
	s := newTestStore(func() time.Time { return at })
	s.evictions.started = noon
	for _, e := range observed {
		at = e.at
		e.by(s)
	}
	at = now
	s.nodes.sorted = nil
	return s
}

// forget does what a snapshot does to a store but for what it keeps for the next one.
func (s *Store) forget() {
	s.nodes.sorted = nil
	expire(s, s.opts.Now())
	s.assignments.giveUp(s.opts.Now())
}

func wantSame(t rapid.TB, what string, want, got *cluster.Snapshot) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(cluster.Snapshot{})); diff != "" {
		t.Fatalf("%s: of a store that was never asked before (-) and of one that was (+):\n%s", what, diff)
	}
	if want == nil {
		return
	}
	wants, gots := constraintsIn(want), constraintsIn(got)
	same, back := map[*cluster.Constraints]*cluster.Constraints{}, map[*cluster.Constraints]*cluster.Constraints{}
	for i := range wants {
		w, g := wants[i].constraints, gots[i].constraints
		if same[w] == nil && back[g] == nil {
			same[w], back[g] = g, w
		}
		if same[w] != g || back[g] != w {
			t.Fatalf("%s: the constraints of %s are not those of the pods that are alike", what, gots[i].whose)
		}
	}
}

// constraintsOf is one occurrence of pod constraints in a snapshot, and where it is.
type constraintsOf struct {
	whose       string
	constraints *cluster.Constraints
}

// constraintsIn returns the pod constraints of a snapshot in the order in which they are there.
func constraintsIn(snap *cluster.Snapshot) (all []constraintsOf) {
	for _, p := range snap.Pending {
		all = append(all, constraintsOf{"pending " + p.Name, p.Constraints})
	}
	for _, n := range snap.Nodes {
		for i, p := range n.Pods {
			all = append(all, constraintsOf{fmt.Sprintf("the pods %d of %s", i, n.Name), p.Constraints})
		}
		for _, r := range n.Reschedulable {
			all = append(all, constraintsOf{r.Name + " on " + n.Name, r.Constraints})
		}
	}
	return all
}
