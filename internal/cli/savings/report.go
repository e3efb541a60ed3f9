package savings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
)

// Format names the form of the report as JSON.
const Format = "dovetail-savings/1"

// hoursPerMonth is what clouds reckon with.
const hoursPerMonth = 730

// Report is the answer. Prices are in dollars per hour.
type Report struct {
	Format  string    `json:"format"`
	Cluster string    `json:"cluster,omitempty"`
	At      time.Time `json:"at"`
	// Nodes have a price; Pods could move from them. Pending pods have no node.
	Nodes   int `json:"nodes"`
	Pods    int `json:"pods"`
	Pending int `json:"pending"`
	// Now is what the nodes cost, After what they cost when all steps are taken. BoundKept is what they must cost at
	// least as long as those that may not go stay, and Bound if every pod could move.
	Now        float64 `json:"nowPerHour"`
	After      float64 `json:"afterPerHour"`
	BoundKept  float64 `json:"leastWithNodesKeptPerHour"`
	Bound      float64 `json:"leastPerHour"`
	Evictions  int     `json:"evictions"`
	NodesAfter int     `json:"nodesAfter"`

	Types     []Line `json:"types"`
	Pools     []Line `json:"pools"`
	Workloads []Line `json:"workloads"`
	Steps     []Step `json:"steps"`
	// Alone are nodes that are left alone, Stays those that may go and for which nothing better was found.
	Alone []Cause `json:"leftAlone"`
	Stays []Cause `json:"stays"`
	// Presumed is what the figures rest on, Unjudged what the checker of the steps does not look at.
	Presumed []string `json:"presumed"`
	Unjudged []string `json:"unjudged"`
	// Proposed are the NodePools that nodes of no NodePool were given, as YAML.
	Proposed []string `json:"proposedNodePools"`
	// Dropped says why steps were left out: the checker objected to the first of them. Empty: none were.
	Dropped string `json:"dropped,omitempty"`
}

// Line is one line of a table: so much of something now, and when all steps are taken.
type Line struct {
	Name       string  `json:"name"`
	Note       string  `json:"note,omitempty"`
	Count      int     `json:"count"`
	CountAfter int     `json:"countAfter"`
	Now        float64 `json:"nowPerHour"`
	After      float64 `json:"afterPerHour"`
}

// Step is one change of the nodes.
type Step struct {
	Remove []Node `json:"remove"`
	Launch []Node `json:"launch"`
	// Evict are the pods that must move.
	Evict []string `json:"evict"`
	// Saves is what the step saves; negative: it costs that much more. After is the price of all nodes after it.
	Saves float64 `json:"savesPerHour"`
	After float64 `json:"afterPerHour"`
}

// Node is a node of a step.
type Node struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Zone  string  `json:"zone"`
	Kind  string  `json:"capacityType"`
	Pool  string  `json:"nodePool"`
	Price float64 `json:"pricePerHour"`
}

// Cause is nodes that stay for the same reason.
type Cause struct {
	Why   string   `json:"why"`
	Nodes []string `json:"nodes"`
	Price float64  `json:"pricePerHour"`
}

// Input is what a report is about.
type Input struct {
	// Objects are those of simulate.Present. They are changed.
	Objects []client.Object
	// Cluster names where they are from; a redacted report does not say it.
	Cluster string
	At      time.Time
	Redact  bool
	Terms   Terms
	Clock   simulate.Clock
	// Groups are node groups of Cluster API; nil: it was not looked for, or is not there. Join adds to a catalog what node
	// classes offer that no catalog in the program has; nil: nothing. A redacted report has neither: their names would be in it.
	Groups *clusterapi.Groups
	Join   func(*simulate.Catalog)
}

