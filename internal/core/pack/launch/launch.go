package launch

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
)

// This file and the next two buy nodes for all pods together: share.go says which pods
// go to which domain, this file states the problem for core/cover, open.go turns its
// answer into launches, pod by pod and rule by rule. What the classes' model got wrong, or
// does not know, is left to first-fit.

// launchRounds bounds how often what was left over is launched for once more.
const launchRounds = 3

// dearness returns what an answer costs, fees included; more than any other if it leaves
// pods out.
func dearness(s *cover.Solution) float64 {
	if len(s.Unplaced) > 0 {
		return math.Inf(1)
	}
	sum := s.Price
	for i := range s.Patterns {
		sum += nodeFee * float64(s.Patterns[i].Times)
	}
	return sum
}

// ruledSearches bounds the local search where rules divide pods into very many small classes:
// more of it takes as long as all the rest, and gains nothing.
const (
	ruledSearches = 250_000
	// Of passes and rounds they need as many as ten times the pods without rules do.
	ruledPasses, ruledImprove = 4, 200
	// ruledPods is from how many pods on there are ever fewer looks.
	ruledPods = 2500
)

// Launch opens launches for the pods that are left. plain is how many pods it had, where no
// rule, preference or limit was in the way and all of them found a place. The bound is of what
// nodes for them cost; 0 where none came with the answer.
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
			effort.Passes, effort.Improve = ruledPasses, ruledImprove
		}
		problem := b.problem()
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
