package cover

// correct packs everything anew a number of times, each time with the prices of those
// items raised that came out dear (sequential value correction), and keeps the best there is.
func (s *solver) correct(passes int) {
	n := len(s.m.kinds)
	s.value = append(s.value[:0], s.tariff.value...)
	s.estimates()
	paid, weight := make([]float64, n), make([]float64, n)
	for pass := range passes {
		if s.greedy.even = evenness(pass); s.hasAscended {
			s.greedy.strict = strictness(pass)
		}
		s.trial.reset()
		s.valueItems()
		s.greedy.everything()
		s.greedy.cover(&s.trial, s.estimate, inf)
		if s.bestValue == nil || s.trial.better(&s.best) {
			s.best.copyFrom(&s.trial)
			s.bestValue = append(s.bestValue[:0], s.value...)
		}
		if pass+1 < passes {
			s.learn(&s.trial, paid, weight)
		}
	}
}

// evenness varies how items are chosen from pass to pass: none suits every problem.
func evenness(pass int) float64 {
	switch pass % 4 {
	case 0:
		return 0.6
	case 1:
		return 0.3
	case 2:
		return 1
	default:
		return 0.15
	}
}

// valueItems hands the prices to the filler.
func (s *solver) valueItems() {
	for k, v := range s.value {
		s.greedy.value[k] = float32(max(v, s.least))
	}
}

// estimates returns the value for money of each bin from what its room is worth.
func (s *solver) estimates() {
	s.estimate = make([]float64, len(s.m.bins))
	for i := range s.m.bins {
		s.estimate[i] = s.tariff.held(int32(i)) / max(s.m.bins[i].price, tiny)
	}
}

// learn raises the prices of kinds whose bins held less value than they cost.
func (s *solver) learn(p *packing, paid, weight []float64) {
	clear(paid)
	clear(weight)
	for _, l := range p.loads {
		held := 0.0
		for _, it := range p.of(l) {
			held += s.value[it.Class] * float64(it.N)
		}
		dear := s.m.bins[l.bin].price / max(held, s.least)
		for _, it := range p.of(l) {
			n := float64(it.N * l.times)
			paid[it.Class] += n * dear
			weight[it.Class] += n
		}
	}
	for k := range s.value {
		if weight[k] == 0 {
			continue
		}
		s.value[k] *= 0.5 + 0.5*paid[k]/weight[k]
	}
}

// strictness varies likewise how much it counts that a kind is dearer in one bin than in another.
func strictness(pass int) float64 {
	switch pass % 4 {
	case 0:
		return 1
	case 1:
		return 2
	case 2:
		return 0
	default:
		return 1
	}
}
