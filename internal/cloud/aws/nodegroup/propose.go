package nodegroup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Options say how groups are translated.
type Options struct {
	// Families widens the instance types of a group to all sizes and generations of their families.
	Families bool
	// CPU returns how many CPUs an instance type has; 0: it is not known.
	CPU func(instanceType string) int
	// Restricted reports whether NodePools may not set a label; nil: they may set any.
	Restricted func(key string) bool
}

// Proposal is what the groups become.
type Proposal struct {
	Pools []Pool
	// Notes are what has no equivalent, and what is to be done by hand.
	Notes []Note
}

// Pool is a NodePool and its EC2NodeClass. Both have its name.
type Pool struct {
	Name string
	// Groups are the names of those that it stands for.
	Groups []string
	// CPUMax is what limits.cpu is to be in the end; 0: not known.
	CPUMax int
	// Manifest is YAML with comments.
	Manifest string
}

// Propose translates groups. Groups that differ in nothing but their instance types and sizes become one
// NodePool; with Cluster Autoscaler's --balance-similar-node-groups those that differ in their subnets, too.
func Propose(in *Inventory, opts Options) Proposal {
	var p Proposal
	var order []string
	merged := map[string][]Group{}
	weights := in.Autoscaler.weights(in.Groups)
	balanced := in.Autoscaler.Flags["balance-similar-node-groups"] == "true"
	for _, g := range in.Groups {
		g.Taints = slices.SortedFunc(slices.Values(g.Taints), func(a, b corev1.Taint) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect)) })
		key := g.alike(balanced, weights[g.Name])
		if merged[key] == nil {
			order = append(order, key)
		}
		merged[key] = append(merged[key], g)
		p.Notes = append(p.Notes, g.notes()...)
	}
	names := map[string]bool{}
	for _, key := range order {
		t := &translation{groups: merged[key], autoscaler: &in.Autoscaler, weight: weights[merged[key][0].Name], opts: opts}
		t.name = unique(names, poolName(t.groups[0].Name))
		t.write()
		pool := Pool{Name: t.name, CPUMax: t.cpuMax(), Manifest: t.out.String()}
		for i := range t.groups {
			pool.Groups = append(pool.Groups, t.groups[i].Name)
		}
		p.Pools, p.Notes = append(p.Pools, pool), append(p.Notes, t.notes...)
	}
	p.Notes = append(p.Notes, in.Autoscaler.notes()...)
	return p
}

// alike is equal for groups that become one NodePool.
func (g *Group) alike(balanced bool, weight int) string {
	c := *g
	c.Name, c.Types, c.Instances, c.Health, c.Backoff, c.Suspended, c.Tags = "", nil, nil, nil, "", nil, nil
	c.ScalingGroup, c.Unread = "", nil
	c.Min, c.Max, c.Desired, c.Weighted = 0, 0, 0, false
	if balanced {
		c.Subnets, c.Zones = nil, nil
	}
	if t := c.Template; t != nil {
		unnamed := *t
		unnamed.Name, unnamed.Version = "", ""
		c.Template = &unnamed
	}
	text, err := json.Marshal(struct {
		Group
		Weight int
	}{c, weight})
	if err != nil { // none of these types can fail
		return g.Name
	}
	return string(text)
}

// poolName returns the name of a group as one of an object.
func poolName(group string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return '-'
		}
	}, group)
	if len(name) > 60 {
		name = name[:60]
	}
	return cmp.Or(strings.Trim(name, "-"), "group")
}

func unique(taken map[string]bool, name string) string {
	out := name
	for i := 2; taken[out]; i++ {
		out = fmt.Sprintf("%s-%d", name, i)
	}
	taken[out] = true
	return out
}

