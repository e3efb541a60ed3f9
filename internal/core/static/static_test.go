package static_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/static"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// fixed returns a static pool of two types.
func fixed(replicas int) cluster.Pool {
	typeOf := func(name string, price float64) *catalog.Type {
		return &catalog.Type{
			Name: name, Requirements: label.Requirements{label.InstanceType: label.In(name)}, Capacity: quantity.List{quantity.CPU: 4000},
			Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", PriceHourly: price, Priced: true, Available: true}},
		}
	}
	return cluster.Pool{Name: "fixed", Static: true, Replicas: replicas, Types: []*catalog.Type{typeOf("dear", 2), typeOf("cheap", 1)}}
}

func nodeOf(name string, change func(*cluster.Node)) cluster.Node {
	n := cluster.Node{Name: name, Claim: name, Pool: "fixed", Initialized: true, Ready: true, Created: noon.Add(-time.Hour)}
	if change != nil {
		change(&n)
	}
	return n
}

// TestPartIsAllThatIsRead: the part of a snapshot that is kept of a decision gives the same one.
func TestPartIsAllThatIsRead(t *testing.T) {
	t.Parallel()
	for replicas := range 5 {
		other := fixed(7)
		other.Name = "other"
		snap := &cluster.Snapshot{At: noon, Pools: []cluster.Pool{other, fixed(replicas)}, Nodes: []cluster.Node{
			nodeOf("a", nil), nodeOf("b", func(n *cluster.Node) { n.Reschedulable = []cluster.ReschedulablePod{{}} }), nodeOf("c", func(n *cluster.Node) { n.Pool = "other" }),
		}}
		part := static.Part(snap, "fixed")
		if diff := cmp.Diff(static.Next(snap, "fixed"), static.Next(part, "fixed")); diff != "" {
			t.Errorf("with %d replicas (-whole +part):\n%s", replicas, diff)
		}
		if len(part.Nodes) != 2 || len(part.Pools) != 1 {
			t.Errorf("the part has %d nodes and %d pools", len(part.Nodes), len(part.Pools))
		}
	}
}

func TestWhatIsMissingIsLaunchedFromTheTemplate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change   func(*cluster.Pool)
		nodes    []cluster.Node
		launches int
		why      verdict.Reason
	}{
		"all":                               {nil, nil, 3, verdict.OK},
		"up to the limit":                   {func(p *cluster.Pool) { p.Limits = quantity.List{quantity.Nodes: 2} }, nil, 2, verdict.PoolLimitReached},
		"none while the pool is not ready":  {func(p *cluster.Pool) { p.Unready = "not ready: ValidationFailed" }, nil, 0, verdict.PoolUnready},
		"none without an available type":    {func(p *cluster.Pool) { p.Types = nil }, nil, 0, verdict.NoCompatibleType},
		"none of a pool that is not static": {func(p *cluster.Pool) { p.Static = false }, nil, 0, verdict.OK},
		"not for one that will be replaced": {nil, []cluster.Node{nodeOf("a", func(n *cluster.Node) { n.DisruptionReason = "Drifted" }), nodeOf("b", nil), nodeOf("c", nil)}, 0, verdict.OK},
		"for one that is deleting":          {nil, []cluster.Node{nodeOf("a", func(n *cluster.Node) { n.Deleting = true }), nodeOf("b", nil), nodeOf("c", nil)}, 1, verdict.OK},
		"not while the deleting take the room": {
			func(p *cluster.Pool) { p.Limits = quantity.List{quantity.Nodes: 3} },
			[]cluster.Node{nodeOf("a", func(n *cluster.Node) { n.Deleting = true }), nodeOf("b", nil), nodeOf("c", nil)},
			0, verdict.PoolLimitReached,
		},
		"what others launched does not count": {nil, []cluster.Node{nodeOf("a", func(n *cluster.Node) { n.Pool = "other" }), nodeOf("b", func(n *cluster.Node) { n.Claim = "" })}, 3, verdict.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := fixed(3)
			if tc.change != nil {
				tc.change(&pool)
			}
			got := static.Next(&cluster.Snapshot{At: noon, Pools: []cluster.Pool{pool}, Nodes: tc.nodes}, "fixed")
			if len(got.Launches) != tc.launches || got.Blocked.Reason != tc.why || len(got.Removals) > 0 {
				t.Fatalf("%d launches, blocked %q, %d removals; want %d launches, %q", len(got.Launches), got.Blocked.Reason, len(got.Removals), tc.launches, tc.why)
			}
			for _, l := range got.Launches {
				if diff := cmp.Diff([]string{"cheap", "dear"}, l.Types); diff != "" || l.PriceHourly != 1 {
					t.Errorf("price %v, types (-want +got):\n%s", l.PriceHourly, diff)
				}
			}
		})
	}
}

