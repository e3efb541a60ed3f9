// Package story reads clusters from the files of tests, and prints plans into them, in
// the one language that all file tests share.
//
// A cluster is lines of one thing each: a word that says what it is, a name, and
// key=value pairs.
//
//	type big cpu=8 memory=16Gi price=0.40 spot=0.20 zones=a,b arch=amd64
//	pool general weight=10 types=big,small require=zone:In:a|b taint=gpu:NoSchedule label=team:red limit.cpu=16
//	node n1 pool=general type=big zone=a used.cpu=2      a running node
//	claim c1 pool=general types=big,small require=zone:In:a   one the cloud has not answered for
//	daemon logs cpu=100m
//	pod web cpu=1 count=3 select=zone:a tolerate=gpu      web-1 … web-3
//	pod web planned=n2 running on=n1                      it still runs on n1, which goes; refused: kube-scheduler did not bind it
//	running db on=n1 count=2 app=db apart=host:db         pods that are bound: db-n1-1, db-n1-2
//	running web-1 on=n1 cpu=1 bound                       the pod of that name, which was pending before
//	gang train minimum=4 waiting=1                        a PodGroup; pod … gang=train, running … gang=train. waiting pods do not ask
//	running logs on=n1 daemon cpu=100m                    the pod of a daemon
//	buffer web chunks=3 cpu=1 wait=1m                     a capacity buffer; for so long no node is launched for it
//	excluded late delay=10m                               a pod for which nothing is launched now; or priority=-20 cutoff=-10
//	pdb web allowed=1                                     a PodDisruptionBudget; running … pdb=web
//
// sick=Ready:False:5m:rank=1:bound=45s:reboot is what a repair policy says of a node: its repair is due
// since five minutes.
//
// Rules between pods select by the label app: spread=zone:1 (of the own app, skew 1; a
// third part is minDomains, a fourth another app), with=zone:db, apart=host:db|web, apart=host:db:* (of every
// namespace); prefer-spread, prefer-with, prefer-apart and prefer-node=zone:In:a are preferences, given up in the order of the API.
//
// volume=zone:In:a is a place where a pod's volumes can be used; several are
// alternatives. attach.ebs=1 is how many volumes of driver ebs it attaches, and on types
// and nodes how many can be; those that do not say have no limit.
//
// "zone" and "capacity" are short for the label keys of zone and capacity type, "type"
// for the instance type's, in requirements and selectors.
package story

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Parse reads a cluster. The error names the line.
func Parse(text string) (*cluster.Snapshot, error) {
	p := &parser{snap: &cluster.Snapshot{At: Now(), ReservationKey: reservation, WellKnown: map[string]bool{
		label.Zone: true, label.CapacityType: true, label.InstanceType: true, label.NodePool: true, arch: true, reservation: true,
	}}, types: map[string]*catalog.Type{}, bound: map[string]int{}, asking: map[string]int{}}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := p.line(words); err != nil {
			return nil, fmt.Errorf("line %d, %s: %w", i+1, strings.Join(words[:min(2, len(words))], " "), err)
		}
	}
	p.finish()
	return p.snap, nil
}

type parser struct {
	snap  *cluster.Snapshot
	types map[string]*catalog.Type
	order []*catalog.Type
	pods  int
	// bound and asking are how many pods of each gang are and do.
	bound, asking map[string]int
}