// notes says what of a group has no equivalent.
func (g *Group) notes() (notes []Note) {
	add := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, Note{g.Name, fmt.Sprintf(format, args...)})
		}
	}
	add(g.Min > 0, "minimum size %d: no equivalent; NodePools have no smallest size. A CapacityBuffer or a static NodePool keeps room", g.Min)
	add(g.Share != nil && g.Share.OnDemandBase+g.Share.OnDemandPercent > 0, "mix of %s: a NodePool has no share of spot; the cheapest capacity is launched. Keep what must not be interrupted on a NodePool of its own", g.share())
	add(g.SpotPriceMax != "", "spot price of at most %s $/h: no equivalent; the spot price is never above the on-demand price", g.SpotPriceMax)
	add(g.Weighted, "weights of instance types: no equivalent; limits count CPUs and memory, and nodes are chosen by what pods ask for")
	add(g.WarmPool, "warm pool: no equivalent; a CapacityBuffer keeps room on nodes that run")
	add(g.Repair, "node repair of EKS: turn on the feature gate NodeRepair")
	add(g.Block, "capacity block: capacityReservationSelectorTerms of the EC2NodeClass must name the reservation")
	add(len(g.Suspended) > 0, "suspended processes %s: no equivalent", strings.Join(g.Suspended, ", "))
	add(g.Backoff != "", "Cluster Autoscaler does not scale it up now: %s", g.Backoff)
	add(len(g.Resources) > 0, "resources %s in tags: no equivalent; what a node has is known by its instance type, or by a NodeOverlay", pairs(g.Resources))
	for _, h := range g.Health {
		add(true, "EKS reports: %s", h)
	}
	for _, text := range g.Unread {
		add(true, "%s", text)
	}
	for _, option := range slices.Sorted(maps.Keys(g.Autoscaling)) {
		add(option != "scaledownunneededtime", "tag autoscaling-options/%s=%s: no equivalent", option, g.Autoscaling[option])
	}
	if g.Needs != nil {
		for _, other := range g.Needs.Others {
			add(true, "instance requirement %s: no equivalent", other)
		}
	}
	if t := g.Template; t != nil {
		add(t.KeyName != "", "key pair %s of the launch template: no equivalent; use Session Manager", t.KeyName)
		add(t.Tenancy != "" && t.Tenancy != "default", "tenancy %s of the launch template: set the requirement karpenter.k8s.aws/instance-tenancy", t.Tenancy)
		add(len(t.Others) > 0, "fields %s of the launch template: not translated", strings.Join(t.Others, ", "))
		add(t.ReservationGroup != "", "capacity reservation group %s: select its reservations by id or tag in capacityReservationSelectorTerms", t.ReservationGroup)
	}
	return notes
}

func (g *Group) share() string {
	if g.Share == nil {
		return ""
	}
	text := fmt.Sprintf("%d on-demand instances and %d %% of the others", g.Share.OnDemandBase, g.Share.OnDemandPercent)
	if g.Share.SpotStrategy != "" {
		text += ", spot by " + g.Share.SpotStrategy
	}
	return text
}

func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ", ")
}

// translation is one NodePool in the making.
type translation struct {
	name       string
	groups     []Group // at least one; alike
	autoscaler *Autoscaler
	weight     int
	opts       Options
	out        manifest
	notes      []Note
}

func (t *translation) note(format string, args ...any) {
	t.notes = append(t.notes, Note{t.groups[0].Name, fmt.Sprintf(format, args...)})
}

func (t *translation) write() {
	t.writePool()
	t.out.separate()
	t.writeClass()
}

// types returns the instance types of all groups, each once, in order.
func (t *translation) types() (types []string) {
	for i := range t.groups {
		for _, name := range t.groups[i].Types {
			if !slices.Contains(types, name) {
				types = append(types, name)
			}
		}
	}
	slices.Sort(types)
	return types
}

// cpuMax returns how many CPUs the groups may have at most: each has its largest type.
func (t *translation) cpuMax() (sum int) {
	for i := range t.groups {
		most := 0
		for _, name := range t.groups[i].Types {
			if t.opts.CPU != nil {
				most = max(most, t.opts.CPU(name))
			}
		}
		sum += most * t.groups[i].Max
	}
	return sum
}

