package cluster

// Weight returns how many alternatives, requirements and rules a pod of the shape has: what a
// decision has to look at for it, one at the least. Of two pods the heavier takes longer.
func (s *Shape) Weight() int {
	w := s.LabelWeight() + len(s.Wishes)
	for i := range s.Spread {
		w += s.Spread[i].Selector.weight()
	}
	for _, terms := range [][]PodTerm{s.Affinity, s.AntiAffinity} {
		for i := range terms {
			w += terms[i].weight()
		}
	}
	for i := range s.Wishes {
		switch wish := &s.Wishes[i]; {
		case wish.Spread != nil:
			w += wish.Spread.Selector.weight()
		case wish.Affinity != nil:
			w += wish.Affinity.weight()
		case wish.AntiAffinity != nil:
			w += wish.AntiAffinity.weight()
		default:
			w += wish.Node.Weight()
		}
	}
	return w
}

// LabelWeight is the part of Weight that labels, taints and ports of one node are held against.
func (s *Shape) LabelWeight() int {
	w := 1 + len(s.Tolerations) + len(s.Ports)
	for _, t := range s.Terms {
		w += 1 + t.Weight()
	}
	return w
}

func (t *PodTerm) weight() int {
	return t.Selector.weight() + t.NamespaceSelector.weight() + len(t.Namespaces)
}

func (s *Selector) weight() int { return 1 + s.Requirements.Weight() }
