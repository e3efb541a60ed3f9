package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// nominationsAtOnce and opensAtOnce are how many pods are nominated, and Nodes opened, in
	// parallel. The Nodes of one step should open at the same instant, as far as possible.
	nominationsAtOnce = 32
	opensAtOnce       = 64
	// urgentShare is how many times as many requests an urgent client may send as the manager's: they are
	// small, and while one waits so do pods, or kube-scheduler may bind a pod elsewhere.
	urgentShare = 5
)

// Nominator writes on pods which node they are meant for, and opens Nodes.
type Nominator struct {
	Client client.Client
	Mirror *mirror.Store
	// OneByOne: pods and Nodes are written one after the other, so that a run can be
	// repeated exactly.
	OneByOne bool
}

// UrgentClient returns a client with limits of its own on requests to the API server, for the Nominator or for launches.
func UrgentClient(mgr manager.Manager) (client.Client, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.Burst = config.QPS*urgentShare, config.Burst*urgentShare
	c, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("connect the client for urgent writes: %w", err)
	}
	return noting(c, mgr.GetClient()), nil
}

// Assume counts nominations as given that Set is about to write.
func (n *Nominator) Assume(pods []nominate.Pod) {
	for i := range pods {
		n.Mirror.Nominations().Assume(pods[i].PodRef, pods[i].Node)
	}
}

// Set writes nominations. A pod that has changed meanwhile is left out: the next reconcile sees
// its new state.
func (n *Nominator) Set(ctx context.Context, pods []nominate.Pod) error {
	return n.inParallel(len(pods), nominationsAtOnce, func(i int) error {
		err := n.writeNomination(ctx, &pods[i], pods[i].Node)
		if err != nil {
			n.Mirror.Nominations().Drop(pods[i].PodRef)
		}
		return err
	})
}

// Clear takes nominations back, as Set gives them.
func (n *Nominator) Clear(ctx context.Context, pods []nominate.Pod) error {
	return n.inParallel(len(pods), nominationsAtOnce, func(i int) error { return n.writeNomination(ctx, &pods[i], "") })
}

// Open takes our taint from Nodes. One that has changed meanwhile is left to whoever
// registers it.
func (n *Nominator) Open(ctx context.Context, nodes []string) error {
	return n.inParallel(len(nodes), opensAtOnce, func(i int) error { return n.open(ctx, nodes[i]) })
}

// inParallel calls do for 0 to things-1, at most so many at once, and begins them in order. It
// ignores errors that say that an object has changed or is gone.
func (n *Nominator) inParallel(things, most int, do func(i int) error) error {
	if n.OneByOne {
		most = 1
	}
	var g errgroup.Group
	var next atomic.Int64
	errs := make([]error, things)
	for range min(things, most) {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= things {
					return nil
				}
				// Invalid: a test of the patch failed, or the pod is bound already.
				if err := do(i); !IsStale(err) && !apierrors.IsInvalid(err) {
					errs[i] = err
				}
			}
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// writeNomination changes the nomination of a pod if it is still the one that was seen. It does
// not require that the whole pod is unchanged: kube-scheduler writes conditions at the same time.
func (n *Nominator) writeNomination(ctx context.Context, p *nominate.Pod, writeNomination string) error {
	const path = "/status/nominatedNodeName"
	ops := []op{{"test", "/metadata/uid", p.UID}, {"test", path, nil}}
	if p.Nominated != "" {
		ops[1].Value = p.Nominated
	}
	if writeNomination != "" {
		ops = append(ops, op{"add", path, writeNomination})
	} else {
		ops = append(ops, op{"remove", path, nil})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	if err := n.Client.Status().Patch(ctx, pod, jsonPatch(ops)); err != nil {
		return fmt.Errorf("nominate pod %s: %w", p.PodRef, err)
	}
	return nil
}

// open takes our taint from a Node if it is still at the index where it was seen. It does not
// require that the whole Node is unchanged: its kubelet and others write at the same time.
func (n *Nominator) open(ctx context.Context, name string) error {
	seen, ok := n.Mirror.NodeObject(name)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(seen.Spec.Taints, translate.IsUnregisteredTaint)
	if i < 0 {
		return nil
	}
	taint := fmt.Sprintf("/spec/taints/%d", i)
	registered := "/metadata/labels/" + strings.ReplaceAll(karpenterv1.NodeRegisteredLabelKey, "/", "~1")
	ops := []op{
		{"test", "/metadata/uid", seen.UID},
		{"test", taint + "/key", karpenterv1.UnregisteredTaintKey},
		{"remove", taint, nil},
		{"add", registered, karpenterv1.LabelValueTrue},
	}
	if err := n.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, jsonPatch(ops)); err != nil {
		return fmt.Errorf("open node %s: %w", name, err)
	}
	return nil
}

// op is one operation of a JSON patch.
type op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"` // of a test, null: there is none
}

// jsonPatch returns the operations as a patch. They are made of strings, so they have JSON.
func jsonPatch(ops []op) client.Patch {
	patch, _ := json.Marshal(ops)
	return client.RawPatch(types.JSONPatchType, patch)
}
