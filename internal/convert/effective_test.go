package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ template, disruption, want string }{
		"of v1":                             {"100h", "", "100h"},
		"never, of v1":                      {"Never", "", "Never"},
		"of v1beta1, beside v1's default":   {"720h", "expireAfter: 100h", "100h"},
		"never, of v1beta1":                 {"720h", "expireAfter: Never", "Never"},
		"of both: the newer was set":        {"200h", "expireAfter: 100h", "200h"},
		"of both: the newer was set to off": {"Never", "expireAfter: 100h", "Never"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			np := read[karpenterv1.NodePool](t, "spec: {template: {spec: {expireAfter: "+tt.template+"}}, disruption: {"+tt.disruption+"}}")
			got := Template(np)
			if got.Spec.ExpireAfter.String() != tt.want || np.Spec.Template.Spec.ExpireAfter.String() != tt.template {
				t.Errorf("Template() expires after %s, want %s; the pool has %s", got.Spec.ExpireAfter, tt.want, np.Spec.Template.Spec.ExpireAfter)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	kind := kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass")
	for name, tt := range map[string]struct{ ref, want string }{
		"nothing":                      {"null", "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}"},
		"a name":                       {"{name: a}", "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: a}"},
		"the kind":                     {"{name: a, kind: KWOKNodeClass}", "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: a}"},
		"the group":                    {"{name: a, group: karpenter.kwok.sh}", "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: a}"},
		"a version, of v1beta1":        {"{name: a, apiVersion: karpenter.kwok.sh/v1alpha1}", "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: a, apiVersion: karpenter.kwok.sh/v1alpha1}"},
		"a version of another":         {"{name: a, kind: EC2NodeClass, apiVersion: karpenter.k8s.aws/v1beta1}", "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: a, apiVersion: karpenter.k8s.aws/v1beta1}"},
		"the kind of another provider": {"{name: a, kind: EC2NodeClass}", "{name: a, kind: EC2NodeClass}"},
		"everything":                   {"{group: a.example, kind: A, name: a}", "{group: a.example, kind: A, name: a}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ref *karpenterv1.NodeClassReference
			if tt.ref != "null" {
				ref = read[karpenterv1.NodeClassReference](t, tt.ref)
			}
			got := Complete(ref, kind)
			if diff := cmp.Diff(read[karpenterv1.NodeClassReference](t, tt.want), got); diff != "" {
				t.Errorf("Complete() (-want +got):\n%s", diff)
			}
			if again := Complete(got, kind); again != got {
				t.Errorf("Complete() changes what it has completed to %v", again)
			}
		})
	}
}
