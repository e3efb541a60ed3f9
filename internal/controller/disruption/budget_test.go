package disruption_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// window is a budget in a form that can be judged without cron: it opens at a minute of
// an hour of a day (-1: every one) by the clocks of a zone.
type window struct {
	nodes, percent    int // one of them is -1
	reason            string
	always            bool
	minute, hour, day int
	duration          time.Duration
	zone              *time.Location
}

func drawWindow(t *rapid.T, zone *time.Location) window {
	w := window{
		nodes: -1, percent: -1, zone: zone, always: rapid.Bool().Draw(t, "always"),
		minute: rapid.IntRange(-1, 59).Draw(t, "minute"), hour: rapid.IntRange(-1, 23).Draw(t, "hour"), day: rapid.IntRange(-1, 6).Draw(t, "day"),
		duration: time.Duration(rapid.IntRange(1, 12*60).Draw(t, "duration")) * time.Minute,
		reason:   rapid.SampledFrom([]string{"", disrupt.Empty, disrupt.Drifted, disrupt.Underutilized}).Draw(t, "reason"),
	}
	if rapid.Bool().Draw(t, "count") {
		w.nodes = rapid.IntRange(0, 8).Draw(t, "nodes")
	} else {
		w.percent = rapid.IntRange(0, 100).Draw(t, "percent")
	}
	return w
}

// budget returns the window as users write it.
func (w *window) budget() karpenterv1.Budget {
	b := karpenterv1.Budget{Nodes: fmt.Sprint(w.nodes)}
	if w.percent >= 0 {
		b.Nodes = fmt.Sprintf("%d%%", w.percent)
	}
	if w.reason != "" {
		b.Reasons = []karpenterv1.DisruptionReason{karpenterv1.DisruptionReason(w.reason)}
	}
	if !w.always {
		field := func(n int) string {
			if n < 0 {
				return "*"
			}
			return fmt.Sprint(n)
		}
		text := field(w.minute) + " " + field(w.hour) + " * * " + field(w.day)
		b.Schedule, b.Duration = &text, &karpenterv1.Duration{Duration: w.duration}
	}
	return b
}

// open reports whether the window has opened within its duration, minute by minute.
func (w *window) open(at time.Time) bool {
	if w.always {
		return true
	}
	for m := at.Truncate(time.Minute); m.After(at.Add(-w.duration)); m = m.Add(-time.Minute) {
		local := m.In(w.zone)
		is := func(want, got int) bool { return want < 0 || want == got }
		if is(w.minute, local.Minute()) && is(w.hour, local.Hour()) && is(w.day, int(local.Weekday())) {
			return true
		}
	}
	return false
}

func allowed(windows []window, reason string, total int, at time.Time) int {
	least := math.MaxInt
	for i := range windows {
		w := &windows[i]
		if w.reason != "" && w.reason != reason || !w.open(at) {
			continue
		}
		n := w.nodes
		if w.percent >= 0 {
			n = int(math.Ceil(float64(total) * float64(w.percent) / 100))
		}
		least = min(least, n)
	}
	return least
}

// roller is a pool whose nodes are disrupted, on a clock of its own. Their pods move as
// soon as they are evicted, to any node with room. If no node has room they are gone.
type roller struct {
	at          time.Time
	pool        karpenterv1.NodePool
	types       []*catalog.Type
	constraints *cluster.Constraints
	windows     []window
	nodes       []cluster.Node
	made        int
}

