package instance

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Architectures as labels have them.
const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// What EC2 says of a type is full of pointers that may be nil. The functions here return
// zero for what it does not say.

// architecture returns the first one that nodes can have; empty: none.
func architecture(info *types.InstanceTypeInfo) string {
	if info.ProcessorInfo == nil {
		return ""
	}
	for _, a := range info.ProcessorInfo.SupportedArchitectures {
		switch a {
		case types.ArchitectureTypeX8664:
			return amd64
		case types.ArchitectureTypeArm64:
			return arm64
		default:
		}
	}
	return ""
}

func vcpus(info *types.InstanceTypeInfo) int64 {
	if info.VCpuInfo == nil {
		return 0
	}
	return int64(aws.ToInt32(info.VCpuInfo.DefaultVCpus))
}

func memoryMiB(info *types.InstanceTypeInfo) int64 {
	if info.MemoryInfo == nil {
		return 0
	}
	return aws.ToInt64(info.MemoryInfo.SizeInMiB)
}

// interfaces returns how many the default network card takes.
func interfaces(info *types.InstanceTypeInfo) int64 {
	net := info.NetworkInfo
	if net == nil {
		return 0
	}
	at := slices.IndexFunc(net.NetworkCards, func(c types.NetworkCardInfo) bool {
		return aws.ToInt32(c.NetworkCardIndex) == aws.ToInt32(net.DefaultNetworkCardIndex)
	})
	if at < 0 {
		return int64(aws.ToInt32(net.MaximumNetworkInterfaces))
	}
	return int64(aws.ToInt32(net.NetworkCards[at].MaximumNetworkInterfaces))
}

// addresses returns how many IPv4 addresses an interface takes.
func addresses(info *types.InstanceTypeInfo) int64 {
	if info.NetworkInfo == nil {
		return 0
	}
	return int64(aws.ToInt32(info.NetworkInfo.Ipv4AddressesPerInterface))
}

// efaMost returns how many EFA interfaces the type takes.
func efaMost(info *types.InstanceTypeInfo) int64 {
	if info.NetworkInfo == nil || info.NetworkInfo.EfaInfo == nil {
		return 0
	}
	return int64(aws.ToInt32(info.NetworkInfo.EfaInfo.MaximumEfaInterfaces))
}

func gpus(info *types.InstanceTypeInfo) []types.GpuDeviceInfo {
	if info.GpuInfo == nil {
		return nil
	}
	return info.GpuInfo.Gpus
}

// gpuCount returns how many devices pods see: a part of a device counts as one.
func gpuCount(g *types.GpuDeviceInfo) int64 {
	if n := aws.ToInt32(g.Count); n > 0 {
		return int64(n)
	}
	return int64(aws.ToInt32(g.LogicalGpuCount))
}

func neurons(info *types.InstanceTypeInfo) []types.NeuronDeviceInfo {
	if info.NeuronInfo == nil {
		return nil
	}
	return info.NeuronInfo.NeuronDevices
}
