package scenario

// zoneKey is the label of a node's zone.
const zoneKey = "topology.kubernetes.io/zone"

// brokenLedger are plans that do not add up, or name what there is not.
func brokenLedger() map[string]breakage {
	return map[string]breakage{
		"a price that is not the sum": {func(_ *Scenario, p *Plan) { p.PricePerHour = 0.7 }, "the price is 0.8000"},
		"a bound above the price":     {func(_ *Scenario, p *Plan) { p.LowerBoundPerHour = 0.9 }, "the bound"},
		"another scenario's plan":     {func(_ *Scenario, p *Plan) { p.Scenario = "other" }, "not kplan/1 that solves"},
		"a pod that is left out":      {func(_ *Scenario, p *Plan) { p.Unschedulable = nil }, "group 4 has 1 pending pods, the plan has 0"},
		"a pod that occurs twice": {func(_ *Scenario, p *Plan) {
			p.NewNodes[2].Pods = append(p.NewNodes[2].Pods, Share{2, 1})
		}, "group 2 has 2 pending pods, the plan has 3"},
		"another format":         {func(_ *Scenario, p *Plan) { p.Format = "kplan/2" }, "not kplan/1 that solves"},
		"a plan of another mode": {func(_ *Scenario, p *Plan) { p.Mode = "consolidate" }, "not kplan/1 that solves"},
		"a pod both placed and refused": {func(_ *Scenario, p *Plan) {
			p.Unschedulable = append(p.Unschedulable, Share{3, 1})
		}, "group 3 has 1 pending pods, the plan has 2"},
		"fewer than no pods": {func(_ *Scenario, p *Plan) {
			p.NewNodes[2].Pods = append(p.NewNodes[2].Pods, Share{2, 1})
			p.Unschedulable = append(p.Unschedulable, Share{2, -1})
		}, "unschedulable has -1 pods of group 2"},
		"a group that there is not":                {func(_ *Scenario, p *Plan) { p.Unschedulable = append(p.Unschedulable, Share{9, 1}) }, "1 pods of group 9"},
		"a type that there is not":                 {func(_ *Scenario, p *Plan) { p.NewNodes[1].Type = "s.tiny" }, "there is no type s.tiny"},
		"a pool that there is not":                 {func(_ *Scenario, p *Plan) { p.NewNodes[1].Pool = "other" }, "no pool other"},
		"a node that there is not":                 {func(_ *Scenario, p *Plan) { p.Existing[0].Node = "old-2" }, "there is no node old-2"},
		"a node that is paid for but not launched": {func(_ *Scenario, p *Plan) { p.PricePerHour += 0.05 }, "the price is 0.8000, the plan says 0.8500"},
	}
}