func (t *translation) writePool() {
	o, g := &t.out, &t.groups[0]
	source := g.Source + " " + g.Name
	if len(t.groups) > 1 {
		var names []string
		for i := range t.groups {
			names = append(names, t.groups[i].Name)
		}
		source = fmt.Sprintf("%d groups that are alike: %s", len(names), strings.Join(names, ", "))
	}
	o.add(0, "apiVersion: karpenter.sh/v1", "")
	o.add(0, "kind: NodePool", "")
	o.add(0, "metadata:", "")
	o.add(1, "name: "+text(t.name), source)
	o.add(0, "spec:", "")
	if t.weight > 0 {
		o.add(1, fmt.Sprintf("weight: %d", t.weight), "ConfigMap cluster-autoscaler-priority-expander")
	}
	o.add(1, "limits:", "")
	until := "nothing is launched until this is raised"
	if n := t.cpuMax(); n > 0 {
		until += fmt.Sprintf(" to %d, the most that the groups may have", n)
	}
	o.add(2, "cpu: 0", until)
	t.writeDisruption()
	o.add(1, "template:", "")
	t.writeLabels()
	o.add(2, "spec:", "")
	o.add(3, "expireAfter: Never", "nodes of node groups have no age limit; the default here is 720h")
	o.add(3, "nodeClassRef:", "")
	o.add(4, "group: karpenter.k8s.aws", "")
	o.add(4, "kind: EC2NodeClass", "")
	o.add(4, "name: "+text(t.name), "below")
	o.add(3, "requirements:", "")
	t.writeRequirements()
	t.writeTaints()
}

func (t *translation) writeDisruption() {
	o, flags := &t.out, t.autoscaler.Flags
	after, source := "10m", "Cluster Autoscaler's default for --scale-down-unneeded-time"
	if v := flags["scale-down-unneeded-time"]; v != "" {
		after, source = v, "--scale-down-unneeded-time"
	}
	if v := t.groups[0].Autoscaling["scaledownunneededtime"]; v != "" {
		after, source = v, "tag autoscaling-options/scaledownunneededtime"
	}
	if flags["scale-down-enabled"] == "false" {
		after, source = "Never", "--scale-down-enabled=false"
	}
	o.add(1, "disruption:", "")
	o.add(2, "consolidationPolicy: WhenEmptyOrUnderutilized", "Cluster Autoscaler removes both")
	o.add(2, "consolidateAfter: "+after, source)
	if n := t.groups[0].MaxUnavailable; n != "" {
		o.add(2, "budgets:", "")
		o.add(3, "- nodes: "+quoted(n), "updateConfig of the node group")
	}
}

func (t *translation) writeLabels() {
	var kept []string
	labels := t.groups[0].Labels
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if strings.HasPrefix(k, "eks.amazonaws.com/") || strings.HasPrefix(k, "alpha.eksctl.io/") || t.opts.Restricted != nil && t.opts.Restricted(k) {
			t.note("label %s=%s: NodePools may not set it, or EKS sets it; pods that select by it need another label", k, labels[k])
			continue
		}
		kept = append(kept, k)
	}
	if len(kept) == 0 {
		return
	}
	t.out.add(2, "metadata:", "")
	t.out.add(3, "labels:", "")
	for _, k := range kept {
		t.out.add(4, text(k)+": "+quoted(labels[k]), "label of the node group")
	}
}

func (t *translation) writeTaints() {
	var taints, startup []corev1.Taint
	flags := t.autoscaler.Flags
	named := strings.Split(flags["startup-taint"]+","+flags["ignore-taint"], ",")
	for _, taint := range t.groups[0].Taints {
		if strings.HasPrefix(taint.Key, "startup-taint.cluster-autoscaler.kubernetes.io/") || strings.HasPrefix(taint.Key, "ignore-taint.cluster-autoscaler.kubernetes.io/") || slices.Contains(named, taint.Key) {
			startup = append(startup, taint)
			continue
		}
		taints = append(taints, taint)
	}
	write := func(field, source string, list []corev1.Taint) {
		if len(list) == 0 {
			return
		}
		t.out.add(3, field+":", "")
		for _, taint := range list {
			t.out.add(4, "- key: "+text(taint.Key), source)
			if taint.Value != "" {
				t.out.add(5, "value: "+quoted(taint.Value), "")
			}
			t.out.add(5, "effect: "+text(string(taint.Effect)), "")
		}
	}
	write("taints", "taint of the node group", taints)
	write("startupTaints", "a startup taint to Cluster Autoscaler", startup)
}

