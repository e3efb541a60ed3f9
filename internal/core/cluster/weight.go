package cluster

// Weight returns how many alternatives, requirements and rules a pod of the constraints has: what a
// decision has to look at for it, one at the least. Of two pods the heavier takes longer.
func (s *Constraints) Weight() int {
	w := s.LabelWeight() + len(s.Preferences)
	for i := range s.Spread {
		w += s.Spread[i].Selector.weight()
	}
	for _, terms := range [][]PodTerm{s.Affinity, s.AntiAffinity} {
		for i := range terms {
			w += terms[i].weight()
		}
	}
	for i := range s.Preferences {
		switch preference := &s.Preferences[i]; {
		case preference.Spread != nil:
			w += preference.Spread.Selector.weight()
		case preference.Affinity != nil:
			w += preference.Affinity.weight()
		case preference.AntiAffinity != nil:
			w += preference.AntiAffinity.weight()
		default:
			w += preference.Node.Weight()
		}
	}
	return w
}

// LabelWeight is the part of Weight that labels, taints and ports of one node are held against.
func (s *Constraints) LabelWeight() int {
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
