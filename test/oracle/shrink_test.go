package oracle

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// triesMost bounds how often a failing scenario is judged again to make it smaller.
const triesMost = 60

// smallest leaves out of a failing scenario whatever it fails without. It returns what
// is left, and how that fails.
func smallest(ctx context.Context, s *scenario, failures []string, judge func(context.Context, *scenario) []string) (*scenario, []string) {
	tries := 0
	for changed := true; changed && tries < triesMost; {
		changed = false
		for step := 0; tries < triesMost && ctx.Err() == nil; step++ {
			smaller, more := s.without(step)
			if !more {
				break
			}
			if smaller == nil {
				continue
			}
			smaller.withoutUnused()
			tries++
			if got := judge(ctx, smaller); len(got) > 0 {
				s, failures, changed = smaller, got, true
				step--
			}
		}
	}
	return s, failures
}

// without returns the scenario without its step'th part; nil when there is nothing to
// leave out at this step, false when the steps are over.
func (s *scenario) without(step int) (smaller *scenario, more bool) {
	c := s.clone()
	for _, drop := range []func(int) (int, bool){
		func(i int) (int, bool) { return cut(&c.Running, i, 0) },
		func(i int) (int, bool) { return cut(&c.Pending, i, 1) },
		func(i int) (int, bool) { return cut(&c.Daemons, i, 0) },
		func(i int) (int, bool) { return cut(&c.LimitRanges, i, 0) },
		func(i int) (int, bool) { return cut(&c.Services, i, 0) },
		func(i int) (int, bool) {
			if i < len(c.Nodes) {
				name := c.Nodes[i].Name
				c.Running = slices.DeleteFunc(c.Running, func(p corev1.Pod) bool { return p.Spec.NodeName == name })
			}
			return cut(&c.Nodes, i, 0)
		},
		func(i int) (int, bool) { return cut(&c.Pools, i, 1) },
		func(i int) (int, bool) { return cut(&c.Types, i, 1) },
		func(i int) (int, bool) {
			if i >= len(plainer) {
				return len(plainer), false
			}
			return len(plainer), plainer[i](c)
		},
	} {
		n, done := drop(step)
		if done {
			return c, true
		}
		if n > step {
			return nil, true
		}
		step -= n
	}
	return nil, false
}

// cut leaves element i out and returns how many there are. It leaves at least least.
func cut[T any](list *[]T, i, least int) (n int, done bool) {
	n = len(*list)
	if i >= n || n <= least {
		return n, false
	}
	*list = slices.Delete(*list, i, i+1)
	return n, true
}

// plainer are the ways to take a constraint from all pods at once; each reports whether
// there was one.
var plainer = []func(*scenario) bool{
	ofPods(func(p *corev1.PodSpec) bool { had := p.NodeSelector != nil; p.NodeSelector = nil; return had }),
	ofPods(func(p *corev1.PodSpec) bool {
		had := p.Affinity != nil && p.Affinity.NodeAffinity != nil
		if had {
			p.Affinity.NodeAffinity = nil
		}
		return had
	}),
	ofPods(func(p *corev1.PodSpec) bool {
		had := p.Affinity != nil && p.Affinity.PodAffinity != nil
		if had {
			p.Affinity.PodAffinity = nil
		}
		return had
	}),
	ofPods(func(p *corev1.PodSpec) bool {
		had := p.Affinity != nil && p.Affinity.PodAntiAffinity != nil
		if had {
			p.Affinity.PodAntiAffinity = nil
		}
		return had
	}),
	ofPods(func(p *corev1.PodSpec) bool {
		had := len(p.TopologySpreadConstraints) > 0
		p.TopologySpreadConstraints = nil
		return had
	}),
	ofPods(func(p *corev1.PodSpec) bool { had := len(p.InitContainers) > 0; p.InitContainers = nil; return had }),
	ofPods(func(p *corev1.PodSpec) bool { had := len(p.Volumes) > 0; p.Volumes = nil; return had }),
	ofPods(func(p *corev1.PodSpec) bool { had := len(p.Tolerations) > 0; p.Tolerations = nil; return had }),
	ofPods(func(p *corev1.PodSpec) bool { had := p.RuntimeClassName != nil; p.RuntimeClassName = nil; return had }),
	ofPods(func(p *corev1.PodSpec) bool { had := p.Resources != nil; p.Resources = nil; return had }),
	ofPods(func(p *corev1.PodSpec) bool { had := p.PriorityClassName != ""; p.PriorityClassName = ""; return had }),
	func(s *scenario) (had bool) {
		for i := range s.Pools {
			had = had || len(s.Pools[i].Spec.Template.Spec.Requirements) > 0
			s.Pools[i].Spec.Template.Spec.Requirements = nil
		}
		return had
	},
	func(s *scenario) (had bool) {
		for i := range s.Types {
			had = had || s.Types[i].Attach != nil || s.Types[i].Reserved != nil
			s.Types[i].Attach, s.Types[i].Reserved = nil, nil
		}
		return had
	},
	func(s *scenario) (had bool) {
		for i := range s.Pools {
			had = had || len(s.Pools[i].Spec.Template.Spec.Taints) > 0
			s.Pools[i].Spec.Template.Spec.Taints = nil
		}
		return had
	},
}

// ofPods applies a change to the pods that wait, those that run and the daemons'.
func ofPods(change func(*corev1.PodSpec) bool) func(*scenario) bool {
	return func(s *scenario) (had bool) {
		each := func(p *corev1.PodSpec) { had = change(p) || had }
		for i := range s.Pending {
			each(&s.Pending[i].Spec)
		}
		for i := range s.Running {
			each(&s.Running[i].Spec)
		}
		for i := range s.Daemons {
			each(&s.Daemons[i].Spec.Template.Spec)
		}
		return had
	}
}
