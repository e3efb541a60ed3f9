package topology_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// webAndRival returns the ledger of two pod constraints: web with the rules, and rival, which has the same label and none.
func webAndRival(rules cluster.Rules) *topology.Ledger {
	labels := map[string]string{"app": "web"}
	return topology.New([]*cluster.Constraints{{Labels: labels, Rules: rules}, {Labels: labels}}, nil)
}

func selectsWeb() cluster.Selector {
	return cluster.Selector{Some: true, Requirements: label.Requirements{"app": label.In("web")}}
}

// TestOthersSpreadIsRespectedOnTheirHosts: a pod without rules keeps to others' spread over hosts
// where pods with that spread are, and nowhere else.
func TestOthersSpreadIsRespectedOnTheirHosts(t *testing.T) {
	t.Parallel()
	const web, rival = 0, 1
	l := webAndRival(cluster.Rules{Spread: []cluster.Spread{{Key: label.Hostname, MaxSkew: 1, Selector: selectsWeb()}}})
	theirs, free := &topology.Place{Domain: []int32{l.NewDomain(0)}}, &topology.Place{Domain: []int32{l.NewDomain(0)}}
	l.Possible(0, l.NewDomain(0), 0)
	l.Count(web, theirs, 1, 0)
	l.Count(rival, free, 5, 0)
	if l.Check(rival, theirs, 0, true).IsYes() {
		t.Error("a pod that respects others' spread makes one too many where web is")
	}
	if !l.Check(rival, theirs, 0, false).IsYes() {
		t.Error("a pod without rules is kept away though it does not respect others' spread")
	}
	if v := l.Check(rival, free, 0, true).Verdict(); !v.IsYes() {
		t.Errorf("a pod that respects others' spread is kept from where web is not: %s", v)
	}
}

// TestUndeterminedDomainsAreTheWorst: on a node that may be in either of two zones a rule has to
// hold in both.
func TestUndeterminedDomainsAreTheWorst(t *testing.T) {
	t.Parallel()
	const web, rival = 0, 1
	term := cluster.PodTerm{Key: label.Zone, Selector: selectsWeb(), Namespaces: []string{""}}
	places := func(l *topology.Ledger) (a, b, either *topology.Place) {
		a, b = &topology.Place{Domain: []int32{l.NewDomain(0)}}, &topology.Place{Domain: []int32{l.NewDomain(0)}}
		both := []int32{a.Domain[0], b.Domain[0]}
		return a, b, &topology.Place{Domain: []int32{topology.Undetermined}, May: [][]int32{both, both}}
	}
	for name, c := range map[string]struct {
		rules cluster.Rules
		holds func(l *topology.Ledger, a, b, either *topology.Place) bool
		want  bool
	}{
		"apart from a pod that may be in the zone": {cluster.Rules{AntiAffinity: []cluster.PodTerm{term}}, func(l *topology.Ledger, a, _, either *topology.Place) bool {
			l.Count(rival, either, 1, 0)
			return l.Check(web, a, 0, false).IsYes()
		}, false},
		"apart, itself where it may be in the zone": {cluster.Rules{AntiAffinity: []cluster.PodTerm{term}}, func(l *topology.Ledger, _, b, either *topology.Place) bool {
			l.Count(rival, b, 1, 0)
			return l.Check(web, either, 0, false).IsYes()
		}, false},
		"apart, and nobody is in either": {cluster.Rules{AntiAffinity: []cluster.PodTerm{term}}, func(l *topology.Ledger, _, _, either *topology.Place) bool {
			return l.Check(web, either, 0, false).IsYes()
		}, true},
		"with a pod that may be elsewhere": {cluster.Rules{Affinity: []cluster.PodTerm{term}}, func(l *topology.Ledger, a, _, either *topology.Place) bool {
			l.Count(rival, either, 1, 0)
			return l.Check(web, a, 0, false).IsYes()
		}, false},
		"with pods of one of the two": {cluster.Rules{Affinity: []cluster.PodTerm{term}}, func(l *topology.Ledger, a, _, either *topology.Place) bool {
			l.Count(rival, a, 1, 0)
			return l.Check(web, either, 0, false).IsYes()
		}, false},
		"with pods of both": {cluster.Rules{Affinity: []cluster.PodTerm{term}}, func(l *topology.Ledger, a, b, either *topology.Place) bool {
			l.Count(rival, a, 1, 0)
			l.Count(rival, b, 1, 0)
			return l.Check(web, either, 0, false).IsYes()
		}, true},
		"spread to a zone while another may open": {cluster.Rules{Spread: []cluster.Spread{{Key: label.Zone, MaxSkew: 1, Selector: selectsWeb()}}}, func(l *topology.Ledger, a, _, either *topology.Place) bool {
			l.Present(a)
			l.Present(either)
			l.Count(web, a, 1, 0)
			return l.Check(web, a, 0, false).IsYes()
		}, false},
		"spread, and a zone that may open is none for minDomains": {cluster.Rules{Spread: []cluster.Spread{{Key: label.Zone, MaxSkew: 1, MinDomains: 2, Selector: selectsWeb()}}}, func(l *topology.Ledger, a, b, either *topology.Place) bool {
			l.Present(a)
			l.Present(either)
			l.Count(web, a, 1, 0)
			l.Count(web, b, 1, 0)
			return l.Check(web, a, 0, false).IsYes()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := webAndRival(c.rules)
			a, b, either := places(l)
			if got := c.holds(l, a, b, either); got != c.want {
				t.Errorf("holds: %v, want %v", got, c.want)
			}
		})
	}
}