// TestLaunchesStayWithinSupplies: each launch takes what the cheapest covered offering draws, and may only
// become what is covered.
func TestLaunchesStayWithinSupplies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cheap, dear int // what is left for each type; below zero: it draws on nothing
		claims      int // NodeClaims that the cloud has not been asked for
		accepted    bool
		types       []string
		why         verdict.Reason
	}{
		"enough":                         {6, -1, 0, false, []string{"cheap dear", "cheap dear", "cheap dear"}, verdict.OK},
		"enough for one":                 {3, -1, 0, false, []string{"cheap dear", "dear", "dear"}, verdict.OK},
		"nothing":                        {1, 1, 0, false, nil, verdict.SupplyUsedUp},
		"two in all":                     {3, 3, 0, false, []string{"cheap dear", "dear"}, verdict.SupplyUsedUp},
		"a NodeClaim holds what it may":  {4, 0, 1, false, []string{"cheap"}, verdict.SupplyUsedUp},
		"one that is accepted does not":  {4, 0, 1, true, []string{"cheap", "cheap"}, verdict.OK},
		"what nobody draws on is enough": {-1, 0, 0, false, []string{"cheap", "cheap", "cheap"}, verdict.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := fixed(3)
			for _, typ := range pool.Types {
				supply, left := "dear", tc.dear
				if typ.Name == "cheap" {
					supply, left = "cheap", tc.cheap
				}
				if left >= 0 {
					typ.Offerings[0].Draws = []catalog.Draw{{Supply: supply, Units: 2, Left: left}}
				}
			}
			snap := &cluster.Snapshot{At: noon, Pools: []cluster.Pool{pool}}
			for range tc.claims {
				snap.Nodes = append(snap.Nodes, nodeOf("claim", func(n *cluster.Node) {
					n.InFlight = &cluster.InFlightClaim{Types: []string{"cheap"}, Accepted: tc.accepted}
				}))
			}
			got := static.Next(snap, "fixed")
			var types []string
			for _, l := range got.Launches {
				types = append(types, strings.Join(l.Types, " "))
			}
			if diff := cmp.Diff(tc.types, types); diff != "" || got.Blocked.Reason != tc.why {
				t.Errorf("blocked %q, want %q; types of launches (-want +got):\n%s", got.Blocked, tc.why, diff)
			}
		})
	}
}

func TestTheLeastWantedGoFirst(t *testing.T) {
	t.Parallel()
	with := func(pods ...cluster.ReschedulablePod) func(*cluster.Node) {
		return func(n *cluster.Node) { n.Reschedulable = pods }
	}
	snap := &cluster.Snapshot{At: noon, Pools: []cluster.Pool{fixed(0)}, Nodes: []cluster.Node{
		nodeOf("held", func(n *cluster.Node) { n.DoNotDisrupt = "annotation" }),
		nodeOf("two-pods", with(cluster.ReschedulablePod{}, cluster.ReschedulablePod{})),
		nodeOf("one-important-pod", with(cluster.ReschedulablePod{Priority: 1 << 27})),
		nodeOf("one-pod", with(cluster.ReschedulablePod{})),
		nodeOf("two-pods-at-the-end-of-its-life", func(n *cluster.Node) {
			n.Reschedulable, n.Expires = make([]cluster.ReschedulablePod, 2), noon.Add(time.Minute)
		}),
		nodeOf("empty", nil),
		nodeOf("empty-and-younger", func(n *cluster.Node) { n.Created = noon }),
		nodeOf("without-an-instance", func(n *cluster.Node) { n.InFlight = &cluster.InFlightClaim{} }),
	}}
	var got []string
	for replicas := 7; replicas >= 0; replicas-- {
		snap.Pools[0].Replicas = replicas
		removals := static.Next(snap, "fixed").Removals
		got = append(got, removals[len(removals)-1].Node)
	}
	want := []string{"without-an-instance", "empty-and-younger", "empty", "two-pods-at-the-end-of-its-life", "one-pod", "two-pods", "one-important-pod", "held"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTheCountIsMetWithinTheLimit: whatever nodes there are, what Next returns brings the pool to
// its number, never past its limit, and never launches and removes at once.
func TestTheCountIsMetWithinTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pool := fixed(rapid.IntRange(0, 8).Draw(t, "replicas"))
		if limit := rapid.IntRange(-1, 8).Draw(t, "limit"); limit >= 0 {
			pool.Limits = quantity.List{quantity.Nodes: int64(limit)}
		}
		snap := &cluster.Snapshot{At: noon, Pools: []cluster.Pool{pool}}
		for i := range rapid.IntRange(0, 10).Draw(t, "nodes") {
			snap.Nodes = append(snap.Nodes, nodeOf(string(rune('a'+i)), func(n *cluster.Node) {
				n.Deleting = rapid.Float64().Draw(t, "deleting") < 0.2
				if rapid.Float64().Draw(t, "replaced") < 0.2 {
					n.DisruptionReason = plan.Drifted
				}
			}))
		}
		count, next := static.CountOf(snap, "fixed"), static.Next(snap, "fixed")
		after := count.Active + len(next.Launches) - len(next.Removals)
		limit, limited := pool.Limits[quantity.Nodes]
		switch {
		case len(next.Launches) > 0 && len(next.Removals) > 0:
			t.Fatal("launches and removals")
		case after > max(pool.Replicas, count.Active) || len(next.Removals) > 0 && after != pool.Replicas:
			t.Fatalf("%d nodes would be active, %d are wanted", after, pool.Replicas)
		case len(next.Launches) > 0 && limited && int64(len(snap.Nodes)+len(next.Launches)) > limit:
			t.Fatalf("%d nodes and %d launches, limit %d", len(snap.Nodes), len(next.Launches), limit)
		case after < pool.Replicas && next.Blocked.IsYes() && count.Pending == 0:
			t.Fatalf("%d of %d nodes would be active, and nothing says why", after, pool.Replicas)
		}
		if i := slices.IndexFunc(next.Removals, func(r plan.Removal) bool {
			return slices.ContainsFunc(snap.Nodes, func(n cluster.Node) bool { return n.Name == r.Node && (n.Deleting || n.DisruptionReason != "") })
		}); i >= 0 {
			t.Fatalf("%s is removed, and goes already", next.Removals[i].Node)
		}
	})
}