// Make returns the report.
func Make(in Input) (*Report, error) {
	p, err := pricesFor(in.Objects)
	if err != nil {
		return nil, err
	}
	p.addGroups(in.Groups, in.Objects)
	a := adopt(in.Objects, p, in.Terms)
	all := &subject{objects: in.Objects, adoption: a, workloads: workloadsOf(in.Objects)}
	for _, np := range a.pools {
		all.objects = append(all.objects, np)
	}
	for _, nc := range a.claims {
		all.objects = append(all.objects, nc)
	}
	if in.Redact {
		in.Cluster = ""
		if err := all.redact(); err != nil {
			return nil, err
		}
	}
	pools := all.pools()
	if len(pools) == 0 && len(p.groups.Nodes) > 0 {
		return nil, errors.New("no node has a price" + all.reasons())
	}
	if len(pools) == 0 {
		return nil, errors.New("no node has a price: there are neither NodePools nor Nodes of EC2 with the labels node.kubernetes.io/instance-type and topology.kubernetes.io/zone" + all.reasons())
	}
	c, err := simulate.Among(all.objects, "savings", p.catalog(in.Join), in.At)
	if err != nil {
		return nil, err
	}
	d, err := decide(c, in.Clock)
	if err != nil {
		return nil, err
	}
	r := &Report{Format: Format, Cluster: in.Cluster, At: in.At, Presumed: presumed(p, pools, c.Snapshot, in.Terms, a), Dropped: d.dropped, Unjudged: d.unjudged}
	if len(d.result.GivenUp) > 0 {
		r.Presumed = append(r.Presumed, "The search for steps was given up before its end ("+strings.Join(d.result.GivenUp, ", ")+"): there may be more to save.")
	}
	r.fill(d, all)
	if r.Nodes == 0 && len(p.groups.Nodes) > 0 {
		return nil, errors.New("no node has a price" + all.reasons())
	}
	for _, np := range all.proposed() {
		text, err := manifest(np)
		if err != nil {
			return nil, err
		}
		r.Proposed = append(r.Proposed, text)
	}
	return r, nil
}

// manifest returns a proposed NodePool as YAML, without what an API server adds.
func manifest(np *karpenterv1.NodePool) (string, error) {
	out := np.DeepCopy()
	out.UID = ""
	out.Status = karpenterv1.NodePoolStatus{}
	b, err := yaml.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("write NodePool %s: %w", np.Name, err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool {
		return l == "status: {}" || strings.HasPrefix(l, "  creationTimestamp:") || l == "    metadata: {}"
	})
	return strings.Join(lines, "\n") + "\n", nil
}

// decision is what consolidation decided and the checker confirmed.
type decision struct {
	snap   *cluster.Snapshot
	result consolidate.Result
	steps  int // how many of the result's stand
	plan   *scenario.Plan
	report scenario.StepsReport
	now    float64
	bound  float64 // if every pod could move
	// dropped says why steps were left out.
	dropped  string
	unjudged []string
}

// decide has the core consolidate, and the checker carry the steps out.
func decide(c simulate.Case, clock simulate.Clock) (*decision, error) {
	aged(c.Snapshot)
	var kinds []kind
	c.Snapshot, kinds = numbered(c.Snapshot)
	opts := consolidate.Options{Candidate: func(n *cluster.Node) verdict.Verdict { return wanted(c.Snapshot, n) }}
	if len(c.Snapshot.Nodes) > manyNodes {
		opts.MayBegin = func([]plan.Command) int { return 1 }
	}
	saving := simulate.Consolidate(c, opts, clock)
	file, err := saving.File()
	if err != nil {
		return nil, err
	}
	file.PricePerHour, file.LowerBoundPerHour = saving.AfterHourly, saving.BoundHourly
	d := &decision{snap: c.Snapshot, result: saving.Result, steps: len(file.Steps), plan: file}
	e := exported(c.Snapshot, kinds, file)
	d.unjudged = slices.Sorted(maps.Keys(e.unjudged))
	d.now = scenario.CheckSteps(e.out, &scenario.Plan{Format: scenario.PlanFormat, Scenario: file.Scenario, Mode: "consolidate", PricePerHour: saving.PriceHourly}).PricePerHour
	d.report = scenario.CheckSteps(e.out, file)
	if first := d.firstObjection(); first >= 0 {
		d.dropped = d.report.Violations[0]
		d.steps, file.Steps = first, file.Steps[:first]
		file.PricePerHour = d.now
		if first > 0 {
			file.PricePerHour = d.report.Prices[first-1]
		}
		d.report = scenario.CheckSteps(e.out, file)
	}
	if len(d.report.Violations) > 0 {
		return nil, fmt.Errorf("the checker of plans objects, which is a bug of ours: %s", d.report.Violations[0])
	}
	d.bound = min(freeBound(c.Snapshot), d.report.PricePerHour)
	return d, nil
}

// firstObjection returns the first step to which the checker objects; -1: to none, or not to a step.
func (d *decision) firstObjection() int {
	first := -1
	for _, v := range d.report.Violations {
		var step int
		if _, err := fmt.Sscanf(v, "step %d:", &step); err == nil && (first < 0 || step < first) {
			first = step
		}
	}
	return first
}

// aged makes nodes that are younger a day old: what consolidation waits for with young nodes will have passed.
func aged(snap *cluster.Snapshot) {
	const day = 24 * time.Hour
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; snap.At.Sub(n.Created) < day {
			n.Created = snap.At.Add(-day)
		}
	}
}

