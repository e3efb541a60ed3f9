package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// removalEvery is how often a removal looks whether the controller has ended what was deleted.
const removalEvery = time.Second

// buffers is the definition that other autoscalers have, too, and that is never deleted.
const buffers = "capacitybuffers.autoscaling.x-k8s.io"

// Installed is what an uninstallation finds in a cluster.
type Installed struct {
	// Holders say which controllers work.
	Holders []string
	Pools   []karpenterv1.NodePool
	Claims  []karpenterv1.NodeClaim
	// Nodes are those that a controller has marked as its own, or tainted.
	Nodes   []corev1.Node
	Classes []unstructured.Unstructured
	// Definitions are the names of those that are installed.
	Definitions []string
	Webhooks    []Finding
	// Pauses are the ConfigMaps that pause disruption.
	Pauses []corev1.ConfigMap
	// Held are what Cluster API does not delete without the controller.
	Held *clusterapi.Held
}

// Management is a management cluster of Cluster API, and the namespace in it that matters; empty: any.
type Management struct {
	Client    client.WithWatch
	Namespace string
}

// ReadInstalled reads what is installed.
func ReadInstalled(ctx context.Context, c client.Client, management Management, now time.Time) (*Installed, error) {
	in := &Installed{Webhooks: webhooks(ctx, c)}
	var err error
	if in.Holders, _, err = holders(ctx, c, now); err != nil {
		return nil, fmt.Errorf("read Leases: %w", err)
	}
	var nodes corev1.NodeList
	var pools karpenterv1.NodePoolList
	var claims karpenterv1.NodeClaimList
	for kind, list := range map[string]client.ObjectList{"Nodes": &nodes, "NodePools": &pools, "NodeClaims": &claims} {
		if err := c.List(ctx, list); err != nil && !isUnserved(err) {
			return nil, fmt.Errorf("read %s: %w", kind, err)
		}
	}
	in.Pools, in.Claims = pools.Items, claims.Items
	for i := range nodes.Items {
		if isMarked(&nodes.Items[i]) {
			in.Nodes = append(in.Nodes, nodes.Items[i])
		}
	}
	for _, kind := range []schema.GroupVersionKind{
		awsv1.GroupVersion.WithKind("EC2NodeClassList"),
		{Group: "karpenter.kwok.sh", Version: "v1alpha1", Kind: "KWOKNodeClassList"},
		clusterapiv1alpha1.GroupVersion.WithKind(clusterapiv1alpha1.Kind + "List"),
	} {
		var classes unstructured.UnstructuredList
		classes.SetGroupVersionKind(kind)
		if err := c.List(ctx, &classes); err != nil && !isUnserved(err) {
			return nil, fmt.Errorf("read %s: %w", strings.TrimSuffix(kind.Kind, "List"), err)
		}
		in.Classes = append(in.Classes, classes.Items...)
	}
	var pauses corev1.ConfigMapList
	if err := c.List(ctx, &pauses, client.MatchingFields{"metadata.name": mirror.PauseConfigMap}); err != nil {
		return nil, fmt.Errorf("read ConfigMaps %s: %w", mirror.PauseConfigMap, err)
	}
	in.Pauses = pauses.Items
	system := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return nil, fmt.Errorf("read the UID of the cluster: %w", err)
	}
	if in.Held, err = clusterapi.ReadHeld(ctx, management.Client, management.Namespace, string(system.UID)); err != nil {
		return nil, fmt.Errorf("read the management cluster of Cluster API: %w", err)
	}
	for _, d := range installed(ctx, c) {
		in.Definitions = append(in.Definitions, d.GetName())
	}
	return in, nil
}

