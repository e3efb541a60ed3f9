package kubelets_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim/kubelets"
)

func node(id string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-0-4"}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + id}}
}

// TestNodes: a Node comes and goes, through an API server that refuses at first, and a
// instance that gets the address of another one gets its name, too.
func TestNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refusals := 2
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if refusals > 0 {
					refusals--
					return errors.New("away")
				}
				return c.Create(ctx, o, opts...)
			},
		}).Build()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		n := kubelets.New(c, slog.New(slog.DiscardHandler))
		go n.Run(ctx)
		there := func() string {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			got := &corev1.Node{}
			if err := c.Get(ctx, client.ObjectKey{Name: "ip-10-0-0-4"}, got); err != nil {
				return ""
			}
			return got.Spec.ProviderID + " " + got.Annotations["kwok.x-k8s.io/node"] + got.Labels["kwok.x-k8s.io/node"]
		}
		n.Join(node("i-1"))
		if got := there(); got != "aws:///us-east-1a/i-1 fakefake" {
			t.Errorf("after the first: %q", got)
		}
		n.Join(node("i-1"))
		n.Leave("ip-10-0-0-4")
		n.Join(node("i-2"))
		if got := there(); got != "aws:///us-east-1a/i-2 fakefake" {
			t.Errorf("after another instance with the address: %q", got)
		}
		n.Leave("ip-10-0-0-4")
		n.Leave("ip-10-0-0-4")
		if got := there(); got != "" {
			t.Errorf("after its end: %q", got)
		}
	})
}

// TestReboot: the Node of a rebooted instance is the same one with the new boot ID, which is not ready
// until its kubelet is, and then so are its pods.
func TestReboot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		booted := func(id string) *corev1.Node {
			n := node("i-1")
			n.Status.NodeInfo.BootID = id
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			return n
		}
		pod := func(name string, containers, ready corev1.ConditionStatus) *corev1.Pod {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: "ip-10-0-0-4"},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: containers}, {Type: corev1.PodReady, Status: ready}}},
			}
		}
		c := fake.NewClientBuilder().WithStatusSubresource(&corev1.Node{}, &corev1.Pod{}).
			WithObjects(pod("marked", "True", "False"), pod("broken", "False", "False")).
			WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
		if err := c.Create(t.Context(), booted("first")); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		n := kubelets.New(c, slog.New(slog.DiscardHandler))
		go n.Run(ctx)
		expect := func(when, want string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			got := &corev1.Node{}
			if err := c.Get(ctx, client.ObjectKey{Name: "ip-10-0-0-4"}, got); err != nil {
				t.Fatal(err)
			}
			has := got.Status.NodeInfo.BootID + " " + string(got.Status.Conditions[0].Status)
			for _, name := range []string{"marked", "broken"} {
				p := &corev1.Pod{}
				if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, p); err != nil {
					t.Fatal(err)
				}
				has += " " + name + "=" + string(p.Status.Conditions[1].Status)
			}
			if has != want {
				t.Errorf("%s: %q, want %q", when, has, want)
			}
		}
		n.Join(booted("second"))
		expect("after the reboot", "second False marked=False broken=False")
		if err := c.Status().Update(ctx, withStatus(t, c, booted("second"))); err != nil {
			t.Fatal(err)
		}
		expect("when the kubelet is ready", "second True marked=True broken=False")
	})
}

// withStatus returns the Node that is there, with the status of another one.
func withStatus(t *testing.T, c client.Client, of *corev1.Node) *corev1.Node {
	t.Helper()
	got := &corev1.Node{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(of), got); err != nil {
		t.Fatal(err)
	}
	got.Status = of.Status
	return got
}
