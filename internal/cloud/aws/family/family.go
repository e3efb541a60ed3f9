// Package family knows the families of Amazon Machine Images: which system they boot, which
// fields of the kubelet's configuration they take, and what they do where a class says nothing.
package family

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// Names of the families, as they stand in amiFamily.
const (
	AL2          = "AL2"
	AL2023       = "AL2023"
	Bottlerocket = "Bottlerocket"
	Custom       = "Custom"
	Windows2019  = "Windows2019"
	Windows2022  = "Windows2022"
	Windows2025  = "Windows2025"
)

// Family is what the instances of a family have in common.
type Family struct {
	Name string
	// OS is the value of kubernetes.io/os.
	OS string
	// WindowsBuild is the value of node.kubernetes.io/windows-build; empty: not Windows.
	WindowsBuild string
	// ENILimitedDensity: an instance takes as many pods as its interfaces have addresses for.
	// Otherwise 110.
	ENILimitedDensity bool
	// ENILimitedOverhead: the kubelet keeps memory for as many pods as the interfaces have
	// addresses for, whatever maxPods says. Otherwise for as many as there can be.
	ENILimitedOverhead bool
	// PodsPerCore: the kubelet takes podsPerCore.
	PodsPerCore bool
	// AnyKubelet: the kubelet takes every field of its configuration, not just those that
	// are managed.
	AnyKubelet bool
	// Flags: the kubelet is configured by flags. A flag that holds a list of amounts replaces
	// the image's whole list. Without Flags, each amount is replaced by itself.
	Flags bool
	// EphemeralDevice is the device that holds the kubelet's directory; empty: not known.
	EphemeralDevice string
	// Volumes are those of a class that names none; empty: those of the image.
	Volumes []awsv1.BlockDeviceMapping
}

// Of returns the family of a class: the one it names, or that of its alias.
func Of(spec *awsv1.EC2NodeClassSpec) Family {
	if spec.AMIFamily != nil {
		return named(*spec.AMIFamily)
	}
	alias, _, _ := Alias(spec)
	for _, name := range []string{AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025} {
		if strings.EqualFold(alias, name) {
			return named(name)
		}
	}
	return named(Custom)
}

// Alias returns the family, in lower case, and the version of the alias that a class
// selects its images by, if it does.
func Alias(spec *awsv1.EC2NodeClassSpec) (name, version string, ok bool) {
	i := slices.IndexFunc(spec.AMISelectorTerms, func(t awsv1.AMISelectorTerm) bool { return t.Alias != "" })
	if i < 0 {
		return "", "", false
	}
	return strings.Cut(spec.AMISelectorTerms[i].Alias, "@")
}

func named(name string) Family {
	f := Family{Name: name, OS: "linux", ENILimitedDensity: true, ENILimitedOverhead: true, PodsPerCore: true}
	switch name {
	case AL2, AL2023:
		f.AnyKubelet, f.Flags = name == AL2023, name == AL2
		f.EphemeralDevice = "/dev/xvda"
		f.Volumes = []awsv1.BlockDeviceMapping{volume("/dev/xvda", "20Gi")}
	case Bottlerocket:
		f.ENILimitedOverhead, f.PodsPerCore = false, false
		f.EphemeralDevice = "/dev/xvdb"
		f.Volumes = []awsv1.BlockDeviceMapping{volume("/dev/xvda", "6Gi"), volume("/dev/xvdb", "20Gi")}
	case Windows2019, Windows2022, Windows2025:
		f.ENILimitedDensity, f.ENILimitedOverhead = false, false
		f.OS, f.WindowsBuild, f.Flags = "windows", windowsBuild(name), true
		f.EphemeralDevice = "/dev/sda1"
		f.Volumes = []awsv1.BlockDeviceMapping{volume("/dev/sda1", "50Gi")}
	}
	return f
}

func windowsBuild(name string) string {
	switch name {
	case Windows2019:
		return "10.0.17763"
	case Windows2022:
		return "10.0.20348"
	default:
		return "10.0.26100"
	}
}

// volume returns an encrypted gp3 volume that ends with its instance.
func volume(device, size string) awsv1.BlockDeviceMapping {
	quantity := resource.MustParse(size)
	return awsv1.BlockDeviceMapping{DeviceName: new(device), EBS: &awsv1.BlockDevice{
		DeleteOnTermination: new(true), Encrypted: new(true), VolumeType: new("gp3"), VolumeSize: &quantity,
	}}
}