// wanted returns why the NodePool of a node does not want it removed.
func wanted(snap *cluster.Snapshot, n *cluster.Node) verdict.Verdict {
	pool, ok := snap.PoolByName(n.Pool)
	switch {
	case !ok:
		return verdict.Of(verdict.NodeBlocked, n.Name, "there is no NodePool %s", n.Pool)
	case pool.Static:
		return verdict.Of(verdict.NodeBlocked, n.Name, "NodePool %s has a fixed number of replicas", n.Pool)
	case pool.ConsolidateAfter < 0:
		return verdict.Of(verdict.NodeBlocked, n.Name, "consolidateAfter of NodePool %s is Never", n.Pool)
	case pool.Policy == cluster.PolicyEmpty && len(n.Reschedulable) > 0:
		return verdict.Of(verdict.NodeBlocked, n.Name, "consolidationPolicy of NodePool %s is %s", n.Pool, pool.Policy)
	default:
		return verdict.Verdict{}
	}
}

// freeBound returns what nodes for the pods must cost at least if every pod could move.
func freeBound(snap *cluster.Snapshot) float64 {
	free := *snap
	free.Nodes = slices.Clone(snap.Nodes)
	for i := range free.Nodes {
		n := &free.Nodes[i]
		n.DoNotDisrupt, n.Planned, n.DisruptionReason, n.DisruptedTaint = "", 0, "", false
		n.Reschedulable = slices.Clone(n.Reschedulable)
		for k := range n.Reschedulable {
			n.Reschedulable[k].DoNotDisrupt, n.Reschedulable[k].PDBs = "", nil
		}
	}
	return consolidate.Search(&free, consolidate.Options{Terms: consolidate.Terms{GapMax: noSearch}}).BoundHourly
}

// manyNodes is above how many nodes few orders of nodes are tried, as the controller does when its budgets let few steps
// begin at a time. In BenchmarkMake two orders end 2 % above four, in less than half the CPU time.
const manyNodes = 500

// noSearch is a gap at which consolidation computes the bound and does not search.
const noSearch = 1e9

// presumed says what the figures rest on.
func presumed(p *prices, pools []*karpenterv1.NodePool, snap *cluster.Snapshot, terms Terms, a *adoption) []string {
	lines := p.presumed(pools)
	replicas := 0
	for _, nc := range a.claims {
		if nc.Spec.NodeClassRef.Group == clusterapiv1alpha1.Group {
			replicas++
		}
	}
	if replicas > 0 {
		lines = append(lines, fmt.Sprintf("%d nodes are replicas of MachineDeployments, without a NodePool. They are taken to be of the NodePools proposed here: the same labels, taints and CPU architecture, and nodes of any MachineDeployment of the Cluster whose nodes have these taints, if its maximum allows more. For that it needs the label %s, and the ClusterAPINodeClass %s must select it.",
			replicas, clusterapi.MemberLabel, p.groupClass.Name))
	}
	if len(a.claims) > replicas {
		what := "any type of the categories c, m, r and those that the nodes have, above generation " + strconv.Itoa(generationAbove) + " where the nodes are"
		if terms.OwnTypes {
			what = "the instance types that the nodes have"
		}
		lines = append(lines, fmt.Sprintf("%d nodes are of no NodePool that can be read. They are taken to be of the NodePools proposed here: the same labels, taints, zones and CPU architecture, %s.", len(a.claims)-replicas, what))
	}
	if len(a.claims) > 0 {
		if terms.Spot {
			lines = append(lines, "Proposed NodePools may launch spot (--spot).")
		} else {
			lines = append(lines, "Proposed NodePools launch spot only where nodes are spot now (--spot allows it everywhere). A pod that no selector keeps from spot may come there.")
		}
	}
	lines = append(lines,
		"Pods ask for what they ask for now: requests, not what is used.",
		"Budgets of NodePools say how many nodes go at once, so they change how long the steps take and not what they save.",
		"Nodes count as a day old or older: Dovetail is slower to remove younger ones.")
	if n := len(snap.Pending); n > 0 {
		lines = append(lines, fmt.Sprintf("%d pending pods have no node. Room that they may use is kept; what they would launch is not in the figures.", n))
	}
	return lines
}

// compareLines orders lines by what they cost, the dearest first.
func compareLines(a, b Line) int {
	return cmp.Or(cmp.Compare(max(b.Now, b.After), max(a.Now, a.After)), cmp.Compare(a.Name, b.Name))
}