// newRoller returns a roller whose nodes have four cpus, or two at little more than
// half of the price. Each pod asks for one.
func newRoller(at time.Time) *roller {
	r := &roller{at: at, constraints: &cluster.Constraints{Requests: quantity.List{quantity.CPU: 1000, quantity.Pods: 1}, Terms: []label.Requirements{{}}}}
	for name, price := range map[string]float64{"four": 0.20, "two": 0.11} {
		capacity := map[string]int64{"four": 4000, "two": 2000}[name]
		r.types = append(r.types, &catalog.Type{
			Name: name, Capacity: quantity.List{quantity.CPU: capacity, quantity.Pods: 110},
			Requirements: label.Requirements{label.InstanceType: label.In(name), label.Zone: label.In("a"), label.CapacityType: label.In(label.OnDemand)},
			Offerings:    []catalog.Offering{{Zone: "a", CapacityType: label.OnDemand, Priced: true, PriceHourly: price, Available: true}},
		})
	}
	slices.SortFunc(r.types, func(a, b *catalog.Type) int { return strings.Compare(a.Name, b.Name) })
	zero := time.Duration(0)
	r.pool.Name = "p"
	r.pool.Spec.Disruption.ConsolidateAfter.Duration = &zero
	r.pool.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "g", Kind: "K", Name: "n"}
	r.pool.Status.Conditions = []metav1.Condition{{Type: karpenterv1.ConditionTypeReady, Status: metav1.ConditionTrue}}
	return r
}

// launch adds a node of a type.
func (r *roller) launch(kind string) *cluster.Node {
	r.made++
	name := fmt.Sprintf("n%03d", r.made)
	t := r.types[slices.IndexFunc(r.types, func(t *catalog.Type) bool { return t.Name == kind })]
	r.nodes = append(r.nodes, cluster.Node{
		Name: name, Claim: name, Pool: "p", Created: r.at.Add(-time.Hour), LastPodEvent: r.at.Add(-time.Hour), Empty: true,
		Labels:   map[string]string{label.InstanceType: kind, label.Zone: "a", label.CapacityType: label.OnDemand, label.NodePool: "p"},
		Capacity: t.Capacity, Allocatable: t.Allocatable(), Used: quantity.List{},
	})
	return &r.nodes[len(r.nodes)-1]
}

func (r *roller) addNode(t *rapid.T) {
	n := r.launch(rapid.SampledFrom([]string{"four", "two"}).Draw(t, "type"))
	n.Initialized, n.Ready = true, rapid.IntRange(0, 9).Draw(t, "ready") > 0
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 1:
		n.Drifted = "NodePoolDrifted"
	case 2:
		n.Expires = r.at.Add(time.Second)
	}
	for range rapid.IntRange(0, 2).Draw(t, "pods") {
		r.bind(n, cluster.ReschedulablePod{PodRef: cluster.PodRef{UID: fmt.Sprintf("%s-%d", n.Name, len(n.Reschedulable))}, Constraints: r.constraints, Controller: "ReplicaSet"})
	}
}

// bind puts a pod on a node that has room.
func (r *roller) bind(n *cluster.Node, pod cluster.ReschedulablePod) {
	n.Reschedulable, n.Empty = append(n.Reschedulable, pod), false
	n.Used = n.Used.Plus(r.constraints.Requests)
	n.Pods = []cluster.PodCount{{Constraints: r.constraints, Count: int32(len(n.Reschedulable))}}
}

// leave removes a node and moves its pods to others.
func (r *roller) leave(n *cluster.Node) {
	pods := n.Reschedulable
	n.Deleting, n.Reschedulable, n.Pods = true, nil, nil
	for _, pod := range pods {
		for i := range r.nodes {
			to := &r.nodes[i]
			if to.Initialized && !to.Deleting && !to.DisruptedTaint && to.Used.Plus(r.constraints.Requests).Fits(to.Allocatable) {
				r.bind(to, pod)
				break
			}
		}
	}
}

func (r *roller) node(name string) *cluster.Node {
	return &r.nodes[slices.IndexFunc(r.nodes, func(n cluster.Node) bool { return n.Name == name })]
}

// observe lets the core propose, does it, and fails when more goes than the windows allow.
func (r *roller) observe(t *rapid.T) {
	snap := &cluster.Snapshot{
		At: r.at, Nodes: slices.Clone(r.nodes), Pools: []cluster.Pool{translate.Pool(&r.pool, r.types, r.at)},
		WellKnown: map[string]bool{label.Zone: true, label.CapacityType: true, label.InstanceType: true},
	}
	p, _ := disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{Grace: 2 * time.Second})
	for i := range p.Undos {
		for _, d := range p.Undos[i].Drop {
			r.leave(r.node(d.Node))
		}
		for _, o := range p.Undos[i].Open {
			n := r.node(o.Node)
			n.DisruptionReason, n.Step, n.DisruptedTaint = "", "", false
		}
	}
	for _, rm := range p.Removals {
		r.leave(r.node(rm.Node))
		r.judge(t, rm.Reason, false)
	}
	for i := range p.Commands {
		r.begin(&p.Commands[i])
		r.judge(t, p.Commands[i].Reason, true)
	}
	for i := range r.nodes {
		if n := &r.nodes[i]; n.DisruptionReason != "" && !n.Deleting {
			r.judge(t, n.DisruptionReason, false)
		}
	}
}

