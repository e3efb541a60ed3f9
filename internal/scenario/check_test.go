package scenario

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func example(t *testing.T) (*Scenario, *Plan) {
	t.Helper()
	s, err := Read(filepath.Join("testdata", "example.json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPlan(filepath.Join("testdata", "example-plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

func TestCheckAcceptsTheWorkedExample(t *testing.T) {
	t.Parallel()
	s, p := example(t)
	r := Check(s, p)
	if len(r.Violations) > 0 || r.WronglyRefused != 0 || math.Abs(r.PricePerHour-0.8) > 1e-9 {
		t.Errorf("Check = %+v, want no violation, nothing wrongly refused, 0.80", r)
	}
}

// TestCheckCatches breaks one rule of the worked example in each case. Pods are group 0
// web, 1 db, 2 job, 3 infer, 4 big.
func TestCheckCatches(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		broken func(*Scenario, *Plan)
		want   string // part of the only violation; empty: none, but a wrong refusal
	}{
		"an offering that is not available": {func(_ *Scenario, p *Plan) {
			p.NewNodes[0].CapacityType = "spot"
		}, "cannot be bought"},
		"a zone in which the type is not offered": {func(_ *Scenario, p *Plan) {
			p.NewNodes[2].Zone = "east-c"
		}, "cannot be bought"},
		"a price that is not the sum": {func(_ *Scenario, p *Plan) { p.PricePerHour = 0.7 }, "the price is 0.8000"},
		"a bound above the price":     {func(_ *Scenario, p *Plan) { p.LowerBoundPerHour = 0.9 }, "the bound"},
		"another scenario's plan":     {func(_ *Scenario, p *Plan) { p.Scenario = "other" }, "not kplan/1 that solves"},
		"a pod that is left out":      {func(_ *Scenario, p *Plan) { p.Unschedulable = nil }, "group 4 has 1 pending pods, the plan has 0"},
		"a pod that occurs twice": {func(_ *Scenario, p *Plan) {
			p.NewNodes[2].Pods = append(p.NewNodes[2].Pods, Share{2, 1})
		}, "group 2 has 2 pending pods, the plan has 3"},
		"too little cpu": {func(_ *Scenario, p *Plan) {
			p.Unschedulable, p.NewNodes[0].Pods = nil, []Share{{0, 1}, {1, 1}, {4, 1}}
		}, "too little cpu"},
		"too little memory": {func(s *Scenario, _ *Plan) { s.PodGroups[3].Mem = 1 << 20 }, "too little memory"},
		"too few pods":      {func(s *Scenario, _ *Plan) { s.InstanceTypes[2].Pods = 2 }, "too little pods"},
		"no GPU":            {func(s *Scenario, _ *Plan) { s.InstanceTypes[2].Ext = nil }, "too little ext/nvidia.com/gpu"},
		"a selector for another capacity type": {func(s *Scenario, _ *Plan) {
			s.PodGroups[3].NodeSelector = map[string]string{"karpenter.sh/capacity-type": "on-demand"}
		}, "its labels do not satisfy"},
		"a selector for a label that the node lacks": {func(s *Scenario, _ *Plan) {
			s.PodGroups[1].NodeSelector = map[string]string{"example.com/gpu": "l4"}
		}, "its labels do not satisfy"},
		"a pool that wants other machines": {func(s *Scenario, _ *Plan) {
			s.NodePools[0].Requirements = append(s.NodePools[0].Requirements, Requirement{Key: "example.com/gpu", Op: "DoesNotExist"})
		}, "newNodes[2]: its labels do not satisfy"},
		"a pool above its limit": {func(s *Scenario, _ *Plan) { s.NodePools[0].LimitCPU = 15000 }, "above its limits"},
		"a pod apart from its company": {func(s *Scenario, _ *Plan) {
			s.PodGroups[3].Affinity = []Term{{Key: hostnameKey, MatchLabels: map[string]string{"app": "db"}}}
		}, "affinity to"},
		"a pod beside one that it avoids": {func(s *Scenario, _ *Plan) {
			s.PodGroups[3].AntiAffinity = []Term{{Key: hostnameKey, MatchLabels: map[string]string{"app": "job"}}}
		}, "anti-affinity to"},
		"a pod beside one that avoids it": {func(s *Scenario, _ *Plan) {
			s.PodGroups[1].AntiAffinity = []Term{{Key: "topology.kubernetes.io/zone", MatchLabels: map[string]string{"app": "web"}}}
		}, "anti-affinity to"},
		"a skew over zones": {func(s *Scenario, _ *Plan) {
			s.PodGroups[2].Spread = []Spread{{Key: "topology.kubernetes.io/zone", MaxSkew: 1, MatchLabels: map[string]string{"app": "job"}}}
		}, "spread of"},
		"more pods on a node than a spread over hostnames allows": {func(s *Scenario, _ *Plan) {
			s.PodGroups[2].Spread = []Spread{{Key: hostnameKey, MaxSkew: 1, MatchLabels: map[string]string{"app": "job"}}}
		}, "spread of"},
		"a refusal of a pod that finds room": {func(_ *Scenario, p *Plan) {
			p.NewNodes[2].Pods = []Share{{2, 1}}
			p.Unschedulable = []Share{{3, 1}, {4, 1}}
		}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := example(t)
			tc.broken(s, p)
			r := Check(s, p)
			switch {
			case tc.want == "":
				if len(r.Violations) > 0 || r.WronglyRefused != 1 {
					t.Errorf("Check = %+v, want one wrong refusal", r)
				}
			case len(r.Violations) == 0 || !strings.Contains(strings.Join(r.Violations, "\n"), tc.want):
				t.Errorf("violations are %q, want %q", r.Violations, tc.want)
			}
		})
	}
}
