package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/mirror"
)

// hintsAtOnce is how many pods are hinted in parallel.
const hintsAtOnce = 32

// Nominator writes on pods which node they are meant for.
type Nominator struct {
	Client client.Client
	Mirror *mirror.Store
}

// Open opens Nodes, all at the same time: while some are open and others are not,
// kube-scheduler sends pods astray. A Node that has changed meanwhile is left to whoever
// registers it.
func (n *Nominator) Open(ctx context.Context, nodes []string) error {
	var g errgroup.Group
	errs := make([]error, len(nodes))
	for i, name := range nodes {
		seen, ok := n.Mirror.NodeObject(name)
		if !ok {
			continue
		}
		node := seen.DeepCopy()
		g.Go(func() error {
			if err := OpenNode(ctx, n.Client, node); !IsStale(err) {
				errs[i] = err
			}
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// Nominate clears and sets the hints of a step. A pod that has changed meanwhile is left
// alone: the next look sees what became of it.
func (n *Nominator) Nominate(ctx context.Context, step *nominate.Step) error {
	return errors.Join(
		n.each(ctx, step.Clear, func(p *nominate.Pod) error { return n.write(ctx, p, "") }),
		n.each(ctx, step.Set, func(p *nominate.Pod) error {
			n.Mirror.AssumeHint(p.PodRef, p.Node)
			err := n.write(ctx, p, p.Node)
			if err != nil {
				n.Mirror.DropHint(p.PodRef)
			}
			return err
		}),
	)
}

func (n *Nominator) each(ctx context.Context, pods []nominate.Pod, write func(*nominate.Pod) error) error {
	var g errgroup.Group
	g.SetLimit(hintsAtOnce)
	errs := make([]error, len(pods))
	for i := range pods {
		g.Go(func() error {
			// Invalid: the pod is bound already, or its hint is not the one we saw.
			if err := write(&pods[i]); !IsStale(err) && !apierrors.IsInvalid(err) && ctx.Err() == nil {
				errs[i] = err
			}
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// write changes the hint if it is still the one that was seen. No lock on the whole pod:
// kube-scheduler writes conditions at the same time, and only the hint matters.
func (n *Nominator) write(ctx context.Context, p *nominate.Pod, hint string) error {
	const path = "/status/nominatedNodeName"
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"` // of a test, null: there is none
	}
	ops := []op{{"test", "/metadata/uid", p.UID}, {"test", path, nil}}
	if p.Hint != "" {
		ops[1].Value = p.Hint
	}
	if hint != "" {
		ops = append(ops, op{"add", path, hint})
	} else {
		ops = append(ops, op{"remove", path, nil})
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("nominate pod %s: %w", p.PodRef, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	if err := n.Client.Status().Patch(ctx, pod, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("nominate pod %s: %w", p.PodRef, err)
	}
	return nil
}
