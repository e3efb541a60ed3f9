package scenario

import (
	"encoding/json"
	"math"
	"slices"
)

// This file judges the rules between pods, each rule by itself.

// counts is what one rule sees of one domain. Owners have the rule; matching pods are
// those that it counts; free ones are matching pods without the rule.
type counts struct {
	boundMatching, boundOwners, boundBoth int
	owners, ownersMatching, free          int // added by the plan
}

func (t *counts) matching() int { return t.boundMatching + t.ownersMatching + t.free }

// rule is one rule and the groups that have it.
type rule struct {
	ruleName
	owners map[int]bool
}

// ruleName is what distinguishes rules.
type ruleName struct {
	kind   string
	key    string
	skew   int
	match  string // the match labels, as text
	pinned string // of spread: the only value of the key that the owners select
}

// checkRules sees that spread, affinity and anti-affinity are kept.
func (j *judge) checkRules() {
	for _, r := range j.rules() {
		domains := j.counts(r)
		switch r.kind {
		case "spread":
			j.checkSpread(r, domains)
		case "affinity":
			j.checkAffinity(r, domains)
		default:
			j.checkAntiAffinity(r, domains)
		}
	}
	j.checkOrder()
}

// rules returns every rule once, with all groups that have it.
func (j *judge) rules() []*rule {
	var all []*rule
	at := map[ruleName]*rule{}
	for g := range j.s.PodGroups {
		for _, own := range j.rulesOf(g) {
			r := at[own]
			if r == nil {
				r = &rule{own, map[int]bool{}}
				at[own] = r
				all = append(all, r)
			}
			r.owners[g] = true
		}
	}
	return all
}

func (j *judge) rulesOf(g int) []ruleName {
	var own []ruleName
	group := &j.s.PodGroups[g]
	for _, sp := range group.Spread {
		if !sp.Soft {
			own = append(own, ruleName{"spread", sp.Key, int(sp.MaxSkew), j.matchText(sp.MatchLabels), group.NodeSelector[sp.Key]})
		}
	}
	for _, t := range group.Affinity {
		own = append(own, ruleName{kind: "affinity", key: t.Key, match: j.matchText(t.MatchLabels)})
	}
	for _, t := range group.AntiAffinity {
		own = append(own, ruleName{kind: "anti-affinity", key: t.Key, match: j.matchText(t.MatchLabels)})
	}
	return own
}

// matchText returns match labels as text and notes which groups have them.
func (j *judge) matchText(labels map[string]string) string {
	b, err := json.Marshal(labels)
	if err != nil {
		return ""
	}
	text := string(b)
	if j.selected[text] != nil {
		return text
	}
	has := make([]bool, len(j.s.PodGroups))
	for g := range has {
		has[g] = true
		for k, v := range labels {
			if got, ok := j.s.PodGroups[g].Labels[k]; !ok || got != v {
				has[g] = false
			}
		}
	}
	j.selected[text] = has
	return text
}

// counts returns how many pods of a rule there are by domain. Owners on a host without the key are at missing.
func (j *judge) counts(r *rule) map[string]*counts {
	out := map[string]*counts{}
	has := j.selected[r.match]
	for _, h := range j.hosts {
		d, ok := h.domain(r.key)
		if !ok {
			d = missing
		}
		t := out[d]
		if t == nil {
			t = &counts{}
			out[d] = t
		}
		for g, n := range h.bound {
			if has[g] {
				t.boundMatching += n
			}
			if r.owners[g] {
				t.boundOwners += n
			}
			if has[g] && r.owners[g] {
				t.boundBoth += n
			}
		}
		for g, n := range h.added {
			switch {
			case r.owners[g]:
				t.owners += n
				if has[g] {
					t.ownersMatching += n
				}
			case has[g]:
				t.free += n
			}
		}
	}
	return out
}

