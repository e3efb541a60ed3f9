package topology

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Miss is a rule that is not kept. The zero Miss is none. It becomes a verdict only when
// somebody wants to read it: most are found while looking for another place.
type Miss struct {
	reason verdict.Reason
	// format has a verb for the key and, where there is a skew, for it and its maximum.
	format    string
	key       string
	skew, max int32
}

// IsYes reports whether every rule is kept.
func (m Miss) IsYes() bool { return m.reason == verdict.OK }

// Verdict returns the miss in words.
func (m Miss) Verdict() verdict.Verdict {
	switch {
	case m.IsYes():
		return verdict.Verdict{}
	case m.max > 0:
		return verdict.Of(m.reason, "", m.format, m.key, m.skew, m.max)
	default:
		return verdict.Of(m.reason, "", m.format, m.key)
	}
}

// Check reports whether one more pod of the class may go to the place. Preferences before the
// given one have been given up. Rules on keys whose domain is Open are passed over: they
// are asked again once it is settled.
//
// A courteous class also keeps to the spreads of others that count its pods, though it
// need not: kube-scheduler may bind it before those for whom it would be one too many. On a
// machine that has none of those nobody minds, for they can have one of their own.
func (l *Ledger) Check(class int, at *Place, preferencesFrom int, respectsSpread bool) Miss {
	if respectsSpread {
		l.meter.Spend(len(l.rules[class].counted))
		for _, g := range l.rules[class].counted {
			gr := &l.groups[g]
			if gr.kind == spreading && at.counts(g) && at.Domain[gr.key] >= 0 && (!gr.buyable || !l.isHostname(gr.key) || gr.owners[at.Domain[gr.key]] > 0) {
				if v := l.spread(&use{group: g, self: 1}, at, 0); !v.IsYes() {
					return v
				}
			}
		}
	}
	return l.judge(class, at, preferencesFrom, false)
}

// Holds reports whether a pod of the class that has been counted at the place may be
// there, all things considered.
func (l *Ledger) Holds(class int, at *Place) Miss {
	return l.judge(class, at, math.MaxInt, true)
}

// Admit reports whether a pod of the class that has been counted at the place breaks no
// rule there, neither its own nor a spread of others.
func (l *Ledger) Admit(class int, at *Place) bool {
	l.meter.Spend(len(l.rules[class].counted))
	for _, g := range l.rules[class].counted {
		if gr := &l.groups[g]; gr.kind == spreading && at.counts(g) && at.Domain[gr.key] >= 0 {
			if !l.spread(&use{group: g, self: 1}, at, 1).IsYes() {
				return false
			}
		}
	}
	return l.Holds(class, at).IsYes()
}

// judge applies every rule. counted: the pod is in the counts already.
func (l *Ledger) judge(class int, at *Place, preferencesFrom int, counted bool) Miss {
	r := &l.rules[class]
	l.meter.Spend(r.weight)
	kept := func(preference int) bool { return preference < 0 || preference >= preferencesFrom }
	already := func(u *use) int32 {
		if counted {
			return u.self
		}
		return 0
	}
	for i := range r.spread {
		if u := &r.spread[i]; kept(u.preference) {
			if v := l.spread(u, at, already(u)); !v.IsYes() {
				return v
			}
		}
	}
	for i := range r.attracting {
		if a := &r.attracting[i]; kept(a.preference) {
			if v := l.attract(a, at, counted); !v.IsYes() {
				return v
			}
		}
	}
	for i := range r.repelling {
		u := &r.repelling[i]
		if g := &l.groups[u.group]; kept(u.preference) && l.at(u.group, at)-already(u) > 0 {
			return Miss{reason: verdict.AntiAffinityUnmet, format: "anti-affinity: its %s has a pod that it must not be with", key: l.keys[g.key]}
		}
	}
	for i := range r.repelled {
		u := &r.repelled[i]
		g := &l.groups[u.group]
		n := l.at(u.group, at)
		if n > 1 || n == 1 && !(counted && l.owns(class, u.group)) { // it may be the pod itself
			return Miss{reason: verdict.AntiAffinityUnmet, format: "anti-affinity: its %s has a pod that does not want to be with it", key: l.keys[g.key]}
		}
	}
	return Miss{}
}

// at returns the most pods that can be in the place's domain.
func (l *Ledger) at(group int, p *Place) (most int32) {
	g := &l.groups[group]
	switch d := p.Domain[g.key]; {
	case d >= 0:
		return g.most(d)
	case d == Undetermined:
		for _, m := range p.May[group] {
			most = max(most, g.most(m))
		}
	}
	return most
}

// most returns the most pods that can be in a domain.
func (g *group) most(domain int32) int32 {
	if int(domain) < len(g.maybe) {
		return g.sure(domain) + g.maybe[domain]
	}
	return g.sure(domain)
}

