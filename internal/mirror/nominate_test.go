package mirror

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/translate"
)

// hintStore returns a store that knows nodes n1 and n2, and the pending pod p, nominated
// for a node if one is named.
func hintStore(nominated string) (*Store, *corev1.Pod) {
	s := newTestStore(atNoon)
	for _, name := range []string{"n1", "n2"} {
		s.upsertNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	p := pendingPod("p")
	p.Status.NominatedNodeName = nominated
	s.upsertPod(p)
	return s, p
}

func TestOurHintsDoNotHidePods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nominated, planned, assumed string
		asks                        bool
	}{
		"no hint":                                {"", "n1", "", true},
		"nominated for the node it is meant for": {"n1", "n1", "", true},
		"nominated by us for another before":     {"n1", "n2", "n1", true},
		"kube-scheduler makes room elsewhere":    {"n2", "n1", "", false},
		"nominated by who knows whom":            {"n1", "", "", false},
		"nominated for a node that is not there": {"gone", "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := hintStore(c.nominated)
			ref := translate.PodRef(p)
			if c.planned != "" {
				s.Meant([]cluster.PodRef{ref}, c.planned)
			}
			if c.assumed != "" {
				s.AssumeHint(ref, c.assumed)
			}
			snap := s.Snapshot()
			if got := len(snap.Pending) == 1; got != c.asks || (s.Asking() == 1) != c.asks {
				t.Fatalf("asks for a node: %v, want %v", got, c.asks)
			}
			if c.asks && snap.Pending[0].Planned != c.planned {
				t.Errorf("planned for %q, want %q", snap.Pending[0].Planned, c.planned)
			}
		})
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	unregistered := karpenterv1.UnregisteredTaint()
	s, p := hintStore("")
	ref := translate.PodRef(p)
	view := func() nominate.View {
		v := s.Hints()
		v.Heard = noon
		return v
	}
	expect := func(why string, pods []nominate.Pod, nodes []nominate.Node, coming int) {
		t.Helper()
		want := nominate.View{At: noon, Heard: noon, Pods: pods, Nodes: nodes, Coming: coming}
		if diff := cmp.Diff(want, view()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	expect("meant for nothing", nil, nil, 0)

	s.upsertClaim(&karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	s.Meant([]cluster.PodRef{ref}, "c")
	expect("the machine has not joined", nil, nil, 1)

	joined := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	joined.Status.ProviderID = "id"
	s.upsertClaim(joined)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}, Spec: corev1.NodeSpec{ProviderID: "id", Taints: []corev1.Taint{unregistered}}}
	s.upsertNode(node)
	expect("it has joined", []nominate.Pod{{PodRef: ref, Node: "n3"}}, []nominate.Node{{Name: "n3", Stage: nominate.Closed}}, 0)

	node = node.DeepCopy()
	node.Spec.Taints = nil
	s.upsertNode(node)
	s.AssumeHint(ref, "n3")
	open := []nominate.Node{{Name: "n3"}}
	expect("a hint counts before it is shown", []nominate.Pod{{PodRef: ref, Node: "n3", Hint: "n3", Ours: true, Given: 1, GivenAt: noon}}, open, 0)

	p = p.DeepCopy()
	p.Status.NominatedNodeName = "n3"
	s.upsertPod(p)
	cleared := p.DeepCopy()
	cleared.Status.NominatedNodeName = ""
	s.upsertPod(cleared)
	expect("one that was shown and taken away is gone", []nominate.Pod{{PodRef: ref, Node: "n3", Given: 1, GivenAt: noon}}, open, 0)

	bound := p.DeepCopy()
	bound.Spec.NodeName, bound.Status.NominatedNodeName = "n3", ""
	s.upsertPod(bound)
	s.upsertPod(bound.DeepCopy())
	expect("a bound pod needs none", nil, nil, 0)
	if there, elsewhere := s.Landed(); there != 1 || elsewhere != 0 {
		t.Errorf("Landed() = %d, %d, want 1, 0", there, elsewhere)
	}
}

func TestHintForANodeThatNeverCameIsOursToClear(t *testing.T) {
	t.Parallel()
	s, p := hintStore("gone")
	want := []nominate.Pod{{PodRef: translate.PodRef(p), Hint: "gone", Ours: true}}
	v := s.Hints()
	if diff := cmp.Diff(want, v.Pods); diff != "" {
		t.Errorf("Hints (-want +got):\n%s", diff)
	}
	if step := nominate.Next(v); len(step.Clear) != 1 {
		t.Errorf("the step is %q, want the hint cleared", step)
	}
}