// brokenNodes are nodes that cannot be launched, hold too much, or are too many.
func brokenNodes() map[string]breakage {
	return map[string]breakage{
		"an offering that is not available": {func(_ *Scenario, p *Plan) {
			p.NewNodes[0].CapacityType = "spot"
		}, "cannot be launched"},
		"a zone in which the type is not offered": {func(_ *Scenario, p *Plan) {
			p.NewNodes[2].Zone = "east-c"
		}, "cannot be launched"},
		"an offering that there is not": {func(s *Scenario, _ *Plan) {
			s.InstanceTypes[0].Offerings = s.InstanceTypes[0].Offerings[:3]
		}, "newNodes[1]: s.large cannot be launched in east-b as spot"},
		"too little cpu": {func(_ *Scenario, p *Plan) {
			p.Unschedulable, p.NewNodes[0].Pods = nil, []Share{{0, 1}, {1, 1}, {4, 1}}
		}, "too little cpu"},
		"too little memory": {func(s *Scenario, _ *Plan) { s.PodGroups[3].Mem = 1 << 20 }, "too little memory"},
		"too few pods":      {func(s *Scenario, _ *Plan) { s.InstanceTypes[2].Pods = 2 }, "too little pods"},
		"no GPU":            {func(s *Scenario, _ *Plan) { s.InstanceTypes[2].Ext = nil }, "too little ext/nvidia.com/gpu"},
		"a node that is overfull by one millicore": {func(s *Scenario, _ *Plan) {
			s.PodGroups[1].CPU = 8000 - 90 - 100 - 500 + 1
		}, "newNodes[0] has too little cpu"},
		"a node that is overfull because of its daemons": {func(s *Scenario, _ *Plan) { s.DaemonSets[0].Mem = 7000 }, "too little memory"},
		"more daemons and pods than a node takes": {func(s *Scenario, _ *Plan) {
			s.InstanceTypes[1].Pods = 3
			s.DaemonSets = append(s.DaemonSets, DaemonSet{Name: "b"})
		}, "newNodes[0] has too little pods"},
		"a node that is there and gets too much": {func(s *Scenario, _ *Plan) {
			s.Nodes[0].Pods = []Share{{2, 3}}
		}, "old-1 has too little cpu"},
		"a node that gets too much in two entries": {func(_ *Scenario, p *Plan) {
			p.NewNodes[0].Pods = []Share{{0, 1}}
			p.Existing = append(p.Existing, Existing{Node: "old-1", Pods: []Share{{1, 1}}})
		}, "old-1 has too little"},
		"two pods on one GPU":              {func(s *Scenario, _ *Plan) { s.PodGroups[3].Ext["nvidia.com/gpu"] = 2 }, "too little ext/nvidia.com/gpu"},
		"a pool above its limit of memory": {func(s *Scenario, _ *Plan) { s.NodePools[0].LimitMem = 65535 }, "above its limits"},
	}
}

// brokenLabels are nodes that pools or pods do not want.
func brokenLabels() map[string]breakage {
	return map[string]breakage{
		"a selector for another capacity type": {func(s *Scenario, _ *Plan) {
			s.PodGroups[3].NodeSelector = map[string]string{"karpenter.sh/capacity-type": "on-demand"}
		}, "its labels do not satisfy"},
		"a selector for a label that the node lacks": {func(s *Scenario, _ *Plan) {
			s.PodGroups[1].NodeSelector = map[string]string{"example.com/gpu": "l4"}
		}, "its labels do not satisfy"},
		"a pool that wants other nodes": {func(s *Scenario, _ *Plan) {
			s.NodePools[0].Requirements = append(s.NodePools[0].Requirements, Requirement{Key: "example.com/gpu", Op: "DoesNotExist"})
		}, "newNodes[2]: its labels do not satisfy"},
		"a pool above its limit": {func(s *Scenario, _ *Plan) { s.NodePools[0].LimitCPU = 15000 }, "above its limits"},
		"a selector for another zone": {func(s *Scenario, _ *Plan) {
			s.PodGroups[3].NodeSelector = map[string]string{zoneKey: "east-b"}
		}, "newNodes[2]: its labels do not satisfy"},
		"a selector for another pool": {func(s *Scenario, _ *Plan) {
			s.PodGroups[3].NodeSelector = map[string]string{"karpenter.sh/nodepool": "other"}
		}, "newNodes[2]: its labels do not satisfy"},
		"a selector that a node that is there does not satisfy": {func(s *Scenario, _ *Plan) {
			s.PodGroups[2].NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
		}, "old-1: its labels do not satisfy"},
		"a pool that does not sell spot": {func(s *Scenario, _ *Plan) {
			s.NodePools[0].Requirements[1].Values = []string{"on-demand"}
		}, "newNodes[1]: its labels do not satisfy"},
		"a pool that keeps out a zone": {func(s *Scenario, _ *Plan) {
			s.NodePools[0].Requirements = append(s.NodePools[0].Requirements, Requirement{Key: zoneKey, Op: "NotIn", Values: []string{"east-b"}})
		}, "newNodes[1]: its labels do not satisfy"},
		"a pool that wants a label that the node lacks": {func(s *Scenario, _ *Plan) {
			s.NodePools[0].Requirements = append(s.NodePools[0].Requirements, Requirement{Key: "example.com/gpu", Op: "Exists"})
		}, "newNodes[0]: its labels do not satisfy"},
		"two pods that want different values of a label": {func(s *Scenario, _ *Plan) {
			s.InstanceTypes[2].Reqs[2].Values = []string{"l4", "t4"}
			s.PodGroups[2].NodeSelector = map[string]string{"example.com/gpu": "t4"}
			s.PodGroups[3].NodeSelector = map[string]string{"example.com/gpu": "l4"}
		}, "newNodes[2]: its labels do not satisfy"},
	}
}

