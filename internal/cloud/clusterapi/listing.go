package clusterapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// candidate is a MachineDeployment that a class selects, with what it refers to. A template is nil if
// there is none.
type candidate struct {
	*deployment
	infrastructure, bootstrap *unstructured.Unstructured
	// fault says why it cannot be launched from; empty: it can.
	fault string
}

// found is all that a listing is made from.
type found struct {
	class      *clusterapiv1alpha1.ClusterAPINodeClass
	candidates []candidate
	// cluster is the Cluster object; nil: there is none.
	cluster fields
	// ours counts our Machines by the MachineDeployment that they were made from.
	ours map[client.ObjectKey]int64
	// prices are those of the file.
	prices map[string]float64
}

// entry is what one MachineDeployment offers in one failure domain.
type entry struct {
	deployment *candidate
	typ        *catalog.Type
	offering   catalog.Offering
	domain     string
}

// listing is what a class can launch.
type listing struct {
	// namespace has the Cluster, its MachineDeployments and Machines.
	namespace string
	types     []*catalog.Type
	// entries are sorted, the best first.
	entries map[catalog.Place][]*entry
	// notes say which MachineDeployments cannot be launched from, and why.
	notes []string
	// lacking are those whose capacity nobody says.
	lacking []*deployment

	mu sync.Mutex
	// left is how many more nodes MachineDeployments that have a limit may have; guarded by mu.
	left map[client.ObjectKey]int64
}

// usable reports whether there is anything to launch.
func (l *listing) usable() bool { return len(l.types) > 0 }

// take chooses what is launched for a place; nil: there is nothing left.
func (l *listing) take(place catalog.Place) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries[place] {
		left, limited := l.left[e.deployment.key]
		if !e.offering.Available || limited && left <= 0 {
			continue
		}
		if limited {
			l.left[e.deployment.key] = left - 1
		}
		return e
	}
	return nil
}

// newListing makes a listing. It depends on nothing but what was found.
func newListing(f *found) *listing {
	l := &listing{entries: map[catalog.Place][]*entry{}, left: map[client.ObjectKey]int64{}}
	slices.SortFunc(f.candidates, func(a, b candidate) int { return cmp.Compare(a.key.String(), b.key.String()) })
	first := map[string]*candidate{}
	byName := map[string]*catalog.Type{}
	for i := range f.candidates {
		c := &f.candidates[i]
		l.namespace = c.key.Namespace
		t, err := f.typeOf(c)
		if err == nil && byName[t.Name] != nil && !sameType(byName[t.Name], t) {
			err = fmt.Errorf("its instance type %s is also that of %s, which has other labels or another capacity: give one of them another label %s", t.Name, first[t.Name].key, label.InstanceType)
		}
		if err != nil {
			l.notes = append(l.notes, fmt.Sprintf("%s %s: %s", kindDeployment, c.key, err))
			if _, lacks := err.(*lacksCapacity); lacks { //nolint:errorlint // it is made here
				l.lacking = append(l.lacking, c.deployment)
			}
			continue
		}
		if byName[t.Name] == nil {
			byName[t.Name], first[t.Name] = t, c
			l.types = append(l.types, t)
		}
		f.add(l, c, byName[t.Name])
	}
	for _, t := range l.types {
		finish(l, t)
	}
	return l
}

// lacksCapacity says that nobody knows what the nodes of a MachineDeployment have.
type lacksCapacity struct{ has amounts }

func (e *lacksCapacity) Error() string {
	lacks := "cpu and memory"
	if cpu := e.has[corev1.ResourceCPU]; cpu.Sign() > 0 {
		lacks = "memory"
	} else if memory := e.has[corev1.ResourceMemory]; memory.Sign() > 0 {
		lacks = "cpu"
	}
	return fmt.Sprintf("the %s of its nodes is not known: set the annotations %scpu and %smemory, or spec.types of the node class, or have it make one node, from which it is learned", lacks, capacityPrefix, capacityPrefix)
}

// typeOf returns the instance type of a MachineDeployment, without its offerings.
func (f *found) typeOf(c *candidate) (*catalog.Type, error) {
	if c.fault != "" {
		return nil, errors.New(c.fault)
	}
	name, err := c.instanceType()
	if err != nil {
		return nil, err
	}
	capacity, overhead, err := f.amounts(c, name)
	if err != nil {
		return nil, err
	}
	t := &catalog.Type{Name: name, Capacity: translate.Quantities(corev1.ResourceList(capacity)), Overhead: translate.Quantities(corev1.ResourceList(overhead)), Requirements: label.Requirements{}}
	for _, r := range []string{quantity.CPU, quantity.Memory, quantity.Pods} {
		if t.Allocatable()[r] <= 0 {
			return nil, fmt.Errorf("nothing of the %s of its nodes is left for pods: %s less %s", r, t.Capacity, t.Overhead)
		}
	}
	info := fields{}
	if c.infrastructure != nil {
		info = fields(c.infrastructure.Object).at("status", "nodeInfo")
	}
	cpu, memory := capacity[corev1.ResourceCPU], capacity[corev1.ResourceMemory]
	labels := map[string]string{
		corev1.LabelArchStable: cmp.Or(info.text("architecture"), "amd64"), corev1.LabelOSStable: cmp.Or(info.text("operatingSystem"), "linux"),
		clusterapiv1alpha1.InstanceCPULabelKey: cpu.String(), clusterapiv1alpha1.CapacityCPULabelKey: cpu.String(),
		clusterapiv1alpha1.InstanceMemoryLabelKey: memory.String(), clusterapiv1alpha1.CapacityMemoryLabelKey: memory.String(),
	}
	maps.Copy(labels, c.labels)
	labels[label.InstanceType] = name
	for key, value := range labels {
		if key != label.Zone && key != label.CapacityType && key != corev1.LabelHostname {
			t.Requirements[key] = label.In(value)
		}
	}
	return t, nil
}

