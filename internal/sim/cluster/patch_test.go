package cluster

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// anyClaim draws a NodeClaim with few values in each field, so that two have much in common.
func anyClaim(t *rapid.T) *karpenterv1.NodeClaim {
	some := rapid.SampledFrom([]string{"", "a", "b"})
	texts := func(what string) map[string]string {
		m := map[string]string{}
		for _, k := range []string{"x", "y/z"} {
			if v := some.Draw(t, what); v != "" {
				m[k] = v
			}
		}
		if len(m) == 0 {
			return nil
		}
		return m
	}
	nc := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "7", Labels: texts("labels"), Annotations: texts("annotations")}}
	if v := some.Draw(t, "finalizer"); v != "" {
		nc.Finalizers = []string{v, "c"}
	}
	if rapid.Bool().Draw(t, "class") {
		nc.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: some.Draw(t, "group"), Kind: some.Draw(t, "kind")}
	}
	if rapid.Bool().Draw(t, "leaves") {
		at := metav1.NewTime(time.Unix(0, 0).Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "at")) * time.Second).Local())
		nc.DeletionTimestamp = &at
	}
	for _, v := range rapid.SliceOfN(some, 0, 3).Draw(t, "taints") {
		nc.Spec.Taints = append(nc.Spec.Taints, corev1.Taint{Key: "t" + v, Value: v})
	}
	if n := rapid.Int64Range(0, 2).Draw(t, "cpu"); n > 0 {
		nc.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(n*500, resource.DecimalSI)}
	}
	nc.Status.ProviderID = some.Draw(t, "provider")
	for _, v := range rapid.SliceOfN(some, 0, 2).Draw(t, "conditions") {
		nc.Status.Conditions = append(nc.Status.Conditions, metav1.Condition{Type: "t" + v, Message: v})
	}
	return nc
}

// TestMergingIsWhatAPatchSays: what makes one object of another by a merge patch makes the same
// of it here, in its status or in the rest.
func TestMergingIsWhatAPatchSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		was, want := anyClaim(t), anyClaim(t)
		status := rapid.Bool().Draw(t, "status")
		data, err := client.MergeFrom(was).Data(want)
		if err != nil {
			t.Fatal(err)
		}
		is, err := new(merger).merged(was, data, status)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if status {
			kept := was.DeepCopy()
			kept.Status = want.Status
			want = kept
		} else {
			want.Status = was.Status
		}
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, is)); diff != "" {
			t.Errorf("%s makes (-want +got):\n%s", data, diff)
		}
	})
}

func asJSON(t rapid.TB, o client.Object) string {
	t.Helper()
	data, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