// begin marks the nodes of a step and launches their replacements.
func (r *roller) begin(s *plan.Command) {
	for _, rm := range s.Remove {
		n := r.node(rm.Node)
		n.DisruptionReason, n.DisruptedSince, n.DisruptedTaint = rm.Reason, r.at, true
		n.Step, n.StepRemoves, n.StepLaunches = s.ID, len(s.Remove), len(s.Launch)
	}
	for i := range s.Launch {
		r.launch(s.Launch[i].Types[0]).Replaces = s.ID
	}
}

// judge fails when more nodes are on their way out for a reason than it allows at this
// instant. When one has just been begun, those count too that go for another reason or
// are not well.
func (r *roller) judge(t *rapid.T, reason string, begun bool) {
	total, going := 0, 0
	for i := range r.nodes {
		n := &r.nodes[i]
		if n.Ending || !n.Initialized {
			continue
		}
		total++
		if n.DisruptionReason == reason || begun && (n.DisruptionReason != "" || !n.Ready) {
			going++
		}
	}
	if most := allowed(r.windows, reason, total, r.at); going > most {
		t.Fatalf("at %s %d of %d nodes are on their way out for %s, which allows %d", r.at, going, total, reason, most)
	}
}

// pass lets time go by: nodes end, others come.
func (r *roller) pass(t *rapid.T) {
	r.at = r.at.Add(time.Duration(rapid.SampledFrom([]int{1, 3, 30, 600, 3600, 3 * 3600}).Draw(t, "seconds")) * time.Second)
	var left []cluster.Node
	for _, n := range r.nodes {
		if n.Deleting && !n.Ending {
			n.Ending = rapid.Bool().Draw(t, "ending")
		}
		if !n.Initialized && !n.Deleting {
			n.Initialized = rapid.Bool().Draw(t, "initialized")
			n.Ready = n.Initialized
		}
		if !n.Ending || rapid.Bool().Draw(t, "still there") {
			left = append(left, n)
		}
	}
	r.nodes = left
	for range rapid.IntRange(0, 3).Draw(t, "new") {
		r.addNode(t)
	}
}

// TestBudgetsHoldAtEveryInstant rolls pools of random sizes under random budgets, on a
// clock that goes over changes to and from summer time.
func TestBudgetsHoldAtEveryInstant(t *testing.T) {
	t.Parallel()
	zones := map[string][]time.Time{
		"":                    {time.Date(2026, 12, 31, 18, 0, 0, 0, time.UTC)},
		"Europe/Berlin":       {time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)},
		"America/New_York":    {time.Date(2026, 3, 8, 2, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 2, 0, 0, 0, time.UTC)},
		"Australia/Lord_Howe": {time.Date(2026, 4, 4, 10, 0, 0, 0, time.UTC), time.Date(2026, 10, 3, 10, 0, 0, 0, time.UTC)},
		"Asia/Kathmandu":      {time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)},
	}
	names := []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "zone")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		r := newRoller(rapid.SampledFrom(zones[name]).Draw(t, "from"))
		if name != "" {
			r.pool.Annotations = map[string]string{translate.TimeZoneAnnotationKey: name}
		}
		for range rapid.IntRange(1, 4).Draw(t, "budgets") {
			w := drawWindow(t, zone)
			r.windows = append(r.windows, w)
			r.pool.Spec.Disruption.Budgets = append(r.pool.Spec.Disruption.Budgets, w.budget())
		}
		for range rapid.IntRange(0, 40).Draw(t, "size") {
			r.addNode(t)
		}
		for range 30 {
			r.observe(t)
			r.pass(t)
		}
	})
}
