package journal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// fleet is a large cluster that changes a little from decision to decision. Names and UIDs have the
// entropy that they have in a real cluster.
type fleet struct {
	random *rand.Rand
	snap   *cluster.Snapshot
	apps   []*cluster.Constraints
	round  int
}

// podsEach is how many pods a node of a fleet has.
const podsEach = 20

func newFleet(nodes int) *fleet {
	f := &fleet{random: rand.New(rand.NewPCG(1, 2)), snap: &cluster.Snapshot{At: story.Now()}} //nolint:gosec // the same each time
	types, err := ec2catalog.Types()
	if err != nil {
		panic(err)
	}
	f.snap.Pools = []cluster.Pool{{Name: "general", Types: types, Requirements: label.Requirements{"karpenter.sh/nodepool": label.In("general")}}}
	for i := range 300 {
		f.apps = append(f.apps, &cluster.Constraints{
			Namespace: fmt.Sprintf("team-%d", i%20), Labels: map[string]string{"app.kubernetes.io/name": fmt.Sprintf("app-%d", i), "pod-template-hash": f.text(10)},
			Requests: quantity.List{quantity.CPU: 500, quantity.Memory: 1 << 30, quantity.Pods: 1}, Terms: []label.Requirements{{}},
		})
	}
	for i := range nodes {
		ip := fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i/65536, i/256%256, i%256)
		n := cluster.Node{
			Name: ip, Claim: "general-" + f.text(5), Pool: "general", Initialized: true, Ready: true, Created: f.snap.At.Add(-time.Duration(i) * time.Minute),
			Capacity:    quantity.List{quantity.CPU: 16000, quantity.Memory: 64 << 30, quantity.Pods: 110},
			Allocatable: quantity.List{quantity.CPU: 15890, quantity.Memory: 60 << 30, quantity.Pods: 110},
			Labels: map[string]string{
				label.InstanceType: "m7g.4xlarge", label.Zone: "us-east-1" + string(rune('a'+i%3)), label.CapacityType: "spot", "kubernetes.io/hostname": ip,
				"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux", "karpenter.sh/nodepool": "general", "karpenter.k8s.aws/instance-family": "m7g",
				"karpenter.k8s.aws/instance-cpu": "16", "karpenter.k8s.aws/instance-memory": "65536", "topology.k8s.aws/zone-id": "use1-az" + string(rune('1'+i%3)),
			},
		}
		n.Registered = true
		for range podsEach {
			n.Reschedulable = append(n.Reschedulable, f.pod())
		}
		f.fill(&n)
		f.snap.Nodes = append(f.snap.Nodes, n)
	}
	return f
}

// text returns characters as Kubernetes generates them.
func (f *fleet) text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "bcdfghjklmnpqrstvwxz2456789"[f.random.IntN(27)]
	}
	return string(b)
}

func (f *fleet) pod() cluster.ReschedulablePod {
	i := f.random.IntN(len(f.apps))
	a, b := f.random.Uint64(), f.random.Uint64()
	return cluster.ReschedulablePod{
		PodRef:  cluster.PodRef{Namespace: f.apps[i].Namespace, Name: fmt.Sprintf("app-%d-%s-%s", i, f.apps[i].Labels["pod-template-hash"], f.text(5)), UID: fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48, b&0xffffffffffff)},
		Created: f.snap.At.Add(-time.Duration(f.random.IntN(1_000_000)) * time.Second), Constraints: f.apps[i], Controller: "ReplicaSet",
	}
}

// fill fills in what follows from the pods of a node.
func (f *fleet) fill(n *cluster.Node) {
	slices.SortFunc(n.Reschedulable, func(a, b cluster.ReschedulablePod) int { return a.Compare(b.PodRef) })
	n.Used, n.Pods = quantity.List{quantity.CPU: int64(500*len(n.Reschedulable) + f.random.IntN(300)), quantity.Memory: int64(len(n.Reschedulable)) << 30, quantity.Pods: int64(len(n.Reschedulable))}, nil
	for _, p := range n.Reschedulable {
		n.Pods = append(n.Pods, cluster.PodCount{Constraints: p.Constraints, Count: 1})
	}
	n.LastPodEvent = f.snap.At
}

// next replaces a pod on one node of a hundred, and returns a decision of disruption that launches and
// removes nothing much and says of each node why it stays.
func (f *fleet) next() *record.Decision {
	f.round++
	snap := *f.snap
	snap.At = f.snap.At.Add(10 * time.Second)
	snap.Nodes = slices.Clone(f.snap.Nodes)
	f.snap = &snap
	for range len(snap.Nodes) / 100 {
		n := &snap.Nodes[f.random.IntN(len(snap.Nodes))]
		n.Reschedulable = slices.Clone(n.Reschedulable)
		n.Reschedulable[f.random.IntN(len(n.Reschedulable))] = f.pod()
		f.fill(n)
	}
	d := &record.Decision{Loop: record.Disruption, Snapshot: &snap, Took: 50 * time.Millisecond}
	d.Memory.Pools = snap.Pools
	p := &d.Disruption
	p.At, p.FleetBoundHourly = snap.At, 1000
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if i%1000 == f.round%1000 {
			p.Commands = append(p.Commands, plan.Command{
				ID: fmt.Sprintf("%d-%d", f.round, i), Reason: plan.Underutilized, SavingHourly: 0.2, Evictions: len(n.Reschedulable),
				Remove: []plan.Removal{{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Reason: plan.Underutilized}},
			})
			for j := range n.Reschedulable {
				to := &snap.Nodes[(i+1+j)%len(snap.Nodes)]
				p.Commands[len(p.Commands)-1].Moves = append(p.Commands[len(p.Commands)-1].Moves, plan.Assignment{Pod: n.Reschedulable[j].PodRef, Node: to.Name, Claim: to.Claim})
			}
			continue
		}
		p.Blocked = append(p.Blocked, verdict.Of(verdict.Unconsolidatable, n.Name, "it costs %.4f an hour and its pods would cost %.4f elsewhere; removing it must save %.4f", 0.21, 0.2+float64(f.round%7)/100, 0.0207))
	}
	return d
}