// TestNewForCountsWhatIsAskedAbout has a spread of web that nobody asks about, and then asks
// about it from either side.
func TestNewForCountsWhatIsAskedAbout(t *testing.T) {
	t.Parallel()
	const web, rival, stranger = 0, 1, 2
	for name, c := range map[string]struct {
		class int
		asks  bool
	}{
		"the owner":         {web, true},
		"whom it counts":    {rival, true},
		"who has no part":   {stranger, false},
		"nobody in the end": {-1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labels := map[string]string{"app": "web"}
			spread := cluster.Rules{Spread: []cluster.Spread{{Key: label.Zone, MaxSkew: 1, Selector: selectsWeb()}}}
			l := topology.NewFor([]*cluster.Constraints{{Labels: labels, Rules: spread}, {Labels: labels}, {}}, nil, nil,
				func(class int) bool { return class == c.class })
			if l.AsksOf(0) != c.asks || (len(l.Spreads(0)) > 0) != c.asks {
				t.Fatalf("asks of zones: %t, spreads: %v", l.AsksOf(0), l.Spreads(0))
			}
			a, b := &topology.Place{Domain: []int32{l.Domain(0, "a")}}, &topology.Place{Domain: []int32{l.Domain(0, "b")}}
			l.Present(a)
			l.Present(b)
			l.Possible(0, l.Domain(0, "c"), 0)
			l.Count(web, a, 1, 0)
			l.Count(rival, a, 1, 0)
			if !c.asks {
				return
			}
			if l.Check(c.class, a, 0, true).IsYes() || !l.Check(c.class, b, 0, true).IsYes() {
				t.Error("of those in zone a, who run and were not asked about, not all count")
			}
		})
	}
}

// TestClonesHaveDomainsOfTheirOwn adds a domain to a ledger and another to its clone.
func TestClonesHaveDomainsOfTheirOwn(t *testing.T) {
	t.Parallel()
	l := webAndRival(cluster.Rules{Spread: []cluster.Spread{{Key: label.Zone, MaxSkew: 1, Selector: selectsWeb()}}})
	a := l.Domain(0, "a")
	clone := l.Clone()
	b, c := l.Domain(0, "b"), clone.Domain(0, "c")
	if clone.Domain(0, "a") != a || l.Domain(0, "b") != b || clone.Domain(0, "c") != c {
		t.Error("a domain changed its number")
	}
	if b != c || clone.Domain(0, "b") == b || l.Domain(0, "c") == c {
		t.Error("what one got the other has, too")
	}
}
