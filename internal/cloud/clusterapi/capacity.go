package clusterapi

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// sizeFields says where a template has the size of its instances. Each is the product of fields and of
// unit; a field with a unit of its own is read as a quantity.
type sizeFields struct {
	cpu, memory, disk []string
	// memoryUnit and diskUnit are of fields that are numbers, in bytes.
	memoryUnit, diskUnit int64
}

const (
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30
)

// sizes are those of infrastructure providers whose templates do not have status.capacity. Paths are
// below spec.template.spec.
func sizes() map[string]sizeFields {
	return map[string]sizeFields{
		"VSphereMachineTemplate":  {cpu: []string{"numCPUs"}, memory: []string{"memoryMiB"}, disk: []string{"diskGiB"}, memoryUnit: mebibyte, diskUnit: gibibyte},
		"ProxmoxMachineTemplate":  {cpu: []string{"numSockets", "numCores"}, memory: []string{"memoryMiB"}, disk: []string{"disks.bootVolume.sizeGb"}, memoryUnit: mebibyte, diskUnit: gibibyte},
		"NutanixMachineTemplate":  {cpu: []string{"vcpuSockets", "vcpusPerSocket"}, memory: []string{"memorySize"}, disk: []string{"systemDiskSize"}},
		"KubevirtMachineTemplate": {cpu: []string{"virtualMachineTemplate.spec.template.spec.domain.cpu.cores"}, memory: []string{"virtualMachineTemplate.spec.template.spec.domain.memory.guest"}},
	}
}

// amounts are what something has, resource by resource; what is missing is not known.
type amounts map[corev1.ResourceName]resource.Quantity

// whole reports whether they say enough to plan with.
func (a amounts) whole() bool {
	cpu, memory := a[corev1.ResourceCPU], a[corev1.ResourceMemory]
	return cpu.Sign() > 0 && memory.Sign() > 0
}

// with returns the amounts, and in their place those of over where it has some.
func (a amounts) with(over amounts) amounts {
	all := amounts{}
	maps.Copy(all, a)
	maps.Copy(all, over)
	return all
}

// annotated returns what the annotations of a MachineDeployment say of its nodes.
func annotated(annotations map[string]string) (amounts, error) {
	a := amounts{}
	add := func(key string, name corev1.ResourceName) error {
		text, ok := annotations[capacityPrefix+key]
		if !ok {
			return nil
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return fmt.Errorf("annotation %s%s is %q, which is not an amount", capacityPrefix, key, text)
		}
		a[name] = q
		return nil
	}
	gpu := corev1.ResourceName("nvidia.com/gpu")
	if name := annotations[capacityPrefix+"gpu-type"]; name != "" {
		gpu = corev1.ResourceName(name)
	}
	for _, k := range []struct {
		key  string
		name corev1.ResourceName
	}{
		{"cpu", corev1.ResourceCPU},
		{"memory", corev1.ResourceMemory},
		{"ephemeral-disk", corev1.ResourceEphemeralStorage},
		{"maxPods", corev1.ResourcePods},
		{"gpu-count", gpu},
	} {
		if err := add(k.key, k.name); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// templated returns what an infrastructure template says of its instances: its status, else its fields.
func templated(template *unstructured.Unstructured) (amounts, error) {
	f := fields(template.Object)
	a := sized(template.GetKind(), f.at("spec", "template", "spec"))
	for name, value := range f.at("status", "capacity") {
		q, err := resource.ParseQuantity(fmt.Sprint(value))
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("status.capacity of %s %s has %s %v, which is not an amount", template.GetKind(), template.GetName(), name, value)
		}
		a[corev1.ResourceName(name)] = q
	}
	return a, nil
}

// sized returns what the fields of a template say, of the kinds that are known.
func sized(kind string, spec fields) amounts {
	a, known := amounts{}, sizes()[kind]
	for _, k := range []struct {
		name  corev1.ResourceName
		paths []string
		unit  int64
	}{
		{corev1.ResourceCPU, known.cpu, 1},
		{corev1.ResourceMemory, known.memory, known.memoryUnit},
		{corev1.ResourceEphemeralStorage, known.disk, known.diskUnit},
	} {
		if q, ok := product(spec, k.paths, k.unit); ok {
			a[k.name] = q
		}
	}
	return a
}

// product multiplies fields.
func product(spec fields, paths []string, unit int64) (resource.Quantity, bool) {
	if len(paths) == 0 {
		return resource.Quantity{}, false
	}
	if text := spec.text(split(paths[0])...); len(paths) == 1 && text != "" {
		q, err := resource.ParseQuantity(text)
		return q, err == nil && q.Sign() > 0
	}
	n := max(unit, 1)
	for _, path := range paths {
		factor := spec.number(split(path)...)
		if factor <= 0 || n > (1<<60)/factor {
			return resource.Quantity{}, false
		}
		n *= factor
	}
	return *resource.NewQuantity(n, resource.BinarySI), true
}
