package mirror

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// nominationStore returns a store that knows nodes n1 and n2, and the pending pod p, nominated
// for a node if one is named.
func nominationStore(nominated string) (*Store, *corev1.Pod) {
	s := newTestStore(atNoon)
	for _, name := range []string{"n1", "n2"} {
		upsert(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	p := pendingPod("p")
	p.Status.NominatedNodeName = nominated
	upsert(s, p)
	return s, p
}

func TestOurNominationsDoNotHidePods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nominated, planned, assumed string
		asks                        bool
	}{
		"no nomination":                          {"", "n1", "", true},
		"nominated for the node it is meant for": {"n1", "n1", "", true},
		"nominated by us for another before":     {"n1", "n2", "n1", true},
		"kube-scheduler makes room elsewhere":    {"n2", "n1", "", false},
		"nominated by who knows whom":            {"n1", "", "", false},
		"nominated for a node that is not there": {"gone", "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := nominationStore(c.nominated)
			ref := translate.PodRef(p)
			if c.planned != "" {
				s.Assign([]cluster.PodRef{ref}, c.planned)
			}
			if c.assumed != "" {
				s.Nominations().Assume(ref, c.assumed)
			}
			snap := s.Snapshot()
			if got := len(snap.Pending) == 1; got != c.asks || (s.PendingCount() == 1) != c.asks {
				t.Fatalf("asks for a node: %v, want %v", got, c.asks)
			}
			if c.asks && snap.Pending[0].Planned != c.planned {
				t.Errorf("planned for %q, want %q", snap.Pending[0].Planned, c.planned)
			}
		})
	}
}

func TestNominations(t *testing.T) {
	t.Parallel()
	unregistered := karpenterv1.UnregisteredTaint()
	s, p := nominationStore("")
	ref := translate.PodRef(p)
	var landed []Outcome
	s.OnOutcome(func(l Outcome) { landed = append(landed, l) })
	view := func() nominate.View {
		v := s.Nominations().View()
		v.LastPodEvent = noon
		return v
	}
	expect := func(why string, pods []nominate.Pod, nodes []nominate.Node, coming int) {
		t.Helper()
		want := nominate.View{At: noon, LastPodEvent: noon, Pods: pods, Nodes: nodes, Coming: coming, Alike: len(s.pods.unbound) > 0}
		if diff := cmp.Diff(want, view()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	expect("meant for nothing", nil, nil, 0)

	upsert(s, &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	s.Assign([]cluster.PodRef{ref}, "c")
	expect("the node has not joined", nil, nil, 1)

	joined := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	joined.Status.ProviderID = "id"
	upsert(s, joined)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}, Spec: corev1.NodeSpec{ProviderID: "id", Taints: []corev1.Taint{unregistered}}}
	upsert(s, node)
	once := nominate.Pod{PodRef: ref, Node: "n3", Tries: 1, TriedAt: noon, Constraints: s.pods.all[p.UID].constraints.constraints}
	expect("it has joined", []nominate.Pod{once}, []nominate.Node{{Name: "n3", Stage: nominate.Closed}}, 0)

	node = node.DeepCopy()
	node.Spec.Taints = nil
	upsert(s, node)
	s.Nominations().Assume(ref, "n3")
	open := []nominate.Node{{Name: "n3"}}
	hinted := once
	hinted.Nominated, hinted.Ours, hinted.Given, hinted.GivenAt = "n3", true, 1, noon
	expect("a nomination counts before it is shown", []nominate.Pod{hinted}, open, 0)

	p = p.DeepCopy()
	p.Status.NominatedNodeName = "n3"
	upsert(s, p)
	hinted.Stands = true
	expect("it stands once it is shown", []nominate.Pod{hinted}, open, 0)

	cleared := p.DeepCopy()
	cleared.Status.NominatedNodeName = ""
	upsert(s, cleared)
	twice := once
	twice.Given, twice.GivenAt, twice.Tries = 1, noon, 2
	expect("one that was shown and taken away is gone", []nominate.Pod{twice}, open, 0)

	bound := p.DeepCopy()
	bound.Spec.NodeName, bound.Status.NominatedNodeName = "n3", ""
	upsert(s, bound)
	upsert(s, bound.DeepCopy())
	expect("a bound pod needs none", nil, nil, 0)
	if diff := cmp.Diff([]Outcome{AsPlanned}, landed); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestNominationForANodeThatNeverCameIsOursToClear(t *testing.T) {
	t.Parallel()
	s, p := nominationStore("gone")
	want := []nominate.Pod{{PodRef: translate.PodRef(p), Nominated: "gone", Ours: true, Tries: 1, TriedAt: noon, Constraints: s.pods.all[p.UID].constraints.constraints}}
	v := s.Nominations().View()
	if diff := cmp.Diff(want, v.Pods); diff != "" {
		t.Errorf("Nominations (-want +got):\n%s", diff)
	}
	if step := nominate.Next(v); len(step.Clear) != 1 {
		t.Errorf("the step is %q, want the nomination cleared", step)
	}
}

func TestOurOwnNominationIsNoPodEvent(t *testing.T) {
	t.Parallel()
	now := noon
	s := newTestStore(func() time.Time { return now })
	upsert(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	p := pendingPod("p")
	upsert(s, p)
	s.Assign([]cluster.PodRef{translate.PodRef(p)}, "n1")
	s.Nominations().Assume(translate.PodRef(p), "n1")
	for _, c := range []struct {
		what     string
		change   func(*corev1.Pod)
		observed bool
	}{
		{"our nomination is shown", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }, false},
		{"kube-scheduler writes why", func(p *corev1.Pod) { p.Status.Conditions[0].Message = "no" }, true},
		{"it takes the nomination away", func(p *corev1.Pod) { p.Status.NominatedNodeName = "" }, true},
	} {
		now = now.Add(time.Second)
		p = p.DeepCopy()
		c.change(p)
		upsert(s, p)
		if v := s.Nominations().View(); v.LastPodEvent.Equal(now) != c.observed || v.Pods[0].TriedAt.Equal(now) != c.observed {
			t.Errorf("%s: observed at %s and tried at %s, now is %s", c.what, v.LastPodEvent, v.Pods[0].TriedAt, now)
		}
	}
}

func TestWhichNodesHaveFreeRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cpu, there, elsewhere, coming int
		free                          bool
	}{
		"nobody else":                       {3, 1, 0, 0, false},
		"others, and no room for them":      {1, 1, 1, 0, false},
		"others, and room":                  {2, 1, 1, 0, true},
		"room for one whose node will come": {2, 1, 0, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestStore(atNoon)
			for _, node := range []string{"n1", "n2"} {
				upsert(s, &corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: karpenterv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoSchedule}}},
					Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
						corev1.ResourceCPU: *resource.NewQuantity(int64(c.cpu), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("9"),
					}},
				})
			}
			upsert(s, testClaim("later", ""))
			for node, pods := range map[string]int{"n1": c.there, "n2": c.elsewhere, "later": c.coming} {
				for i := range pods {
					p := pendingPod(fmt.Sprint(node, i))
					upsert(s, p)
					s.Assign([]cluster.PodRef{translate.PodRef(p)}, node)
				}
			}
			if got := s.Nominations().View().Nodes[0]; got.Name != "n1" || got.HasRoom != c.free {
				t.Errorf("node %s: spare is %v, want n1, %v", got.Name, got.HasRoom, c.free)
			}
		})
	}
}
