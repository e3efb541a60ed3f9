package instance

import (
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	mebibyte, gibibyte = 1 << 20, 1 << 30
	// armReservedMiB is what arm64 instances keep for contiguous allocations.
	armReservedMiB = 64
	// podsUnlimited is how many pods a kubelet takes without a maxPods of its own.
	podsUnlimited = 110
	// storageDefault is the size of a volume of which nothing is known.
	storageDefault = 20 * gibibyte
	// prefixAddresses is how many addresses come in one prefix.
	prefixAddresses = 16
)

// capacity returns what an instance of the type has.
func capacity(info *types.InstanceTypeInfo, r *Region, c *Class, s *kubelet.Settings) quantity.List {
	f := family.Of(c.Spec)
	has := quantity.List{
		quantity.CPU:              vcpus(info) * 1000,
		quantity.Memory:           memory(info, r, c),
		quantity.EphemeralStorage: storage(info, c.Spec, f),
		quantity.Pods:             pods(info, f, s),
	}
	for name, n := range devices(info) {
		if n > 0 {
			has[name] = n
		}
	}
	for name, n := range map[string]int64{
		awsv1.ResourceEFA:    efas(info, c.Spec),
		awsv1.ResourcePodENI: branches()[string(info.InstanceType)],
	} {
		if n > 0 {
			has[name] = n
		}
	}
	if n := addresses(info) - 1; f.WindowsBuild != "" && n > 0 {
		has[awsv1.ResourcePrivateIPv4Address] = n
	}
	return has
}

// memory returns the bytes that the system sees: what a node of the type said, or else an
// estimate.
func memory(info *types.InstanceTypeInfo, r *Region, c *Class) int64 {
	if seen, ok := c.Memory[string(info.InstanceType)]; ok {
		return seen
	}
	mib := memoryMiB(info)
	if architecture(info) == arm64 {
		mib -= armReservedMiB
	}
	return (mib - int64(math.Ceil(float64(mib)*r.MemoryOverhead))) * mebibyte
}

// storage returns the bytes of the disk that holds the kubelet's directory.
func storage(info *types.InstanceTypeInfo, spec *awsv1.EC2NodeClassSpec, f family.Family) int64 {
	raid := spec.InstanceStorePolicy != nil && f.WindowsBuild == "" // images of Windows leave those disks alone
	if own := info.InstanceStorageInfo; raid && own != nil && aws.ToInt64(own.TotalSizeInGB) > 0 {
		return aws.ToInt64(own.TotalSizeInGB) * 1_000_000_000
	}
	volumes := spec.BlockDeviceMappings
	for i := range volumes {
		if size := sizeOf(&volumes[i]); volumes[i].RootVolume && size > 0 {
			return size
		}
	}
	if f.Name == family.Custom && len(volumes) > 0 {
		return orDefault(sizeOf(&volumes[len(volumes)-1]))
	}
	for _, list := range [][]awsv1.BlockDeviceMapping{volumes, f.Volumes} {
		for i := range list {
			if size := sizeOf(&list[i]); aws.ToString(list[i].DeviceName) == f.EphemeralDevice && size > 0 {
				return size
			}
		}
	}
	return storageDefault
}

func orDefault(size int64) int64 {
	if size > 0 {
		return size
	}
	return storageDefault
}

// sizeOf returns the bytes of a volume; 0: the mapping does not say.
func sizeOf(m *awsv1.BlockDeviceMapping) int64 {
	if m.EBS == nil || m.EBS.VolumeSize == nil {
		return 0
	}
	return translate.Amount(corev1.ResourceEphemeralStorage, *m.EBS.VolumeSize)
}

// pods returns how many pods the kubelet takes.
func pods(info *types.InstanceTypeInfo, f family.Family, s *kubelet.Settings) int64 {
	if s.PodsPerCore > 0 && f.PodsPerCore {
		return min(s.PodsPerCore*vcpus(info), s.MaxPods)
	}
	return s.MaxPods
}

// podsDefault returns the maxPods of a kubelet if the class does not set it.
// With prefixes, which a class asks for by ipPrefixCount, addresses are not short: then it
// is as many as EKS recommends for the size.
func podsDefault(info *types.InstanceTypeInfo, r *Region, c *Class) int64 {
	if !family.Of(c.Spec).ENILimitedDensity {
		return podsUnlimited
	}
	usable := interfaces(info) - r.ReservedENIs - efasOnFirstCard(c.Spec)
	if aws.ToInt32(c.Spec.IPPrefixCount) == 0 {
		return addressedPods(usable, addresses(info)-1)
	}
	const large, podsLarge = 30, 250
	most := int64(podsUnlimited)
	if vcpus(info) >= large {
		most = podsLarge
	}
	return min(most, addressedPods(usable, (addresses(info)-1)*prefixAddresses))
}

// addressedPods returns how many pods have an address, and two that use the instance's.
func addressedPods(interfaces, perInterface int64) int64 {
	if interfaces <= 0 || perInterface <= 0 {
		return 0
	}
	return interfaces*perInterface + 2
}

// efas returns how many EFA interfaces pods can have: those of the class, or all.
func efas(info *types.InstanceTypeInfo, spec *awsv1.EC2NodeClassSpec) int64 {
	if len(spec.NetworkInterfaces) == 0 {
		return efaMost(info)
	}
	n := int64(0)
	for _, i := range spec.NetworkInterfaces {
		if i.InterfaceType == awsv1.InterfaceTypeEFAOnly {
			n++
		}
	}
	return n
}

func efasOnFirstCard(spec *awsv1.EC2NodeClassSpec) int64 {
	n := int64(0)
	for _, i := range spec.NetworkInterfaces {
		if i.InterfaceType == awsv1.InterfaceTypeEFAOnly && i.NetworkCardIndex == 0 {
			n++
		}
	}
	return n
}

// devices returns the accelerators of the type by resource.
func devices(info *types.InstanceTypeInfo) quantity.List {
	out := quantity.List{}
	list := gpus(info)
	for i := range list {
		switch aws.ToString(list[i].Manufacturer) {
		case "NVIDIA":
			out[awsv1.ResourceNVIDIAGPU] += gpuCount(&list[i])
		case "AMD":
			out[awsv1.ResourceAMDGPU] += gpuCount(&list[i])
		case "Habana":
			out[awsv1.ResourceHabanaGaudi] += gpuCount(&list[i])
		}
	}
	for _, d := range neurons(info) {
		n := int64(aws.ToInt32(d.Count))
		out[awsv1.ResourceAWSNeuron] += n
		if d.CoreInfo != nil {
			out[awsv1.ResourceAWSNeuronCore] += n * int64(aws.ToInt32(d.CoreInfo.Count))
		}
	}
	return out
}
