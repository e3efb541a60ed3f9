package operator

import (
	"fmt"
	"math"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// addAutoscaler adds the settings for clusters in which Cluster Autoscaler works, or did.
func (s *Settings) addAutoscaler(a adder) {
	a.flag(&s.ClusterAutoscalerAnnotations, "cluster-autoscaler-annotations", true, "honor the annotations safe-to-evict=false and pod-scale-up-delay of pods and scale-down-disabled=true of Nodes, all of cluster-autoscaler.kubernetes.io")
	a.number(&s.ExpendablePodsPriorityCutoff, "expendable-pods-priority-cutoff", math.MinInt32, "launch nothing for pods of a lower priority; the default is below all priorities, Cluster Autoscaler's is -10")
}

func (s *Settings) validateAutoscaler() error {
	if n := s.ExpendablePodsPriorityCutoff; n < math.MinInt32 || n > math.MaxInt32 {
		return fmt.Errorf("--expendable-pods-priority-cutoff is %d; it may be %d to %d", n, math.MinInt32, math.MaxInt32)
	}
	return nil
}

func (s *Settings) autoscaler() translate.AutoscalerRules {
	rules := translate.AutoscalerRules{IgnoreAnnotations: !s.ClusterAutoscalerAnnotations}
	if n := s.ExpendablePodsPriorityCutoff; n > math.MinInt32 {
		cutoff := int32(n) //nolint:gosec // validated
		rules.Cutoff = &cutoff
	}
	return rules
}
