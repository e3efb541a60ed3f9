package simulate

import (
	"bytes"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// premium is how much more the plans may cost.
const premium = 0.03

// withWorkloads returns the public scenarios with a workload of ten pods or more, and their files.
func withWorkloads(t *testing.T) (files []string, scenarios []*scenario.Scenario) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", "p[12]*.json.gz"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%d scenarios: %v", len(all), err)
	}
	for _, file := range all {
		s, err := scenario.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(s.PodGroups, func(g scenario.PodGroup) bool { return g.N >= 10 }) {
			files, scenarios = append(files, file), append(scenarios, s)
		}
	}
	return files, scenarios
}

// shareOnNode returns the largest share of a workload of ten pods or more that one new node has. It shares
// nothing with the solver.
func shareOnNode(s *scenario.Scenario, p *scenario.Plan) (most float64) {
	for i := range p.NewNodes {
		for _, sh := range p.NewNodes[i].Pods {
			if all := s.PodGroups[sh.Group()].N; all >= 10 {
				most = max(most, float64(sh.Count())/float64(all))
			}
		}
	}
	return most
}

// TestSpreadPlansOfPublicScenarios: with a premium of 3 %, one node takes a quarter of a workload at most,
// and half of the plans cost no more than 2 % more.
func TestSpreadPlansOfPublicScenarios(t *testing.T) {
	t.Parallel()
	testkit.Unraced(t)
	const median, most, zoneMost = 1.02, 0.25, 0.5
	// dear are the scenarios where a quarter costs more than the premium, and what is reached within it.
	dear := map[string]float64{"p2-small-cluster-4xl": 0.5}
	var dearness []float64
	files, scenarios := withWorkloads(t)
	for i, s := range scenarios {
		name := s.Name
		before, after := planOf(t, caseOf(t, files[i]), 0), planOf(t, caseOf(t, files[i]), premium)
		r := scenario.Check(s, after.File)
		for _, v := range r.Violations {
			t.Errorf("%s: %s", name, v)
		}
		if len(after.Plan.Refusals) > len(before.Plan.Refusals) {
			t.Errorf("%s: %d pods are refused, %d without premium", name, len(after.Plan.Refusals), len(before.Plan.Refusals))
		}
		dear1 := after.File.PricePerHour / before.File.PricePerHour
		dearness = append(dearness, dear1)
		if dear1 > 1+premium+1e-9 {
			t.Errorf("%s: the plan costs %.4f of the cheapest one", name, dear1)
		}
		limit := most
		if dear[name] > 0 {
			limit = dear[name]
		}
		if zone := after.Plan.Resilience.After.Zone; zone > zoneMost {
			t.Errorf("%s: a zone has %.0f %% of a workload, want %.0f %% at most", name, 100*zone, 100*zoneMost)
		}
		share := shareOnNode(s, after.File)
		if share > limit {
			t.Errorf("%s: a node has %.0f %% of a workload, want %.0f %% at most", name, 100*share, 100*limit)
		}
		ruled := slices.ContainsFunc(s.PodGroups, func(g scenario.PodGroup) bool { return len(g.Spread) > 0 })
		if got := after.Plan.Resilience.After.Node; !ruled && (got < share-1e-9 || got > share+1e-9) {
			t.Errorf("%s: the plan says that a node has %.4f of a workload, and it has %.4f", name, got, share)
		}
		t.Logf("%-24s %.0f %% → %.0f %% of a workload on one node, price %.2f (x %.4f), %d → %d nodes", name, 100*shareOnNode(s, before.File), 100*share,
			after.File.PricePerHour, dear1, len(before.File.NewNodes), len(after.File.NewNodes))
	}
	slices.Sort(dearness)
	if m := dearness[len(dearness)/2]; m > median {
		t.Errorf("half of the plans cost more than %.4f of the cheapest ones, want %.2f", m, median)
	}
}

