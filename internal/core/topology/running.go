package topology

import (
	"maps"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// This file reads the rules of classes that only run. Of them nobody asks where their pods could
// go, so all that matters is from whom they keep others away, and over which hosts they are spread. Anybody
// who may create pods can have thousands of such rules, and pods that are to be placed must not pay
// for them: reading has a share of the effort, and what is too much is read in short.

const (
	// manyRules is from what weight on the rules of one class are read in short.
	manyRules = 64
	// runningShare is which part of the effort that is left reading rules one by one may take, and
	// reading them in short as much again.
	runningShare = 4
	// plainAway is up to how many groups one class keeps away from that are read one by one.
	plainAway = 8
	// shortGroups bounds how many groups all rules make that are read in short.
	shortGroups = 6
)

// running reads the rules of classes that only run.
type running struct {
	// plainLeft and shortLeft are the units that are left for reading one by one, and in short.
	plainLeft, shortLeft int64
	groups               int // made in short
	// mine are the classes that matter, all, by namespace and by label.
	mine        []int
	byNamespace map[string][]int
	byLabel     map[labelled][]int
}

// addRunning adds the rules of the classes that do not matter, but for what concerns no class that
// does.
func (b *builder) addRunning() {
	var r *running
	for c, sh := range b.constraintSets {
		if b.matters[c] || len(sh.Spread)+len(sh.AntiAffinity) == 0 {
			continue
		}
		if r == nil {
			r = b.newRunning()
		}
		if r.plainLeft <= 0 || len(sh.AntiAffinity) > manyRules || sh.Weight()-sh.LabelWeight() > manyRules {
			b.addInShort(c)
			continue
		}
		before := b.meter.Spent()
		for i := range sh.Spread {
			b.addSpread(c, &sh.Spread[i], -1)
		}
		for i := range sh.AntiAffinity {
			if few := b.addOwners(c, &sh.AntiAffinity[i]); !few {
				b.addInShort(c)
				break
			}
		}
		r.plainLeft -= b.meter.Spent() - before
	}
}

// newRunning finds out which classes matter, where there are rules to be held against them.
func (b *builder) newRunning() *running {
	share := b.meter.Left() / runningShare
	r := &running{plainLeft: share, shortLeft: share, byNamespace: map[string][]int{}, byLabel: map[labelled][]int{}}
	for c, sh := range b.constraintSets {
		if !b.matters[c] {
			continue
		}
		r.mine = append(r.mine, c)
		r.byNamespace[sh.Namespace] = b.numbers.add(r.byNamespace[sh.Namespace], c)
		for key, value := range sh.Labels {
			at := labelled{key, value}
			r.byLabel[at] = b.numbers.add(r.byLabel[at], c)
		}
	}
	b.running = r
	return r
}

// among returns classes that matter among which are all of those that the term selects.
func (r *running) among(t *cluster.PodTerm) []int {
	best := r.mine
	if !t.NamespaceSelector.Some {
		if best = nil; len(t.Namespaces) == 1 {
			best = r.byNamespace[t.Namespaces[0]]
		} else {
			for _, ns := range slices.Compact(slices.Sorted(slices.Values(t.Namespaces))) {
				best = append(best, r.byNamespace[ns]...)
			}
		}
	}
	for key, q := range t.Selector.Requirements {
		if value, only := q.Only(); only && !q.AllowsAbsence() {
			if with := r.byLabel[labelled{key, value}]; len(with) < len(best) {
				best = with
			}
		}
	}
	return best
}

// addOwners adds the group of the owners of a required anti-affinity term, if it selects any class
// that matters. It reports whether none of these keeps away from too many groups already.
func (b *builder) addOwners(class int, t *cluster.PodTerm) (few bool) {
	among := b.running.among(t)
	b.meter.Spend(1 + len(t.Namespaces)/numbersUnit + len(among)*effortOf(t))
	var from []int
	few = true
	for _, c := range among {
		if b.selects(t, b.constraintSets[c]) {
			from, few = append(from, c), few && len(b.rules[c].repelled) < plainAway
		}
	}
	if len(from) == 0 {
		return true
	}
	slices.Sort(from)
	b.call("owners")
	b.term(t)
	if _, known := b.byName[string(b.name)]; !known {
		b.callAway(t.Key, from)
		if _, known := b.byName[string(b.name)]; !known && !few {
			return false
		}
	}
	b.addAwayFrom(class, t.Key, from)
	return true
}

// callAway begins a name in the buffer for pods from which these classes keep away: whoever keeps the
// same away is in one group.
func (b *builder) callAway(key string, from []int) {
	b.call("away", key)
	b.meter.Spend(len(from))
	for _, c := range from {
		b.name = append(strconv.AppendInt(b.name, int64(c), 10), ',')
	}
}

// keepAway has a class keep away from where the pods of a group are.
func (b *builder) keepAway(class, group int) {
	b.rules[class].repelled = b.uses.add(b.rules[class].repelled, use{group: group, preference: -1})
}

// addInShort adds for each key one group of the class's pods, from which all keep away that any of
// its required anti-affinity terms selects; classes that keep the same away share it. What is more
// than can be read, or than there may be groups, is taken to keep everybody off the pods' machines if it
// is about hosts, and is left out if it is about larger domains: where it is true of those,
// kube-scheduler says so.
func (b *builder) addInShort(class int) {
	r, sh := b.running, b.constraintSets[class]
	var keys []string
	away, all := map[string]map[int]bool{}, false
	for i := range sh.AntiAffinity {
		t := &sh.AntiAffinity[i]
		before := b.meter.Spent()
		if r.shortLeft <= 0 {
			all = true
			break
		}
		if _, known := away[t.Key]; !known {
			keys, away[t.Key] = append(keys, t.Key), map[int]bool{}
		}
		b.meter.Spend(1 + len(t.Namespaces)/numbersUnit)
		for _, c := range r.among(t) {
			if away[t.Key][c] {
				continue
			}
			if b.meter.Spend(effortOf(t)); b.selects(t, b.constraintSets[c]) {
				away[t.Key][c] = true
			}
		}
		r.shortLeft -= b.meter.Spent() - before
	}
	for _, key := range keys {
		if left := b.addAway(class, key, away[key]); left && key == label.Hostname {
			all = true
		}
	}
	if all {
		b.addAwayAll(class)
	}
}

// addAway adds the group of the class's pods for those that keep away from them. It tells
// whether that would be one group too many.
func (b *builder) addAway(class int, key string, away map[int]bool) (left bool) {
	if len(away) == 0 {
		return false
	}
	from := slices.Sorted(maps.Keys(away))
	b.callAway(key, from)
	if _, known := b.byName[string(b.name)]; !known {
		if b.running.groups == shortGroups {
			return true
		}
		b.running.groups++
	}
	b.addAwayFrom(class, key, from)
	return false
}

// addAwayAll has all keep off the machines of the class's pods.
func (b *builder) addAwayAll(class int) {
	b.call("away", "all")
	b.addAwayFrom(class, label.Hostname, b.running.mine)
}

// addAwayFrom adds the class to the group of the name that is in the buffer.
func (b *builder) addAwayFrom(class int, key string, from []int) {
	g := b.group(group{kind: repelled, key: b.keyOf(key)})
	b.count(class, g)
	if b.filled[g] {
		return
	}
	b.filled[g] = true
	for _, c := range from {
		b.keepAway(c, g)
	}
}
