package topology

// kind is what a group counts and how it is asked.
type kind uint8

const (
	// spreading counts selected pods on nodes that the owner's policies admit.
	spreading kind = iota
	// attracting counts pods that match all affinity terms of the owner.
	attracting
	// repelling counts pods that match one anti-affinity term of the owner.
	repelling
	// repelled counts the owners of one anti-affinity term. Pods that the term selects
	// keep away from them.
	repelled
)

// group is one count by domain. Classes whose rules look at the same pods share it.
type group struct {
	kind kind
	// onHosts: the key is the hostname, so every node is a domain of its own.
	onHosts bool
	key     int // index into Ledger.keys
	// counts, by domain. Domains beyond its end have no pods.
	counts []int32
	total  int32
	// maybe counts, by domain, further pods whose node may be there. It can be shorter
	// than counts.
	maybe []int32

	// Of spreading only.
	maxSkew, minDomains int32
	// owner is the class whose policies say which nodes count. Classes share a group only
	// when their policies say the same.
	owner                       int
	ignoreAffinity, honorTaints bool
	// present are the domains of nodes that count, possible those in which a node could
	// be launched. launchable reports whether there is any of the latter.
	present, possible []bool
	launchable        bool
	// awaited are the domains that a node may be in that counts and whose domain is
	// undetermined. It can be shorter than present.
	awaited []bool
	// owners counts, by domain, the pods that have this spread constraint.
	owners []int32
	// floor is how many counted pods a node brings that is launched in a possible domain.
	// Domains without an entry: none.
	floor map[int32]int32
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

// mostAt returns the most pods that can be in the place's domain; number is the group's own.
func (g *group) mostAt(p *Place, number int) (most int32) {
	switch d := p.Domain[g.key]; {
	case d >= 0:
		return g.most(d)
	case d == Undetermined:
		for _, m := range p.May[number] {
			most = max(most, g.most(m))
		}
	}
	return most
}

// use is a class's own interest in a group.
type use struct {
	group int
	// self is 1 if the class's own pods are counted there.
	self int32
	// preference is the index of the preference that the rule comes from; -1: it is required.
	preference int
}

// kept reports whether the use applies when preferences before the given one are given up.
func kept(preference, preferencesFrom int) bool {
	return preference < 0 || preference >= preferencesFrom
}

// affinity is a set of terms that one pod must match all of.
type affinity struct {
	uses       []use
	preference int
	// self: the class's own pods match all the terms, so the first may start a domain.
	self bool
}

// classRules is what a class asks of groups, and which groups count its pods.
type classRules struct {
	spread, repelling, repelled []use
	// attracting are all terms of required affinity together, then each preference by itself.
	attracting []affinity
	// counted are the groups in which a pod of the class counts.
	counted []int
	// mindsHosts: one of the uses is on the hostname.
	mindsHosts bool
	// weight is the effort of asking about all rules once.
	weight int
}

// weigh notes how many rules there are.
func (r *classRules) weigh() {
	r.weight = 1
	r.uses(func(use) { r.weight++ })
}

// each calls f for each group that the class asks about or in which its pods count. Some
// come more than once.
func (r *classRules) each(f func(group int)) {
	r.uses(func(u use) { f(u.group) })
	for _, g := range r.counted {
		f(g)
	}
}

// uses calls f for each use that the class has for a group.
func (r *classRules) uses(f func(u use)) {
	for _, uses := range [...][]use{r.spread, r.repelling, r.repelled} {
		for _, u := range uses {
			f(u)
		}
	}
	for i := range r.attracting {
		for _, u := range r.attracting[i].uses {
			f(u)
		}
	}
}

// numbersUnit is how many numbers are copied, or compared in a row, for a unit of effort.
const numbersUnit = 16

// grown returns the list with an element for the domain.
func grown[T any](list []T, domain int32) []T {
	if missing := int(domain) + 1 - len(list); missing > 0 {
		return append(list, make([]T, missing)...)
	}
	return list
}

// moved copies a list to the beginning of memory, of which it may fill so much, and returns the rest.
func moved[T any](memory, list []T, most int) (rest, at []T) {
	return memory[most:], append(memory[:0:most], list...)
}
