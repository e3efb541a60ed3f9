package translate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

func condition(nc *karpenterv1.NodeClaim, conditionType string) (metav1.Condition, bool) {
	for _, c := range nc.Status.Conditions {
		if c.Type == conditionType {
			return c, true
		}
	}
	return metav1.Condition{}, false
}

func conditionTrue(nc *karpenterv1.NodeClaim, conditionType string) bool {
	c, _ := condition(nc, conditionType)
	return c.Status == metav1.ConditionTrue
}
