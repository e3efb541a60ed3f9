package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// What users do with static NodePools: those with spec.replicas. StaticPools is that there are any.
const (
	StaticPools   Fault = "static-pools"
	StaticScale   Fault = "static-scale"
	StaticLimit   Fault = "static-limit"
	StaticEdited  Fault = "static-template-edited"
	StaticDeleted Fault = "static-pool-deleted"
)

const (
	// nodesLimit is the limit that a static pool may have.
	nodesLimit corev1.ResourceName = "nodes"
	// staticMost is the most nodes of a static pool.
	staticMost = 6
)

func newStatics(w *World, seed uint64) *statics {
	return &statics{beside: newBeside(w, seed, 0x73746174, StaticPools)}
}

// begin makes one or two static pools, and has users change them now and then.
func (s *statics) begin() {
	if !s.on {
		return
	}
	for i := range s.upTo(1, 2) {
		np := s.makePool(fmt.Sprintf("static-%d", i))
		s.pools = append(s.pools, &staticPool{np: np})
		_ = s.w.api.Create(np.DeepCopy()) // names are unique
		s.ask(np)
	}
	s.w.api.Watch(s.observe)
	s.w.every(checkEvery, s.check)
	s.again(StaticScale, 8*time.Minute, s.scale)
	s.again(StaticLimit, 25*time.Minute, s.limit)
	s.again(StaticEdited, 40*time.Minute, s.edit)
	s.again(StaticDeleted, 3*time.Hour, s.remove)
}

// makePool returns a static pool. The nodes of some take pods of others, those of others are tainted.
func (s *statics) makePool(name string) *karpenterv1.NodePool {
	np := poolOf(name)
	t := &np.Spec.Template.Spec
	if s.chance(0.8) {
		t.Requirements = append(t.Requirements, requirement(kwokv1alpha1.InstanceCPULabelKey, one(&s.beside, "2", "4", "8")))
	}
	if s.chance(0.4) {
		t.Requirements = append(t.Requirements, requirement(karpenterv1.CapacityTypeLabelKey, one(&s.beside, "spot", "on-demand")))
	}
	if s.chance(0.4) {
		t.Taints = []corev1.Taint{{Key: "example.com/kept", Effect: corev1.TaintEffectNoSchedule}}
	}
	if s.chance(0.3) {
		life := s.between(time.Hour, 8*time.Hour).Round(time.Minute)
		if s.w.opts.Ordinary {
			life *= age
		}
		t.ExpireAfter = karpenterv1.NillableDuration{Duration: &life}
	}
	if s.chance(0.5) {
		t.TerminationGracePeriod = &karpenterv1.Duration{Duration: s.between(5*time.Minute, 30*time.Minute).Round(time.Second)}
	}
	np.Spec.Disruption = karpenterv1.Disruption{
		ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpenterv1.NillableDuration{Duration: new(time.Duration(0))},
		Budgets:             []karpenterv1.Budget{{Nodes: one(&s.beside, "10%", "1", "2", "100%")}},
	}
	replicas := s.upTo(1, staticMost)
	np.Spec.Replicas = new(int64(replicas))
	if s.chance(0.6) {
		np.Spec.Limits = nodesList(s.upTo(replicas, replicas+2))
	}
	return np
}

func nodesList(n int) corev1.ResourceList {
	return corev1.ResourceList{nodesLimit: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// poolOf returns a NodePool of the class that there is.
func poolOf(name string) *karpenterv1.NodePool {
	np := &karpenterv1.NodePool{}
	np.Name = name
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"}
	np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{}
	return np
}

func requirement(key, value string) karpenterv1.NodeSelectorRequirementWithMinValues {
	return karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
}

// change has a user change a pool. A pool that is not there is made as it is wanted, later.
func (s *statics) change(do func(np *karpenterv1.NodePool)) {
	p := one(&s.beside, s.pools...)
	np := p.np.DeepCopy()
	do(np)
	p.np = np
	if had, there := cluster.Find[*karpenterv1.NodePool](s.w.api, "", np.Name); there && had.DeletionTimestamp == nil {
		cluster.Edit(s.w.api, had, func(is *karpenterv1.NodePool) { is.Spec = *np.Spec.DeepCopy() })
	}
	s.ask(np)
}

func (s *statics) scale() {
	s.change(func(np *karpenterv1.NodePool) { np.Spec.Replicas = new(int64(s.upTo(0, staticMost))) })
}

// limit gives a pool another limit, which may be less than its replicas, or none.
func (s *statics) limit() {
	s.change(func(np *karpenterv1.NodePool) {
		np.Spec.Limits = nil
		if s.chance(0.8) {
			np.Spec.Limits = nodesList(s.upTo(1, staticMost+2))
		}
	})
}

// edit has the nodes of a pool drift.
func (s *statics) edit() {
	s.change(func(np *karpenterv1.NodePool) {
		np.Spec.Template.Labels = map[string]string{"edition": fmt.Sprint(s.upTo(0, 99))}
	})
}

// remove takes a pool away, and makes it again some time later.
func (s *statics) remove() {
	name := one(&s.beside, s.pools...).np.Name
	if np, there := cluster.Find[*karpenterv1.NodePool](s.w.api, "", name); there {
		s.w.api.Delete(np, 0)
		s.w.after(s.between(time.Second, 10*time.Minute), s.end)
	}
}

// end makes the pools that are not there.
func (s *statics) end() {
	for _, p := range s.pools {
		if _, there := cluster.Find[*karpenterv1.NodePool](s.w.api, "", p.np.Name); !there {
			_ = s.w.api.Create(p.np.DeepCopy()) // there is none
			s.ask(p.np)
		}
	}
}

// of returns a static pool by its name; nil: it is none.
func (s *statics) of(name string) *staticPool {
	for _, p := range s.pools {
		if p.np.Name == name {
			return p
		}
	}
	return nil
}
