package apply_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// desk is a Nominator at a real API server, whose mirror sees what it is shown.
type desk struct {
	*testing.T
	client.WithWatch
	nominator *apply.Nominator
	seen      *informertest.FakeInformers
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpenterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(testkit.StartCluster(t).Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	store := mirror.NewStore(mirror.Options{
		Vocabulary: translate.NewVocabulary(nil, nil), Now: time.Now, Manages: func(string, string) bool { return false },
	})
	d := &desk{T: t, WithWatch: c, nominator: &apply.Nominator{Client: c, Mirror: store}, seen: &informertest.FakeInformers{Scheme: scheme}}
	if _, err := store.Feed(t.Context(), d.seen); err != nil {
		t.Fatal(err)
	}
	return d
}

// pod returns a new pod that no scheduler cares for, as it is to be nominated.
func (d *desk) pod(name, writeNomination string) nominate.Pod {
	d.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "example.test/none"}}},
	}
	d.must(d.Create(d.Context(), p))
	if writeNomination != "" {
		p.Status.NominatedNodeName = writeNomination
		d.must(d.Status().Update(d.Context(), p))
	}
	return nominate.Pod{PodRef: translate.PodRef(p), Nominated: writeNomination, Node: "n2"}
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func TestNominationsAreWrittenOnlyOverWhatWasSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	bound := d.pod("bound", "")
	d.must(d.SubResource("binding").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bound"}},
		&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "elsewhere"}}))
	unseen := d.pod("unseen", "by-another")
	unseen.Nominated = ""
	successor := d.pod("successor", "")
	successor.UID = "another"
	gone := nominate.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: "gone", UID: "gone"}, Node: "n2"}
	d.must(d.nominator.Set(t.Context(), []nominate.Pod{d.pod("plain", ""), d.pod("moved", "n1"), bound, unseen, successor, gone}))
	changed := d.pod("changed", "by-another")
	changed.Nominated = "n1"
	d.must(d.nominator.Clear(t.Context(), []nominate.Pod{d.pod("cleared", "n1"), changed, gone}))
	var pods corev1.PodList
	d.must(d.List(t.Context(), &pods, client.InNamespace("default")))
	got := map[string]string{}
	for i := range pods.Items {
		got[pods.Items[i].Name] = pods.Items[i].Status.NominatedNodeName
	}
	want := map[string]string{
		"plain": "n2", "moved": "n2", "cleared": "",
		"bound": "", "unseen": "by-another", "successor": "", "changed": "by-another",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nominations (-want +got):\n%s", diff)
	}
}

func TestANodeOpensWithItsOtherTaintsInPlace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule}
	d.must(d.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{other, {Key: karpenterv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoSchedule}}},
	}))
	informer, err := d.seen.FakeInformerFor(t.Context(), &corev1.Node{})
	d.must(err)
	stale := &corev1.Node{}
	d.must(d.Get(t.Context(), client.ObjectKey{Name: "n1"}, stale))
	stale.Spec.Taints = []corev1.Taint{karpenterv1.UnregisteredTaint()}
	informer.Add(stale)
	d.must(d.nominator.Open(t.Context(), []string{"n1", "gone"}))
	node := &corev1.Node{}
	d.must(d.Get(t.Context(), client.ObjectKey{Name: "n1"}, node))
	if !node.Spec.Taints[0].MatchTaint(&other) {
		t.Fatalf("a stale look has left taints %v", node.Spec.Taints)
	}
	// The control plane puts taints of its own on a node that no kubelet vouches for.
	testkit.Eventually(t, time.Minute, func() error {
		seen := &corev1.Node{}
		d.must(d.Get(t.Context(), client.ObjectKey{Name: "n1"}, seen))
		informer.Add(seen)
		d.must(d.nominator.Open(t.Context(), []string{"n1"}))
		d.must(d.Get(t.Context(), client.ObjectKey{Name: "n1"}, node))
		if node.Labels[karpenterv1.NodeRegisteredLabelKey] == "" {
			return errors.New("the node is not registered")
		}
		return nil
	})
	unregistered, has := karpenterv1.UnregisteredTaint(), map[string]bool{}
	for _, taint := range node.Spec.Taints {
		has[taint.Key] = true
	}
	if has[unregistered.Key] || !has[other.Key] || node.Labels["a"] != "b" {
		t.Errorf("the node has taints %v and labels %v", node.Spec.Taints, node.Labels)
	}
}

func TestANominationThatCouldNotBeWrittenIsNotTakenForGiven(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.nominator.Client = interceptor.NewClient(d.WithWatch, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errors.New("connection reset")
		},
	})
	p := d.pod("plain", "")
	informer, err := d.seen.FakeInformerFor(t.Context(), &corev1.Pod{})
	d.must(err)
	pod := &corev1.Pod{}
	d.must(d.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "plain"}, pod))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	informer.Add(pod)
	given := func() (nominations []string) {
		for _, p := range d.nominator.Mirror.Nominations().View().Pods {
			nominations = append(nominations, p.Nominated)
		}
		return nominations
	}
	d.nominator.Assume([]nominate.Pod{p})
	if diff := cmp.Diff([]string{"n2"}, given()); diff != "" {
		t.Fatalf("nominations about to be written (-want +got):\n%s", diff)
	}
	if err := d.nominator.Set(t.Context(), []nominate.Pod{p}); err == nil {
		t.Error("the error was lost")
	}
	if got := given(); len(got) > 0 {
		t.Errorf("nominations that were not written: %v", got)
	}
}
