package generate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// Family is one kind of cluster.
type Family struct {
	Name, About string
	// Spot says that pools allow spot too; Anything that they allow every instance type.
	Spot, Anything bool
	// constrain gives one deployment what distinguishes the family.
	constrain func(*drawer, *scenario.PodGroup)
}

// Families returns all of them.
func Families() []Family {
	return []Family{
		{Name: "plain", About: "web, cpu- and memory-heavy deployments on demand", constrain: func(*drawer, *scenario.PodGroup) {}},
		{Name: "mixed", About: "40 % of deployments on demand only, the others spot or on demand", Spot: true, constrain: (*drawer).pinOnDemand},
		{Name: "rules", About: "40 % of deployments spread over zones, 20 % with hostname limits or conflicts", constrain: (*drawer).giveRules},
		{Name: "hosts", About: "every deployment limits its pods per node or avoids its own or another's", constrain: (*drawer).limitHosts},
		{Name: "gpu", About: "30 % of deployments ask for 1, 2, 4 or 8 GPUs, half of them for a kind; capacity as in mixed", Spot: true, constrain: (*drawer).giveGPUs},
		{Name: "sidecars", About: "pods of two thirds of the deployments have a proxy and perhaps an agent beside them; capacity as in mixed", Spot: true, constrain: (*drawer).addSidecars},
		{Name: "wide", About: "plain pods, spot too, and every instance type that EC2 sells", Spot: true, Anything: true, constrain: func(*drawer, *scenario.PodGroup) {}},
	}
}

// Scenario returns the family's cluster with that many pending pods.
func (f Family) Scenario(pods int, seed uint64) *scenario.Scenario {
	s := &scenario.Scenario{
		Format: scenario.Format, Name: fmt.Sprintf("own-%s-%d", f.Name, pods), Description: fmt.Sprintf("%s (seed %d)", f.About, seed),
		Catalog: CatalogFile, NodePools: []scenario.NodePool{f.pool()},
		DaemonSets: []scenario.DaemonSet{{Name: "cni", CPU: 50, Mem: 64}, {Name: "proxy", CPU: 100, Mem: 64}, {Name: "agent", CPU: 100, Mem: 192}},
	}
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, uint64(pods)))} //nolint:gosec // it must be the same each time
	for left := pods; left > 0; d.deployments++ {
		g := d.deployment(min(left, max(1, pods/10)))
		f.constrain(d, &g)
		left -= g.N
		s.PodGroups = append(s.PodGroups, g)
	}
	return s
}

// pool is for three zones, and unless anything goes, for nodes of recent generations
// for general use, and with GPUs for who asks.
func (f Family) pool() scenario.NodePool {
	p := scenario.NodePool{Name: "default"}
	require := func(key string, values ...string) {
		p.Requirements = append(p.Requirements, scenario.Requirement{Key: key, Op: "In", Values: values})
	}
	require("kubernetes.io/os", "linux")
	require(label.Zone, "use1-az2", "use1-az4", "use1-az6")
	if f.Spot {
		require(label.CapacityType, label.OnDemand, label.Spot)
	} else {
		require(label.CapacityType, label.OnDemand)
	}
	if !f.Anything {
		require(instance+"category", "c", "m", "r", "g", "p")
		require(instance+"generation", "4", "5", "6", "7", "8")
	}
	return p
}

// drawer draws deployments.
type drawer struct {
	*rand.Rand
	deployments int
}

// deployment draws one of at most so many pods, without rules.
func (d *drawer) deployment(podsMax int) scenario.PodGroup {
	cores := min(8, 0.35*math.Exp(d.NormFloat64()))
	perCore := 1 + 3*d.Float64() // GiB: web
	switch d.IntN(4) {
	case 0:
		perCore = 0.3 + 0.7*d.Float64()
	case 1:
		perCore = 5 + 5*d.Float64()
	}
	g := scenario.PodGroup{
		Name: fmt.Sprintf("app-%d", d.deployments), N: min(podsMax, int(3*math.Pow(1-d.Float64(), -1/1.2))),
		CPU: stepped(cores*1000, 50), Mem: stepped(cores*perCore*1024, 64), NodeSelector: map[string]string{},
	}
	g.Labels = map[string]string{"app": g.Name}
	switch roll := d.IntN(20); {
	case roll < 10:
		g.NodeSelector["kubernetes.io/arch"] = "amd64"
	case roll == 10:
		g.NodeSelector["kubernetes.io/arch"] = "arm64"
	}
	return g
}

// stepped rounds up to a multiple of a step, at least one.
func stepped(amount float64, step int64) int64 {
	return max(1, int64(math.Ceil(amount/float64(step)))) * step
}

func (d *drawer) pinOnDemand(g *scenario.PodGroup) {
	if d.IntN(10) < 4 {
		g.NodeSelector[label.CapacityType] = label.OnDemand
	}
}

// addSidecars adds what a service mesh asks for a proxy by default, and what a log agent may.
func (d *drawer) addSidecars(g *scenario.PodGroup) {
	d.pinOnDemand(g)
	if d.IntN(3) == 0 {
		return
	}
	g.CPU, g.Mem = g.CPU+100, g.Mem+128
	if d.IntN(2) == 0 {
		g.CPU, g.Mem = g.CPU+25, g.Mem+200
	}
}

func (d *drawer) giveRules(g *scenario.PodGroup) {
	switch roll := d.IntN(10); {
	case roll < 4:
		g.Spread = []scenario.Spread{{Key: label.Zone, MaxSkew: 1, MatchLabels: g.Labels}}
	case roll < 6:
		d.limitHosts(g)
	}
}

// limitHosts lets so many pods of the deployment on a node, or none beside another one's.
// It keeps deployments small, because each pod may need a node of its own.
func (d *drawer) limitHosts(g *scenario.PodGroup) {
	g.N = min(g.N, 60)
	switch d.IntN(3) {
	case 0:
		g.Spread = []scenario.Spread{{Key: label.Hostname, MaxSkew: int32(1 + d.IntN(4)), MatchLabels: g.Labels}}
	case 1:
		g.AntiAffinity = []scenario.Term{{Key: label.Hostname, MatchLabels: g.Labels}}
	default:
		other := map[string]string{"app": fmt.Sprintf("app-%d", d.IntN(d.deployments+1))}
		g.AntiAffinity = []scenario.Term{{Key: label.Hostname, MatchLabels: other}}
	}
}

func (d *drawer) giveGPUs(g *scenario.PodGroup) {
	d.pinOnDemand(g)
	if d.IntN(10) >= 3 {
		return
	}
	count := []int64{1, 1, 1, 1, 2, 2, 4, 8}[d.IntN(8)]
	g.Ext = map[string]int64{"nvidia.com/gpu": count}
	g.CPU, g.Mem = count*stepped(float64(g.CPU), 500), count*stepped(float64(min(g.Mem, 12288)), 1024)
	g.CPU, g.Mem = min(g.CPU, count*3000), min(g.Mem, count*12288)
	g.N = min(g.N, 40)
	delete(g.NodeSelector, "kubernetes.io/arch")
	if d.IntN(2) == 0 {
		g.NodeSelector[instance+"gpu-name"] = []string{"a10g", "l4"}[d.IntN(2)]
	}
}
