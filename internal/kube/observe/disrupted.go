package observe

import (
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// Disrupted counts a claim whose removal begins, and the pods on its Node. Reason is one
// of reasons.go; policy is the consolidation policy in snake case, empty for all that is
// not consolidation.
func (m *Metrics) Disrupted(nc *karpenterv1.NodeClaim, reason, policy string, pods int) {
	mode := TerminationMode(nil)
	if grace := nc.Spec.TerminationGracePeriod; grace != nil {
		mode = TerminationMode(&grace.Duration)
	}
	labels := []string{reason, nc.Labels[karpenterv1.NodePoolLabelKey], nc.Labels[karpenterv1.CapacityTypeLabelKey], policy, mode}
	m.NodeClaimsDisrupted.WithLabelValues(labels...).Inc()
	m.PodsDisruptionInitiated.WithLabelValues(labels...).Add(float64(pods))
}