// checkSpread sees whether the pods could have come in some order, each within the skew.
func (j *judge) checkSpread(r *rule, domains map[string]*counts) {
	if t := domains[missing]; t != nil && t.owners > 0 {
		j.violated("spread over %s: %d pods are on nodes without the label", r.key, t.owners)
	}
	if r.key == hostnameKey && !j.s.NodeDomains {
		for _, d := range byDomain(domains) {
			t := domains[d]
			others := t.owners - t.ownersMatching
			if t.ownersMatching > 0 && t.boundMatching+t.ownersMatching > r.skew || others > 0 && t.boundMatching > r.skew {
				j.violated("spread of %s: %s has %d matching pods, at most %d are allowed", r.match, d, t.matching(), r.skew)
			}
		}
		return
	}
	for d := range j.eligible(r) {
		if domains[d] == nil {
			domains[d] = &counts{}
		}
	}
	delete(domains, missing)
	if left := replay(r, domains, j.eligible(r)); left > 0 {
		j.violated("spread of %s over %s: %d pods are in a domain that had too many, whatever the order", r.match, r.key, left)
	}
}

// replay places owners as long as the skew allows it, and other pods only where nothing
// else helps: in the domains that have fewest. It returns how many owners are left.
func replay(r *rule, domains map[string]*counts, eligible map[string]bool) int {
	type state struct{ have, silent, owners, free int }
	at := map[string]*state{}
	for d, t := range domains {
		at[d] = &state{t.boundMatching, t.owners - t.ownersMatching, t.ownersMatching, t.free}
	}
	names := byDomain(at)
	fewest := func() int {
		least := math.MaxInt
		for _, d := range names {
			if eligible[d] {
				least = min(least, at[d].have)
			}
		}
		if least == math.MaxInt {
			return 0
		}
		return least
	}
	for moved := true; moved; {
		moved = false
		low := fewest()
		for _, d := range names {
			s := at[d]
			if s.silent > 0 && s.have-low <= r.skew {
				s.silent, moved = 0, true
			}
			if n := min(s.owners, low+r.skew-s.have); n > 0 && s.silent == 0 {
				s.owners, s.have, moved = s.owners-n, s.have+n, true
			}
		}
		if moved {
			continue
		}
		// Others first where a silent owner waits for the fewest to rise.
		for _, d := range names {
			s := at[d]
			if n := min(s.owners, low+r.skew-s.have); n > 0 {
				s.owners, s.have, moved = s.owners-n, s.have+n, true
			} else if s.have == low && s.free > 0 && eligible[d] {
				s.free, s.have, moved = s.free-1, s.have+1, true
			}
		}
	}
	left := 0
	for _, s := range at {
		left += s.owners + s.silent
	}
	return left
}

// eligible returns the domains of a spread: where nodes are or could be launched, or
// the one that its owners select.
func (j *judge) eligible(r *rule) map[string]bool {
	domains := map[string]bool{}
	note := func(h *host) {
		for _, value := range h.values(r.key) {
			if value != missing && (r.pinned == "" || r.pinned == value) {
				domains[value] = true
			}
		}
	}
	for _, h := range j.hosts {
		note(h)
	}
	if j.s.NodeDomains {
		return domains
	}
	for i := range j.s.NodePools {
		for t := range j.s.InstanceTypes {
			typ := &j.s.InstanceTypes[t]
			for _, o := range typ.Offerings {
				h := &host{typ: typ, pool: j.s.NodePools[i].Name, zone: o.Zone, ct: o.CapacityType, fresh: true}
				if !o.Unavailable && j.labelled(h, -1) {
					note(h)
				}
			}
		}
	}
	return domains
}

// checkAffinity checks that each owner is with a pod that its term selects, or that one domain
// was rightly started.
func (j *judge) checkAffinity(r *rule, domains map[string]*counts) {
	started, anyBound := 0, false
	for _, t := range domains {
		anyBound = anyBound || t.boundMatching > 0
	}
	for _, d := range byDomain(domains) {
		t := domains[d]
		switch {
		case t.owners == 0:
		case d == missing:
			j.violated("affinity to %s: %d pods are on nodes without the label %s", r.match, t.owners, r.key)
		case t.boundMatching > 0 || t.free > 0:
		case t.ownersMatching > 0 && !anyBound && started == 0:
			started++
		default:
			j.violated("affinity to %s: no such pod was in %s %s", r.match, r.key, d)
		}
	}
}

// arrival is pods of a group that the plan puts on one host.
type arrival struct {
	h     *host
	group int
}

