package instance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// Types returns the types that the class can launch, by name.
func Types(infos []types.InstanceTypeInfo, r *Region, c *Class) []*catalog.Type {
	var out []*catalog.Type
	for i := range infos {
		if Unsuitable(&infos[i], c) == "" {
			out = append(out, Type(&infos[i], r, c))
		}
	}
	slices.SortFunc(out, func(a, b *catalog.Type) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// CheckMaxPods returns the error of an expression of the class for the number of pods that fails
// for a type, or gives a number that no kubelet takes. How many pods instances take is not known
// then, and all of them would be planned wrongly.
func CheckMaxPods(infos []types.InstanceTypeInfo, r *Region, c *Class) error {
	for i := range infos {
		if Unsuitable(&infos[i], c) != "" {
			continue
		}
		if _, err := c.Kubelet.MaxPods(ForKubelet(&infos[i], r, c)); err != nil {
			return err
		}
	}
	return nil
}

// Type returns a type as the class has it.
func Type(info *types.InstanceTypeInfo, r *Region, c *Class) *catalog.Type {
	t := &catalog.Type{Name: string(info.InstanceType)}
	settings, _ := Settings(info, r, c) // what fails is left out; the class's status says why
	t.Capacity = capacity(info, r, c, &settings)
	t.Overhead = overhead(info, c, &settings, t.Capacity)
	t.Offerings = offerings(info, r, c)
	t.Requirements = requirements(info, r, c, t.Offerings)
	return t
}

// Settings returns the configuration of the kubelet on an instance of the type. The error names
// the expressions of the class that fail for it.
func Settings(info *types.InstanceTypeInfo, r *Region, c *Class) (kubelet.Settings, error) {
	s, err := c.Kubelet.Resolve(ForKubelet(info, r, c))
	if family.Of(c.Spec).Flags && len(s.KubeReserved) > 0 {
		s.KubeReserved = named(info, c, &s)
	}
	return s, err
}

// ForKubelet returns the type as expressions of spec.kubelet see it.
func ForKubelet(info *types.InstanceTypeInfo, r *Region, c *Class) kubelet.InstanceType {
	return kubelet.InstanceType{
		Type: string(info.InstanceType), VCPUs: vcpus(info), MemoryMiB: memoryMiB(info),
		ENIs: interfaces(info), IPsPerENI: addresses(info), Pods: podsDefault(info, r, c),
	}
}

// Unsuitable returns why the class cannot launch the type; empty: it can.
func Unsuitable(info *types.InstanceTypeInfo, c *Class) string {
	f := family.Of(c.Spec)
	name := string(info.InstanceType)
	switch {
	case architecture(info) == "":
		return "its architecture is neither x86_64 nor arm64"
	case f.WindowsBuild != "" && architecture(info) != amd64:
		return "Windows runs on amd64 only"
	case f.Name == family.AL2023 && strings.HasPrefix(name, "a1."):
		return "AL2023 does not run on a1"
	case nested(c.Spec) && (info.ProcessorInfo == nil || !slices.Contains(info.ProcessorInfo.SupportedFeatures, types.SupportedAdditionalProcessorFeatureNestedVirtualization)):
		return "it has no nested virtualization (spec.cpuOptions)"
	case c.Spec.EnclaveOptions != nil && c.Spec.EnclaveOptions.Enabled && info.NitroEnclavesSupport != types.NitroEnclavesSupportSupported:
		return "it cannot run Nitro enclaves (spec.enclaveOptions)"
	case c.Spec.ConnectionTracking != nil && info.Hypervisor != types.InstanceTypeHypervisorNitro:
		return "only Nitro instances have spec.connectionTracking"
	case c.Group != nil && (info.PlacementGroupInfo == nil || !slices.Contains(info.PlacementGroupInfo.SupportedStrategies, types.PlacementGroupStrategy(c.Group.Strategy))):
		return fmt.Sprintf("it cannot be in a placement group of strategy %s", c.Group.Strategy)
	}
	return unsuitableInterfaces(info, c.Spec.NetworkInterfaces)
}

func nested(spec *awsv1.EC2NodeClassSpec) bool {
	return spec.CPUOptions != nil && aws.ToString(spec.CPUOptions.NestedVirtualization) == "enabled"
}

// unsuitableInterfaces returns why an instance cannot have these interfaces.
func unsuitableInterfaces(info *types.InstanceTypeInfo, want []awsv1.NetworkInterface) string {
	if len(want) == 0 {
		return ""
	}
	net := info.NetworkInfo
	if net == nil || net.EnaSupport == types.EnaSupportUnsupported {
		return "it has no ENA (spec.networkInterfaces)"
	}
	efa := 0
	for i, w := range want {
		card := slices.IndexFunc(net.NetworkCards, func(c types.NetworkCardInfo) bool { return aws.ToInt32(c.NetworkCardIndex) == w.NetworkCardIndex })
		switch {
		case card < 0:
			return fmt.Sprintf("it has no network card %d (spec.networkInterfaces[%d])", w.NetworkCardIndex, i)
		case w.DeviceIndex >= aws.ToInt32(net.NetworkCards[card].MaximumNetworkInterfaces):
			return fmt.Sprintf("its network card %d has no device %d (spec.networkInterfaces[%d])", w.NetworkCardIndex, w.DeviceIndex, i)
		case w.InterfaceType == awsv1.InterfaceTypeEFAOnly:
			efa++
		}
	}
	if most := efaMost(info); int64(efa) > most {
		return fmt.Sprintf("it takes %d EFA interfaces, not %d (spec.networkInterfaces)", most, efa)
	}
	return ""
}