// amounts returns capacity and overhead of the nodes of a MachineDeployment: what its annotations say,
// else its template, what was learned from a node, and what the class says.
func (f *found) amounts(c *candidate, typ string) (capacity, overhead amounts, err error) {
	own, err := annotated(c.annotations)
	if err != nil {
		return nil, nil, err
	}
	var template amounts
	if c.infrastructure != nil {
		if template, err = templated(c.infrastructure); err != nil {
			return nil, nil, err
		}
	}
	k := readKubelet(c.bootstrap)
	capacity, overhead = amounts{corev1.ResourcePods: *resource.NewQuantity(cmp.Or(k.pods, podsUsual), resource.DecimalSI)}, k.overhead
	for i := range f.class.Spec.Types {
		if t := &f.class.Spec.Types[i]; t.Name == typ {
			capacity, overhead = capacity.with(amounts(t.Capacity)), overhead.with(amounts(t.Overhead))
		}
	}
	stated := template.with(own)
	for i := range f.class.Status.Learned {
		if n := &f.class.Status.Learned[i]; c.made(n) && !stated.whole() {
			capacity = capacity.with(amounts(n.Capacity))
			overhead = amounts{}.with(learnedOverhead(n))
		}
	}
	if capacity = capacity.with(stated); !capacity.whole() {
		return nil, nil, &lacksCapacity{capacity}
	}
	return capacity, overhead, nil
}

// made reports whether something was learned from a node that was made from what the MachineDeployment
// refers to now.
func (d *deployment) made(l *clusterapiv1alpha1.LearnedCapacity) bool {
	return l.Namespace == d.key.Namespace && l.MachineDeployment == d.key.Name && l.Template == d.infrastructure.String()
}

// learnedOverhead returns what a node kept from pods.
func learnedOverhead(l *clusterapiv1alpha1.LearnedCapacity) amounts {
	kept := amounts{}
	for name, all := range l.Capacity {
		free, ok := l.Allocatable[name]
		if less := all.DeepCopy(); ok {
			if less.Sub(free); less.Sign() > 0 {
				kept[name] = less
			}
		}
	}
	return kept
}

func sameType(a, b *catalog.Type) bool {
	return maps.Equal(a.Capacity, b.Capacity) && maps.Equal(a.Overhead, b.Overhead) && a.Requirements.Equal(b.Requirements)
}

// add adds what a MachineDeployment offers.
func (f *found) add(l *listing, c *candidate, t *catalog.Type) {
	note := func(format string, args ...any) {
		l.notes = append(l.notes, fmt.Sprintf("%s %s: ", kindDeployment, c.key)+fmt.Sprintf(format, args...))
	}
	capacityType, err := c.capacityType()
	if err != nil {
		note("%s", err)
		return
	}
	price, priced, err := c.price(t.Name, f.class, f.prices)
	if err != nil {
		note("its price counts as unknown: %s", err)
	}
	left, limited := c.left(f.ours[c.key])
	if limited {
		l.left[c.key] = left
	}
	available := !limited || left > 0
	switch {
	case c.going:
		available = false
		note("it is being deleted")
	case c.paused:
		available = false
		note("it is paused")
	case f.cluster == nil:
		available = false
		note("its %s %s does not exist", kindCluster, c.cluster)
	case f.isClusterPaused():
		available = false
		note("its %s %s is paused", kindCluster, c.cluster)
	}
	for _, d := range c.domains(f.cluster) {
		place := catalog.Place{Type: t.Name, Zone: d.zone, CapacityType: capacityType}
		l.entries[place] = append(l.entries[place], &entry{deployment: c, typ: t, domain: d.name, offering: catalog.Offering{
			Zone: d.zone, CapacityType: capacityType, PriceHourly: price, Priced: priced, Available: available,
		}})
	}
}

func (f *found) isClusterPaused() bool {
	_, isPaused := f.cluster.texts("metadata", "annotations")[pausedAnnotation]
	return isPaused || f.cluster.flag("spec", "paused")
}

// finish gives a type one offering for each place, that of the best entry, and lists what they decide.
func finish(l *listing, t *catalog.Type) {
	values := map[string][]string{}
	places := slices.SortedFunc(maps.Keys(l.entries), func(a, b catalog.Place) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	for _, place := range places {
		if place.Type != t.Name {
			continue
		}
		all := l.entries[place]
		slices.SortStableFunc(all, func(a, b *entry) int {
			unavailable := func(e *entry) int {
				if e.offering.Available {
					return 0
				}
				return 1
			}
			return cmp.Or(unavailable(a)-unavailable(b), cmp.Compare(a.offering.Price(), b.offering.Price()), strings.Compare(a.deployment.key.String(), b.deployment.key.String()))
		})
		offering := all[0].offering
		// Where another MachineDeployment serves the place too, the first one's limit is not the place's.
		if left, limited := l.left[all[0].deployment.key]; limited && len(all) == 1 {
			offering.Draws = []catalog.Draw{{Supply: kindDeployment + "/" + all[0].deployment.key.String(), Units: 1, Left: int(max(0, min(left, math.MaxInt32)))}}
		}
		t.Offerings = append(t.Offerings, offering)
		for key, r := range all[0].offering.Requirements() {
			values[key] = append(values[key], r.Values()...)
		}
	}
	for key, list := range values {
		t.Requirements[key] = label.In(list...)
	}
}
