package simulate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// admission is what an API server would fill new pods in by.
type admission struct {
	runtimes map[string]*nodev1.RuntimeClass
	ranges   map[string][]*corev1.LimitRange // by namespace
	// missing are the runtime classes that pods name and that are not there.
	missing map[string]bool
}

func newAdmission() admission {
	return admission{
		runtimes: map[string]*nodev1.RuntimeClass{}, ranges: map[string][]*corev1.LimitRange{}, missing: map[string]bool{},
	}
}

// admit fills in what a new pod does not say.
func (a *admission) admit(p *corev1.Pod) {
	var class *nodev1.RuntimeClass
	if name := p.Spec.RuntimeClassName; name != nil {
		if class = a.runtimes[*name]; class == nil {
			a.missing[*name] = true
		}
	}
	ranges := a.ranges[p.Namespace]
	slices.SortFunc(ranges, func(x, y *corev1.LimitRange) int { return cmp.Compare(x.Name, y.Name) })
	translate.Admit(p, class, ranges)
}
