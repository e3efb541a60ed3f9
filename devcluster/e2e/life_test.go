package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// fakeNode is a node that is ready to take pods as soon as KWOK plays it.
func fakeNode(name, cpu string) *corev1.Node {
	size := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kwok.x-k8s.io/node": "fake", corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size, Phase: corev1.NodePending},
	}
}

// unregistered is the taint with which an autoscaler's node is born.
var unregistered = corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	automount := false
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: &automount,
				Containers: []corev1.Container{{
					Name: "main", Image: "none",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
				}},
			}},
		},
	}
}

// pods returns the pods of a deployment that are as wanted.
func pods(t *testing.T, client kubernetes.Interface, app string, wanted func(*corev1.Pod) bool) []corev1.Pod {
	t.Helper()
	all, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	var some []corev1.Pod
	for _, p := range all.Items {
		if wanted(&p) {
			some = append(some, p)
		}
	}
	return some
}

func isRunning(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
}

func isUnschedulable(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

func awaitPods(t *testing.T, client kubernetes.Interface, app string, n int, wanted func(*corev1.Pod) bool) []corev1.Pod {
	t.Helper()
	var some []corev1.Pod
	eventually(t, func() error {
		if some = pods(t, client, app, wanted); len(some) != n {
			return fmt.Errorf("%d pods of %s are as wanted, not %d", len(some), app, n)
		}
		return nil
	})
	return some
}

// awaitReady waits until a node is Ready, without the taints of one that is not, and has a lease.
func awaitReady(t *testing.T, client kubernetes.Interface, name string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	eventually(t, func() (err error) {
		node, err = client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, err := client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
				return fmt.Errorf("%s has taint %s", name, taint.Key)
			}
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%s is not Ready", name)
	})
	return node
}

func patchNode(t *testing.T, client kubernetes.Interface, name, patch string) {
	t.Helper()
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch node %s: %v", name, err)
	}
}

// get asks for something that needs rights.
func get(config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
	return err
}

func TestPodsWaitForANodeRunAndSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	c := up(t, dir)
	client, config := c.client(), c.config()
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPods(t, client, "web", 3, isUnschedulable)

	node := fakeNode("n1", "3")
	node.Spec.Taints = []corev1.Taint{unregistered}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node = awaitReady(t, client, "n1")
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != unregistered.Key {
		t.Errorf("taints of the ready node: %v, want only %s", node.Spec.Taints, unregistered.Key)
	}
	if got := node.Status.Allocatable.Cpu().String(); got != "3" {
		t.Errorf("the node's allocatable cpu became %s", got)
	}
	if got := pods(t, client, "web", isRunning); len(got) != 0 {
		t.Errorf("%d pods run on a tainted node", len(got))
	}
	patchNode(t, client, "n1", `{"spec":{"taints":null}}`)
	running := awaitPods(t, client, "web", 3, isRunning)
	evictOneOfTwo(t, client, running)
	awaitPods(t, client, "web", 3, isRunning)
	token := newToken(t, client)
	crdRefusesByCEL(t, config)

	c.kill()
	c = up(t, dir)
	// The client and the token are those of the first life.
	if got := pods(t, client, "web", isRunning); len(got) != 3 {
		t.Errorf("%d pods run after the restart, want 3", len(got))
	}
	review, err := client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		t.Errorf("the old token after the restart: %v, %v", review.Status, err)
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), fakeNode("n2", "2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AppsV1().Deployments("default").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPods(t, client, "web", 5, isRunning)
	if status := c.terminate(); status != 0 {
		t.Errorf("exit status %d after SIGTERM:\n%s", status, c.out)
	}
}

// evictOneOfTwo checks that the eviction API keeps a disruption budget.
func evictOneOfTwo(t *testing.T, client kubernetes.Interface, running []corev1.Pod) {
	t.Helper()
	one := intstr.FromInt32(1)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: selector},
	}
	if _, err := client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		b, err := client.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && b.Status.DisruptionsAllowed != 1 {
			err = errors.New("no disruption allowed yet")
		}
		return err
	})
	patchNode(t, client, "n1", `{"spec":{"unschedulable":true}}`) // or the first is replaced too soon
	evict := func(i int) error {
		return client.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: running[i].Name, Namespace: "default"}})
	}
	if err := evict(0); err != nil {
		t.Errorf("first eviction: %v", err)
	}
	if err := evict(1); !apierrors.IsTooManyRequests(err) {
		t.Errorf("second eviction: got %v, want 429", err)
	}
	patchNode(t, client, "n1", `{"spec":{"unschedulable":false}}`)
}

func newToken(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

const poolCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"pools.e2e.dev"},
"spec":{"group":"e2e.dev","scope":"Cluster","names":{"plural":"pools","singular":"pool","kind":"Pool"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"min":{"type":"integer"},"max":{"type":"integer"}},
"x-kubernetes-validations":[{"rule":"self.min <= self.max","message":"min must not exceed max"}]}}}}}]}}`

func crdRefusesByCEL(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(poolCRD), &crd.Object); err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := client.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(name string, lo, hi int64) error {
		pool := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "e2e.dev/v1", "kind": "Pool", "metadata": map[string]any{"name": name}, "spec": map[string]any{"min": lo, "max": hi}}}
		_, err := client.Resource(schema.GroupVersionResource{Group: "e2e.dev", Version: "v1", Resource: "pools"}).Create(t.Context(), pool, metav1.CreateOptions{})
		return err
	}
	eventually(t, func() error { return create("good", 1, 2) })
	if err := create("bad", 3, 2); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "min must not exceed max") {
		t.Errorf("bad object: got %v, want a refusal by its rule", err)
	}
}
