package apply_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// marks says which marks of a command a node has: annotation, condition, taint.
func marks(claim *karpenterv1.NodeClaim, node *corev1.Node) string {
	closed := false
	for _, t := range node.Spec.Taints {
		closed = closed || t.Key == karpenterv1.DisruptedTaintKey
	}
	reason := ""
	if c := meta.FindStatusCondition(claim.Status.Conditions, karpenterv1.ConditionTypeDisruptionReason); c != nil {
		reason = c.Reason
	}
	return fmt.Sprintf("step %q, reason %q, closed %t", claim.Annotations[translate.StepAnnotationKey], reason, closed)
}

const (
	unmarked = `step "", reason "", closed false`
	marked   = `step "id 1 0", reason "Drifted", closed true`
)

// TestAStepIsBegunAndTakenBackWhateverGoesWrong has each write of a beginning fail, and
// lose its answer; then what is there is taken back, with the same faults, and again.
func TestAStepIsBegunAndTakenBackWhateverGoesWrong(t *testing.T) {
	t.Parallel()
	removal := plan.Removal{Node: "n1", Claim: "c1", Pool: "p", Reason: "Drifted"}
	step := plan.Command{ID: "id", Reason: "Drifted", Remove: []plan.Removal{removal}}
	undo := plan.Undo{Command: "id", Open: []plan.Removal{removal}}
	for at := range 4 {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, lost %t", at, lost), func(t *testing.T) {
				t.Parallel()
				f := &fault{at: at, lost: lost}
				c := server(t, f)
				d := &apply.Disrupter{Client: c, Now: func() time.Time { return roadStart }}
				if _, err := d.Begin(t.Context(), &step, ""); (err != nil) != (at > 0) {
					t.Fatalf("begin: %v", err)
				}
				claim, node := world(t, c)
				got := marks(claim, node)
				if at == 0 && got != marked {
					t.Fatalf("begun: %s, want %s", got, marked)
				}
				if closed, reason := got[len(got)-4:] == "true", meta.IsStatusConditionTrue(claim.Status.Conditions, karpenterv1.ConditionTypeDisruptionReason); closed && !reason {
					t.Errorf("closed without a reason: %s", got)
				}
				f.writes = 0 // the same write of the way back goes wrong
				if err := d.Undo(t.Context(), &undo); err != nil {
					f.at = 0
					if err := d.Undo(t.Context(), &undo); err != nil {
						t.Fatalf("take back again: %v", err)
					}
				}
				if got := marks(world(t, c)); got != unmarked {
					t.Errorf("taken back: %s, want %s", got, unmarked)
				}
				f.writes, f.at = 0, 0
				if err := d.Undo(t.Context(), &undo); err != nil || f.writes > 0 {
					t.Errorf("take back what is taken back: %d writes, %v", f.writes, err)
				}
			})
		}
	}
}

// TestANodeThatIsGoneIsNoLongerMarked is for steps whose nodes went by themselves.
func TestANodeThatIsGoneIsNoLongerMarked(t *testing.T) {
	t.Parallel()
	c := server(t, &fault{})
	d := &apply.Disrupter{Client: c, Now: func() time.Time { return roadStart }}
	gone := plan.Removal{Node: "gone", Claim: "gone", Reason: "Drifted"}
	if _, err := d.Begin(t.Context(), &plan.Command{ID: "id", Remove: []plan.Removal{gone}}, ""); err == nil {
		t.Error("a step was begun whose node is gone")
	}
	if err := d.Undo(t.Context(), &plan.Undo{Drop: []plan.Removal{gone}, Open: []plan.Removal{gone}}); err != nil {
		t.Errorf("take back a step whose nodes are gone: %v", err)
	}
}

// TestANodeIsShunnedSoftlyAndNoLonger keeps the other taints of its Node as they are.
func TestANodeIsShunnedSoftlyAndNoLonger(t *testing.T) {
	t.Parallel()
	f := &fault{}
	c := server(t, f)
	d := &apply.Disrupter{Client: c, Now: func() time.Time { return roadStart }}
	_, node := world(t, c)
	before := node.Spec.Taints
	for range 2 { // the second time there is nothing to do
		if err := d.AddSoftTaint(t.Context(), []string{"n1", "gone"}); err != nil {
			t.Fatal(err)
		}
	}
	_, node = world(t, c)
	if diff := cmp.Diff(append(before, translate.PreferOthersTaint()), node.Spec.Taints); diff != "" {
		t.Errorf("taints of a Node that is shunned (-want +got):\n%s", diff)
	}
	for range 2 {
		if err := d.RemoveSoftTaint(t.Context(), []string{"n1", "gone"}); err != nil {
			t.Fatal(err)
		}
	}
	_, node = world(t, c)
	if diff := cmp.Diff(before, node.Spec.Taints); diff != "" {
		t.Errorf("taints of a Node that is shunned no longer (-want +got):\n%s", diff)
	}
	if f.writes != 2 {
		t.Errorf("%d writes, want 2", f.writes)
	}
}

// TestWhereAStepMeansItsPodsToBeIsRemembered: on nodes that are there, and on those that it
// launches.
func TestWhereAStepMeansItsPodsToBeIsRemembered(t *testing.T) {
	t.Parallel()
	c := server(t, &fault{})
	seen := &informertest.FakeInformers{Scheme: c.Scheme()}
	store := mirror.NewStore(mirror.Options{
		Vocabulary: translate.NewVocabulary(nil, nil), Now: time.Now, Manages: func(string, string) bool { return true },
	})
	if _, err := store.Feed(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	show := func(o client.Object) {
		t.Helper()
		informer, err := seen.FakeInformerFor(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		informer.Add(o)
	}
	pool := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"}
	show(pool)
	var pods []cluster.PodRef
	for _, name := range []string{"moves", "follows"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n1"}}
		show(p)
		pods = append(pods, translate.PodRef(p))
	}
	d := &apply.Disrupter{Client: c, Now: func() time.Time { return roadStart }, Launcher: &apply.Launcher{Client: c, Mirror: store}}
	done, err := d.Begin(t.Context(), &plan.Command{
		ID: "id", Reason: "Drifted", Remove: []plan.Removal{{Node: "n1", Claim: "c1", Pool: "p", Reason: "Drifted"}},
		Moves: []plan.Assignment{{Pod: pods[0], Node: "n2"}}, Launch: []plan.Launch{{Pool: "p", Pods: pods[1:], Replaces: "id"}},
	}, "17.k3f9")
	if err != nil || len(done) != 1 {
		t.Fatalf("%d launched, %v", len(done), err)
	}
	if got := done[0].Claim.Annotations[translate.DecisionAnnotationKey]; got != "17.k3f9" {
		t.Errorf("the claim is of decision %q", got)
	}
	claim, node := world(t, c)
	claim.Status.ProviderID = node.Spec.ProviderID
	show(claim)
	show(node)
	got := map[string]string{}
	for _, n := range store.Snapshot().Nodes {
		for _, r := range n.Reschedulable {
			got[r.Name] = r.TargetNode
		}
	}
	if diff := cmp.Diff(map[string]string{"moves": "n2", "follows": done[0].Claim.Name}, got); diff != "" {
		t.Errorf("homes (-want +got):\n%s", diff)
	}
}
