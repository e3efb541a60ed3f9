package doctor

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestWhatClusterAutoscalerProtects(t *testing.T) {
	t.Parallel()
	pod := func(namespace, name string, change ...func(*corev1.Pod)) client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "w", Controller: new(true)}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ca"}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry.example.com:5000/autoscaling/cluster-autoscaler:v1.34.0"}}
	deployment.Spec.Replicas = new(int32(1))
	objects := []client.Object{
		deployment,
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
		pod("default", "guarded", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }),
		pod("default", "stays", func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web"}
			p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
		}),
		pod("default", "scratch", func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web"}
			p.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}),
		pod("default", "alone", func(p *corev1.Pod) { p.OwnerReferences = nil }),
		pod("kube-system", "dns"),
		pod("default", "daemon", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }),
	}
	for i := range 7 {
		objects = append(objects, pod("default", fmt.Sprintf("plain-%d", i)))
	}
	var got []string
	for _, f := range autoscalerFindings(t.Context(), fake.NewClientBuilder().WithObjects(objects...).Build()) {
		got = append(got, fmt.Sprintf("%s %s %s", f.Check, f.Status, f.Found))
	}
	want := []string{
		"Cluster Autoscaler ok kube-system/ca, version v1.34.0, 0 ready; there is no ConfigMap kube-system/cluster-autoscaler-status",
		"safe-to-evict=false ok 1: default/stays; these pods block voluntary disruption here, too, unless --cluster-autoscaler-annotations=false",
		"pods with local storage warning 1: default/scratch; Cluster Autoscaler does not evict them by default; they are evicted here, and lose it",
		"pods without a controller warning 1: default/alone; Cluster Autoscaler does not evict them; they are evicted here, and nobody makes them anew",
		"kube-system without PDB warning 1: kube-system/dns; Cluster Autoscaler does not evict them by default; they are evicted here",
		"pods without PDB warning 7: default/plain-0, default/plain-1, default/plain-2, default/plain-3, default/plain-4 and 2 more; all of a workload on one node go down together",
		"single replicas warning 1: kube-system/ca; these Deployments are down while their pod moves",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
