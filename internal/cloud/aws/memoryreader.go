package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// memoryReader reads what memory nodes say they have.
type memoryReader struct {
	client    client.Client
	opts      *Options
	memory    *nodeMemory
	types     *instanceTypes
	instances *instances
}

// read reads what memory the nodes of each class say they have.
func (r *memoryReader) read(ctx context.Context) error {
	var classes awsv1.EC2NodeClassList
	if err := r.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("list node classes: %w", err)
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		var nodes corev1.NodeList
		err := r.client.List(ctx, &nodes, client.MatchingLabels{awsv1.LabelNodeClass: class.Name, karpenterv1.NodeRegisteredLabelKey: karpenterv1.LabelValueTrue})
		if err != nil {
			return fmt.Errorf("list nodes of node class %s: %w", class.Name, err)
		}
		if len(nodes.Items) == 0 {
			continue
		}
		kept := map[string]int64{}                                                                         // from pods, by type
		types, _ := r.types.of(ctx, cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: class.Name}) // without them what nodes keep is learnt the next time
		for _, t := range types {
			kept[t.Name] = t.Overhead[quantity.Memory]
		}
		for j := range nodes.Items {
			r.readNode(class, &nodes.Items[j], kept)
		}
	}
	return nil
}

// readNode records the memory of a node that runs an image the class still uses. Kept is how
// much each instance type is expected to keep from pods. A kubelet that is configured as the
// class says now and keeps more than that leaves the difference less for pods.
func (r *memoryReader) readNode(class *awsv1.EC2NodeClass, node *corev1.Node, kept map[string]int64) {
	id, _ := instanceID(node.Spec.ProviderID)
	m, ok := r.instances.seen(id)
	current := ok && slices.ContainsFunc(class.Status.AMIs, func(a awsv1.AMI) bool { return a.ID == m.ImageID })
	bytes := node.Status.Capacity.Memory().Value()
	if !current || bytes <= 0 {
		return
	}
	expected, known := kept[m.Type]
	hash := class.Annotations[awsv1.AnnotationHash]
	if free := node.Status.Allocatable.Memory().Value(); known && free > 0 && hash != "" && m.Tags[awsv1.AnnotationHash] == hash {
		bytes = min(bytes, quantity.Add(quantity.Add(free, hugePages(node)), expected))
	}
	r.memory.learn(memoryKey{m.Type, bootKey(class)}, memorySeen{bytes, r.opts.Now()})
}

// hugePages returns the memory that a node has set apart in huge pages, which is not in what it
// has for pods otherwise.
func hugePages(node *corev1.Node) (bytes int64) {
	for name, amount := range node.Status.Capacity {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			bytes = quantity.Add(bytes, amount.Value())
		}
	}
	return bytes
}
