package nodegroups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// drainEvery is how often a drain looks again, and asks again for evictions that a PodDisruptionBudget refused.
const drainEvery = 2 * time.Second

// Drainer drains nodes one after the other. It keeps no state of its own: what is cordoned and empty is done, so
// whoever was interrupted starts again.
type Drainer struct {
	Client client.Client
	// Say prints a line about what was done.
	Say func(format string, args ...any)
	Now func() time.Time
	// Patience is how long a node may take until its pods run elsewhere.
	Patience time.Duration

	waiting map[types.UID]bool // the pods that were pending before the first eviction
}

// Drain cordons the nodes, so that no pod moves to one that is drained later, and evicts what is on them, one
// node at a time. Before each node all pods that came since the beginning must run and all NodeClaims must be
// initialized. It stops at the first node for which that takes too long. Nodes with pods that keep them stay as
// they are, and are an error at the end.
func (d *Drainer) Drain(ctx context.Context, drains []NodeDrain) error {
	var pending corev1.PodList
	if err := d.listPending(ctx, &pending); err != nil {
		return err
	}
	d.waiting = map[types.UID]bool{}
	for i := range pending.Items {
		d.waiting[pending.Items[i].UID] = true
	}
	var kept []string
	cordoned := ""
	for i := range drains {
		n := &drains[i]
		if len(n.Held) > 0 {
			kept = append(kept, n.Node+" by "+strings.Join(n.Held, ", "))
			continue
		}
		if n.Group != cordoned { // a group's nodes follow each other
			if err := d.cordonGroup(ctx, drains, n.Group); err != nil {
				return err
			}
			cordoned = n.Group
		}
		if n.Pods == 0 {
			d.drained(n)
			continue
		}
		if err := d.drainNode(ctx, n); err != nil {
			return fmt.Errorf("node %s of group %s: %w; run the command again to go on", n.Node, n.Group, err)
		}
		d.drained(n)
	}
	if len(kept) > 0 {
		return fmt.Errorf("%d of %d nodes are kept: %s", len(kept), len(drains), strings.Join(kept, "; "))
	}
	return nil
}

// drained says what is left for people to do with a node.
func (d *Drainer) drained(n *NodeDrain) {
	d.Say("node %s: drained", n.Node)
	if n.Instance != "" {
		d.Say("  aws autoscaling terminate-instance-in-auto-scaling-group --instance-id %s --should-decrement-desired-capacity", n.Instance)
	}
}

// cordonGroup cordons all nodes of a group but those that are kept.
func (d *Drainer) cordonGroup(ctx context.Context, drains []NodeDrain, group string) error {
	count := 0
	for i := range drains {
		n := &drains[i]
		if n.Group != group || n.Cordoned || len(n.Held) > 0 {
			continue
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Node}}
		if err := d.Client.Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`))); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cordon node %s: %w", n.Node, err)
		}
		count++
	}
	d.Say("group %s: cordoned %d nodes", group, count)
	return nil
}

// drainNode returns when the pods of a node are gone and all that came for them run.
func (d *Drainer) drainNode(ctx context.Context, n *NodeDrain) error {
	ctx, cancel := context.WithTimeout(ctx, d.Patience)
	defer cancel()
	for _, phase := range []func(context.Context) error{
		d.settled,
		func(ctx context.Context) error { return d.evictAll(ctx, n.Node) },
		d.settled,
	} {
		if err := d.await(ctx, phase); err != nil {
			return err
		}
	}
	return nil
}

// waitError says what a drain waits for.
type waitError struct{ why string }

func (e waitError) Error() string { return e.why }

// await repeats a check until it returns nil or another error than waitError. What it waits for is said once.
func (d *Drainer) await(ctx context.Context, check func(context.Context) error) error {
	ticks := time.NewTicker(drainEvery)
	defer ticks.Stop()
	said := ""
	for {
		err := check(ctx)
		var wait waitError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && said != "":
			return fmt.Errorf("gave up after waiting: %s", said)
		case !errors.As(err, &wait):
			return err
		case wait.why != said:
			said = wait.why
			d.Say("  waiting: %s", said)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up after waiting: %s", said)
		case <-ticks.C:
		}
	}
}

// settled returns nil if all pods that came since the beginning run, and all NodeClaims are initialized.
func (d *Drainer) settled(ctx context.Context) error {
	var pending corev1.PodList
	if err := d.listPending(ctx, &pending); err != nil {
		return err
	}
	var names []string
	for i := range pending.Items {
		if p := &pending.Items[i]; !d.waiting[p.UID] && !translate.Terminating(p) && !translate.OwnedByDaemonSet(p) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	if len(names) > 0 {
		return waitError{fmt.Sprintf("%d pods do not run yet, the first is %s", len(names), slices.Min(names))}
	}
	var claims karpenterv1.NodeClaimList
	if err := d.Client.List(ctx, &claims); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; c.DeletionTimestamp == nil && !meta.IsStatusConditionTrue(c.Status.Conditions, karpenterv1.ConditionTypeInitialized) {
			return waitError{"NodeClaim " + c.Name + " is not initialized yet"}
		}
	}
	return nil
}

func (d *Drainer) listPending(ctx context.Context, pods *corev1.PodList) error {
	if err := d.Client.List(ctx, pods, client.MatchingFields{"status.phase": string(corev1.PodPending)}); err != nil {
		return fmt.Errorf("list pending pods: %w", err)
	}
	return nil
}

// evictAll asks for the eviction of each pod of a node that has to leave, and returns nil if none is left. A pod
// that came to keep its node since the beginning is an error.
func (d *Drainer) evictAll(ctx context.Context, node string) error {
	var pods corev1.PodList
	if err := d.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return fmt.Errorf("list its pods: %w", err)
	}
	left, blocked := 0, ""
	for i := range pods.Items {
		p := &pods.Items[i]
		if !leaves(p) {
			continue
		}
		left++
		if translate.Terminating(p) {
			continue
		}
		if why := keeps(p, d.Now()); why != "" {
			return fmt.Errorf("kept by %s/%s: %s", p.Namespace, p.Name, why)
		}
		refused, err := d.evict(ctx, p)
		if err != nil {
			return err
		}
		if refused && blocked == "" {
			blocked = p.Namespace + "/" + p.Name
		}
	}
	switch {
	case left == 0:
		return nil
	case blocked != "":
		return waitError{"a PodDisruptionBudget refuses the eviction of " + blocked}
	default:
		return waitError{"evicted pods end"}
	}
}

// evict asks the eviction API. It reports whether a PodDisruptionBudget refused.
func (d *Drainer) evict(ctx context.Context, p *corev1.Pod) (refused bool, err error) {
	err = d.Client.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	switch {
	case err == nil:
		d.Say("  evicted %s/%s", p.Namespace, p.Name)
		return false, nil
	case apierrors.IsTooManyRequests(err):
		return true, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone, or another one has its name
		return false, nil
	default:
		return false, fmt.Errorf("evict %s/%s: %w", p.Namespace, p.Name, err)
	}
}
