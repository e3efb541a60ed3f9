package journal

// Explain returns what the journal knows of the subject: nothing, when no decision
// mentions it.
func (f *File) Explain(s Subject) ([]Answer, error) {
	x := &explainer{subject: s, answers: map[string]*Answer{}}
	// A node has two names, its own and its NodeClaim's; the decision that launched it knows the latter.
	for i := len(f.Decisions) - 1; i >= 0 && x.alias == "" && x.about(KindNode, KindClaim); i-- {
		if ok, err := x.open(&f.Decisions[i]); err != nil {
			return nil, err
		} else if ok {
			x.learnNames()
		}
	}
	for i := range f.Decisions {
		ok, err := x.open(&f.Decisions[i])
		if err != nil {
			return nil, err
		}
		if ok {
			x.pods()
			x.nodes()
			x.pool()
			x.buffers()
		}
	}
	for i := range f.Refusals {
		x.remembered(&f.Refusals[i])
	}
	return x.list(), nil
}