func (t *translation) require(key, operator, source string, values ...string) {
	t.out.add(4, "- key: "+text(key), source)
	t.out.add(5, "operator: "+operator, "")
	var list []string
	for _, v := range values {
		list = append(list, quoted(v))
	}
	t.out.add(5, "values: ["+strings.Join(list, ", ")+"]", "")
}

func (t *translation) writeRequirements() {
	g := &t.groups[0]
	switch types := t.types(); {
	case g.Needs != nil:
		t.writeNeeds(g.Needs)
	case len(types) == 0:
		t.note("instance types: not known; the NodePool allows any of the categories c, m and r")
		t.require("karpenter.k8s.aws/instance-category", "In", "not known: choose", "c", "m", "r")
	case t.opts.Families:
		t.require("karpenter.k8s.aws/instance-family", "In", "--families: the families of "+strings.Join(types, ", "), families(types)...)
	default:
		t.require(label.InstanceType, "In", "instance types of the group", types...)
	}
	switch {
	case g.Share != nil:
		t.require(label.CapacityType, "In", "instances distribution: "+g.share(), label.OnDemand, label.Spot)
	case g.Block:
		t.require(label.CapacityType, "In", "CAPACITY_BLOCK", "reserved")
	case g.Spot:
		t.require(label.CapacityType, "In", "SPOT", label.Spot)
	default:
		t.require(label.CapacityType, "In", "ON_DEMAND", label.OnDemand)
	}
	if arch := architecture(g.AMIType); arch != "" {
		t.require(corev1.LabelArchStable, "In", "amiType "+g.AMIType, arch)
	}
	if strings.HasPrefix(g.AMIType, "WINDOWS_") {
		t.require(corev1.LabelOSStable, "In", "amiType "+g.AMIType, "windows")
	} else {
		t.require(corev1.LabelOSStable, "In", "the image", "linux")
	}
	if len(g.Subnets) == 0 && len(g.Zones) > 0 {
		t.require(label.Zone, "In", "zones of the nodes", g.Zones...)
	}
}

func architecture(amiType string) string {
	switch {
	case strings.Contains(amiType, "ARM_64"):
		return "arm64"
	case strings.Contains(strings.ToLower(amiType), "x86_64"):
		return "amd64"
	default:
		return ""
	}
}

func families(types []string) (out []string) {
	for _, t := range types {
		family, _, _ := strings.Cut(t, ".")
		if !slices.Contains(out, family) {
			out = append(out, family)
		}
	}
	return out
}

// writeNeeds writes requirements that select instance types.
func (t *translation) writeNeeds(n *Needs) {
	bounds := func(key string, least, most int, source string) {
		if least > 0 {
			t.require(key, "Gt", source, fmt.Sprint(least-1))
		}
		if most > 0 {
			t.require(key, "Lt", source, fmt.Sprint(most+1))
		}
	}
	bounds("karpenter.k8s.aws/instance-cpu", n.CPUMin, n.CPUMax, "InstanceRequirements.VCpuCount")
	bounds("karpenter.k8s.aws/instance-memory", n.MemoryMinMiB, n.MemoryMaxMiB, "InstanceRequirements.MemoryMiB")
	if len(n.Manufacturers) > 0 {
		var names []string
		for _, m := range n.Manufacturers {
			names = append(names, map[string]string{"amazon-web-services": "aws"}[m]+strings.TrimPrefix(m, "amazon-web-services"))
		}
		t.require("karpenter.k8s.aws/instance-cpu-manufacturer", "In", "InstanceRequirements.CpuManufacturers", names...)
	}
	if slices.Equal(n.Generations, []string{"current"}) {
		t.require("karpenter.k8s.aws/instance-generation", "Gt", "InstanceRequirements.InstanceGenerations: current", "3")
	}
	var excluded []string
	for _, pattern := range n.Excluded {
		if family, rest, _ := strings.Cut(pattern, "."); rest == "*" && !strings.Contains(family, "*") {
			excluded = append(excluded, family)
			continue
		}
		t.note("excluded instance types %s: not translated", pattern)
	}
	if len(excluded) > 0 {
		t.require("karpenter.k8s.aws/instance-family", "NotIn", "InstanceRequirements.ExcludedInstanceTypes", excluded...)
	}
}