func caseOf(t *testing.T, file string) Case {
	t.Helper()
	c, err := Scenario(file, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func planOf(t *testing.T, c Case, premium float64) *Answer {
	t.Helper()
	c.Options.ResiliencePremium = premium
	a, err := Run(c, Clock{Now: func() time.Time { return time.Unix(0, 0) }, CPU: func() time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shareOnSpotOffering returns the largest share of a workload of ten pods or more that one instance type in one zone has
// on spot nodes. It shares nothing with the solver.
func shareOnSpotOffering(s *scenario.Scenario, p *scenario.Plan) (most float64) {
	type offering struct {
		typ, zone string
		group     int
	}
	counts := map[offering]int{}
	for i := range p.NewNodes {
		n := &p.NewNodes[i]
		for _, sh := range n.Pods {
			if all := s.PodGroups[sh.Group()].N; all >= 10 && n.CapacityType == spotType {
				at := offering{n.Type, n.Zone, sh.Group()}
				counts[at] += sh.Count()
				most = max(most, float64(counts[at])/float64(all))
			}
		}
	}
	return most
}

// allowSpot allows NodePools spot and on demand.
func allowSpot(s *scenario.Scenario) {
	for i := range s.NodePools {
		s.NodePools[i].Requirements = slices.DeleteFunc(s.NodePools[i].Requirements, func(r scenario.Requirement) bool { return r.Key == capacityKey })
		s.NodePools[i].Requirements = append(s.NodePools[i].Requirements, scenario.Requirement{Key: capacityKey, Op: "In", Values: []string{spotType, onDemandType}})
	}
}

// onSpot offers every instance type as spot, too, for a third of its price, a few per cent more or less in each zone.
func onSpot(t testing.TB, s *scenario.Scenario) {
	t.Helper()
	const discount, deviation = 0.35, 0.05
	allowSpot(s)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range s.InstanceTypes {
		it := &s.InstanceTypes[i]
		for _, o := range slices.Clone(it.Offerings) {
			it.Offerings = append(it.Offerings, scenario.Offering{Zone: o.Zone, CapacityType: spotType, Price: o.Price * discount * math.Exp(deviation*r.NormFloat64())})
		}
	}
}

// onEC2Spot offers every instance type as spot for three prices that EC2 asked in May 2025. The prices are known, but
// not for which zones; the zones are drawn.
func onEC2Spot(t testing.TB, s *scenario.Scenario) {
	t.Helper()
	allowSpot(s)
	types, err := ec2catalog.Types()
	if err != nil {
		t.Fatal(err)
	}
	quotes := map[string][]float64{}
	for _, it := range types {
		for _, o := range it.Offerings {
			if o.CapacityType == spotType && o.Available {
				quotes[it.Name] = append(quotes[it.Name], o.PriceHourly)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	s.InstanceTypes = slices.DeleteFunc(s.InstanceTypes, func(it scenario.InstanceType) bool { return len(quotes[it.Name]) < len(it.Offerings) })
	for i := range s.InstanceTypes {
		it := &s.InstanceTypes[i]
		prices := quotes[it.Name]
		r.Shuffle(len(prices), func(a, b int) { prices[a], prices[b] = prices[b], prices[a] })
		for k, o := range slices.Clone(it.Offerings) {
			it.Offerings = append(it.Offerings, scenario.Offering{Zone: o.Zone, CapacityType: spotType, Price: prices[k]})
		}
	}
}

// withoutSpotOf leaves out the spot offerings that a plan uses.
func withoutSpotOf(s *scenario.Scenario, p *scenario.Plan) {
	for i := range s.InstanceTypes {
		it := &s.InstanceTypes[i]
		it.Offerings = slices.DeleteFunc(it.Offerings, func(o scenario.Offering) bool {
			return o.CapacityType == spotType && slices.ContainsFunc(p.NewNodes, func(n scenario.NewNode) bool {
				return n.Type == it.Name && n.Zone == o.Zone && n.CapacityType == spotType
			})
		})
	}
}

// TestSpreadPlansOnSpot: where spot prices differ by a few per cent, one spot offering takes two fifths of a workload at
// most, for the premium, which counts twice for spot nodes. With EC2's prices that costs more: it logs what the cheapest plan
// without the spot offerings of the cheapest one costs.
func TestSpreadPlansOnSpot(t *testing.T) {
	t.Parallel()
	testkit.Unraced(t)
	for _, of := range []struct {
		prices string
		set    func(testing.TB, *scenario.Scenario)
		most   float64
		dear   map[string]float64 // where that costs more than the premium, and what is reached within it
	}{
		{"a third of the price, 5 %", onSpot, 0.4, map[string]float64{"p2-mixed-small": 0.57, "p2-small-cluster": 0.5, "p2-web": 0.42}},
		{"EC2, May 2025", onEC2Spot, 1, nil},
	} {
		files, scenarios := withWorkloads(t)
		for i, s := range scenarios {
			c := caseOf(t, files[i])
			of.set(t, s)
			c.Snapshot = s.Snapshot(time.Unix(0, 0))
			before, after := planOf(t, c, 0), planOf(t, c, premium)
			for _, v := range scenario.Check(s, after.File).Violations {
				t.Errorf("%s: %s", s.Name, v)
			}
			dearness, share, most := after.File.PricePerHour/before.File.PricePerHour, shareOnSpotOffering(s, after.File), of.most
			if dearness > 1+2*premium+1e-9 {
				t.Errorf("%s: the plan costs %.4f of the cheapest one", s.Name, dearness)
			}
			if of.dear[s.Name] > 0 {
				most = of.dear[s.Name]
			}
			if share > most {
				t.Errorf("%s: a spot offering has %.0f %% of a workload, want %.0f %% at most", s.Name, 100*share, 100*most)
			}
			if got := after.Plan.Resilience.After.SpotOffering; len(s.PodGroups[0].Spread) == 0 && math.Abs(got-share) > 1e-9 {
				t.Errorf("%s: the plan says that a spot offering has %.4f of a workload, and it has %.4f", s.Name, got, share)
			}
			nodes, offerings := [2]float64{shareOnNode(s, before.File), shareOnNode(s, after.File)}, shareOnSpotOffering(s, before.File)
			withoutSpotOf(s, before.File)
			c.Snapshot = s.Snapshot(time.Unix(0, 0))
			t.Logf("%s: %-22s %3.0f %% → %2.0f %% on one node, %3.0f %% → %3.0f %% on one spot offering, x %.4f; without those of the cheapest plan x %.4f", of.prices, s.Name,
				100*nodes[0], 100*nodes[1], 100*offerings, 100*share, dearness, planOf(t, c, 0).File.PricePerHour/before.File.PricePerHour)
		}
	}
}

// TestFreeExchangesComeFirst: pods are exchanged between zones and spot offerings at no cost before a node is moved for a
// price. Otherwise this plan costs 1.035 of the cheapest one.
func TestFreeExchangesComeFirst(t *testing.T) {
	t.Parallel()
	testkit.Unraced(t)
	file := filepath.Join("testdata", "p1b-plain-aws-5000.json.gz")
	s, err := scenario.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	onSpot(t, s)
	c := caseOf(t, file)
	c.Snapshot = s.Snapshot(time.Unix(0, 0))
	if dearness := planOf(t, c, premium).File.PricePerHour / planOf(t, c, 0).File.PricePerHour; dearness > 1.01 {
		t.Errorf("the plan costs %.4f of the cheapest one, want 1.01 at most", dearness)
	}
}

// TestSpreadPlansSayTheSameTwice: the same snapshot has the same plan, byte for byte.
func TestSpreadPlansSayTheSameTwice(t *testing.T) {
	t.Parallel()
	encoded := func() []byte {
		return (&record.Decision{Loop: record.Provisioning, Plan: planOf(t, caseOf(t, filepath.Join("testdata", "p1c-deploys-aws-1000.json.gz")), 0.03).Plan}).EncodePlan()
	}
	if !bytes.Equal(encoded(), encoded()) {
		t.Error("two plans for one scenario differ")
	}
}

// BenchmarkSpread is a decision without and with a premium, on demand and with EC2's spot prices.
func BenchmarkSpread(b *testing.B) {
	for _, of := range []struct {
		name   string
		onSpot bool
	}{{"p1c-deploys-aws-1000", false}, {"p1c-deploys-aws-10000", false}, {"p2-web", false}, {"p1c-deploys-aws-10000", true}, {"p2-mixed-varied-4xl", true}} {
		s, err := scenario.Read(filepath.Join("testdata", of.name+".json.gz"))
		if err != nil {
			b.Fatal(err)
		}
		if of.onSpot {
			onEC2Spot(b, s)
			of.name += "-spot"
		}
		snap := s.Snapshot(time.Unix(0, 0))
		for premium, word := range map[float64]string{0: "without", 0.03: "with"} {
			b.Run(of.name+"/"+word, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					solveWith(snap, premium)
				}
			})
		}
	}
}

func solveWith(snap *cluster.Snapshot, premium float64) plan.Plan {
	return pack.Solve(snap, pack.Options{BuyableBinds: true, ResiliencePremium: premium})
}