// line reads one thing.
func (p *parser) line(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("a thing needs a name")
	}
	args, err := parseArgs(words[2:])
	if err != nil {
		return err
	}
	switch words[0] {
	case "type":
		err = p.addType(words[1], args)
	case "pool":
		err = p.addPool(words[1], args)
	case "node", "claim":
		err = p.addNode(words[0], words[1], args)
	case "running":
		err = p.addRunning(words[1], args)
	case "pdb":
		p.snap.PDBs = append(p.snap.PDBs, cluster.PodDisruptionBudget{Name: words[1], Allowed: int32(args.number("allowed", 0))})
	case "gang":
		minimum := int(args.number("minimum", 1))
		p.snap.Gangs = append(p.snap.Gangs, cluster.Gang{
			Namespace: "default", Name: words[1], Created: Now().Add(-args.duration("age", time.Hour)), Minimum: minimum, Known: int(args.number("waiting", 0)),
		})
	case "excluded":
		p.addExcluded(words[1], args)
	case "daemon":
		p.snap.Daemons = append(p.snap.Daemons, cluster.Daemon{Name: words[1], Constraints: args.constraints()})
	case "pod":
		err = p.addPods(words[1], args)
	case "buffer":
		b := cluster.Buffer{Namespace: "default", Name: words[1], UID: words[1], Constraints: args.constraints(), Chunks: int(args.number("chunks", 1))}
		if wait := args.duration("wait", 0); wait != 0 {
			b.LaunchAfter = Now().Add(wait)
		}
		p.snap.Buffers = append(p.snap.Buffers, b)
	default:
		return fmt.Errorf("no such thing; use type, pool, node, claim, running, pdb, gang, buffer, daemon, pod, excluded")
	}
	if err != nil {
		return err
	}
	return args.rest()
}

func (p *parser) addExcluded(name string, a *args) {
	out := cluster.ExcludedPod{PodRef: cluster.PodRef{Namespace: "default", Name: name, UID: name}, Delay: a.duration("delay", 0), Priority: int32(a.number("priority", 0)), Cutoff: int32(a.number("cutoff", 0))}
	p.snap.Excluded = append(p.snap.Excluded, out)
}

func (p *parser) addType(name string, a *args) error {
	t := &catalog.Type{Name: name, Capacity: a.list("cpu", "memory", "ephemeral-storage", "gpu"), Overhead: a.under("overhead.")}
	t.Capacity[quantity.Pods] = a.number("pods", 110)
	t.VolumeLimits = a.attach()
	zones := a.words("zones", "a")
	t.Requirements = label.Requirements{
		label.InstanceType: label.In(name), label.Zone: label.In(zones...), arch: label.In(a.words("arch", "amd64")...),
	}
	for _, kv := range a.all("label") {
		k, v, _ := strings.Cut(kv, ":")
		t.Requirements[k] = label.In(v)
	}
	short := a.words("short", "")
	var capacities []string
	for _, ct := range []struct{ arg, name string }{{"price", label.OnDemand}, {"spot", label.Spot}} {
		price := a.text(ct.arg, "")
		if price == "" {
			continue
		}
		capacities = append(capacities, ct.name)
		for _, z := range zones {
			o := catalog.Offering{Zone: z, CapacityType: ct.name, Priced: price != "?", Available: !slices.Contains(short, z+"/"+ct.name)}
			if o.Priced {
				f, err := strconv.ParseFloat(price, 64)
				if err != nil {
					return err
				}
				o.PriceHourly = f
			}
			t.Offerings = append(t.Offerings, o)
		}
	}
	for _, text := range a.all("reserved") { // id:zone:left
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			return fmt.Errorf("reserved=%s: want id:zone:left", text)
		}
		left, err := strconv.Atoi(parts[2])
		if err != nil {
			return err
		}
		capacities = append(capacities, label.Reserved)
		t.Offerings = append(t.Offerings, catalog.Offering{
			Zone: parts[1], CapacityType: label.Reserved, Labels: map[string]string{reservation: parts[0]},
			Priced: true, PriceHourly: 0.0001, Available: true, Reservation: parts[0], Left: left,
		})
	}
	t.Requirements[label.CapacityType] = label.In(capacities...)
	p.types[name] = t
	p.order = append(p.order, t)
	return addDraws(t, a.all("draws"))
}

// addDraws has offerings of a type draw on supplies: supply:units:left, or supply:units:left:zone for the
// offerings of one zone.
func addDraws(t *catalog.Type, draws []string) error {
	for _, text := range draws {
		parts := strings.Split(text, ":")
		if len(parts) < 3 {
			return fmt.Errorf("draws=%s: want supply:units:left or supply:units:left:zone", text)
		}
		units, err := strconv.Atoi(parts[1])
		if err != nil {
			return err
		}
		left, err := strconv.Atoi(parts[2])
		if err != nil {
			return err
		}
		for i := range t.Offerings {
			if o := &t.Offerings[i]; len(parts) == 3 || o.Zone == parts[3] {
				o.Draws = append(o.Draws, catalog.Draw{Supply: parts[0], Units: units, Left: left})
			}
		}
	}
	return nil
}

