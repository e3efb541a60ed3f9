package translate

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// ebsZone is the label that the CSI driver of EBS gives a Node: its zone, once the driver
// runs there. Volumes name it, and no node has it that is yet to be launched.
const ebsZone = "topology.ebs.csi.aws.com/zone"

// NormalKey returns the current name of a label key that Kubernetes once had another for, or
// that somebody else has for the same.
func NormalKey(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone, ebsZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	case "beta.kubernetes.io/arch":
		return corev1.LabelArchStable
	case "beta.kubernetes.io/os":
		return corev1.LabelOSStable
	case corev1.LabelInstanceType:
		return corev1.LabelInstanceTypeStable
	default:
		return key
	}
}

// Requirements returns the core's form of a NodePool's or NodeClaim's requirements. The
// error names every key that could not be read; the others are returned all the same.
func Requirements(list []karpenterv1.NodeSelectorRequirementWithMinValues) (label.Requirements, error) {
	out := label.Requirements{}
	var errs []error
	for _, r := range list {
		q, err := label.Parse(label.Operator(r.Operator), r.Values)
		if err != nil {
			errs = append(errs, fmt.Errorf("requirement %s: %w", r.Key, err))
			continue
		}
		if r.MinValues != nil {
			q.MinValues = *r.MinValues
		}
		out.Add(NormalKey(r.Key), q)
	}
	return out, errors.Join(errs...)
}

// ClaimRequirements returns all that the node of a NodeClaim must be.
func ClaimRequirements(nc *karpenterv1.NodeClaim) (label.Requirements, error) {
	return Requirements(nc.Spec.Requirements)
}

// RequirementList is the inverse of Requirements, sorted by key. A key that is bounded
// on both sides becomes two entries; excluded values within bounds become a third. "Exists but not these"
// is two entries too.
func RequirementList(r label.Requirements) []karpenterv1.NodeSelectorRequirementWithMinValues {
	var list []karpenterv1.NodeSelectorRequirementWithMinValues
	for _, key := range r.Keys() {
		q := r[key]
		var minValues *int
		if q.MinValues > 0 {
			minValues = &q.MinValues
		}
		add := func(op corev1.NodeSelectorOperator, values ...string) {
			list = append(list, karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values, MinValues: minValues})
		}
		lower, upper, hasLower, hasUpper := q.Bounds()
		if hasLower {
			add(operatorGte, strconv.FormatInt(lower, 10))
		}
		if hasUpper {
			add(operatorLte, strconv.FormatInt(upper, 10))
		}
		if q.Operator() == label.OpNotIn && !q.AllowsAbsence() && !hasLower && !hasUpper {
			add(corev1.NodeSelectorOpExists)
		}
		if op := q.Operator(); op != label.OpExists || (!hasLower && !hasUpper) {
			add(corev1.NodeSelectorOperator(op), q.Values()...)
		}
	}
	return list
}

const (
	operatorGte corev1.NodeSelectorOperator = "Gte"
	operatorLte corev1.NodeSelectorOperator = "Lte"
)