// isUnserved reports whether a list has failed because the cluster does not have its kind. Discovery may name a kind for
// a while whose definition is deleted: its list is then not found.
func isUnserved(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// isMarked reports whether a controller has left something on a Node.
func isMarked(n *corev1.Node) bool {
	return n.Labels[karpenterv1.NodePoolLabelKey] != "" || controllerutil.ContainsFinalizer(n, karpenterv1.TerminationFinalizer) ||
		slices.ContainsFunc(n.Spec.Taints, isLeft)
}

// isLeft reports whether a taint would stay for ever without a controller.
func isLeft(t corev1.Taint) bool {
	return t.Key == translate.PreferOthersTaintKey || translate.IsDisruptedTaint(t)
}

// LacksManagement reports whether there are node classes of Cluster API, whose objects are in another cluster than the one
// that was asked.
func (in *Installed) LacksManagement() bool {
	return in.Held.Unserved && slices.ContainsFunc(in.Classes, func(o unstructured.Unstructured) bool { return o.GetKind() == clusterapiv1alpha1.Kind })
}

// Ending returns the names of what the controller is about to end. Without it, or without its finalizer, their
// instances would be left.
func (in *Installed) Ending() (names []string) {
	for i := range in.Claims {
		if in.Claims[i].DeletionTimestamp != nil {
			names = append(names, "NodeClaim "+in.Claims[i].Name)
		}
	}
	for i := range in.Nodes {
		if in.Nodes[i].DeletionTimestamp != nil {
			names = append(names, "Node "+in.Nodes[i].Name)
		}
	}
	return names
}

// Left says, for each kind of thing, how many would be left behind and what that means.
func (in *Installed) Left() [][3]string {
	tainted, finalized := 0, 0
	for i := range in.Nodes {
		if slices.ContainsFunc(in.Nodes[i].Spec.Taints, isLeft) {
			tainted++
		}
		if controllerutil.ContainsFinalizer(&in.Nodes[i], karpenterv1.TerminationFinalizer) {
			finalized++
		}
	}
	rows := [][3]string{}
	for _, row := range []struct {
		count      int
		what, then string
	}{
		{len(in.Claims), "NodeClaims", "cannot be deleted: their finalizer waits for the controller; their instances run on"},
		{finalized, "Nodes with a finalizer", "cannot be deleted, and are deleted with their NodeClaims"},
		{tainted, "Nodes with a taint", "take no pods, or are avoided, for ever"},
		{len(in.Pools), "NodePools", "launch nothing"},
		{len(in.Classes), "node classes", "cannot be deleted if they have a finalizer"},
		{in.Held.Len(), "hooks in Cluster API", "keep Cluster API from deleting what they are on, for ever"},
		{len(in.Pauses), "ConfigMaps " + mirror.PauseConfigMap, "pause disruption as soon as a controller is in their namespace again"},
		{len(in.Definitions), "definitions", "stay, as Helm leaves them; deleting them deletes all NodeClaims"},
		{len(in.Webhooks), "webhooks of earlier installations", "refuse writes"},
	} {
		if row.count > 0 {
			rows = append(rows, [3]string{row.what, fmt.Sprint(row.count), row.then})
		}
	}
	return rows
}

// Orphan removes everything but the nodes: they stay, with their pods, as nodes that no autoscaler owns. The
// controller must not run. Nodes are freed first, since those that belong to a NodeClaim are deleted with it.
func (in *Installed) Orphan(ctx context.Context, c client.Client, say func(format string, args ...any)) error {
	for i := range in.Nodes {
		n := &in.Nodes[i]
		before := n.DeepCopy()
		controllerutil.RemoveFinalizer(n, karpenterv1.TerminationFinalizer)
		n.OwnerReferences = slices.DeleteFunc(n.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodeClaim" })
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isLeft)
		if err := c.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("free node %s: %w", n.Name, err)
		}
	}
	say("freed %d nodes: no finalizer, no owner, no taint of ours", len(in.Nodes))
	for i := range in.Claims {
		if err := release(ctx, c, &in.Claims[i], karpenterv1.TerminationFinalizer); err != nil {
			return err
		}
	}
	say("deleted %d NodeClaims; their instances run on, and end when you end them", len(in.Claims))
	if err := in.Held.Release(ctx); err != nil {
		return err
	}
	if n := in.Held.Len(); n > 0 {
		say("removed %d hooks in Cluster API, which drains these nodes itself from now on", n)
	}
	for i := range in.Pools {
		if err := client.IgnoreNotFound(c.Delete(ctx, &in.Pools[i])); err != nil {
			return fmt.Errorf("delete NodePool %s: %w", in.Pools[i].Name, err)
		}
	}
	say("deleted %d NodePools", len(in.Pools))
	for i := range in.Classes {
		if err := release(ctx, c, &in.Classes[i], awsv1.TerminationFinalizer); err != nil {
			return err
		}
	}
	say("deleted %d node classes; in AWS their instance profiles and launch templates stay", len(in.Classes))
	return nil
}

