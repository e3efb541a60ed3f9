package aws

import (
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestExpressionsOfTheKubelet lists the types of classes with expressions, with the gate
// NodeClassCEL and without. How many pods nodes take must be known of every type; of what is
// reserved a key that fails is left out; without the gate expressions count for nothing.
func TestExpressionsOfTheKubelet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for name, c := range map[string]struct {
			kubelet string
			gate    bool
			want    string // the error
			pods    int64  // of m5.large; 0: as without the kubelet's configuration
			cpu     int64  // that is reserved of it; 0: likewise
		}{
			"no-expression":    {kubelet: `{}`},
			"pods":             {kubelet: `{"maxPods": "vcpus * 8"}`, gate: true, pods: 16},
			"pods-fail":        {kubelet: `{"maxPods": "100 / (vcpus - 2)"}`, gate: true, want: "spec.kubelet.maxPods on "},
			"pods-negative":    {kubelet: `{"maxPods": "vcpus - 4"}`, gate: true, want: "spec.kubelet.maxPods on "},
			"pods-many":        {kubelet: `{"maxPods": "vcpus * 2000000000"}`, gate: true, want: "more than 2147483647"},
			"amount":           {kubelet: `{"kubeReserved": {"cpu": "vcpus * 100"}}`, gate: true, cpu: 200},
			"amount-fails":     {kubelet: `{"kubeReserved": {"cpu": "100 / (vcpus - 2)"}}`, gate: true},
			"pods-no-gate":     {kubelet: `{"maxPods": "vcpus * 8"}`},
			"fails-no-gate":    {kubelet: `{"maxPods": "100 / (vcpus - 2)"}`},
			"amount-no-gate":   {kubelet: `{"kubeReserved": {"cpu": "vcpus * 100"}}`},
			"a-number-no-gate": {kubelet: `{"maxPods": 20}`, pods: 20},
		} {
			class := newClass(name)
			class.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(c.kubelet)}
			if err := w.api.Create(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			p := w.provider(t)
			p.opts.KubeletExpressions = c.gate
			types, err := p.Types(t.Context(), cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: name})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(types) == 0 != (c.want != "") {
				t.Errorf("%s: %d types, error %v, want %q", name, len(types), err, c.want)
			}
			for _, it := range types {
				if c.pods == 0 {
					c.pods = 29
				}
				if c.cpu == 0 {
					c.cpu = 70
				}
				if pods, cpu := it.Capacity[quantity.Pods], it.Overhead[quantity.CPU]; it.Name == "m5.large" && (pods != c.pods || cpu != c.cpu) {
					t.Errorf("%s: a node has %d pods and keeps %dm cpu, want %d and %dm", name, pods, cpu, c.pods, c.cpu)
				}
			}
		}
	})
}
