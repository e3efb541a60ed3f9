package mirror

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// TestWhichPodsAreAlike has two pods that ask for a node, and a third thing that may make a difference.
func TestWhichPodsAreAlike(t *testing.T) {
	t.Parallel()
	spread := func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "web"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
	apart := func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "web"}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}}}
	}
	other := func(change func(*corev1.Pod)) func(*Store) {
		return func(s *Store) {
			p := comingPod("other", "another")
			p.Labels = map[string]string{"app": "another"}
			change(p)
			upsert(s, p)
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		beside func(*Store)
		want   bool
	}{
		"nothing else":                  {want: true},
		"another that asks":             {beside: other(func(*corev1.Pod) {})},
		"another that was not tried":    {beside: other(func(p *corev1.Pod) { p.Status.Conditions = nil })},
		"another that has a node":       {beside: other(func(p *corev1.Pod) { p.Spec.NodeName = "n1" }), want: true},
		"another that is being deleted": {beside: other(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), want: true},
		"another that has a scheduling gate": {beside: other(func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
		}), want: true},
		"a spread constraint": {change: spread},
		"anti-affinity":       {change: apart},
		"volume claims": {change: func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}}}
		}},
		"device claims": {change: func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }},
		"gangs":         {change: func(p *corev1.Pod) { member(p, "gang-"+p.Name) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := presumingStore()
			for _, pod := range []string{"a", "b"} {
				p := comingPod(pod, "web")
				if c.change != nil {
					c.change(p)
				}
				upsert(s, p)
			}
			if c.beside != nil {
				c.beside(s)
			}
			if got := s.Nominations().View().Alike; got != c.want {
				t.Errorf("alike: %v, want %v", got, c.want)
			}
		})
	}
	if newTestStore(atNoon).Nominations().View().Alike {
		t.Error("no pods are alike")
	}
}

// TestPodsSwapNodes has kube-scheduler bind a pod to the node that another was planned for. If the other is
// like it, and that node has not refused it before, it is planned for the first one's node from then on: else it
// would wait for a node that is full.
func TestPodsSwapNodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(b, d *corev1.Pod)
		refused []string          // by node n1
		planned map[string]string // in the end
		outcome Outcome
	}{
		"alike":              {planned: map[string]string{"b": "c1", "d": "c2"}, outcome: AsPlanned},
		"refused there":      {refused: []string{"b"}, planned: map[string]string{"b": "c2", "d": "c1"}, outcome: AsPlanned},
		"both refused there": {refused: []string{"b", "d"}, planned: map[string]string{"b": "c2", "d": "c2"}, outcome: Elsewhere},
		"another priority":   {change: func(b, _ *corev1.Pod) { b.Spec.Priority = new(int32(3)) }, planned: map[string]string{"b": "c2", "d": "c1"}, outcome: AsPlanned},
		"volume claims": {change: func(b, d *corev1.Pod) {
			for _, p := range []*corev1.Pod{b, d} {
				p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name}}}}
			}
		}, planned: map[string]string{"b": "c2", "d": "c2"}, outcome: Elsewhere},
		"bound itself": {change: func(b, _ *corev1.Pod) { b.Spec.NodeName = "n2" }, planned: map[string]string{"d": "c1"}, outcome: AsPlanned},
		"nobody is alike": {change: func(b, d *corev1.Pod) {
			b.Spec.Priority, d.Spec.Priority = new(int32(3)), new(int32(3))
		}, planned: map[string]string{"b": "c2", "d": "c2"}, outcome: Elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := noon
			s := newTestStore(func() time.Time { return now })
			var outcomes []Outcome
			s.OnOutcome(func(o Outcome) { outcomes = append(outcomes, o) })
			for _, n := range []string{"1", "2"} {
				claim := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c" + n}}
				claim.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"}
				claim.Status.ProviderID = "id" + n
				upsert(s, claim)
				upsert(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + n, Labels: map[string]string{corev1.LabelHostname: "n" + n}}, Spec: corev1.NodeSpec{ProviderID: "id" + n}})
			}
			pods := map[string]*corev1.Pod{"a": comingPod("a", "web"), "b": comingPod("b", "web"), "d": comingPod("d", "web")}
			if c.change != nil {
				c.change(pods["b"], pods["d"])
			}
			for pod, node := range map[string]string{"a": "c1", "b": "c2", "d": "c2"} {
				upsert(s, pods[pod])
				s.Assign([]cluster.PodRef{translate.PodRef(pods[pod])}, node)
			}
			if pods["b"].Spec.NodeName != "" {
				upsert(s, pods["b"])
			}
			for _, pod := range c.refused {
				s.pods.all[pods[pod].UID].history.refusedBy = []string{"n1"}
			}
			now = now.Add(time.Minute)
			bound := pods["a"].DeepCopy()
			bound.Spec.NodeName = "n2"
			upsert(s, bound)

			for pod, want := range c.planned {
				if got := s.assignments.planned[pods[pod].UID]; got != want {
					t.Errorf("pod %s is planned for %q, want %s", pod, got, want)
				}
				if want == "c1" && !s.pods.all[pods[pod].UID].history.plannedAt.Equal(now) {
					t.Errorf("pod %s has its new plan since %v", pod, s.pods.all[pods[pod].UID].history.plannedAt)
				}
			}
			if last := outcomes[len(outcomes)-1]; last != c.outcome {
				t.Errorf("the outcome is %s, want %s", last, c.outcome)
			}
		})
	}
}
