package aws

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// joined keeps the Nodes that instances register.
type joined struct {
	mu    sync.Mutex
	nodes map[string]*corev1.Node // by providerID
}

func (j *joined) Join(node *corev1.Node) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.nodes[node.Spec.ProviderID] = node
}

func (j *joined) Leave(string) {}

func (j *joined) node(id string) *corev1.Node {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.nodes[id]
}

// TestConformance runs the suite of every provider over a socket.
func TestConformance(t *testing.T) {
	t.Parallel()
	nodes := &joined{nodes: map[string]*corev1.Node{}}
	w := newWorld(t, func(o *awssim.Options) {
		o.Families, o.Registrar, o.Unlimited, o.MinBoot, o.MaxBoot = nil, nodes, true, time.Millisecond, 2*time.Millisecond
	})
	var err error
	if w.url, err = w.sim.Listen(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	// What EC2 sells is read once, by the first.
	first := w.provider(t)
	for _, name := range []string{"unready", "slow"} {
		class := newClass(name)
		if name == "slow" { // its instances have no user data, and never join
			custom := "Custom"
			class.Spec.AMIFamily = &custom
		}
		if err := w.api.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	w.ready(t, first, "default")
	w.ready(t, first, "slow")
	unready := &awsv1.EC2NodeClass{}
	if err := w.api.Get(t.Context(), named("unready"), unready); err != nil {
		t.Fatal(err)
	}
	condition.ForEC2NodeClass(unready, true).SetFalse(awsv1.ConditionTypeSubnetsReady, "SubnetsNotFound", "not today", time.Now())
	if err := w.api.Status().Update(t.Context(), unready); err != nil {
		t.Fatal(err)
	}
	sold, err := first.market.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	provider := func(t *testing.T) cloud.Provider {
		p := w.provider(t)
		p.market.latest, p.market.readAt = sold, time.Now()
		return p
	}
	ref := func(name string) cloud.ClassRef {
		return cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: name}
	}
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		return cloudtest.Harness{
			Provider: provider(t), Restart: func(cloudtest.T) cloud.Provider { return provider(t) }, Registered: true,
			Class: ref("default"), Missing: ref("missing"), Unready: ref("unready"), Slow: ref("slow"),
			Node: func(_ cloudtest.T, id string) *corev1.Node {
				t.Helper()
				testkit.Eventually(t, time.Minute, func() error {
					if nodes.node(id) == nil {
						return fmt.Errorf("there is no node for %s", id)
					}
					return nil
				})
				return nodes.node(id)
			},
		}
	})
	t.Cleanup(func() {
		if unknown := w.sim.Unknown(); len(unknown) > 0 {
			t.Errorf("operations that EC2's simulator does not know: %v", unknown)
		}
	})
}
