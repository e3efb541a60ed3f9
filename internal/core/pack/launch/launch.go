package launch

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
)

// launchRounds bounds how often nodes are launched for the pods that the last round left over.
const launchRounds = 3

// dearness returns what an answer costs, fees included; without bound if it leaves pods out.
func dearness(s *cover.Solution) float64 {
	if len(s.Unplaced) > 0 {
		return math.Inf(1)
	}
	sum := s.Price
	for i := range s.Patterns {
		sum += NodeFee * float64(s.Patterns[i].Times)
	}
	return sum
}

const (
	// ruledSearches bounds the local search where rules divide pods into very many small shares:
	// more of it takes as long as all the rest of a decision, and gains nothing.
	ruledSearches = 250_000
	// ruledPasses and ruledImprove are the passes and rounds there: as many as for ten times the
	// pods without rules.
	ruledPasses, ruledImprove = 4, 200
	// ruledPods is the number of pods from which on the search becomes shorter.
	ruledPods = 2500
)

// Launch plans nodes for the unplaced pods, as far as it can. What the problem does not know, or
// has wrong, is left to first-fit-decreasing. plain is how many pods there were if no rule,
// preference or limit concerned them and all of them were assigned; else 0. bound is a lower
// bound of what nodes for them cost; 0: none came with the answer.
func Launch(s *place.State) (bound float64, plain int) {
	b := newLauncher(s)
	for k, key := range s.Topology.Ledger.Keys() {
		if key == label.Hostname {
			b.hostname, b.host = k, s.Topology.Ledger.NewDomain(k)
		}
	}
	for round := range launchRounds {
		b.noteOfferings()
		pods, free := b.divide()
		if pods == 0 {
			break
		}
		if round == 0 && !free && b.launchBatches() {
			continue
		}
		effort := cover.Default(pods)
		if !free {
			effort.Evaluations = min(effort.Evaluations, ruledSearches/(1+pods/ruledPods))
			effort.Passes, effort.Improve, effort.Repeat = ruledPasses, ruledImprove, 0
		}
		problem := b.problemOf(b.shares, b.conflicts())
		answer := cover.Solve(problem, effort)
		if pods <= smallMax {
			problem.BinFee = 0
			if other := cover.Solve(problem, effort); dearness(&other) < dearness(&answer) {
				answer = other
			}
		}
		if round == 0 && free && len(answer.Unplaced) == 0 {
			plain = pods
			if b.exact {
				bound = answer.Bound
			}
		}
		if !b.openAll(&answer) {
			break
		}
	}
	return bound, plain
}
