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