// brokenRules are pods where others keep them from.
func brokenRules() map[string]breakage {
	return map[string]breakage{
		"a pod without the one that its affinity selects": {func(s *Scenario, _ *Plan) {
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
		"a pod beside one that was there and avoids it": {func(s *Scenario, _ *Plan) {
			s.PodGroups[2].AntiAffinity = []Term{{Key: hostnameKey, MatchLabels: map[string]string{"app": "web"}}}
		}, "anti-affinity to"},
		"a pod beside another of its own that it avoids": {func(_ *Scenario, p *Plan) {
			p.NewNodes[1].Pods, p.NewNodes[0].Pods = []Share{{0, 2}}, []Share{{1, 1}}
		}, "anti-affinity to"},
		"a second domain begun by those that attract each other": {func(s *Scenario, _ *Plan) {
			s.PodGroups[0].Affinity = []Term{{Key: zoneKey, MatchLabels: map[string]string{"app": "web"}}}
		}, "affinity to"},
		"a second domain, where a selected pod was in another": {func(s *Scenario, p *Plan) {
			s.PodGroups[2].Affinity = []Term{{Key: zoneKey, MatchLabels: map[string]string{"app": "job"}}}
			p.NewNodes[2].Zone, p.PricePerHour = "east-b", 0.81
		}, "affinity to"},
		"a skew that is too large by one pod": {func(s *Scenario, _ *Plan) {
			s.PodGroups[2].Spread = []Spread{{Key: zoneKey, MaxSkew: 2, MatchLabels: map[string]string{"app": "job"}}}
		}, "1 pods are in a domain that had too many"},
		"affinity to a pod that is nowhere": {func(s *Scenario, _ *Plan) {
			s.PodGroups[3].Affinity = []Term{{Key: zoneKey, MatchLabels: map[string]string{"app": "nobody"}}}
		}, "affinity to"},
		"circular affinity": {func(s *Scenario, _ *Plan) {
			s.PodGroups[3].Labels = map[string]string{"app": "late"}
			s.PodGroups[2].Affinity = []Term{{Key: hostnameKey, MatchLabels: map[string]string{"app": "late"}}}
			s.PodGroups[3].Affinity = []Term{{Key: hostnameKey, MatchLabels: map[string]string{"app": "job"}}}
		}, "wait for others that wait for them"},
		"affinity by a label that the node lacks": {func(s *Scenario, _ *Plan) {
			s.PodGroups[1].Affinity = []Term{{Key: "rack", MatchLabels: map[string]string{"app": "db"}}}
		}, "without the label rack"},
		"spread over a label that the node lacks": {func(s *Scenario, _ *Plan) {
			s.PodGroups[1].Spread = []Spread{{Key: "rack", MaxSkew: 1, MatchLabels: map[string]string{"app": "db"}}}
		}, "without the label"},
		"a skew that pods bound before are part of": {func(s *Scenario, p *Plan) {
			s.PodGroups[2].Labels = map[string]string{"app": "web"}
			s.PodGroups[0].AntiAffinity, s.PodGroups[2].N = nil, 0
			p.Existing[0].Pods, p.NewNodes[2].Pods = []Share{{0, 1}}, []Share{{3, 1}}
			p.NewNodes[0].Pods, p.NewNodes[1].Pods = []Share{{1, 1}}, []Share{{0, 2}}
		}, "spread of"},
	}
}

func wrongRefusals() map[string]breakage {
	return map[string]breakage{
		"a refusal of a pod that finds room": {func(_ *Scenario, p *Plan) {
			p.NewNodes[2].Pods = []Share{{2, 1}}
			p.Unschedulable = []Share{{3, 1}, {4, 1}}
		}, ""},
	}
}
