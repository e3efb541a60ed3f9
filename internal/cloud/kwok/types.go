package kwok

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	gibibyte = int64(1) << 30
	mebibyte = int64(1) << 20

	dollarsPerCPU      = 0.025
	dollarsPerGigabyte = 0.001 // of 1e9 bytes
	spotDiscount       = 0.7

	reservedCPUMilli    = 100
	reservedMemoryBytes = 10 * mebibyte
)

// size is an instance type as it is given, before its labels are worked out.
type size struct {
	name, arch string
	systems    []string
	resources  corev1.ResourceList
	offerings  []catalog.Offering
}

// DefaultTypes returns the 144 types there are when no file says otherwise: every size
// from 1 to 256 cpus with 2, 4 or 8 GiB for each, for two systems and two architectures.
func DefaultTypes() []*catalog.Type {
	families := []struct {
		name           string
		gibibytePerCPU int64
	}{{"c", 2}, {"s", 4}, {"m", 8}}
	var types []*catalog.Type
	for _, cpus := range []int64{1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256} {
		for _, family := range families {
			for _, system := range []string{"linux", "windows"} {
				for _, arch := range []string{"amd64", "arm64"} {
					types = append(types, defaultSize(family.name, cpus, cpus*family.gibibytePerCPU*gibibyte, system, arch).catalogType())
				}
			}
		}
	}
	return types
}

func defaultSize(family string, cpus, memoryBytes int64, system, arch string) size {
	onDemand := dollarsPerCPU*float64(cpus) + dollarsPerGigabyte*float64(memoryBytes)/1e9
	s := size{
		name: fmt.Sprintf("%s-%dx-%s-%s", family, cpus, arch, system), arch: arch, systems: []string{system},
		resources: corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(cpus, resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(memoryBytes, resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(20*gibibyte, resource.BinarySI),
			corev1.ResourcePods:             *resource.NewQuantity(min(16*cpus, 1024), resource.DecimalSI),
		},
	}
	for _, zone := range []string{"test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"} {
		s.offerings = append(s.offerings,
			catalog.Offering{Zone: zone, CapacityType: label.Spot, PriceHourly: onDemand * spotDiscount, Priced: true, Available: true},
			catalog.Offering{Zone: zone, CapacityType: label.OnDemand, PriceHourly: onDemand, Priced: true, Available: true})
	}
	return s
}

// catalogType returns the instance type of a size, with all labels that it decides.
func (s size) catalogType() *catalog.Type {
	t := &catalog.Type{
		Name:      s.name,
		Capacity:  translate.Quantities(s.resources),
		Overhead:  quantity.List{quantity.CPU: reservedCPUMilli, quantity.Memory: reservedMemoryBytes},
		Offerings: s.offerings,
		Requirements: label.Requirements{
			label.InstanceType:                  label.In(s.name),
			corev1.LabelArchStable:              label.In(s.arch),
			corev1.LabelOSStable:                label.In(s.systems...),
			kwokv1alpha1.InstanceFamilyLabelKey: label.In(familyOf(s.name)),
			kwokv1alpha1.InstanceSizeLabelKey:   label.In(s.size()),
			kwokv1alpha1.InstanceCPULabelKey:    label.In(s.resources.Cpu().String()),
			kwokv1alpha1.InstanceMemoryLabelKey: label.In(s.resources.Memory().String()),
		},
	}
	for key, values := range offeredValues(s.offerings) {
		t.Requirements[key] = label.In(values...)
	}
	return t
}

// offeredValues returns what the offerings decide, with all the values it can have.
func offeredValues(offerings []catalog.Offering) map[string][]string {
	values := map[string][]string{}
	for i := range offerings {
		for key, requirement := range offerings[i].Requirements() {
			values[key] = append(values[key], requirement.Values()...)
		}
	}
	return values
}

// size is the second part of an AWS-like name ("large" of m5.large), the number of
// cpus of any other.
func (s size) size() string {
	if _, size, ok := strings.Cut(s.name, "."); ok {
		return size
	}
	return s.resources.Cpu().String()
}

// familyOf returns what stands before the first dot or dash; the first character of a
// name without either.
func familyOf(name string) string {
	if i := strings.IndexAny(name, ".-"); i > 0 {
		return name[:i]
	}
	return name[:1]
}

// decidedKeys returns every label that a type or offering decides, sorted.
func decidedKeys(types []*catalog.Type) []string {
	keys := map[string]bool{}
	for _, t := range types {
		for key := range t.Requirements {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// offeredKeys returns every label that an offering decides, sorted.
func offeredKeys(types []*catalog.Type) []string {
	keys := map[string]bool{}
	for _, t := range types {
		for key := range offeredValues(t.Offerings) {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
