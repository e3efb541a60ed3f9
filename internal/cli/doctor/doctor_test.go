package doctor

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
)

func TestReports(t *testing.T) {
	t.Parallel()
	found := []Finding{
		{Check: "subnets", Status: checkup.Failed, Found: "no subnets found", Remedy: "tag some"},
		{Check: "clock", Status: checkup.OK, Found: "0s from AWS'"},
		{Check: "queue", Status: checkup.Warning, Found: "none", Remedy: "make one"},
		{Check: "images", Status: checkup.Skipped, Found: "depends"},
	}
	var table, text bytes.Buffer
	if err := Table(&table, found); err != nil {
		t.Fatal(err)
	}
	want := `CHECK     STATUS    FOUND
subnets   FAILED    no subnets found
                    -> tag some
clock     ok        0s from AWS'
queue     warning   none
                    -> make one
images    skipped   depends

Of 4 checks 1 failed, 1 warned, 1 were skipped.
`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("Table() (-want +got):\n%s", diff)
	}
	if err := JSON(&text, found); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Failed   int
		Findings []Finding
	}
	if err := json.Unmarshal(text.Bytes(), &read); err != nil || read.Failed != 1 || cmp.Diff(found, read.Findings) != "" {
		t.Errorf("JSON() gives %s (%v)", &text, err)
	}
	if got := summary(found[1:2]); got != "All 1 checks are ok." {
		t.Errorf("summary() = %q", got)
	}
}

func TestVersionsOfKubernetes(t *testing.T) {
	t.Parallel()
	for minor, want := range map[string]checkup.Status{
		"28": checkup.Failed, "29": checkup.OK, "35+": checkup.OK, "37": checkup.OK, "38": checkup.Warning, "": checkup.Failed,
	} {
		if got := judgeVersion(&version.Info{Major: "1", Minor: minor}, "host"); got.Status != want || (got.Remedy == "") != (want == checkup.OK) {
			t.Errorf("1.%s: %+v, want %s", minor, got, want)
		}
	}
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	all := func(change func(i int, o *unstructured.Unstructured) bool) []client.Object {
		own, err := definitionsOf([]string{"aws"})
		if err != nil {
			t.Fatal(err)
		}
		var out []client.Object
		for i, o := range own {
			if change(i, o) {
				out = append(out, o)
			}
		}
		return out
	}
	const remedy = "dovetail crds | kubectl apply --server-side --force-conflicts -f -"
	for name, tc := range map[string]struct {
		objects []client.Object
		want    Finding
	}{
		"all are there": {
			all(func(int, *unstructured.Unstructured) bool { return true }),
			Finding{Check: "definitions", Status: checkup.OK, Found: "CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool"},
		},
		"two are not": {
			all(func(i int, _ *unstructured.Unstructured) bool { return i > 1 }),
			Finding{Check: "definitions", Status: checkup.Failed, Found: "not installed: CapacityBuffer, EC2NodeClass", Remedy: remedy},
		},
		"one is another's": {
			all(func(i int, o *unstructured.Unstructured) bool {
				if i == 1 {
					versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
					versions[0].(map[string]any)["schema"] = map[string]any{}
					if err := unstructured.SetNestedSlice(o.Object, versions, "spec", "versions"); err != nil {
						t.Fatal(err)
					}
				}
				return true
			}),
			Finding{Check: "definitions", Status: checkup.Warning, Found: "of another version than this program: EC2NodeClass", Remedy: remedy},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The fake adds what it doesn't know to its scheme, which must not be the one all share.
			c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(tc.objects...).Build()
			got := definitions(t.Context(), c, []string{"aws"})
			if diff := cmp.Diff([]Finding{tc.want}, got); diff != "" {
				t.Errorf("definitions() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOtherAutoscalers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	holder, seconds := "karpenter-5d_1", int32(15)
	lease := func(namespace, name string, age time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-age))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds},
		}
	}
	one := lease("karpenter", leaseName, 5*time.Second)
	for name, tc := range map[string]struct {
		leases []client.Object
		want   checkup.Status
		found  string
	}{
		"one works":             {[]client.Object{one}, checkup.Warning, "karpenter-5d_1 holds lease karpenter/karpenter-leader-election"},
		"one did":               {[]client.Object{lease("karpenter", leaseName, time.Minute)}, checkup.OK, "nobody holds a lease karpenter-leader-election"},
		"somebody else's lease": {[]client.Object{lease("karpenter", "other", time.Second)}, checkup.OK, "nobody holds a lease karpenter-leader-election"},
		"two work": {
			[]client.Object{one, lease("kube-system", leaseName, time.Second)},
			checkup.Failed,
			"karpenter-5d_1 holds lease karpenter/karpenter-leader-election; karpenter-5d_1 holds lease kube-system/karpenter-leader-election",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := others(t.Context(), fake.NewClientBuilder().WithObjects(tc.leases...).Build(), now)
			if got.Status != tc.want || got.Found != tc.found || (got.Remedy == "") != (tc.want == checkup.OK) {
				t.Errorf("others() = %+v, want %s %s", got, tc.want, tc.found)
			}
		})
	}
}

func TestClassesSayWhyTheyAreNotReady(t *testing.T) {
	t.Parallel()
	class := func(conditions ...any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "EC2NodeClass", "metadata": map[string]any{"name": "default"}}}
		if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for name, tc := range map[string]struct {
		class *unstructured.Unstructured
		want  Finding
	}{
		"nobody looked": {class(), Finding{Check: "EC2NodeClass default", Status: checkup.Warning, Found: "nobody has judged it yet"}},
		"ready": {
			class(map[string]any{"type": "SubnetsReady", "status": "True"}, map[string]any{"type": "Ready", "status": "True"}),
			Finding{Check: "EC2NodeClass default", Status: checkup.OK, Found: "Ready"},
		},
		"not ready": {
			class(map[string]any{"type": "Ready", "status": "False", "reason": "SubnetsNotFound", "message": "none"}),
			Finding{Check: "EC2NodeClass default", Status: checkup.Warning, Found: "not Ready: SubnetsNotFound: none", Remedy: "kubectl describe ec2nodeclass default"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, judgeClass(tc.class)); diff != "" {
				t.Errorf("judgeClass() (-want +got):\n%s", diff)
			}
		})
	}
}
