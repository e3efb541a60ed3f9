package topology

import (
	"maps"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// This file reads the rules of classes that do not matter: their pods run, and nobody asks where
// these could go. Of their rules, all that counts is from whom they keep others away, and over
// which hosts they are spread. Anybody who may create pods can have thousands of such rules, and
// pods that are to be placed must not pay for them. So reading them has a share of the effort,
// and what exceeds it is read in short: many rules make one group.

const (
	// manyRules is from what weight on the rules of one class are read in short.
	manyRules = 64
	// runningShare is the part of the effort that is left (one in so many) for reading rules one
	// by one. Reading them in short may take as much again.
	runningShare = 4
	// plainAway is how many groups a class may keep away from before further ones are read in short.
	plainAway = 8
	// shortGroups bounds how many groups are made in short for all rules.
	shortGroups = 6
)

// running reads the rules of classes that do not matter.
type running struct {
	// plainLeft and shortLeft are the units that are left for reading one by one, and in short.
	plainLeft, shortLeft int64
	groups               int // made in short
}

// addRunning adds the rules of the classes that do not matter. Rules that concern no class that
// matters are left out.
func (b *builder) addRunning() {
	var r *running
	for c, sh := range b.ledger.constraintSets {
		if b.matters[c] || len(sh.Spread)+len(sh.AntiAffinity) == 0 {
			continue
		}
		if r == nil {
			r = newRunning(b)
		}
		if r.plainLeft <= 0 || len(sh.AntiAffinity) > manyRules || sh.Weight()-sh.LabelWeight() > manyRules {
			r.addInShort(b, c)
			continue
		}
		before := b.ledger.meter.Spent()
		for i := range sh.Spread {
			b.addSpread(c, &sh.Spread[i], -1)
		}
		for i := range sh.AntiAffinity {
			if few := r.addOwners(b, c, &sh.AntiAffinity[i]); !few {
				r.addInShort(b, c)
				break
			}
		}
		r.plainLeft -= b.ledger.meter.Spent() - before
	}
}

// newRunning also has the builder find the classes that matter by label and namespace.
func newRunning(b *builder) *running {
	share := b.ledger.meter.Left() / runningShare
	var mine []int
	for c, matters := range b.matters {
		if matters {
			mine = append(mine, c)
		}
	}
	b.mine = newIndex(b.ledger.constraintSets, mine, &b.numbers)
	b.mine.addNamespaces(b.ledger.constraintSets, &b.numbers)
	return &running{plainLeft: share, shortLeft: share}
}

// addOwners adds the group of the owners of a required anti-affinity term, if the term selects a
// class that matters. It reports whether none of these classes keeps away from too many groups
// already.
func (r *running) addOwners(b *builder, class int, t *cluster.PodTerm) (few bool) {
	among := b.mine.among(t)
	b.ledger.meter.Spend(1 + len(t.Namespaces)/numbersUnit + len(among)*effortOf(t))
	var from []int
	few = true
	for _, c := range among {
		if b.selects(t, c) {
			from, few = append(from, c), few && len(b.ledger.rules[c].repelled) < plainAway
		}
	}
	if len(from) == 0 {
		return true
	}
	slices.Sort(from)
	b.name.begin("owners")
	b.name.addTerm(t)
	if _, known := b.known(); !known {
		b.nameAway(t.Key, from)
		if _, known := b.known(); !known && !few {
			return false
		}
	}
	b.addAwayFrom(class, t.Key, from)
	return true
}

// nameAway writes into the buffer the name of the group of pods from which these classes keep
// away. Owners from which the same classes keep away share a group.
func (b *builder) nameAway(key string, from []int) {
	n := &b.name
	n.begin("away", key)
	n.meter.Spend(len(from))
	for _, c := range from {
		n.text = append(strconv.AppendInt(n.text, int64(c), 10), ',')
	}
}

// addInShort adds one group for each topology key. It counts the class's pods, and all classes
// keep away from it that any required anti-affinity term of the class under this key selects.
//
// Some terms may be too many: there is no effort left for them, or there would be too many
// groups. Terms on hosts are then taken to keep all classes off the nodes of the class's pods.
// Terms on larger domains are left out: if they do matter, kube-scheduler says so.
func (r *running) addInShort(b *builder, class int) {
	meter, sh := b.ledger.meter, b.ledger.constraintSets[class]
	var keys []string
	away, all := map[string]map[int]bool{}, false
	for i := range sh.AntiAffinity {
		t := &sh.AntiAffinity[i]
		before := meter.Spent()
		if r.shortLeft <= 0 {
			all = true
			break
		}
		if _, known := away[t.Key]; !known {
			keys, away[t.Key] = append(keys, t.Key), map[int]bool{}
		}
		meter.Spend(1 + len(t.Namespaces)/numbersUnit)
		for _, c := range b.mine.among(t) {
			if away[t.Key][c] {
				continue
			}
			if meter.Spend(effortOf(t)); b.selects(t, c) {
				away[t.Key][c] = true
			}
		}
		r.shortLeft -= meter.Spent() - before
	}
	for _, key := range keys {
		if tooMany := r.addAway(b, class, key, away[key]); tooMany && key == label.Hostname {
			all = true
		}
	}
	if all {
		b.addAwayAll(class)
	}
}

// addAway adds the group of the class's pods for the classes that keep away from them. It
// reports whether that would be one group too many; then it adds none.
func (r *running) addAway(b *builder, class int, key string, away map[int]bool) (tooMany bool) {
	if len(away) == 0 {
		return false
	}
	from := slices.Sorted(maps.Keys(away))
	b.nameAway(key, from)
	if _, known := b.known(); !known {
		if r.groups == shortGroups {
			return true
		}
		r.groups++
	}
	b.addAwayFrom(class, key, from)
	return false
}

// addAwayAll has all classes that matter keep off the nodes of the class's pods.
func (b *builder) addAwayAll(class int) {
	b.name.begin("away", "all")
	b.addAwayFrom(class, label.Hostname, b.mine.classes)
}

// addAwayFrom adds the class to the group that has the name in the buffer, from which the
// given classes keep away.
func (b *builder) addAwayFrom(class int, key string, from []int) {
	g := b.group(key, group{kind: repelled})
	b.count(class, g)
	if b.filled[g] {
		return
	}
	b.filled[g] = true
	for _, c := range from {
		b.keepAway(c, g)
	}
}
