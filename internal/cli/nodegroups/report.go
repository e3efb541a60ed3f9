package nodegroups

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Group is what a drain of a node group has before it.
type Group struct {
	Name        string
	Nodes, Pods int
	// Held are the pods that keep their node: by an annotation, or by a PodDisruptionBudget that allows no
	// eviction now.
	Held []string
	// PriceHourly is what its nodes cost, in dollars; Unpriced is how many have no price in the catalog.
	PriceHourly float64
	Unpriced    int
}

// Groups returns the groups of a cluster in the order in which to drain them: those with the fewest pods that keep
// their node first, then those with the fewest nodes.
func Groups(objects []client.Object, members Membership, types []*catalog.Type, now time.Time) []Group {
	groups, of := map[string]*Group{}, map[string]*Group{}
	var pdbs []*policyv1.PodDisruptionBudget
	prices := map[string]*catalog.Type{}
	for _, t := range types {
		prices[t.Name] = t
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			name := members.GroupOf(o)
			if name == "" {
				continue
			}
			if groups[name] == nil {
				groups[name] = &Group{Name: name}
			}
			g := groups[name]
			g.Nodes++
			of[o.Name] = g
			if price, known := priceOf(prices[o.Labels[corev1.LabelInstanceTypeStable]], isSpot(o), o.Labels[corev1.LabelTopologyZone]); known {
				g.PriceHourly += price
			} else {
				g.Unpriced++
			}
		case *policyv1.PodDisruptionBudget:
			pdbs = append(pdbs, o)
		}
	}
	for _, o := range objects {
		p, is := o.(*corev1.Pod)
		if !is || of[p.Spec.NodeName] == nil || !translate.Reschedulable(p) {
			continue
		}
		g := of[p.Spec.NodeName]
		g.Pods++
		if why := holds(p, pdbs, now); why != "" {
			g.Held = append(g.Held, p.Namespace+"/"+p.Name+": "+why)
		}
	}
	out := []Group{}
	for _, g := range groups {
		slices.Sort(g.Held)
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(a.Held), len(b.Held)), cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// holds says why a pod keeps its node; empty: it does not.
func holds(p *corev1.Pod, pdbs []*policyv1.PodDisruptionBudget, now time.Time) string {
	if annotation := (translate.AutoscalerRules{}).BlocksDisruption(p, now); annotation != "" {
		return "annotation " + annotation
	}
	for _, b := range pdbs {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == p.Namespace && selector.Matches(labels.Set(p.Labels)) && b.Status.DisruptionsAllowed == 0 {
			return "PodDisruptionBudget " + b.Name + " allows no eviction now"
		}
	}
	return ""
}

// priceOf returns the price of a type in a zone. In a zone that the catalog does not have it is the mean of the others.
func priceOf(t *catalog.Type, spot bool, zone string) (dollars float64, known bool) {
	if t == nil {
		return 0, false
	}
	kind, sum, n := map[bool]string{true: label.Spot, false: label.OnDemand}[spot], 0.0, 0
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.CapacityType != kind || !o.Priced {
			continue
		}
		if o.Zone == zone {
			return o.PriceHourly, true
		}
		sum, n = sum+o.PriceHourly, n+1
	}
	if n == 0 {
		return 0, false
	}
	return sum / float64(n), true
}

// After is what the pods of the groups would cost on the proposed NodePools.
type After struct {
	// Nodes would be launched for Pods, of which Refused have no place, at PriceHourly.
	Nodes, Pods, Refused int
	PriceHourly          float64
	// Why says why pods are refused: the first reason.
	Why string
	// Unknown says why nothing of this is known; empty: it is.
	Unknown string
}

// Report says in words, for people, what a proposal means. Each line begins with prefix.
func Report(p *nodegroup.Proposal, groups []Group, after *After, notes []string, prefix string) string {
	var b strings.Builder
	before, nodes := 0.0, 0
	for i := range groups {
		before, nodes = before+groups[i].PriceHourly, nodes+groups[i].Nodes
	}
	fmt.Fprintf(&b, "PRICE (catalog: us-east-1, May 2025)\n  now    %8.4f $/h (nodes: %d, groups: %d)\n", before, nodes, len(groups))
	switch {
	case after.Unknown != "":
		fmt.Fprintf(&b, "  after  not known: %s\n", after.Unknown)
	case after.Refused > 0:
		fmt.Fprintf(&b, "  after  %8.4f $/h (nodes: %d, pods: %d, of which %d have no place: %s)\n", after.PriceHourly, after.Nodes, after.Pods, after.Refused, after.Why)
	default:
		fmt.Fprintf(&b, "  after  %8.4f $/h (nodes: %d, pods: %d)\n", after.PriceHourly, after.Nodes, after.Pods)
	}
	b.WriteString("\nORDER OF DRAINING (fewest pods that keep their node first)\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  GROUP\tNODES\tPODS\tKEPT BY\t$/H\tNODEPOOL")
	pools := map[string]string{}
	for i := range p.Pools {
		for _, name := range p.Pools[i].Groups {
			pools[name] = p.Pools[i].Name
		}
	}
	for i := range groups {
		g := &groups[i]
		price := fmt.Sprintf("%.4f", g.PriceHourly)
		if g.Unpriced > 0 {
			price += fmt.Sprintf(" (%d without a price)", g.Unpriced)
		}
		fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%s\t%s\n", g.Name, g.Nodes, g.Pods, len(g.Held), price, cmp.Or(pools[g.Name], "none"))
	}
	_ = w.Flush() // a Builder takes all that is written to it
	for i := range groups {
		for _, held := range groups[i].Held {
			fmt.Fprintf(&b, "  %s: %s\n", groups[i].Name, held)
		}
	}
	writeNotes(&b, p, notes)
	var out strings.Builder
	for l := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(prefix+l, " \n") + "\n")
	}
	return out.String()
}

func writeNotes(b *strings.Builder, p *nodegroup.Proposal, notes []string) {
	b.WriteString("\nWITHOUT AN EQUIVALENT, OR TO BE DONE BY HAND\n")
	byGroup := map[string][]string{}
	for _, n := range p.Notes {
		byGroup[n.Group] = append(byGroup[n.Group], n.Text)
	}
	byGroup[""] = append(slices.Clone(notes), byGroup[""]...)
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		for _, text := range byGroup[group] {
			fmt.Fprintf(b, "  %s: %s\n", cmp.Or(group, "Cluster Autoscaler"), text)
		}
	}
}
