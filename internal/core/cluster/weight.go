package cluster

// Weight returns how many alternatives, requirements and rules the constraints have, which a
// decision has to check for each pod; at least one. Of two pods the heavier one takes longer.
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

// LabelWeight is the part of Weight that is compared with labels, taints and ports of a node.
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
