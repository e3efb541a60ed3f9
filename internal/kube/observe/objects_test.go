package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestObjectsShowNodesAndPods(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", CreationTimestamp: metav1.Unix(1000, 0), Labels: map[string]string{
			"karpenter.sh/nodepool": "general", "topology.kubernetes.io/zone": "a", "karpenter.test/class": "x", "karpenter.test/instance-cpu": "4",
		}},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodeRunning,
			Capacity:    corev1.ResourceList{"cpu": resource.MustParse("4")},
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("3900m")},
		},
	}
	pod := func(name, node, owner string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "o"}}},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("975m")}, Limits: corev1.ResourceList{"cpu": resource.MustParse("1")},
			}}}},
			Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
	}
	objects := NewObjects([]schema.GroupVersionKind{{Group: "karpenter.test", Kind: "Class"}}, []string{"karpenter.test/instance-cpu"},
		func() time.Time { return time.Unix(1060, 0) })
	if got := scraped(t, objects); len(got) > 0 {
		t.Errorf("without a reader it shows %v", got)
	}
	objects.Use(fake.NewClientBuilder().WithObjects(node,
		pod("web", "n1", "ReplicaSet", corev1.PodRunning), pod("agent", "n1", "DaemonSet", corev1.PodRunning),
		pod("done", "n1", "Job", corev1.PodSucceeded), pod("late", "", "ReplicaSet", corev1.PodPending),
	).Build())
	const onNode = "capacity_type= instance_cpu=4 instance_type= managed=true node_name=n1 nodepool=general os= phase=Running region= resource_type=cpu windows_build= zone=a"
	want := map[string]float64{
		"karpenter_cluster_utilization_percent resource_type=cpu":                                                50,
		"karpenter_nodes_allocatable arch= " + onNode:                                                            3.9,
		"karpenter_nodes_total_pod_requests arch= " + onNode:                                                     1.95,
		"karpenter_nodes_total_pod_limits arch= " + onNode:                                                       2,
		"karpenter_nodes_total_daemon_requests arch= " + onNode:                                                  0.975,
		"karpenter_nodes_total_daemon_limits arch= " + onNode:                                                    1,
		"karpenter_nodes_system_overhead arch= " + onNode:                                                        0.1,
		"karpenter_nodes_current_lifetime_seconds arch= " + strings.Replace(onNode, " resource_type=cpu", "", 1): 60,
	}
	for _, p := range []string{"web replicaset true", "agent daemonset true", "done job true", "late replicaset false"} {
		var name, kind, placed string
		if _, err := fmt.Sscan(p, &name, &kind, &placed); err != nil {
			t.Fatal(err)
		}
		phase := map[string]string{"done": "Succeeded", "late": "Pending"}[name]
		if phase == "" {
			phase = "Running"
		}
		place := "managed=true name=" + name + " namespace=default node=n1 nodepool=general"
		zone := "a"
		if placed == "false" {
			place, zone = "managed=false name="+name+" namespace=default node= nodepool=", ""
		}
		want[fmt.Sprintf("karpenter_pods_state arch= capacity_type= instance_type= %s owner=/apis/apps/v1/namespaces/default/%ss/o phase=%s ready=true scheduled=%s zone=%s",
			place, kind, phase, placed, zone)] = 1
	}
	got := scraped(t, objects)
	for key := range got {
		if strings.Contains(key, "resource_type=pods") {
			delete(got, key) // every pod asks for one of them
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	objects.Use(nil)
	if got := scraped(t, objects); len(got) > 0 {
		t.Errorf("after its reader was taken away it shows %v", got)
	}
}

func TestDocsNameTheMetricsOfObjects(t *testing.T) {
	t.Parallel()
	doc := readDoc(t, "../../../docs/reference/metrics.md")
	for _, family := range NewObjects(nil, nil, nil).Families() {
		row := "| `" + family.Name + "` | gauge, object | " + strings.Join(family.Labels, ", ") + " |"
		if !strings.Contains(doc, row) {
			t.Errorf("docs/reference/metrics.md has no row that starts with\n\t%s", row)
		}
	}
}

// TestPodsOfAWorkloadAskForTheSame: pods share their containers; the one that was resized has other requests, as
// kubelet reports them.
func TestPodsOfAWorkloadAskForTheSame(t *testing.T) {
	t.Parallel()
	f := newFleet(1)
	f.pods = f.pods[:3]
	for i := range f.pods {
		f.pods[i].Spec.Containers = f.pods[0].Spec.Containers
	}
	f.pods[1].Spec.Containers[0].Name = "web"
	f.pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("2")},
	}}}
	objects := NewObjects(nil, nil, time.Now)
	objects.Use(f)
	var got []string
	for _, family := range objects.Families() {
		if family.Name == "karpenter_nodes_total_pod_requests" {
			family.Each(func(value float64, labels ...string) {
				got = append(got, fmt.Sprintf("%s %v", labels[len(labels)-1], value))
			})
		}
	}
	if diff := cmp.Diff([]string{"cpu 2.002", "memory 3.221225472e+09", "pods 3"}, got); diff != "" {
		t.Errorf("requests of three pods (-want +got):\n%s", diff)
	}
}
