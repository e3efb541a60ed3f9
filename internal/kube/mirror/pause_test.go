package mirror

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// TestPaused: the ConfigMap comes before the setting, and both before the annotation of a NodePool.
func TestPaused(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	for name, why := range map[string]string{"annotated": "load  test\n", "refused": "false", "free": ""} {
		np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: karpenterv1.NodePoolSpec{
			Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
				NodeClassRef: &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"},
			}},
		}}
		if why != "" {
			np.Annotations = map[string]string{translate.PauseAnnotationKey: why}
		}
		upsert(s, np)
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		for _, p := range s.Snapshot().Pools {
			if p.Paused != want[p.Name] || s.Pools().Paused(p.Name) != want[p.Name] {
				t.Errorf("%s: disruption of pool %s is paused in the snapshot by %q, else by %q, want %q", when, p.Name, p.Paused, s.Pools().Paused(p.Name), want[p.Name])
			}
		}
	}
	alike := func(why string) map[string]string {
		return map[string]string{"annotated": why, "refused": why, "free": why}
	}
	pause := pauseKind(s, types.NamespacedName{Namespace: "kube-system", Name: PauseConfigMap})
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: PauseConfigMap}}
	check("at the start", map[string]string{"annotated": "annotation dovetail.sh/pause-disruption: load test"})
	pause.upsert(object)
	check("without a reason", alike("ConfigMap kube-system/dovetail-pause"))
	said := object.DeepCopy()
	said.Data = map[string]string{PauseReasonKey: "incident 42"}
	pause.upsert(said)
	check("with a reason", alike("ConfigMap kube-system/dovetail-pause: incident 42"))
	other := object.DeepCopy()
	other.Namespace = "default"
	pause.remove(other)
	check("when another is gone", alike("ConfigMap kube-system/dovetail-pause: incident 42"))
	s.pools.paused.setting = "a flag"
	pause.remove(said)
	check("with the setting", alike("a flag"))
}
