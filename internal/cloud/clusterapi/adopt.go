package clusterapi

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// deleteAnnotation has a MachineSet that is scaled down delete this Machine first.
const deleteAnnotation = "cluster.x-k8s.io/delete-machine"

// The earlier Karpenter provider for Cluster API raised the replicas of a MachineDeployment and marked the Machines
// that came of it with MemberLabel. Such a replica is adopted when a Node of this cluster, or a question about
// its provider ID, says whose it is: it gets our label and record, and from then on is one of ours. Its
// MachineSet would replace it, so it ends by way of the replicas.

// isReplica reports whether a Machine is one of those that the earlier provider took, and that nobody has adopted.
func isReplica(object *unstructured.Unstructured) bool {
	labels := object.GetLabels()
	_, isMember := labels[MemberLabel]
	return isMember && labels[ownerLabel] == "" && labels[deploymentNameLabel] != "" && fields(object.Object).text("spec", "providerID") != ""
}

// members returns the Machines that isReplica is true of.
func (p *Provider) members(ctx context.Context) ([]unstructured.Unstructured, error) {
	all, err := p.mgmt.list(ctx, kindMachine, client.HasLabels{MemberLabel, deploymentNameLabel})
	if err != nil {
		return nil, err
	}
	var out []unstructured.Unstructured
	for i := range all {
		if isReplica(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out, nil
}

// adoptID adopts the replica with a provider ID; nil: there is none.
func (p *Provider) adoptID(ctx context.Context, id string) (*unstructured.Unstructured, error) {
	members, err := p.members(ctx)
	if err != nil {
		return nil, err
	}
	for i := range members {
		if fields(members[i].Object).text("spec", "providerID") == id {
			return p.adopt(ctx, &members[i])
		}
	}
	return nil, nil
}

// adoptNodes adopts the replicas whose Node in this cluster belongs to a NodePool.
func (p *Provider) adoptNodes(ctx context.Context) error {
	members, err := p.members(ctx)
	if err != nil {
		return err
	}
	for i := range members {
		f := fields(members[i].Object)
		name := f.text("status", "nodeRef", "name")
		if name == "" {
			continue
		}
		node := &corev1.Node{}
		err := p.reader.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get the Node of %s %s/%s: %w", kindMachine, members[i].GetNamespace(), members[i].GetName(), err)
		}
		if err != nil || node.Spec.ProviderID != f.text("spec", "providerID") || node.Labels[label.NodePool] == "" {
			continue
		}
		if _, err := p.adopt(ctx, &members[i]); err != nil {
			return err
		}
	}
	return nil
}

// adopt makes a replica one of ours.
func (p *Provider) adopt(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name := client.ObjectKeyFromObject(object)
	uid, err := p.clusterUID(ctx)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(&record{Deployment: object.GetLabels()[deploymentNameLabel], Replica: true})
	if err != nil {
		return nil, fmt.Errorf("write the record of %s %s: %w", kindMachine, name, err)
	}
	annotations := map[string]any{recordAnnotation: string(content), noDrain: "", noVolumeWait: ""}
	if object.GetDeletionTimestamp() == nil {
		annotations[drainHook] = "dovetail"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "labels": map[string]any{ownerLabel: uid}, "annotations": annotations,
	}})
	if err != nil {
		return nil, fmt.Errorf("write the record of %s %s: %w", kindMachine, name, err)
	}
	adopted := object.DeepCopy()
	if err := p.mgmt.client.Patch(ctx, adopted, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, fmt.Errorf("adopt %s %s: %w", kindMachine, name, err)
	}
	p.log.Info("adopted a Machine of the earlier provider", "namespace", name.Namespace, "name", name.Name, "instance", fields(adopted.Object).text("spec", "providerID"))
	return adopted, nil
}

// endReplica has a MachineSet delete a replica that is marked for it. How many replicas are wanted follows from the
// Machines that are there, so that to ask again, after a crash too, takes no other one.
func (p *Provider) endReplica(ctx context.Context, object *unstructured.Unstructured, name string) error {
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: name}
	deployment, err := p.mgmt.getCore(ctx, kindDeployment, key)
	if apierrors.IsNotFound(err) {
		return p.mgmt.delete(ctx, object)
	}
	if err != nil {
		return err
	}
	all, err := p.mgmt.list(ctx, kindMachine, client.InNamespace(key.Namespace), client.MatchingLabels{deploymentNameLabel: key.Name})
	if err != nil {
		return err
	}
	var there, stay int64
	for i := range all {
		if all[i].GetDeletionTimestamp() != nil {
			continue
		}
		there++
		if _, goes := all[i].GetAnnotations()[deleteAnnotation]; !goes {
			stay++
		}
	}
	switch replicas := fields(deployment.Object).number("spec", "replicas"); {
	case replicas <= stay:
		return nil // its MachineSet is about to delete them
	case replicas > there:
		return fmt.Errorf("%s %s has %d of %d replicas: it is scaled down by that of %s when it has all of them", kindDeployment, key, there, replicas, object.GetName())
	}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":%d}}`, deployment.GetResourceVersion(), stay)
	if err := p.mgmt.client.SubResource("scale").Patch(ctx, deployment, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("scale %s %s to %d replicas: %w", kindDeployment, key, stay, err)
	}
	return nil
}
