package instance

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Labels of Kubernetes that a type decides.
const (
	labelArch         = "kubernetes.io/arch"
	labelOS           = "kubernetes.io/os"
	labelRegion       = "topology.kubernetes.io/region"
	labelWindowsBuild = "node.kubernetes.io/windows-build"
)

// decided lists the labels of which every type says something, if only that it has none.
var decided = []string{ //nolint:gochecknoglobals // a constant that Go cannot spell
	labelWindowsBuild, awsv1.LabelTopologyZoneID,
	awsv1.LabelInstanceCategory, awsv1.LabelInstanceFamily, awsv1.LabelInstanceGeneration, awsv1.LabelInstanceSize,
	awsv1.LabelInstanceCPU, awsv1.LabelInstanceCPUManufacturer, awsv1.LabelInstanceCPUSustainedClockSpeedMhz, awsv1.LabelInstanceMemory,
	awsv1.LabelInstanceEBSBandwidth, awsv1.LabelInstanceNetworkBandwidth, awsv1.LabelInstanceLocalNVME, awsv1.LabelInstanceHypervisor,
	awsv1.LabelInstanceEncryptionInTransitSupported, awsv1.LabelInstanceCapabilityFlex, awsv1.LabelInstanceTenancy,
	awsv1.LabelInstanceGPUName, awsv1.LabelInstanceGPUManufacturer, awsv1.LabelInstanceGPUCount, awsv1.LabelInstanceGPUMemory,
	awsv1.LabelInstanceAcceleratorName, awsv1.LabelInstanceAcceleratorManufacturer, awsv1.LabelInstanceAcceleratorCount,
	awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible,
	awsv1.LabelPlacementGroupID, awsv1.LabelPlacementGroupPartition,
}

// WellKnown returns the labels that types and offerings decide, beside those of Kubernetes
// and the core.
func WellKnown() []string { return slices.Clone(decided) }

// requirements returns the labels of the type. Of what EC2 does not say nothing is claimed:
// the label does not exist.
func requirements(info *types.InstanceTypeInfo, r *Region, c *Class, offered []catalog.Offering) label.Requirements {
	f := family.Of(c.Spec)
	out := label.Requirements{
		label.InstanceType:         label.In(string(info.InstanceType)),
		labelArch:                  label.In(architecture(info)),
		labelOS:                    label.In(f.OS),
		labelRegion:                label.In(r.Name),
		awsv1.LabelInstanceTenancy: label.In(awsv1.TenancyDefault, awsv1.TenancyDedicated),
	}
	for _, key := range decided {
		if _, set := out[key]; !set {
			out[key] = label.DoesNotExist()
		}
	}
	set := func(key, value string) { out[key] = label.In(value) }
	if f.WindowsBuild != "" {
		set(labelWindowsBuild, f.WindowsBuild)
	}
	setNames(set, string(info.InstanceType))
	setHardware(set, info)
	setDevices(set, info)
	if c.Group != nil {
		set(awsv1.LabelPlacementGroupID, c.Group.ID)
	}
	setOffered(out, offered)
	return out
}

