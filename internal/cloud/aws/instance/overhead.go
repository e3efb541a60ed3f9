package instance

import (
	"maps"
	"math"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// overhead returns what of the capacity is not for pods: what the kubelet keeps for itself
// and for the system, and what must stay free lest it evicts.
func overhead(info *types.InstanceTypeInfo, c *Class, s *kubelet.Settings, capacity quantity.List) quantity.List {
	kept := kubeReserved(info, c, s)
	return kept.Plus(amounts(s.SystemReserved)).Plus(threshold(s, capacity))
}

// kubeReserved returns what the kubelet keeps for itself: what the class says, and for the
// rest what the images of EKS reckon.
func kubeReserved(info *types.InstanceTypeInfo, c *Class, s *kubelet.Settings) quantity.List {
	kept := quantity.List{
		quantity.CPU:              reservedCPU(vcpus(info) * 1000),
		quantity.Memory:           (11*capacityOfPods(info, c, s) + 255) * mebibyte,
		quantity.EphemeralStorage: gibibyte,
	}
	maps.Copy(kept, amounts(s.KubeReserved))
	return kept
}

// named returns the whole kubeReserved for a kubelet that is configured by flags: what the class
// says, and the defaults for the rest. What the flag leaves out would not be kept at all.
func named(info *types.InstanceTypeInfo, c *Class, s *kubelet.Settings) map[string]string {
	kept := kubeReserved(info, c, s)
	out := map[string]string{
		quantity.CPU:              strconv.FormatInt(kept[quantity.CPU], 10) + "m",
		quantity.Memory:           strconv.FormatInt(kept[quantity.Memory]/mebibyte, 10) + "Mi",
		quantity.EphemeralStorage: strconv.FormatInt(kept[quantity.EphemeralStorage]/gibibyte, 10) + "Gi",
	}
	maps.Copy(out, s.KubeReserved)
	return out
}

// capacityOfPods returns the number of pods by which the image reckons the memory that the
// kubelet needs.
func capacityOfPods(info *types.InstanceTypeInfo, c *Class, s *kubelet.Settings) int64 {
	f := family.Of(c.Spec)
	if !f.ENILimitedOverhead {
		return pods(info, f, s)
	}
	return addressedPods(interfaces(info), addresses(info)-1)
}

// reservedCPU returns the millicores that are kept of so many.
func reservedCPU(milli int64) int64 {
	kept := int64(0)
	for _, step := range []struct{ from, to, share int64 }{{0, 1000, 600}, {1000, 2000, 100}, {2000, 4000, 50}, {4000, math.MaxInt64, 25}} {
		if milli > step.from {
			kept += (min(milli, step.to) - step.from) * step.share / 10000
		}
	}
	return kept
}

// threshold returns what must stay free of memory and disk.
func threshold(s *kubelet.Settings, capacity quantity.List) quantity.List {
	free := quantity.List{
		quantity.Memory:           100 * mebibyte,
		quantity.EphemeralStorage: kubelet.Threshold("10%", capacity[quantity.EphemeralStorage]),
	}
	for signal, name := range map[string]string{"memory.available": quantity.Memory, "nodefs.available": quantity.EphemeralStorage} {
		if value, set := s.EvictionHard[signal]; set {
			free[name] = kubelet.Threshold(value, capacity[name])
		}
	}
	return free
}

// amounts returns reserved amounts in the units of the core. Processes are not counted.
func amounts(reserved map[string]string) quantity.List {
	out := quantity.List{}
	for name, text := range reserved {
		q, err := kubelet.ParseQuantity(text)
		if err == nil && name != "pid" { // an amount was checked, and is a quantity
			out[name] = translate.Amount(corev1.ResourceName(name), q)
		}
	}
	return out
}
