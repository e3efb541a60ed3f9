package nodegroups

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
)

// TestStories prints what is read of a cluster, the manifests, and the report.
func TestStories(t *testing.T) {
	t.Parallel()
	types, err := ec2catalog.Types()
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme).UniversalDeserializer()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var objects []client.Object
			var nodes []corev1.Node
			var known []nodegroup.Group
			for _, doc := range strings.Split(d.Input, "\n===\n") {
				if text, is := strings.CutPrefix(doc, "known in AWS\n"); is {
					if err := yaml.UnmarshalStrict([]byte(text), &known); err != nil {
						d.Fatalf(t, "%v\n%s", err, text)
					}
					continue
				}
				o, _, err := decoder.Decode([]byte(doc), nil, nil)
				if err != nil {
					d.Fatalf(t, "%v\n%s", err, doc)
				}
				objects = append(objects, o.(client.Object))
				if n, is := o.(*corev1.Node); is {
					nodes = append(nodes, *n)
				}
			}
			in, notes, err := Read(t.Context(), fake.NewClientBuilder().WithObjects(objects...).Build(), nodes, known)
			if err != nil {
				return err.Error() + "\n"
			}
			p := nodegroup.Propose(&in, nodegroup.Options{})
			var b strings.Builder
			for i := range p.Pools {
				b.WriteString(p.Pools[i].Manifest)
			}
			after := After{Unknown: "not asked"}
			if d.HasArg("after") {
				after = After{Nodes: 1, Pods: 3, PriceHourly: 0.1}
			}
			b.WriteString(Report(&p, Groups(objects, MembershipOf(known), types, time.Unix(0, 0)), &after, notes, "# "))
			return b.String()
		})
	})
}