func (p *parser) addPool(name string, a *args) error {
	pool := cluster.Pool{
		Name: name, Weight: int32(a.number("weight", 0)), Unready: strings.ReplaceAll(a.text("unready", ""), "_", " "),
		Taints: a.taints(), Limits: a.under("limit."), ConsolidateAfter: a.duration("after", 0), Policy: a.text("policy", ""), Paused: strings.ReplaceAll(a.text("paused", ""), "_", " "), Static: a.is("static"), Replicas: int(a.number("replicas", 0)),
	}
	if a.text("types", "") != "" {
		for _, t := range a.words("types", "") {
			pool.Types = append(pool.Types, p.types[t])
		}
	} else {
		pool.Types = p.order
	}
	pool.Requirements = a.requirements("require").Intersect(label.OfLabels(a.labels())).With(label.NodePool, label.In(name))
	for _, b := range a.all("budget") {
		nodes, reason, _ := strings.Cut(b, "/")
		count, percent := strings.CutSuffix(nodes, "%")
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		budget := cluster.Budget{Nodes: n, Percent: percent, Active: true}
		if reason != "" {
			budget.Reasons = []string{reason}
		}
		pool.Budgets = append(pool.Budgets, budget)
	}
	p.snap.Pools = append(p.snap.Pools, pool)
	return nil
}

func (p *parser) addNode(kind, name string, a *args) error {
	n := cluster.Node{
		Name: name, Pool: a.text("pool", ""), Labels: a.labels(), Taints: a.taints(),
		Used: a.under("used."), UsedByDaemons: a.under("daemons."), Initialized: !a.is("starting"), Ready: !a.is("notready"),
		Deleting: a.is("deleting"), Empty: a.is("empty"), DoNotDisrupt: strings.ReplaceAll(a.text("do-not-disrupt", ""), "_", " "),
		DisruptionReason: a.text("reason", ""), DisruptedTaint: a.is("disrupted"), Planned: int(a.number("planned", 0)),
		LastPodEvent: Now().Add(-a.duration("last-pod-event", time.Hour)), DisruptedSince: Now().Add(-a.duration("since", time.Hour)),
		Created: Now().Add(-a.duration("age", 2*time.Hour)), Disruption: a.disruption(), Reclaimed: a.text("reclaimed", ""),
	}
	if left := a.duration("expires", 0); left != 0 {
		n.Expires = Now().Add(left)
	}
	if n.Pool != "" {
		n.Claim = a.text("claim", name)
		n.Labels[label.NodePool] = n.Pool
	}
	n.Registered = kind != "claim" && !a.is("unregistered")
	if kind == "claim" {
		n.Claim, n.Initialized, n.Ready = name, false, false
		types := a.words("types", "")
		n.InFlight = &cluster.InFlightClaim{Types: types, Requirements: a.requirements("require").With(label.InstanceType, label.In(types...)), Accepted: a.is("accepted")}
		p.snap.Nodes = append(p.snap.Nodes, n)
		return nil
	}
	n.Capacity = a.list("cpu", "memory")
	n.Allocatable = n.Capacity
	if name := a.text("type", ""); name != "" {
		t, ok := p.types[name]
		if !ok {
			return fmt.Errorf("no type %s", name)
		}
		n.Capacity, n.Allocatable = t.Capacity, t.Allocatable().Plus(t.VolumeLimits)
		n.Labels[label.InstanceType] = name
		for k, q := range t.Requirements {
			if v, only := q.Only(); only {
				n.Labels[k] = v
			}
		}
	}
	if _, ok := n.Allocatable[quantity.Pods]; !ok {
		n.Allocatable = n.Allocatable.Plus(quantity.List{quantity.Pods: 110})
	}
	n.Allocatable = n.Allocatable.Plus(a.attach())
	n.Labels[label.Zone] = a.text("zone", "a")
	n.Labels[label.CapacityType] = a.text("capacity", label.OnDemand)
	p.snap.Nodes = append(p.snap.Nodes, n)
	return nil
}

