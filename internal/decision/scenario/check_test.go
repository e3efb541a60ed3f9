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

// breakage breaks one rule of the worked example. Pods are group 0 web, 1 db, 2 job,
// 3 infer, 4 big.
type breakage struct {
	broken func(*Scenario, *Plan)
	want   string // part of a violation; empty: none, but a wrong refusal
}

func TestCheckCatches(t *testing.T) {
	t.Parallel()
	for name, tc := range merged(t, brokenLedger(), brokenNodes(), brokenLabels(), brokenRules(), wrongRefusals()) {
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

func merged(t *testing.T, tables ...map[string]breakage) map[string]breakage {
	t.Helper()
	all := map[string]breakage{}
	for _, table := range tables {
		for name, tc := range table {
			if _, ok := all[name]; ok {
				t.Errorf("two cases are called %q", name)
			}
			all[name] = tc
		}
	}
	return all
}

// TestCheckAccepts changes the worked example in ways that look wrong and are not.
func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Scenario, *Plan){
		"a pool exactly at its limit": func(s *Scenario, _ *Plan) {
			s.NodePools[0].LimitCPU, s.NodePools[0].LimitMem = 16000, 8192+32768+8192+16384
		},
		"a pool above its limit in which nothing is launched": func(s *Scenario, p *Plan) {
			s.NodePools[0].LimitCPU = 1000
			p.NewNodes, p.PricePerHour, p.LowerBoundPerHour = []NewNode{}, 0, 0
			p.Unschedulable = []Share{{0, 2}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}
			p.Existing[0].Pods = []Share{{0, 1}, {2, 1}}
		},
		"a preference that is not met": func(s *Scenario, _ *Plan) {
			s.PodGroups[2].Spread = []Spread{{Key: zoneKey, MaxSkew: 1, MatchLabels: map[string]string{"app": "job"}, Soft: true}}
		},
		"the first of those that attract each other": func(s *Scenario, _ *Plan) {
			s.PodGroups[1].Affinity = []Term{{Key: zoneKey, MatchLabels: map[string]string{"app": "db"}}}
		},
		"those bound together from the start that avoid each other": func(s *Scenario, p *Plan) {
			s.Nodes[0].Pods = []Share{{2, 2}}
			s.PodGroups[2].N, s.PodGroups[2].AntiAffinity = 0, []Term{{Key: hostnameKey, MatchLabels: map[string]string{"app": "job"}}}
			p.Existing[0].Pods, p.NewNodes[2].Pods = []Share{{0, 1}}, []Share{{3, 1}}
		},
		"one value of several that pool and pods agree on": func(s *Scenario, _ *Plan) {
			s.InstanceTypes[2].Reqs[2].Values = []string{"t4", "l4"}
			s.PodGroups[3].NodeSelector = map[string]string{"example.com/gpu": "l4"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := example(t)
			change(s, p)
			if r := Check(s, p); len(r.Violations) > 0 {
				t.Errorf("violations: %q", r.Violations)
			}
		})
	}
}