// sure returns how many pods surely are in a domain.
func (g *group) sure(domain int32) int32 {
	if int(domain) < len(g.counts) {
		return g.counts[domain]
	}
	return 0
}

// owns reports whether pods of the class count in the group.
func (l *Ledger) owns(class, group int) bool {
	l.meter.Spend(len(l.rules[class].counted) / numbersUnit)
	for _, g := range l.rules[class].counted {
		if g == group {
			return true
		}
	}
	return false
}

// spread reports whether the skew stays within bounds. already is 1 if the pod is counted.
func (l *Ledger) spread(u *use, at *Place, already int32) (miss Miss) {
	g := &l.groups[u.group]
	switch d := at.Domain[g.key]; d {
	case Open:
	case None:
		return Miss{reason: verdict.SpreadUnmet, format: "spread: the node has no label %s", key: l.keys[g.key]}
	case Undetermined:
		for _, m := range at.May[u.group] {
			if miss = l.skew(u, at, m, already); !miss.IsYes() {
				return miss
			}
		}
	default:
		return l.skew(u, at, d, already)
	}
	return miss
}

// skew is spread for a place in the domain.
func (l *Ledger) skew(u *use, at *Place, domain, already int32) Miss {
	g := &l.groups[u.group]
	if skew := g.most(domain) - already + u.self - l.fewest(u.group, at, domain); skew > g.maxSkew {
		return Miss{reason: verdict.SpreadUnmet, format: "spread over %s: the skew would be %d, at most %d is allowed", key: l.keys[g.key], skew: skew, max: g.maxSkew}
	}
	return Miss{}
}

// fewest returns the least count of any domain that a pod could be in, which that of its
// place is. A new machine is a new hostname, so under that key there is always one with none.
func (l *Ledger) fewest(group int, at *Place, domain int32) int32 {
	g := &l.groups[group]
	if g.buyable && !l.soldOut && l.isHostname(g.key) && len(g.floor) == 0 {
		return 0
	}
	l.meter.Spend(len(g.counts) / numbersUnit)
	least, domains, own := int32(math.MaxInt32), int32(0), -1
	if at.counts(group) {
		own = int(domain)
	}
	for d := range g.counts {
		switch {
		case g.present[d] || d == own:
			domains++
			least = min(least, g.counts[d])
		case d < len(g.awaited) && g.awaited[d]:
			least = min(least, g.counts[d])
		case g.possible[d] && !l.soldOut:
			least = min(least, g.floor[int32(d)])
		}
	}
	if domains < g.minDomains || least == math.MaxInt32 {
		return 0
	}
	return least
}

// attract reports whether pods that match all the terms are in each term's domain. Where
// there are none anywhere, a pod that matches itself may be the first.
func (l *Ledger) attract(a *affinity, at *Place, counted bool) Miss {
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
			return Miss{reason: verdict.AffinityUnmet, format: "affinity: the node has no label %s", key: l.keys[g.key]}
		case d >= 0 && g.sure(d)-self <= 0 || d == Undetermined && slices.ContainsFunc(at.May[a.uses[i].group], func(m int32) bool { return g.sure(m) == 0 }):
			found, missing = false, l.keys[g.key]
		}
		first = first && g.total-self <= 0
	}
	if !found && !first {
		return Miss{reason: verdict.AffinityUnmet, format: "affinity: its %s has no pod that it must be with", key: missing}
	}
	return Miss{}
}

// Attracted reports whether those that a pod of the class must be with are where the place
// is; first: or the pod may be the first of them.
func (l *Ledger) Attracted(class int, at *Place, first bool) bool {
	r := &l.rules[class]
	for i := range r.attracting {
		a := r.attracting[i]
		if a.self = a.self && first; a.preference < 0 && !l.attract(&a, at, false).IsYes() {
			return false
		}
	}
	return true
}

// MayBeAttracted reports whether those may be where the place is that a pod of the class must
// be with: machines of which the cloud has yet to say where they are, are there.
func (l *Ledger) MayBeAttracted(class int, at *Place) bool {
	return !slices.ContainsFunc(l.rules[class].attracting, func(a affinity) bool {
		return a.preference < 0 && slices.ContainsFunc(a.uses, func(u use) bool { return l.at(u.group, at) == 0 })
	})
}

// Appeal orders the domains of a key for a pod of the class: less is better. Domains that
// affinity pulls to come first, then those with fewer pods to spread from.
func (l *Ledger) Appeal(class, key int, domain int32) int64 {
	r := &l.rules[class]
	var appeal int64
	for i := range r.attracting {
		for _, u := range r.attracting[i].uses {
			if g := &l.groups[u.group]; g.key == key && g.sure(domain) == 0 {
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