func (p *parser) addPods(name string, a *args) error {
	sh, count, planned, gang := a.constraints(), a.number("count", 0), a.text("planned", ""), a.text("gang", "")
	if like := a.text("like", ""); like != "" { // they have equal constraints
		at := slices.IndexFunc(p.snap.Pending, func(o cluster.Pod) bool { return o.Name == like })
		if at < 0 {
			return fmt.Errorf("no pod %q", like)
		}
		sh = p.snap.Pending[at].Constraints
	}
	names := []string{name}
	if count > 0 {
		names = nil
		for i := range count {
			names = append(names, fmt.Sprintf("%s-%d", name, i+1))
		}
	}
	p.asking[gang] += len(names)
	for _, n := range names {
		p.pods++
		p.snap.Pending = append(p.snap.Pending, cluster.Pod{
			PodRef: cluster.PodRef{Namespace: "default", Name: n, UID: n}, Created: Now().Add(time.Duration(p.pods) * time.Second),
			Constraints: sh, Planned: planned, Running: a.is("running"), On: a.text("on", ""), Refused: a.is("refused"), DoNotDisrupt: a.is("do-not-disrupt"), Gang: gang,
		})
	}
	return nil
}

// addRunning adds bound pods to a node. They are reschedulable, unless they are daemons.
func (p *parser) addRunning(name string, a *args) error {
	on, count, sh := a.text("on", ""), a.number("count", 1), a.constraints()
	at := slices.IndexFunc(p.snap.Nodes, func(n cluster.Node) bool { return n.Name == on })
	if at < 0 {
		return fmt.Errorf("no node %q", on)
	}
	n := &p.snap.Nodes[at]
	daemon, reschedulable := a.is("daemon"), cluster.ReschedulablePod{
		Constraints: sh, Created: Now().Add(-a.duration("age", time.Hour)), Controller: a.text("controller", "ReplicaSet"),
		TargetNode: a.text("target", ""), DeletionCost: float64(a.number("cost", 0)), Priority: int32(a.number("priority", 0)), DoNotDisrupt: strings.ReplaceAll(a.text("do-not-disrupt", ""), "_", " "),
	}
	if ago := a.duration("moved", 0); ago > 0 {
		reschedulable.Moved, reschedulable.Moves = Now().Add(-ago), int(a.number("moves", 0))
	}
	for _, pdb := range a.all("pdb") {
		g := slices.IndexFunc(p.snap.PDBs, func(g cluster.PodDisruptionBudget) bool { return g.Name == pdb })
		if g < 0 {
			return fmt.Errorf("no pdb %q above", pdb)
		}
		reschedulable.PDBs = append(reschedulable.PDBs, g)
	}
	n.Pods = append(n.Pods, cluster.PodCount{Constraints: sh, Count: int32(count)})
	p.bound[a.text("gang", "")] += int(count)
	for i := range count {
		n.Used.Add(sh.Requests)
		if daemon {
			n.UsedByDaemons.Add(sh.Requests)
			n.Daemons = append(n.Daemons, name)
			continue
		}
		ref := fmt.Sprintf("%s-%s-%d", name, on, i+1)
		if a.is("bound") { // the pod that was pending under that name
			ref = name
		}
		reschedulable.PodRef = cluster.PodRef{Namespace: "default", Name: ref, UID: ref}
		n.Reschedulable = append(n.Reschedulable, reschedulable)
	}
	return nil
}

// finish sorts everything as the mirror does.
func (p *parser) finish() {
	slices.SortFunc(p.snap.Pools, func(a, b cluster.Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.snap.Nodes, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.snap.Pending, func(a, b cluster.Pod) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.snap.Buffers, func(a, b cluster.Buffer) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.snap.Gangs, func(a, b cluster.Gang) int { return strings.Compare(a.Name, b.Name) })
	for i := range p.snap.Gangs {
		g := &p.snap.Gangs[i]
		g.Bound = p.bound[g.Name]
		g.Known += g.Bound + p.asking[g.Name]
	}
	for i := range p.snap.Nodes {
		slices.SortFunc(p.snap.Nodes[i].Reschedulable, func(a, b cluster.ReschedulablePod) int { return strings.Compare(a.Name, b.Name) })
	}
}
