package generate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// Week is the workload of seven days, half hour by half hour. It rebuilds what a vendor
// published in 2026 as a comparison with Karpenter, as far as that is described: instance
// types of the categories c, m and r from generation 5 on, with 2 to 32 cpus, spot where there
// is any; 15 to 20 nodes by day and about 8 by night; pods of many sizes, some of which fill
// nodes badly, topology spread constraints and tight PodDisruptionBudgets; and requests that are
// raised and lowered with the load every half hour. How many pods of which size was not published.
type Week struct {
	deployments []deployment
}

// WeekSteps is the number of half hours in a week.
const WeekSteps = 7 * 48

// deployment is one workload over the week.
type deployment struct {
	group scenario.PodGroup // with its requests at full load
	// most and least are its pods by day and by night; scaled: its requests follow the load.
	most, least int
	scaled      bool
}

// NewWeek draws the workload from a seed.
func NewWeek(seed uint64) *Week {
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // it must be the same each time
	w := &Week{}
	for i := range 9 {
		w.add("web", i, int64(500*(1+r.IntN(4))), 1+2*r.Float64(), 4+r.IntN(5), 3, func(d *deployment) {
			d.scaled = true
			d.group.Spread = []scenario.Spread{{Key: label.Zone, MaxSkew: 1, MatchLabels: d.group.Labels}}
			d.group.DisruptionsAllowed = new(int32(1))
		})
	}
	for i := range 6 {
		w.add("memory", i, int64(1000*(1+r.IntN(2))), 5+3*r.Float64(), 2+r.IntN(4), 2, func(d *deployment) { d.scaled = true })
	}
	for i := range 5 {
		w.add("cpu", i, int64(2000+1000*r.IntN(4)), 1, 1+r.IntN(4), 1, func(d *deployment) {
			d.group.AntiAffinity = []scenario.Term{{Key: label.Hostname, MatchLabels: d.group.Labels}}
		})
	}
	for i := range 8 { // they leave rests that nothing fits
		w.add("fragment", i, int64(2200+300*r.IntN(6)), 2+2*r.Float64(), 1+r.IntN(2), 1, func(d *deployment) {
			d.group.Spread = []scenario.Spread{{Key: label.Hostname, MaxSkew: 1, MatchLabels: d.group.Labels}}
		})
	}
	for i := range 3 { // alone, and not to be evicted
		w.add("single", i, int64(400+200*r.IntN(3)), 4, 1, 1, func(d *deployment) { d.group.DisruptionsAllowed = new(int32(0)) })
	}
	return w
}

func (w *Week) add(kind string, i int, cpu int64, perCore float64, most, least int, edit func(*deployment)) {
	g := scenario.PodGroup{Name: fmt.Sprintf("%s-%d", kind, i), CPU: cpu, Mem: stepped(float64(cpu)*perCore*1.024, 64)}
	g.Labels = map[string]string{"app": g.Name}
	d := deployment{group: g, most: most, least: min(least, most)}
	edit(&d)
	w.deployments = append(w.deployments, d)
}

// load returns the share of the full load at a step: least at four in the morning, most at
// two in the afternoon, and less on the last two days.
func load(step int) float64 {
	hour := float64(step%48) / 2
	day := 0.5 - 0.5*math.Cos(2*math.Pi*math.Mod(hour-2+24, 24)/24)
	if step/48 >= 5 {
		day *= 0.6
	}
	return day
}

// Pods returns how many pods each workload has at a step, and the workloads with what their pods
// ask for then. Requests follow the load in steps of a tenth.
func (w *Week) Pods(step int) (count []int, groups []scenario.PodGroup) {
	share := load(step)
	for i := range w.deployments {
		d := &w.deployments[i]
		g := d.group
		if d.scaled {
			factor := 0.7 + 0.3*math.Round(share*10)/10
			g.CPU, g.Mem = stepped(float64(g.CPU)*factor, 10), stepped(float64(g.Mem)*factor, 16)
		}
		count = append(count, d.least+int(math.Round(float64(d.most-d.least)*share)))
		groups = append(groups, g)
	}
	return count, groups
}

// Scenario returns the cluster before the week, without a node or a pod.
func (w *Week) Scenario(name string) *scenario.Scenario {
	require := func(key string, values ...string) scenario.Requirement {
		return scenario.Requirement{Key: key, Op: "In", Values: values}
	}
	s := &scenario.Scenario{
		Format: scenario.Format, Name: name, Catalog: CatalogFile,
		NodePools: []scenario.NodePool{{Name: "default", Requirements: []scenario.Requirement{
			require("kubernetes.io/os", "linux"), require("kubernetes.io/arch", "amd64"), require(label.Zone, "use1-az2", "use1-az4", "use1-az6"),
			require(label.CapacityType, label.OnDemand, label.Spot), require(instance+"category", "c", "m", "r"),
			require(instance+"generation", "5", "6", "7", "8"), require(instance+"cpu", "2", "4", "8", "16", "32"),
		}}},
		DaemonSets: []scenario.DaemonSet{{Name: "cni", CPU: 50, Mem: 64}, {Name: "proxy", CPU: 100, Mem: 64}},
	}
	_, s.PodGroups = w.Pods(0)
	return s
}

// WriteScenario writes a scenario to the path, beside which the catalog is.
func WriteScenario(path string, s *scenario.Scenario) error { return write(path, s) }