// DeletePauses deletes what would pause the disruption of the next controller.
func (in *Installed) DeletePauses(ctx context.Context, c client.Client, say func(format string, args ...any)) error {
	for i := range in.Pauses {
		m := &in.Pauses[i]
		if err := client.IgnoreNotFound(c.Delete(ctx, m)); err != nil {
			return fmt.Errorf("delete ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
		}
		say("deleted ConfigMap %s/%s, which paused disruption", m.Namespace, m.Name)
	}
	return nil
}

// release deletes an object without waiting for who has put the finalizer on it.
func release(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	before := o.DeepCopyObject().(client.Object)
	if controllerutil.RemoveFinalizer(o, finalizer) {
		if err := c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the finalizer of %s: %w", o.GetName(), err)
		}
	}
	if err := client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	return nil
}

// Remove has the controller drain and end all nodes, and returns when they are gone: NodePools first, then node
// classes. The controller must run.
func (in *Installed) Remove(ctx context.Context, c client.Client, say func(format string, args ...any)) error {
	for i := range in.Pools {
		if err := client.IgnoreNotFound(c.Delete(ctx, &in.Pools[i])); err != nil {
			return fmt.Errorf("delete NodePool %s: %w", in.Pools[i].Name, err)
		}
	}
	for i := range in.Claims { // those without a NodePool, too
		if err := client.IgnoreNotFound(c.Delete(ctx, &in.Claims[i])); err != nil {
			return fmt.Errorf("delete NodeClaim %s: %w", in.Claims[i].Name, err)
		}
	}
	say("deleted %d NodePools; the controller drains %d nodes", len(in.Pools), len(in.Claims))
	err := until(ctx, func() (string, error) {
		var left karpenterv1.NodeClaimList
		err := c.List(ctx, &left)
		if err != nil || len(left.Items) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d NodeClaims are left, the first is %s", len(left.Items), left.Items[0].Name), nil
	})
	if err != nil {
		return fmt.Errorf("remove nodes: %w; kubectl describe nodeclaim says why, and the command goes on when it is run again", err)
	}
	say("all nodes are gone")
	for i := range in.Classes {
		if err := client.IgnoreNotFound(c.Delete(ctx, &in.Classes[i])); err != nil {
			return fmt.Errorf("delete node class %s: %w", in.Classes[i].GetName(), err)
		}
	}
	err = until(ctx, func() (string, error) {
		for i := range in.Classes {
			class := in.Classes[i].DeepCopy()
			err := c.Get(ctx, client.ObjectKeyFromObject(class), class)
			if err == nil {
				return "node class " + class.GetName() + " is left", nil
			}
			if client.IgnoreNotFound(err) != nil {
				return "", err
			}
		}
		return "", nil
	})
	if err != nil {
		return fmt.Errorf("remove node classes: %w", err)
	}
	say("deleted %d node classes", len(in.Classes))
	return nil
}

// until repeats a check until it names nothing that is left.
func until(ctx context.Context, check func() (left string, err error)) error {
	ticks := time.NewTicker(removalEvery)
	defer ticks.Stop()
	last := "nothing was looked at"
	for {
		left, err := check()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("gave up: %s", last)
		case err != nil:
			return err
		case left == "":
			return nil
		}
		last = left
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up: %s", last)
		case <-ticks.C:
		}
	}
}

// DeleteDefinitions deletes the definitions, but for the one that is others', too.
func (in *Installed) DeleteDefinitions(ctx context.Context, c client.Client, say func(format string, args ...any)) error {
	for _, name := range in.Definitions {
		if name == buffers {
			say("kept definition %s, which other autoscalers have, too", name)
			continue
		}
		d := &unstructured.Unstructured{}
		d.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		d.SetName(name)
		if err := client.IgnoreNotFound(c.Delete(ctx, d)); err != nil {
			return fmt.Errorf("delete definition %s: %w", name, err)
		}
		say("deleted definition %s", name)
	}
	return nil
}
