package nomination_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// scale is a scale-up to be measured: so many pods on nodes of 4 cpu.
type scale struct {
	pods     int
	nominate bool
}

// measured is what became of it.
type measured struct {
	there, elsewhere int // as planned, and not
	nodes            int
	took             time.Duration // from the first pod's creation to the last one's binding
}

func (m measured) String() string {
	return fmt.Sprintf("%d of %d pods on the node they were planned for, %d nodes, last pod bound after %s",
		m.there, m.there+m.elsewhere, m.nodes, m.took.Round(10*time.Millisecond))
}

// share returns the part of the pods that were planned that landed there, in percent.
func (m measured) share() float64 { return 100 * float64(m.there) / float64(m.there+m.elsewhere) }

// TestPodsLandWherePlanned judges the protocol by the real kube-scheduler, on a plan that
// leaves hardly any room. The shares are printed. Asserted is what must hold on a node
// that is busy with other tests, too, where control plane and loops wait for each other
// for so long that nominations come late: that nominations are heeded.
func TestPodsLandWherePlanned(t *testing.T) {
	t.Parallel()
	const pods = 131
	var with, without measured
	// One after the other: each has a control plane of its own, until it ends.
	t.Run("with nominations", func(t *testing.T) { with = measure(t, scale{pods, true}) })
	t.Run("without", func(t *testing.T) { without = measure(t, scale{pods, false}) })
	if t.Failed() {
		return
	}
	t.Logf("nominated:     %s", with)
	t.Logf("not nominated: %s", without)
	if with.share() < 75 || without.share() > 50 {
		t.Errorf("%.1f %% of the pods are where they were planned with nominations, %.1f %% without", with.share(), without.share())
	}
}

// TestSpreadPodsDoNotWaitForEachOther has three pods for each of three zones, which may
// differ by one, and which never lose a nomination because they may not preempt: hinted all at
// once they would wait for each other for ever.
func TestSpreadPodsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	never := corev1.PreemptNever
	must(t, w.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "polite"}, Value: 1, PreemptionPolicy: &never}))
	d := deployment("spread", 9, "1100m")
	d.Spec.Template.Spec.PriorityClassName = "polite"
	d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: d.Spec.Selector,
	}}
	var np karpenterv1.NodePool
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(pool()), &np))
	before := np.DeepCopy()
	np.Spec.Template.Spec.Requirements = append(np.Spec.Template.Spec.Requirements, karpenterv1.NodeSelectorRequirementWithMinValues{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"test-zone-a", "test-zone-b", "test-zone-c"},
	})
	must(t, w.Patch(t.Context(), &np, client.MergeFrom(before)))
	must(t, w.Create(t.Context(), d))
	w.allBound(t, 9)
}

// BenchmarkHandOver measures scale-ups with the pods nominated and not.
func BenchmarkHandOver(b *testing.B) {
	for _, pods := range []int{50, 131, 500} {
		for _, nominate := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d_pods/nominate=%v", pods, nominate), func(b *testing.B) {
				var took time.Duration
				var share float64
				for range b.N {
					m := measure(b, scale{pods, nominate})
					took, share = took+m.took, share+m.share()
					b.Log(m)
				}
				b.ReportMetric(took.Seconds()/float64(b.N), "s/scale-up")
				b.ReportMetric(share/float64(b.N), "%there")
			})
		}
	}
}

// measure has the pods created in an empty cluster and waits until all are bound.
func measure(t testing.TB, s scale) measured {
	t.Helper()
	w := newWorld(t, s.nominate)
	start := time.Now()
	sizes := []string{"300m", "400m", "500m", "600m", "700m", "900m", "1100m"}
	for i, size := range sizes {
		n := (s.pods + i) / len(sizes)
		must(t, w.Create(t.Context(), deployment(fmt.Sprintf("size-%s", size), int32(n), size)))
	}
	w.allBound(t, s.pods)
	m := measured{took: time.Since(start)}
	var nodes corev1.NodeList
	must(t, w.List(t.Context(), &nodes))
	m.nodes = len(nodes.Items)
	testkit.Eventually(t, patience, func() error {
		bound := w.mirror.PodsThat(func(p *corev1.Pod) bool { return p.Namespace == "default" && p.Spec.NodeName != "" })
		if len(bound) < s.pods {
			return fmt.Errorf("the mirror has %d of %d pods bound", len(bound), s.pods)
		}
		return nil
	})
	m.there = int(w.there.Load())
	m.elsewhere = s.pods - m.there // some of them before they were planned for any node
	return m
}

// allBound waits until so many pods are bound.
func (w *world) allBound(t testing.TB, want int) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var pods corev1.PodList
		if err := w.List(t.Context(), &pods, client.InNamespace("default")); err != nil {
			return err
		}
		bound := 0
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName != "" {
				bound++
			}
		}
		if bound != want {
			return fmt.Errorf("%d of %d pods are bound, want %d", bound, len(pods.Items), want)
		}
		return nil
	})
}

func deployment(name string, replicas int32, cpu string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "c", Image: "example.test/none",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
				}}},
			},
		},
	}
}
