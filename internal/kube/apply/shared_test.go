package apply

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// answering answers patches as a client of the API server does: it reads the answer into what is
// there.
type answering struct {
	client.Client              // of which nothing else is used
	node          *corev1.Node // what Get lends
	answers       int
}

// Get lends the Node.
func (a *answering) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	*obj.(*corev1.Node) = *a.node
	return nil
}

// Status writes statuses.
func (a *answering) Status() client.SubResourceWriter { return answeringStatus{a: a} }

// Patch answers.
func (a *answering) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return a.answer(obj, patch)
}

func (a *answering) answer(obj client.Object, patch client.Patch) error {
	a.answers++
	if _, err := patch.Data(obj); err != nil {
		return err
	}
	return json.Unmarshal([]byte(`{
		"metadata": {"labels": {"zone": "of the answer"}, "annotations": {"why": "answered"}, "finalizers": ["answered"], "ownerReferences": [{"name": "answered"}]},
		"spec": {"taints": [{"key": "answered"}], "nodeClassRef": {"name": "answered"}},
		"status": {"capacity": {"cpu": "77"}, "resources": {"nodes": "77"}, "conditions": [{"type": "Answered"}]}
	}`), obj)
}

type answeringStatus struct {
	client.SubResourceWriter // of which nothing else is used
	a                        *answering
}

// Patch answers.
func (s answeringStatus) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.a.answer(obj, patch)
}

// TestCachedObjectsAreNotChanged: who writes reads without a copy.
func TestCachedObjectsAreNotChanged(t *testing.T) {
	t.Parallel()
	type objects struct {
		claim *karpenterv1.NodeClaim
		node  *corev1.Node
		pool  *karpenterv1.NodePool
	}
	for name, does := range map[string]func(context.Context, client.Client, objects) error{
		"adopt a claim": func(ctx context.Context, c client.Client, o objects) error { return AdoptClaim(ctx, c, o.claim) },
		"label a Node": func(ctx context.Context, c client.Client, o objects) error {
			return LabelClass(ctx, c, o.node, "zone", "b")
		},
		"free a claim": func(ctx context.Context, c client.Client, o objects) error { return RemoveFinalizer(ctx, c, o.claim) },
		"free a Node":  func(ctx context.Context, c client.Client, o objects) error { return RemoveFinalizer(ctx, c, o.node) },
		"a deadline": func(ctx context.Context, c client.Client, o objects) error {
			return SetDeadline(ctx, c, o.claim, patchNow)
		},
		"a launch": func(ctx context.Context, c client.Client, o objects) error {
			return RecordLaunch(ctx, c, o.claim, &cloud.Instance{ID: "i-2", Labels: map[string]string{"new": "1"}}, patchNow)
		},
		"notes": func(ctx context.Context, c client.Client, o objects) error {
			notes := []lifecycle.Note{{Type: lifecycle.Launched, Status: lifecycle.False, Reason: "R"}, {Type: lifecycle.Registered, Status: lifecycle.True}}
			_, err := WriteNotes(ctx, c, o.claim, &lifecycle.Step{Notes: notes, Node: "n2"}, patchNow.Add(time.Hour))
			return err
		},
		"a pod that came": func(ctx context.Context, c client.Client, o objects) error {
			return NotePodEvent(ctx, c, o.claim, patchNow.Add(time.Hour))
		},
		"a candidate": func(ctx context.Context, c client.Client, o objects) error {
			return SetCandidacy(ctx, c, o.claim, Candidacy{Drifted: "D"}, patchNow)
		},
		"adopt a Node": func(ctx context.Context, c client.Client, o objects) error { return AdoptNode(ctx, c, o.node, o.claim) },
		"register a Node": func(ctx context.Context, c client.Client, o objects) error {
			return RegisterNode(ctx, c, o.node, o.claim)
		},
		"register a Node without taints": func(ctx context.Context, c client.Client, o objects) error {
			o.claim.Spec.Taints, o.claim.Spec.StartupTaints = nil, nil
			return RegisterNode(ctx, c, o.node, o.claim)
		},
		"take a taint away": func(ctx context.Context, c client.Client, o objects) error {
			c.(*answering).node = o.node
			return (&Disrupter{Client: c}).taint(ctx, o.node.Name, karpenterv1.UnregisteredTaint(), false)
		},
		"initialize a Node": func(ctx context.Context, c client.Client, o objects) error { return InitializeNode(ctx, c, o.node) },
		"close a Node":      func(ctx context.Context, c client.Client, o objects) error { return CloseNode(ctx, c, o.node) },
		"mark a claim": func(ctx context.Context, c client.Client, o objects) error {
			d := &Disrupter{Client: c, Now: func() time.Time { return patchNow.Add(time.Hour) }}
			if err := d.setStep(ctx, o.claim, "1 2 3"); err != nil {
				return err
			}
			return d.setReason(ctx, o.claim, "R")
		},
		"annotate a pool": func(ctx context.Context, c client.Client, o objects) error {
			return Annotate(ctx, c, o.pool, map[string]string{"why": "not"})
		},
		"count a pool": func(ctx context.Context, c client.Client, o objects) error {
			return EditPool(ctx, c, o.pool, func() { o.pool.Status.Resources["nodes"] = resource.MustParse("4") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim, node, pool := patchClaim(), patchNode(), patchPool()
			claim.Finalizers, node.Finalizers = slices.Grow(claim.Finalizers, 1), slices.Grow(node.Finalizers, 1)
			had := objects{claim.DeepCopy(), node.DeepCopy(), pool.DeepCopy()}
			c := &answering{}
			if err := does(t.Context(), c, objects{shallow(claim).(*karpenterv1.NodeClaim), shallow(node).(*corev1.Node), shallow(pool).(*karpenterv1.NodePool)}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(had, objects{claim, node, pool}, cmp.AllowUnexported(objects{})); diff != "" || c.answers == 0 {
				t.Errorf("%d writes changed what was read (-had +has):\n%s", c.answers, diff)
			}
		})
	}
}
