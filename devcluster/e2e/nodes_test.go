package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestNodeBeingDeletedLivesUntilItsFinalizerIsGone is the way on which an autoscaler
// drains a node: deleted, kept by a finalizer, still a node, then gone.
func TestNodeBeingDeletedLivesUntilItsFinalizerIsGone(t *testing.T) {
	t.Parallel()
	client := up(t, shortDir(t)).client()
	nodes := client.CoreV1().Nodes()
	node := fakeNode("n1", "4")
	node.Finalizers = []string{"karpenter.sh/termination"}
	if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slow := deployment("slow", 1)
	slow.Spec.Template.Annotations = map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": "2s"}
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), slow, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, client, "n1")
	first := awaitPods(t, client, "slow", 1, isRunning)[0]
	if first.Status.PodIP == "" {
		t.Error("the pod runs without an address")
	}

	if err := nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patchNode(t, client, "n1", `{"spec":{"unschedulable":true}}`)
	began := time.Now()
	if err := client.CoreV1().Pods("default").Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPodGone(t, client, first.Name)
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("the pod's deletion took %s, want its delay of 2s at least", took)
	}
	node = awaitReady(t, client, "n1")
	if node.DeletionTimestamp == nil {
		t.Error("the node is not being deleted")
	}
	awaitRenewal(t, client, "n1")

	patchNode(t, client, "n1", `{"metadata":{"finalizers":null}}`)
	eventually(t, func() error {
		if _, err := nodes.Get(t.Context(), "n1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the node is still there: %w", err)
		}
		_, err := client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "n1", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the node's lease is still there: %w", err)
		}
		return nil
	})
}

func TestOnlyNodesOfTheSelectorArePlayedAndAnUnhealthyPodIsLost(t *testing.T) {
	t.Parallel()
	client := up(t, shortDir(t), "--node-selector", "played=yes").client()
	played, other := fakeNode("played", "4"), fakeNode("other", "4")
	played.Labels["played"] = "yes"
	other.Spec.Unschedulable = true // a node without conditions may get pods
	for _, n := range []*corev1.Node{other, played} {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	web := deployment("web", 1)
	web.Spec.Template.Labels["kwok.x-k8s.io/stage"] = "unhealthy"
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPods(t, client, "web", 1, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodUnknown })
	got, err := client.CoreV1().Nodes().Get(t.Context(), "other", metav1.GetOptions{})
	if err != nil || len(got.Status.Conditions) != 0 {
		t.Errorf("the node outside the selector has conditions %v, %v", got.Status.Conditions, err)
	}
}

func TestSchedulerHasTheProfilesOfTheUsersConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	config := `{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration,
		clientConnection: {kubeconfig: /none}, profiles: [{schedulerName: second}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	client := up(t, shortDir(t), "--scheduler-config", file).client()
	if _, err := client.CoreV1().Nodes().Create(t.Context(), fakeNode("n1", "4"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	web := deployment("web", 1)
	web.Spec.Template.Spec.SchedulerName = "second"
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPods(t, client, "web", 1, isRunning)
}

func awaitPodGone(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	eventually(t, func() error {
		if _, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod %s is still there: %w", name, err)
		}
		return nil
	})
}

// awaitRenewal waits for the next heartbeat of a node.
func awaitRenewal(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	renewed := func() (types.UID, *metav1.MicroTime) {
		t.Helper()
		lease, err := client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return lease.UID, lease.Spec.RenewTime
	}
	uid, before := renewed()
	eventually(t, func() error {
		nowUID, now := renewed()
		if nowUID != uid {
			t.Fatal("the node's lease was replaced")
		}
		if now.Equal(before) {
			return errors.New("no heartbeat")
		}
		return nil
	})
}
