package instance_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// said returns the labels of the provider that a type has a word on.
func said(t *catalog.Type) map[string]string {
	out := map[string]string{}
	for key, q := range t.Requirements {
		if short, ours := strings.CutPrefix(key, "karpenter.k8s.aws/"); ours && q.Operator() == label.OpIn {
			out[short] = strings.Join(q.Values(), " ")
		}
	}
	return out
}

func TestLabels(t *testing.T) {
	t.Parallel()
	m5 := map[string]string{
		"instance-category": "m", "instance-family": "m5", "instance-generation": "5", "instance-size": "large",
		"instance-cpu": "2", "instance-cpu-manufacturer": "intel", "instance-cpu-sustained-clock-speed-mhz": "3100", "instance-memory": "8192",
		"instance-ebs-bandwidth": "4750", "instance-network-bandwidth": "750", "instance-hypervisor": "nitro",
		"instance-encryption-in-transit-supported": "false", "instance-capability-flex": "false", "instance-tenancy": "dedicated default",
	}
	for name, tc := range map[string]struct {
		info   func(*types.InstanceTypeInfo)
		change map[string]string // of those of m5.large; "": not there
	}{
		"m5.large": {},
		"m7i-flex.large": {change: map[string]string{
			"instance-family": "m7i-flex", "instance-generation": "7", "instance-capability-flex": "true",
		}},
		"u-6tb1.metal": {
			info: func(i *types.InstanceTypeInfo) { i.Hypervisor = "" },
			change: map[string]string{
				"instance-category": "u", "instance-family": "u-6tb1", "instance-generation": "1", "instance-size": "metal", "instance-hypervisor": "-",
			},
		},
		"g4ad.large": {
			info: func(i *types.InstanceTypeInfo) {
				i.GpuInfo = &types.GpuInfo{Gpus: []types.GpuDeviceInfo{{
					Name: aws.String("Radeon Pro V520"), Manufacturer: aws.String("AMD"), Count: aws.Int32(2), MemoryInfo: &types.GpuDeviceMemoryInfo{SizeInMiB: aws.Int32(8192)},
				}}}
				i.InstanceStorageInfo = &types.InstanceStorageInfo{TotalSizeInGB: aws.Int64(150), NvmeSupport: types.EphemeralNvmeSupportRequired}
			},
			change: map[string]string{
				"instance-category": "g", "instance-family": "g4ad", "instance-generation": "4",
				"instance-gpu-name": "radeon-pro-v520", "instance-gpu-manufacturer": "amd", "instance-gpu-count": "2", "instance-gpu-memory": "8192",
				"instance-local-nvme": "150",
			},
		},
		"inf2.large": {
			info: func(i *types.InstanceTypeInfo) {
				i.NeuronInfo = &types.NeuronInfo{NeuronDevices: []types.NeuronDeviceInfo{{Name: aws.String("Inferentia2"), Count: aws.Int32(1)}}}
				i.InferenceAcceleratorInfo = &types.InferenceAcceleratorInfo{Accelerators: []types.InferenceDeviceInfo{{Name: aws.String("other")}}}
			},
			change: map[string]string{
				"instance-category": "inf", "instance-family": "inf2", "instance-generation": "2",
				"instance-accelerator-name": "inferentia2", "instance-accelerator-manufacturer": "aws", "instance-accelerator-count": "1",
			},
		},
		"inf9.large": { // of two kinds nothing is said
			info: func(i *types.InstanceTypeInfo) {
				i.NeuronInfo = &types.NeuronInfo{NeuronDevices: []types.NeuronDeviceInfo{{Name: aws.String("A")}, {Name: aws.String("B")}}}
				i.InferenceAcceleratorInfo = &types.InferenceAcceleratorInfo{Accelerators: []types.InferenceDeviceInfo{{Name: aws.String("other")}}}
			},
			change: map[string]string{"instance-category": "inf", "instance-family": "inf9", "instance-generation": "9"},
		},
		"t1.large": { // EC2 says little of the oldest
			info: func(i *types.InstanceTypeInfo) {
				i.EbsInfo.EbsOptimizedSupport = types.EbsOptimizedSupportUnsupported
				i.NetworkInfo.NetworkCards[0].BaselineBandwidthInGbps = nil
				i.ProcessorInfo.SustainedClockSpeedInGhz, i.ProcessorInfo.Manufacturer = nil, nil
			},
			change: map[string]string{
				"instance-category": "t", "instance-family": "t1", "instance-generation": "1",
				"instance-ebs-bandwidth": "", "instance-network-bandwidth": "", "instance-cpu-sustained-clock-speed-mhz": "", "instance-cpu-manufacturer": "",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := info(name, 2, 8192, 3, 10)
			if tc.info != nil {
				tc.info(&i)
			}
			want := map[string]string{}
			for key, value := range m5 {
				want[key] = value
			}
			for key, value := range tc.change {
				switch value {
				case "":
					delete(want, key)
				case "-":
					want[key] = ""
				default:
					want[key] = value
				}
			}
			if diff := cmp.Diff(want, said(instance.Type(&i, region(), class(t, "AL2023", nil)))); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSystemOfTheFamily(t *testing.T) {
	t.Parallel()
	i := m5large()
	for family, want := range map[string]string{"AL2": "linux ", "Custom": "linux ", "Windows2019": "windows 10.0.17763", "Windows2022": "windows 10.0.20348", "Windows2025": "windows 10.0.26100"} {
		r := instance.Type(&i, region(), class(t, family, nil)).Requirements
		system, _ := r["kubernetes.io/os"].Only()
		build, _ := r["node.kubernetes.io/windows-build"].Only()
		if got := system + " " + build; got != want {
			t.Errorf("%s is %q, want %q", family, got, want)
		}
	}
}

// TestEveryTypeSaysOfEveryLabel checks that pools can rely on the labels: whatever EC2
// leaves out, nothing panics, every well-known label is spoken of, and values are such that
// the API server takes them.
func TestEveryTypeSaysOfEveryLabel(t *testing.T) {
	t.Parallel()
	full := m5large()
	for name, i := range map[string]types.InstanceTypeInfo{"m5.large": full, "nothing known": {InstanceType: "x9.large"}} {
		got := instance.Type(&i, region(), class(t, "AL2023", nil))
		for _, key := range instance.WellKnown() {
			q, ok := got.Requirements[key]
			if !ok {
				t.Errorf("%s has no word on %s", name, key)
			}
			for _, value := range q.Values() {
				if len(validation.IsValidLabelValue(value)) > 0 {
					t.Errorf("%s: %s is %q, which no label can be", name, key, value)
				}
			}
		}
	}
}

// TestAgreesWithTheCatalog compares two programs: what is worked out here from what EC2
// would say of a type, and what internal/cloud/ec2catalog has worked out of its table.
func TestAgreesWithTheCatalog(t *testing.T) {
	t.Parallel()
	want, err := ec2catalog.Types()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ec2catalog.Rows()
	if err != nil {
		t.Fatal(err)
	}
	c := class(t, "AL2023", nil)
	for n, row := range rows {
		i := ofRow(t, row)
		got := instance.Type(&i, region(), c)
		at := slices.IndexFunc(want, func(w *catalog.Type) bool { return w.Name == got.Name })
		if at < 0 {
			t.Fatalf("row %d: the catalog has no %s", n, got.Name)
		}
		for _, name := range []string{"cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "amd.com/gpu"} {
			if got, want := got.Allocatable()[name], want[at].Allocatable()[name]; got != want {
				t.Errorf("%s has %d of %s for pods, the catalog says %d", i.InstanceType, got, name, want)
			}
		}
		for _, key := range []string{"instance-category", "instance-family", "instance-generation", "instance-size", "instance-cpu", "instance-memory", "instance-local-nvme", "instance-gpu-name", "instance-gpu-count"} {
			if got, want := got.Requirements["karpenter.k8s.aws/"+key], want[at].Requirements["karpenter.k8s.aws/"+key]; !got.Equal(want) {
				t.Errorf("%s: %s is %s, the catalog says %s", i.InstanceType, key, got, want)
			}
		}
	}
}

// ofRow returns what EC2 would say of a type of the catalog's table.
func ofRow(t *testing.T, row map[string]string) types.InstanceTypeInfo {
	t.Helper()
	number := func(column string) int64 {
		n, err := strconv.ParseInt(row[column], 10, 64)
		if err != nil {
			t.Fatalf("%s of %s: %v", column, row["name"], err)
		}
		return n
	}
	i := info(row["name"], int32(number("vcpu")), number("memory_mib"), int32(number("enis")), int32(number("ips_per_eni")))
	if row["arch"] == "arm64" {
		i.ProcessorInfo.SupportedArchitectures = []types.ArchitectureType{types.ArchitectureTypeArm64}
	}
	if gb := number("nvme_gb"); gb > 0 {
		i.InstanceStorageInfo = &types.InstanceStorageInfo{TotalSizeInGB: &gb, NvmeSupport: types.EphemeralNvmeSupportRequired}
	}
	if n := number("gpu_count"); n > 0 {
		i.GpuInfo = &types.GpuInfo{Gpus: []types.GpuDeviceInfo{{
			Name: aws.String(row["gpu_name"]), Manufacturer: aws.String(strings.ToUpper(row["gpu_maker"])), Count: aws.Int32(int32(n)),
		}}}
	}
	return i
}

// TestNodePoolsMayNameEveryLabel compares the labels that types decide with those that the rules
// of NodePools let pass: Karpenter has 28 with that of the EC2NodeClass.
func TestNodePoolsMayNameEveryLabel(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../../../config/crd/karpenter.sh_nodepools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{awsv1.LabelNodeClass}
	for _, key := range instance.WellKnown() {
		if strings.HasPrefix(key, awsv1.Group) {
			want = append(want, key)
		}
	}
	var got []string
	for _, m := range regexp.MustCompile(`'(karpenter\.k8s\.aws/[a-z0-9-]+)'`).FindAllStringSubmatch(string(rules), -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	got = slices.Compact(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 28 {
		t.Errorf("%d labels (-types +rules):\n%s", len(got), diff)
	}
}
