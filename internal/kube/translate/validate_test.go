package translate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

func requirement(key string, op corev1.NodeSelectorOperator, values ...string) karpenterv1.NodeSelectorRequirementWithMinValues {
	return karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values}
}

func withMin(r karpenterv1.NodeSelectorRequirementWithMinValues, n int) karpenterv1.NodeSelectorRequirementWithMinValues {
	r.MinValues = &n
	return r
}

func TestValidatePool(t *testing.T) {
	t.Parallel()
	type taints = []corev1.Taint
	requires := func(r karpenterv1.NodeSelectorRequirementWithMinValues) karpenterv1.NodeClaimTemplate {
		return karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
			Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{requirement("fine", "Exists"), r},
		}}
	}
	labelled := func(key, value string) karpenterv1.NodeClaimTemplate {
		return karpenterv1.NodeClaimTemplate{ObjectMeta: karpenterv1.ObjectMeta{Labels: map[string]string{"fine": "", key: value}}}
	}
	tainted := func(always, startup taints) karpenterv1.NodeClaimTemplate {
		return karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{Taints: always, StartupTaints: startup}}
	}
	const first, second = "spec.template.spec.requirements[0]", "spec.template.spec.requirements[1]"
	tests := map[string]struct {
		template karpenterv1.NodeClaimTemplate
		want     []string // the start of each part of the error
	}{
		"an empty template is valid":                                    {},
		"a label of one's own is valid":                                 {template: labelled("example.com/team", "a")},
		"a well-known label in our domain is valid":                     {template: labelled("karpenter.sh/capacity-type", "spot")},
		"a label in a domain of Kubernetes is valid":                    {template: labelled("node-restriction.kubernetes.io/x", "y")},
		"a label in a domain that ends alike is valid":                  {template: labelled("notkarpenter.sh/x", "y")},
		"the pool's own label is refused":                               {labelled("karpenter.sh/nodepool", "a"), []string{"spec.template.metadata.labels[karpenter.sh/nodepool]: "}},
		"a label in our domain is refused":                              {labelled("karpenter.sh/x", "y"), []string{"spec.template.metadata.labels[karpenter.sh/x]: "}},
		"a label in a subdomain of ours is refused":                     {labelled("a.karpenter.sh/x", "y"), []string{"spec.template.metadata.labels[a.karpenter.sh/x]: "}},
		"a label in the provider's domain is refused":                   {labelled("cloud.example/x", "y"), []string{"spec.template.metadata.labels[cloud.example/x]: "}},
		"the provider's well-known label is valid":                      {template: labelled("cloud.example/size", "y")},
		"the host name is refused as a label":                           {labelled("kubernetes.io/hostname", "y"), []string{"spec.template.metadata.labels[kubernetes.io/hostname]: "}},
		"a label key that is none is refused":                           {labelled("a b", "y"), []string{"spec.template.metadata.labels[a b]: "}},
		"a label value that is none is refused":                         {labelled("a", "y!"), []string{"spec.template.metadata.labels[a]: "}},
		"the same key with two effects is valid":                        {template: tainted(taints{{Key: "a", Effect: "NoSchedule"}}, taints{{Key: "a", Effect: "NoExecute"}})},
		"a taint in both lists is refused":                              {tainted(taints{{Key: "a", Effect: "NoSchedule"}}, taints{{Key: "a", Value: "x", Effect: "NoSchedule"}}), []string{"spec.template.spec.startupTaints[0]: Duplicate"}},
		"a taint twice in a list is refused":                            {tainted(taints{{Key: "a"}, {Key: "a"}}, nil), []string{"spec.template.spec.taints[1]: Duplicate"}},
		"a taint without key is refused":                                {tainted(taints{{Effect: "NoSchedule"}}, nil), []string{"spec.template.spec.taints[0].key: Required"}},
		"a taint key that is none is refused":                           {tainted(nil, taints{{Key: "a b"}}), []string{"spec.template.spec.startupTaints[0].key: "}},
		"a taint value that is none is refused":                         {tainted(taints{{Key: "a", Value: "b c"}}, nil), []string{"spec.template.spec.taints[0].value: "}},
		"an effect that does not exist is refused":                      {tainted(taints{{Key: "a", Effect: "Never"}}, nil), []string{"spec.template.spec.taints[0].effect: "}},
		"Gte with an integer is valid":                                  {template: requires(requirement("cloud.example/size", "Gte", "4"))},
		"Gt with two values is refused":                                 {requires(requirement("a", "Gt", "1", "2")), []string{second + ": "}},
		"Lt with a word is refused":                                     {requires(requirement("a", "Lt", "x")), []string{second + ": "}},
		"Lte with a negative number is refused":                         {requires(requirement("a", "Lte", "-1")), []string{second + ".values[0]: ", second + ": "}},
		"an operator that does not exist is refused":                    {requires(requirement("a", "Like", "x")), []string{second + ": "}},
		"NotIn without values is valid":                                 {template: requires(requirement("a", "NotIn"))},
		"In without values is refused":                                  {requires(requirement("a", "In")), []string{second + ".values: Required"}},
		"In with as many values as minValues is valid":                  {template: requires(withMin(requirement("a", "In", "x", "y"), 2))},
		"In with fewer values than minValues is refused":                {requires(withMin(requirement("a", "In", "x"), 2)), []string{second + ".values: "}},
		"a value that is none is refused":                               {requires(requirement("a", "NotIn", "x", "y z")), []string{second + ".values[1]: "}},
		"a key that is none is refused":                                 {requires(requirement("a b", "Exists")), []string{second + ".key: "}},
		"the pool's own label as a key is refused":                      {requires(requirement("karpenter.sh/nodepool", "Exists")), []string{second + ".key: "}},
		"a restricted key is refused":                                   {requires(requirement("kubernetes.io/hostname", "In", "x")), []string{second + ".key: "}},
		"an old name of a well-known key is valid":                      {template: requires(requirement("beta.kubernetes.io/arch", "In", "arm64"))},
		"a capacity type that exists beside one that does not is valid": {template: requires(requirement("karpenter.sh/capacity-type", "In", "spot", "leased"))},
		"only capacity types that do not exist are refused":             {requires(requirement("karpenter.sh/capacity-type", "In", "leased")), []string{second + ".values: "}},
		"fewer existing capacity types than minValues are refused":      {requires(withMin(requirement("karpenter.sh/capacity-type", "In", "spot", "leased"), 2)), []string{second + ".values: "}},
		"everything wrong is reported at once": {
			karpenterv1.NodeClaimTemplate{
				ObjectMeta: karpenterv1.ObjectMeta{Labels: map[string]string{"karpenter.sh/x": "y"}},
				Spec: karpenterv1.NodeClaimTemplateSpec{
					Taints:       taints{{}},
					Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{requirement("a", "In"), requirement("b", "Gt")},
				},
			},
			[]string{"spec.template.metadata.labels[karpenter.sh/x]: ", "spec.template.spec.taints[0].key: ", first + ".values: ", second + ": "},
		},
	}
	// The old domain is restricted so that only the current name of a key passes.
	v := NewVocabulary([]string{"cloud.example/size"}, []string{"cloud.example", "beta.kubernetes.io"})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := ValidatePool(&karpenterv1.NodePool{Spec: karpenterv1.NodePoolSpec{Template: tt.template}}, v)
			got := parts(err)
			if len(got) != len(tt.want) {
				t.Fatalf("ValidatePool has %d errors %q, want %d that start with %q", len(got), got, len(tt.want), tt.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("error %d of ValidatePool is %q, want one that starts with %q", i, got[i], tt.want[i])
				}
			}
		})
	}
}

// parts returns the messages that an error was joined from.
func parts(err error) []string {
	joined, ok := err.(interface{ Errors() []error })
	if !ok {
		return nil
	}
	var out []string
	for _, e := range joined.Errors() {
		out = append(out, e.Error())
	}
	return out
}