// checkOrder sees that the pods with affinity could have come in some order, each to where
// others were that it must be with. Pods without any are taken to be there before.
func (j *judge) checkOrder() {
	var coming []arrival
	there := map[ruleName]map[string]int{} // pods that a term matches, by domain; "" is all
	come := func(h *host, g, n int) {
		for name, at := range there {
			if j.selected[name.match][g] {
				d, _ := h.domain(name.key)
				at[d] += n
				at[""] += n
			}
		}
	}
	for _, r := range j.rules() {
		if r.kind == "affinity" {
			there[r.ruleName] = map[string]int{}
		}
	}
	for _, h := range j.hosts {
		for g, n := range h.bound {
			come(h, g, n)
		}
		for g := range j.s.PodGroups {
			switch n := h.added[g]; {
			case n == 0:
			case len(j.s.PodGroups[g].Affinity) > 0:
				coming = append(coming, arrival{h, g})
			default:
				come(h, g, n)
			}
		}
	}
	for began := true; began; {
		began = false
		for moved := true; moved; {
			waiting := len(coming)
			coming = slices.DeleteFunc(coming, func(a arrival) bool {
				if !j.admit(a, there, false) {
					return false
				}
				come(a.h, a.group, a.h.added[a.group])
				return true
			})
			moved = len(coming) < waiting
		}
		if i := slices.IndexFunc(coming, func(a arrival) bool { return j.admit(a, there, true) }); i >= 0 {
			come(coming[i].h, coming[i].group, coming[i].h.added[coming[i].group])
			coming, began = slices.Delete(coming, i, i+1), true
		}
	}
	for _, a := range coming {
		j.violated("affinity: %d pods of group %d on %s wait for others that wait for them", a.h.added[a.group], a.group, a.h.name)
	}
}

// admit reports whether those are there that pods of a group must be with; first: or one of
// them may be the first of all that its terms match.
func (j *judge) admit(a arrival, there map[ruleName]map[string]int, first bool) bool {
	all, none := true, first
	for _, own := range j.rulesOf(a.group) {
		if own.kind != "affinity" {
			continue
		}
		d, ok := a.h.domain(own.key)
		all = all && ok && there[own][d] > 0
		none = none && ok && there[own][""] == 0 && j.selected[own.match][a.group]
	}
	return all || none
}

// checkAntiAffinity sees that no owner shares a domain with another matching pod, but
// for those that did so before.
func (j *judge) checkAntiAffinity(r *rule, domains map[string]*counts) {
	for _, d := range byDomain(domains) {
		t := domains[d]
		before := t.boundOwners*t.boundMatching - t.boundBoth
		after := (t.boundOwners+t.owners)*t.matching() - t.boundBoth - t.ownersMatching
		if d != missing && after > before {
			j.violated("anti-affinity to %s: broken in %s %s", r.match, r.key, d)
		}
	}
}

// mayJoin reports whether one more pod of a group may come to a host after all others.
func (j *judge) mayJoin(g int, h *host) bool {
	for _, own := range j.rulesOf(g) {
		if !j.keeps(&rule{own, map[int]bool{g: true}}, g, h) {
			return false
		}
	}
	for _, r := range j.rules() {
		if r.kind != "anti-affinity" || !j.selected[r.match][g] {
			continue
		}
		if d, ok := h.domain(r.key); ok {
			if t := j.counts(r)[d]; t != nil && t.boundOwners+t.owners > 0 {
				return false
			}
		}
	}
	return true
}

// keeps reports whether a rule of a group holds for one more pod of it on a host.
func (j *judge) keeps(r *rule, g int, h *host) bool {
	d, ok := h.domain(r.key)
	domains := j.counts(r)
	have, anywhere, least := 0, 0, 0
	if t := domains[d]; t != nil {
		have = t.matching()
	}
	for _, t := range domains {
		anywhere += t.matching()
	}
	self := 0
	if j.selected[r.match][g] {
		self = 1
	}
	switch r.kind {
	case "anti-affinity":
		return !ok || have == 0
	case "affinity":
		return ok && (have > 0 || anywhere == 0 && self == 1)
	}
	if r.key != hostnameKey {
		least = math.MaxInt
		for e := range j.eligible(r) {
			n := 0
			if t := domains[e]; t != nil {
				n = t.matching()
			}
			least = min(least, n)
		}
		if least == math.MaxInt {
			least = 0
		}
	}
	return ok && have+self-least <= r.skew
}
