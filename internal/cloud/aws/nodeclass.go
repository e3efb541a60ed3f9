package aws

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/class"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const classKind = "EC2NodeClass"

// getClass returns a node class, in the form of v1 and with the kubelet's configuration of the
// reference; cloud.ErrNotFound: there is none.
func getClass(ctx context.Context, c client.Client, ref cloud.ClassRef) (*awsv1.EC2NodeClass, error) {
	if ref.Group != awsv1.Group || ref.Kind != classKind {
		return nil, fmt.Errorf("get node class %s of group %s: %w", ref, ref.Group, cloud.ErrNotFound)
	}
	class := &awsv1.EC2NodeClass{}
	err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, class)
	if apierrors.IsNotFound(err) {
		err = cloud.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get node class %s: %w", ref, err)
	}
	convert.Class(class)
	if ref.Kubelet != "" {
		class.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(ref.Kubelet)}
	}
	return class, nil
}

// classKey is the same until the spec of a class is edited.
func classKey(class *awsv1.EC2NodeClass) string {
	return fmt.Sprintf("%s %s %d", class.Name, class.UID, class.Generation)
}

// statusUsed is the part of a class's status that decides a launch.
func statusUsed(s *awsv1.EC2NodeClassStatus) any {
	used := *s
	used.Conditions = nil
	return used
}

// imageOf returns the image that instances of a type are started from; empty: there is none.
func imageOf(class *awsv1.EC2NodeClass, t *catalog.Type) string {
	for i := range class.Status.AMIs {
		if suits(class.Status.AMIs[i].Requirements, t.Requirements) {
			return class.Status.AMIs[i].ID
		}
	}
	return ""
}

func suits(wanted []corev1.NodeSelectorRequirement, has label.Requirements) bool {
	for _, w := range wanted {
		want, err := label.Parse(label.Operator(w.Operator), w.Values)
		if err != nil {
			return false
		}
		got, decided := has[w.Key]
		if decided && !got.Overlaps(want) || !decided && !want.AllowsAbsence() {
			return false
		}
	}
	return true
}

// hash returns what instances of a class are compared by.
func (o *Options) hash(c *awsv1.EC2NodeClass) string { return class.Hash(c, o.ClusterCABundle) }