// typeName is a family, as in m5 or u-6tb1: letters, an optional size of memory, digits.
var typeName = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+)`)

// setNames sets what the name of the type says.
func setNames(set func(key, value string), name string) {
	family, size, _ := strings.Cut(name, ".")
	set(awsv1.LabelInstanceFamily, family)
	set(awsv1.LabelInstanceSize, size)
	set(awsv1.LabelInstanceCapabilityFlex, strconv.FormatBool(strings.Contains(family, "-flex")))
	if part := typeName.FindStringSubmatch(family); part != nil {
		set(awsv1.LabelInstanceCategory, part[1])
		set(awsv1.LabelInstanceGeneration, part[2])
	}
}

// setHardware sets what processor, memory, network and storage say.
func setHardware(set func(key, value string), info *types.InstanceTypeInfo) {
	number := func(key string, n int64) { set(key, strconv.FormatInt(n, 10)) }
	number(awsv1.LabelInstanceCPU, vcpus(info))
	number(awsv1.LabelInstanceMemory, memoryMiB(info))
	set(awsv1.LabelInstanceHypervisor, string(info.Hypervisor))
	if p := info.ProcessorInfo; p != nil {
		if maker := aws.ToString(p.Manufacturer); maker != "" {
			set(awsv1.LabelInstanceCPUManufacturer, kebab(maker))
		}
		if ghz := aws.ToFloat64(p.SustainedClockSpeedInGhz); ghz > 0 {
			number(awsv1.LabelInstanceCPUSustainedClockSpeedMhz, int64(math.Round(ghz*1000)))
		}
	}
	if e := info.EbsInfo; e != nil && e.EbsOptimizedSupport == types.EbsOptimizedSupportDefault && e.EbsOptimizedInfo != nil {
		number(awsv1.LabelInstanceEBSBandwidth, int64(aws.ToInt32(e.EbsOptimizedInfo.MaximumBandwidthInMbps)))
	}
	if mbps := networkMbps(info); mbps > 0 {
		number(awsv1.LabelInstanceNetworkBandwidth, mbps)
	}
	if info.NetworkInfo != nil {
		set(awsv1.LabelInstanceEncryptionInTransitSupported, strconv.FormatBool(aws.ToBool(info.NetworkInfo.EncryptionInTransitSupported)))
	}
	if s := info.InstanceStorageInfo; s != nil && s.NvmeSupport != types.EphemeralNvmeSupportUnsupported && aws.ToInt64(s.TotalSizeInGB) > 0 {
		number(awsv1.LabelInstanceLocalNVME, *s.TotalSizeInGB)
	}
}

// networkMbps returns the bandwidth that all network cards together always have; 0: EC2
// does not say.
func networkMbps(info *types.InstanceTypeInfo) int64 {
	if info.NetworkInfo == nil {
		return 0
	}
	gbps := 0.0
	for _, card := range info.NetworkInfo.NetworkCards {
		gbps += aws.ToFloat64(card.BaselineBandwidthInGbps)
	}
	return int64(math.Round(gbps * 1000))
}

// setDevices sets what accelerators say, of types that have one kind of them.
func setDevices(set func(key, value string), info *types.InstanceTypeInfo) {
	number := func(key string, n int64) { set(key, strconv.FormatInt(n, 10)) }
	if g := gpus(info); len(g) == 1 {
		set(awsv1.LabelInstanceGPUName, kebab(aws.ToString(g[0].Name)))
		set(awsv1.LabelInstanceGPUManufacturer, kebab(aws.ToString(g[0].Manufacturer)))
		number(awsv1.LabelInstanceGPUCount, gpuCount(&g[0]))
		if g[0].MemoryInfo != nil {
			number(awsv1.LabelInstanceGPUMemory, int64(aws.ToInt32(g[0].MemoryInfo.SizeInMiB)))
		}
	}
	if n := neurons(info); len(n) == 1 {
		set(awsv1.LabelInstanceAcceleratorName, kebab(aws.ToString(n[0].Name)))
		set(awsv1.LabelInstanceAcceleratorManufacturer, "aws")
		number(awsv1.LabelInstanceAcceleratorCount, int64(aws.ToInt32(n[0].Count)))
	} else if a := info.InferenceAcceleratorInfo; a != nil && len(n) == 0 && len(a.Accelerators) == 1 {
		set(awsv1.LabelInstanceAcceleratorName, kebab(aws.ToString(a.Accelerators[0].Name)))
		set(awsv1.LabelInstanceAcceleratorManufacturer, kebab(aws.ToString(a.Accelerators[0].Manufacturer)))
		number(awsv1.LabelInstanceAcceleratorCount, int64(aws.ToInt32(a.Accelerators[0].Count)))
	}
}

// setOffered lists for each label that every offering decides all it can be. Of others,
// those of reservations, the type says that it has none.
func setOffered(out label.Requirements, offered []catalog.Offering) {
	values := map[string][]string{label.Zone: nil, label.CapacityType: nil}
	for i := range offered {
		o := &offered[i]
		values[label.Zone] = append(values[label.Zone], o.Zone)
		values[label.CapacityType] = append(values[label.CapacityType], o.CapacityType)
		for key, value := range o.Labels {
			values[key] = append(values[key], value)
		}
	}
	for key, list := range values {
		if len(list) == len(offered) {
			out[key] = label.In(list...)
		}
	}
}

// kebab returns a name as labels have it.
func kebab(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "-") }
