package topology

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Check tells whether one more pod of the class may go to the place. Wishes before the
// given one have been given up. Rules on keys whose domain is Open are passed over: they
// are asked again once it is settled.
//
// A courteous class also keeps to the spreads of others that count its pods, though it
// need not: kube-scheduler may bind it before those for whom it would be one too many.
func (l *Ledger) Check(class int, at *Place, wishesFrom int, courteous bool) verdict.Verdict {
	if courteous {
		for _, g := range l.rules[class].counted {
			if gr := &l.groups[g]; gr.kind == spreading && at.counts(g) && at.Domain[gr.key] >= 0 {
				if v := l.spread(&use{group: g, self: 1}, at, 0); !v.IsYes() {
					return v
				}
			}
		}
	}
	return l.judge(class, at, wishesFrom, false)
}

// Holds tells whether a pod of the class that has been counted at the place may be
// there, all things considered.
func (l *Ledger) Holds(class int, at *Place) verdict.Verdict {
	return l.judge(class, at, math.MaxInt, true)
}

// judge applies every rule. counted: the pod is in the counts already.
func (l *Ledger) judge(class int, at *Place, wishesFrom int, counted bool) verdict.Verdict {
	r := &l.rules[class]
	kept := func(wish int) bool { return wish < 0 || wish >= wishesFrom }
	already := func(u *use) int32 {
		if counted {
			return u.self
		}
		return 0
	}
	for i := range r.spread {
		if u := &r.spread[i]; kept(u.wish) {
			if v := l.spread(u, at, already(u)); !v.IsYes() {
				return v
			}
		}
	}
	for i := range r.attracting {
		if a := &r.attracting[i]; kept(a.wish) {
			if v := l.attract(a, at, counted); !v.IsYes() {
				return v
			}
		}
	}
	for i := range r.repelling {
		u := &r.repelling[i]
		if g := &l.groups[u.group]; kept(u.wish) && g.at(at)-already(u) > 0 {
			return verdict.Of(verdict.AntiAffinityUnmet, "", "anti-affinity: its %s has a pod that it must not be with", l.keys[g.key])
		}
	}
	for i := range r.repelled {
		u := &r.repelled[i]
		g := &l.groups[u.group]
		own := int32(0)
		if counted && l.owns(class, u.group) {
			own = 1
		}
		if g.at(at)-own > 0 {
			return verdict.Of(verdict.AntiAffinityUnmet, "", "anti-affinity: its %s has a pod that does not want to be with it", l.keys[g.key])
		}
	}
	return verdict.Verdict{}
}

// at returns the count in the place's domain.
func (g *group) at(p *Place) int32 {
	if d := p.Domain[g.key]; d >= 0 {
		return g.counts[d]
	}
	return 0
}

func (l *Ledger) owns(class, group int) bool {
	for _, g := range l.rules[class].counted {
		if g == group {
			return true
		}
	}
	return false
}

// spread tells whether the skew stays within bounds. already is 1 if the pod is counted.
func (l *Ledger) spread(u *use, at *Place, already int32) verdict.Verdict {
	g := &l.groups[u.group]
	d := at.Domain[g.key]
	switch {
	case d == Open:
		return verdict.Verdict{}
	case d == None:
		return verdict.Of(verdict.SpreadUnmet, "", "spread: the node has no label %s", l.keys[g.key])
	}
	if skew := g.counts[d] - already + u.self - l.fewest(g); skew > g.maxSkew {
		return verdict.Of(verdict.SpreadUnmet, "", "spread over %s: the skew would be %d, at most %d is allowed", l.keys[g.key], skew, g.maxSkew)
	}
	return verdict.Verdict{}
}

// fewest returns the least count of any domain that a pod could be in. A new machine is
// a new hostname, so under that key there is always one with none.
func (l *Ledger) fewest(g *group) int32 {
	least, domains := int32(math.MaxInt32), int32(0)
	buyable := false
	for d := range g.counts {
		if g.present[d] {
			domains++
		}
		buyable = buyable || g.possible[d]
		if g.present[d] || g.possible[d] {
			least = min(least, g.counts[d])
		}
	}
	if domains < g.minDomains || least == math.MaxInt32 || buyable && l.isHostname(g.key) {
		return 0
	}
	return least
}

// attract tells whether pods that match all the terms are in each term's domain. Where
// there are none anywhere, a pod that matches itself may be the first.
func (l *Ledger) attract(a *affinity, at *Place, counted bool) verdict.Verdict {
	self := int32(0)
	if counted && a.self {
		self = 1
	}
	found, first := true, a.self
	var missing string
	for i := range a.uses {
		g := &l.groups[a.uses[i].group]
		switch d := at.Domain[g.key]; {
		case d == None:
			return verdict.Of(verdict.AffinityUnmet, "", "affinity: the node has no label %s", l.keys[g.key])
		case d >= 0 && g.counts[d]-self <= 0:
			found, missing = false, l.keys[g.key]
		}
		first = first && g.total-self <= 0
	}
	if !found && !first {
		return verdict.Of(verdict.AffinityUnmet, "", "affinity: its %s has no pod that it must be with", missing)
	}
	return verdict.Verdict{}
}

// Appeal orders the domains of a key for a pod of the class: less is better. Domains that
// affinity pulls to come first, then those with fewer pods to spread from.
func (l *Ledger) Appeal(class, key int, domain int32) int64 {
	r := &l.rules[class]
	var appeal int64
	for i := range r.attracting {
		for _, u := range r.attracting[i].uses {
			if g := &l.groups[u.group]; g.key == key && g.counts[domain] == 0 {
				appeal += 1 << 32
			}
		}
	}
	for _, u := range r.spread {
		if g := &l.groups[u.group]; g.key == key {
			appeal += int64(g.counts[domain])
		}
	}
	return appeal
}
