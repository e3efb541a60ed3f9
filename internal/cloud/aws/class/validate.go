package class

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/userdata"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
)

// Reasons for which ValidationSucceeded is not true, beside those that EC2 gives.
const (
	ReasonClusterCIDR         = "ClusterCIDRResolutionFailed"
	ReasonKubelet             = "InvalidKubeletConfiguration"
	ReasonKubeletUnsupported  = "UnsupportedKubeletConfiguration"
	ReasonExpressionsDisabled = "KubeletExpressionsDisabled"
	ReasonExpressionInvalid   = "KubeletExpressionInvalid"
	ReasonExpressionFailed    = "KubeletExpressionEvaluationFailed"
	ReasonUserData            = "InvalidUserData"
	ReasonDependencies        = "DependenciesNotReady"
	ReasonTags                = "TagValidationFailed"
	ReasonSharing             = "NVIDIAConsumableCapacityInvalid"
	ReasonDRADisabled         = "DRADisabled"
	reasonTypes               = "InstanceTypesNotKnown"
)

// Facts are what the validation of a class needs to know beside it.
type Facts struct {
	// CIDR is the range of the cluster's services; empty: CIDRError says why it is not known.
	CIDR      string
	CIDRError error
	// Expressions says that the feature gate NodeClassCEL is on.
	Expressions bool
	// NVIDIADevices says that the feature gate DRANVIDIAGPU is on.
	NVIDIADevices bool
	// Instances are all types, as expressions see them.
	InstanceTypes []kubelet.InstanceType
}

// Verdict is the outcome of a validation. The zero Verdict is yes, as far as can be said
// without EC2.
type Verdict struct {
	Reason, Message string
	// Unknown: the outcome is not known yet; validate again later.
	Unknown bool
	// Settled: the outcome is valid until the class is edited.
	Settled bool
}

// Validate says whether instances can be made of a class, by what is known: the first thing
// that is wrong, in the order of Karpenter.
func Validate(c *awsv1.EC2NodeClass, f *Facts) Verdict {
	if family.Of(&c.Spec).Name == family.AL2023 && f.CIDR == "" {
		return Verdict{Reason: ReasonClusterCIDR, Message: fmt.Sprintf("the range of the cluster's services is not known: %v", f.CIDRError)}
	}
	config, v := validateKubelet(c, f)
	if v.Reason != "" {
		return v
	}
	if _, err := userdata.Make(&userdata.Node{Family: family.Of(&c.Spec), Custom: deref(c.Spec.UserData)}); err != nil {
		return Verdict{Reason: ReasonUserData, Message: err.Error(), Settled: true}
	}
	if v := validateSharing(c, f); v.Reason != "" {
		return v
	}
	if v := validateDependencies(c); v.Reason != "" {
		return v
	}
	if v := validateExpressions(config, f); v.Reason != "" {
		return v
	}
	return validateTags(c)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func validateKubelet(c *awsv1.EC2NodeClass, f *Facts) (*kubelet.Config, Verdict) {
	config, err := kubelet.Parse(c.Spec.Kubelet)
	if err != nil {
		return nil, Verdict{Reason: ReasonKubelet, Message: err.Error(), Settled: true}
	}
	if config.HasExpressions() && !f.Expressions {
		return nil, Verdict{Reason: ReasonExpressionsDisabled, Message: "spec.kubelet has expressions; they need the feature gate NodeClassCEL", Settled: true}
	}
	if err := config.ExpressionError(); err != nil {
		return nil, Verdict{Reason: ReasonExpressionInvalid, Message: err.Error(), Settled: true}
	}
	if err := config.Unsupported(family.Of(&c.Spec)); err != nil {
		return nil, Verdict{Reason: ReasonKubeletUnsupported, Message: err.Error(), Settled: true}
	}
	return config, Verdict{}
}

// validateSharing refuses a way to share GPUs that is none, or that nothing would heed.
func validateSharing(c *awsv1.EC2NodeClass, f *Facts) Verdict {
	sharing, err := instance.ParseSharing(c.Annotations[awsv1.AnnotationNVIDIASharing])
	switch {
	case err != nil:
		return Verdict{Reason: ReasonSharing, Message: err.Error(), Settled: true}
	case sharing.IsShared() && !f.NVIDIADevices:
		return Verdict{Reason: ReasonDRADisabled, Message: awsv1.AnnotationNVIDIASharing + " needs the feature gate DRANVIDIAGPU", Settled: true}
	default:
		return Verdict{}
	}
}

// validateDependencies looks at the conditions that say whether there is what the class
// selects.
func validateDependencies(c *awsv1.EC2NodeClass) Verdict {
	set := condition.ForEC2NodeClass(c, false)
	var failed, waiting []string
	for _, t := range []string{awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeSubnetsReady} {
		switch set.Get(t).Status {
		case metav1.ConditionTrue:
		case metav1.ConditionFalse:
			failed = append(failed, t)
		default:
			waiting = append(waiting, t)
		}
	}
	switch {
	case len(failed) > 0:
		return Verdict{Reason: ReasonDependencies, Message: "not true: " + strings.Join(failed, ", ")}
	case len(waiting) > 0:
		return Verdict{Reason: ReasonDependencies, Message: "not known yet: " + strings.Join(waiting, ", "), Unknown: true}
	default:
		return Verdict{}
	}
}

// validateExpressions evaluates the expressions for every type.
func validateExpressions(config *kubelet.Config, f *Facts) Verdict {
	if !config.HasExpressions() {
		return Verdict{}
	}
	if len(f.InstanceTypes) == 0 {
		return Verdict{Reason: reasonTypes, Message: "no instance type is known yet, for which the expressions of spec.kubelet could be worked out", Unknown: true}
	}
	for _, m := range f.InstanceTypes {
		if _, err := config.Resolve(m); err != nil {
			return Verdict{Reason: ReasonExpressionFailed, Message: err.Error()}
		}
	}
	return Verdict{}
}

var clusterTags = regexp.MustCompile(`^kubernetes\.io/cluster/[0-9A-Za-z][A-Za-z0-9\-_]*$`)

const (
	// tagsMost is how many tags EC2 takes on an instance.
	tagsMost = 50
	// tagsOurs is how many of them may be ours: the cluster's two, pool, class, claim, launch,
	// hash and its version, and the name.
	tagsOurs = 9
)

// validateTags refuses more tags than there is room for, and tags that only the provider sets. The
// API server refuses the latter as well, but classes may be older than that rule.
func validateTags(c *awsv1.EC2NodeClass) Verdict {
	ours := []string{awsv1.TagEKSClusterName, awsv1.TagNodePool, awsv1.TagNodeClaim, awsv1.TagNodeClass}
	for _, key := range slices.Sorted(maps.Keys(c.Spec.Tags)) {
		if slices.Contains(ours, key) || clusterTags.MatchString(key) {
			return Verdict{Reason: ReasonTags, Message: fmt.Sprintf("spec.tags: %q is not yours to set; take it out", key), Settled: true}
		}
	}
	room := tagsMost - tagsOurs
	if _, named := c.Spec.Tags[awsv1.TagName]; named { // in place of ours
		room++
	}
	if n := len(c.Spec.Tags); n > room {
		return Verdict{Reason: ReasonTags, Message: fmt.Sprintf("spec.tags: EC2 takes %d tags, and %d are ours: take out %d of your %d", tagsMost, tagsMost-room, n-room, n), Settled: true}
	}
	return Verdict{}
}
