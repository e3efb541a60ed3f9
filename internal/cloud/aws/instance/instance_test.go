package instance_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const mebibyte, gibibyte = 1 << 20, 1 << 30

// info returns a Nitro instance of x86_64 with interfaces for so many addresses.
func info(name string, vcpus int32, memoryMiB int64, enis, ips int32) types.InstanceTypeInfo {
	return types.InstanceTypeInfo{
		InstanceType: types.InstanceType(name), Hypervisor: types.InstanceTypeHypervisorNitro,
		SupportedUsageClasses: []types.UsageClassType{types.UsageClassTypeOnDemand, types.UsageClassTypeSpot},
		VCpuInfo:              &types.VCpuInfo{DefaultVCpus: &vcpus},
		MemoryInfo:            &types.MemoryInfo{SizeInMiB: &memoryMiB},
		ProcessorInfo: &types.ProcessorInfo{
			Manufacturer: aws.String("Intel"), SustainedClockSpeedInGhz: aws.Float64(3.1),
			SupportedArchitectures: []types.ArchitectureType{types.ArchitectureTypeI386, types.ArchitectureTypeX8664},
		},
		NetworkInfo: &types.NetworkInfo{
			DefaultNetworkCardIndex: aws.Int32(0), Ipv4AddressesPerInterface: &ips, EnaSupport: types.EnaSupportRequired,
			NetworkCards: []types.NetworkCardInfo{{
				NetworkCardIndex: aws.Int32(0), MaximumNetworkInterfaces: &enis, BaselineBandwidthInGbps: aws.Float64(0.75),
			}},
		},
		EbsInfo: &types.EbsInfo{
			EbsOptimizedSupport: types.EbsOptimizedSupportDefault,
			EbsOptimizedInfo:    &types.EbsOptimizedInfo{MaximumBandwidthInMbps: aws.Int32(4750)},
		},
	}
}

func m5large() types.InstanceTypeInfo { return info("m5.large", 2, 8192, 3, 10) }

func graviton() types.InstanceTypeInfo {
	i := info("m6g.large", 2, 8192, 3, 10)
	i.ProcessorInfo.SupportedArchitectures = []types.ArchitectureType{types.ArchitectureTypeArm64}
	i.ProcessorInfo.Manufacturer = aws.String("AWS")
	return i
}

func region() *instance.Region {
	return &instance.Region{
		Name: "us-east-1", MemoryOverhead: 0.075,
		Offered:  map[string][]string{"m5.large": {"us-east-1b", "us-east-1a", "us-east-1f"}},
		OnDemand: map[string]float64{"m5.large": 0.096},
		Spot:     map[string]map[string]float64{"m5.large": {"us-east-1a": 0.03}},
	}
}

// class returns a class of the family, changed.
func class(t testing.TB, amiFamily string, change func(*instance.Class), kubeletJSON ...string) *instance.Class {
	t.Helper()
	c := &instance.Class{
		Spec: &awsv1.EC2NodeClassSpec{AMIFamily: &amiFamily},
		Status: &awsv1.EC2NodeClassStatus{Subnets: []awsv1.Subnet{
			{ID: "subnet-3", Zone: "us-east-1b", ZoneID: "use1-az2"},
			{ID: "subnet-1", Zone: "us-east-1a", ZoneID: "use1-az1"},
			{ID: "subnet-2", Zone: "us-east-1a", ZoneID: "use1-az1"},
			{ID: "subnet-4", Zone: "us-east-1c", ZoneID: "use1-az4"},
		}},
	}
	var raw *runtime.RawExtension
	for _, text := range kubeletJSON {
		raw = &runtime.RawExtension{Raw: []byte(text)}
	}
	var err error
	if c.Kubelet, err = kubelet.Parse(raw); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	return c
}

// TestWorkedExample has the figures of an instance as they can be read off a real node.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	i := m5large()
	got := instance.Type(&i, region(), class(t, "AL2023", nil))
	if diff := cmp.Diff(quantity.List{
		"cpu": 2000, "memory": 7577 * mebibyte, "pods": 29, "ephemeral-storage": 20 * gibibyte, "vpc.amazonaws.com/pod-eni": 9,
	}, got.Capacity); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	free := got.Allocatable()
	if free["memory"] != 6903*mebibyte || free["cpu"] != 1930 || free["ephemeral-storage"] != 17*gibibyte || free["pods"] != 29 {
		t.Errorf("allocatable is %s", free)
	}
}

func TestCapacityAndOverhead(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		family, kubelet string
		info            func(*types.InstanceTypeInfo)
		class           func(*instance.Class)
		region          func(*instance.Region)
		capacity        quantity.List // what is not named is as in the worked example
		overhead        quantity.List
	}{
		"interfaces that are reserved take no pods": {
			region: func(r *instance.Region) { r.ReservedENIs = 1 }, capacity: quantity.List{"pods": 20},
		},
		"no interface is left": {region: func(r *instance.Region) { r.ReservedENIs = 3 }, capacity: quantity.List{"pods": 0}},
		"maxPods counts, and the memory kept is that of the addresses all the same": {
			kubelet: `{"maxPods":110}`, capacity: quantity.List{"pods": 110},
		},
		"Bottlerocket keeps memory for the pods there can be": {
			family: "Bottlerocket", kubelet: `{"maxPods":110}`, capacity: quantity.List{"pods": 110},
			overhead: quantity.List{"memory": (11*110 + 255 + 100) * mebibyte},
		},
		"podsPerCore is a bound":            {kubelet: `{"podsPerCore":4}`, capacity: quantity.List{"pods": 8}},
		"podsPerCore does not raise":        {kubelet: `{"podsPerCore":40}`, capacity: quantity.List{"pods": 29}},
		"podsPerCore is not for everyone":   {family: "Bottlerocket", kubelet: `{"podsPerCore":4}`, capacity: quantity.List{"pods": 29}},
		"prefixes have addresses enough":    {class: func(c *instance.Class) { c.Spec.IPPrefixCount = aws.Int32(1) }, capacity: quantity.List{"pods": 110}},
		"large instances with prefixes":     {class: func(c *instance.Class) { c.Spec.IPPrefixCount = aws.Int32(1) }, info: func(i *types.InstanceTypeInfo) { i.VCpuInfo.DefaultVCpus = aws.Int32(32) }, capacity: quantity.List{"cpu": 32_000, "pods": 250}, overhead: quantity.List{"cpu": 150}},
		"an expression of maxPods":          {kubelet: `{"maxPods":"max_pods - 9"}`, capacity: quantity.List{"pods": 20}},
		"what the class keeps of each kind": {kubelet: `{"kubeReserved":{"cpu":"200m","pid":"1000"},"systemReserved":{"memory":"1Gi"}}`, overhead: quantity.List{"cpu": 200, "memory": (574 + 100 + 1024) * mebibyte}},
		"eviction at a share":               {kubelet: `{"evictionHard":{"memory.available":"10%","nodefs.available":"2Gi"}}`, overhead: quantity.List{"memory": 574*mebibyte + 794_506_036, "ephemeral-storage": 3 * gibibyte}},
		"soft eviction does not count":      {kubelet: `{"evictionSoft":{"memory.available":"50%"},"evictionSoftGracePeriod":{"memory.available":"1m"}}`},
		"what a node said of its memory":    {class: func(c *instance.Class) { c.Memory = map[string]int64{"m5.large": 8_000_000_000} }, capacity: quantity.List{"memory": 8_000_000_000}},
		"without an overhead of memory":     {region: func(r *instance.Region) { r.MemoryOverhead = 0 }, capacity: quantity.List{"memory": 8192 * mebibyte}},
		"arm64 keeps some for itself": {
			info:     func(i *types.InstanceTypeInfo) { *i = graviton() },
			capacity: quantity.List{"memory": 7518 * mebibyte},
		},
		"Windows has no bound by addresses": {
			family: "Windows2022", capacity: quantity.List{"pods": 110, "ephemeral-storage": 50 * gibibyte, "vpc.amazonaws.com/PrivateIPv4Address": 9},
			overhead: quantity.List{"memory": (11*110 + 255 + 100) * mebibyte, "ephemeral-storage": 6 * gibibyte},
		},
		"GPUs": {
			info: func(i *types.InstanceTypeInfo) {
				i.GpuInfo = &types.GpuInfo{Gpus: []types.GpuDeviceInfo{{Manufacturer: aws.String("NVIDIA"), Count: aws.Int32(4)}}}
			},
			capacity: quantity.List{"nvidia.com/gpu": 4},
		},
		"a part of a GPU": {
			info: func(i *types.InstanceTypeInfo) {
				i.GpuInfo = &types.GpuInfo{Gpus: []types.GpuDeviceInfo{{Manufacturer: aws.String("NVIDIA"), Count: aws.Int32(0), LogicalGpuCount: aws.Int32(1)}}}
			},
			capacity: quantity.List{"nvidia.com/gpu": 1},
		},
		"Neuron devices": {
			info: func(i *types.InstanceTypeInfo) {
				i.NeuronInfo = &types.NeuronInfo{NeuronDevices: []types.NeuronDeviceInfo{{Count: aws.Int32(16), CoreInfo: &types.NeuronDeviceCoreInfo{Count: aws.Int32(2)}}}}
			},
			capacity: quantity.List{"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32},
		},
		"EFA that pods can ask for": {
			info: func(i *types.InstanceTypeInfo) {
				i.NetworkInfo.EfaInfo = &types.EfaInfo{MaximumEfaInterfaces: aws.Int32(2)}
			},
			capacity: quantity.List{"vpc.amazonaws.com/efa": 2},
		},
		"EFA on another card takes no place, and the default card counts": {
			info: func(i *types.InstanceTypeInfo) {
				i.NetworkInfo.EfaInfo = &types.EfaInfo{MaximumEfaInterfaces: aws.Int32(2)}
				i.NetworkInfo.DefaultNetworkCardIndex = aws.Int32(1)
				i.NetworkInfo.NetworkCards = append(i.NetworkInfo.NetworkCards, types.NetworkCardInfo{NetworkCardIndex: aws.Int32(1), MaximumNetworkInterfaces: aws.Int32(2)})
			},
			class: func(c *instance.Class) {
				c.Spec.NetworkInterfaces = []awsv1.NetworkInterface{{InterfaceType: "interface"}, {NetworkCardIndex: 1, InterfaceType: "efa-only"}}
			},
			capacity: quantity.List{"pods": 20, "vpc.amazonaws.com/efa": 1},
			overhead: quantity.List{"memory": (11*20 + 255 + 100) * mebibyte},
		},
		"EFA on the first card takes the place of an interface": {
			info: func(i *types.InstanceTypeInfo) {
				i.NetworkInfo.EfaInfo = &types.EfaInfo{MaximumEfaInterfaces: aws.Int32(2)}
			},
			class: func(c *instance.Class) {
				c.Spec.NetworkInterfaces = []awsv1.NetworkInterface{{InterfaceType: "interface"}, {DeviceIndex: 1, InterfaceType: "efa-only"}}
			},
			capacity: quantity.List{"pods": 20, "vpc.amazonaws.com/efa": 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, r := m5large(), region()
			if tc.info != nil {
				tc.info(&i)
			}
			if tc.region != nil {
				tc.region(r)
			}
			var kubeletJSON []string
			if tc.kubelet != "" {
				kubeletJSON = []string{tc.kubelet}
			}
			if tc.family == "" {
				tc.family = "AL2023"
			}
			got := instance.Type(&i, r, class(t, tc.family, tc.class, kubeletJSON...))
			delete(got.Capacity, "vpc.amazonaws.com/pod-eni")
			capacity := quantity.List{"cpu": 2000, "memory": 7577 * mebibyte, "pods": 29, "ephemeral-storage": 20 * gibibyte}
			overhead := quantity.List{"cpu": 70, "memory": (574 + 100) * mebibyte, "ephemeral-storage": 3 * gibibyte}
			for name, n := range tc.capacity {
				capacity[name] = n
			}
			for name, n := range tc.overhead {
				overhead[name] = n
			}
			if diff := cmp.Diff(capacity, got.Capacity); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(overhead, got.Overhead); diff != "" {
				t.Errorf("overhead (-want +got):\n%s", diff)
			}
		})
	}
}

func volume(device, size string, root bool) awsv1.BlockDeviceMapping {
	m := awsv1.BlockDeviceMapping{RootVolume: root, EBS: &awsv1.BlockDevice{}}
	if device != "" {
		m.DeviceName = &device
	}
	if size != "" {
		q := resource.MustParse(size)
		m.EBS.VolumeSize = &q
	}
	return m
}

func TestDiskOfTheKubelet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		family  string
		policy  bool
		volumes []awsv1.BlockDeviceMapping
		want    int64
	}{
		"of the family":                          {family: "AL2", want: 20 * gibibyte},
		"of the family's second":                 {family: "Bottlerocket", volumes: []awsv1.BlockDeviceMapping{volume("/dev/xvda", "5Gi", false)}, want: 20 * gibibyte},
		"the device of the family":               {family: "Bottlerocket", volumes: []awsv1.BlockDeviceMapping{volume("/dev/xvda", "5Gi", false), volume("/dev/xvdb", "100G", false)}, want: 100e9},
		"the marked one":                         {family: "AL2023", volumes: []awsv1.BlockDeviceMapping{volume("/dev/xvda", "5Gi", false), volume("/dev/xvdz", "1Ti", true)}, want: 1 << 40},
		"from a snapshot, of a size not known":   {family: "AL2023", volumes: []awsv1.BlockDeviceMapping{volume("/dev/xvda", "", false)}, want: 20 * gibibyte},
		"Custom: the last":                       {family: "Custom", volumes: []awsv1.BlockDeviceMapping{volume("/dev/a", "5Gi", false), volume("/dev/b", "7Gi", false)}, want: 7 * gibibyte},
		"Custom: the image's own":                {family: "Custom", want: 20 * gibibyte},
		"neither name nor volume":                {family: "AL2", volumes: []awsv1.BlockDeviceMapping{{}}, want: 20 * gibibyte},
		"the instance's own disks, left alone":   {family: "Windows2022", policy: true, want: 50 * gibibyte},
		"the instance's own disks, put together": {family: "AL2023", policy: true, volumes: []awsv1.BlockDeviceMapping{volume("", "5Gi", true)}, want: 474e9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := m5large()
			i.InstanceStorageInfo = &types.InstanceStorageInfo{TotalSizeInGB: aws.Int64(474), NvmeSupport: types.EphemeralNvmeSupportRequired}
			c := class(t, tc.family, func(c *instance.Class) {
				c.Spec.BlockDeviceMappings = tc.volumes
				if tc.policy {
					c.Spec.InstanceStorePolicy = new(awsv1.InstanceStorePolicyRAID0)
				}
			})
			if got := instance.Type(&i, region(), c).Capacity["ephemeral-storage"]; got != tc.want {
				t.Errorf("ephemeral-storage is %d, want %d", got, tc.want)
			}
		})
	}
}

func TestWhatAClassCannotLaunch(t *testing.T) {
	t.Parallel()
	group := func(s types.PlacementStrategy) func(*instance.Class) {
		return func(c *instance.Class) { c.Group = &instance.Group{ID: "pg-1", Strategy: s} }
	}
	nics := func(list ...awsv1.NetworkInterface) func(*instance.Class) {
		return func(c *instance.Class) { c.Spec.NetworkInterfaces = list }
	}
	first := awsv1.NetworkInterface{InterfaceType: "interface"}
	for name, tc := range map[string]struct {
		family string
		info   types.InstanceTypeInfo
		class  func(*instance.Class)
		want   string
	}{
		"nothing is in the way": {info: m5large(), class: nics(first)},
		"Windows on arm64":      {family: "Windows2025", info: graviton(), want: "Windows runs on amd64 only"},
		"AL2023 on a1":          {info: info("a1.large", 2, 4096, 3, 10), want: "AL2023 does not run on a1"},
		"Bottlerocket on a1":    {family: "Bottlerocket", info: info("a1.large", 2, 4096, 3, 10)},
		"an architecture of another kind": {
			info: types.InstanceTypeInfo{InstanceType: "mac1.metal"}, want: "its architecture is neither x86_64 nor arm64",
		},
		"nested virtualization": {info: m5large(), class: func(c *instance.Class) {
			c.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: aws.String("enabled")}
		}, want: "it has no nested virtualization (spec.cpuOptions)"},
		"enclaves": {info: m5large(), class: func(c *instance.Class) {
			c.Spec.EnclaveOptions = &awsv1.EnclaveOptions{Enabled: true}
		}, want: "it cannot run Nitro enclaves (spec.enclaveOptions)"},
		"enclaves are not wanted": {info: m5large(), class: func(c *instance.Class) {
			c.Spec.EnclaveOptions = &awsv1.EnclaveOptions{}
		}},
		"connection tracking": {info: types.InstanceTypeInfo{InstanceType: "m4.large", ProcessorInfo: m5large().ProcessorInfo, Hypervisor: types.InstanceTypeHypervisorXen}, class: func(c *instance.Class) {
			c.Spec.ConnectionTracking = &awsv1.ConnectionTracking{}
		}, want: "only Nitro instances have spec.connectionTracking"},
		"a placement group":  {info: m5large(), class: group(types.PlacementStrategyCluster), want: "it cannot be in a placement group of strategy cluster"},
		"a card too many":    {info: m5large(), class: nics(first, awsv1.NetworkInterface{NetworkCardIndex: 1, InterfaceType: "interface"}), want: "it has no network card 1 (spec.networkInterfaces[1])"},
		"a device too many":  {info: m5large(), class: nics(first, awsv1.NetworkInterface{DeviceIndex: 3, InterfaceType: "interface"}), want: "its network card 0 has no device 3 (spec.networkInterfaces[1])"},
		"EFA it does not do": {info: m5large(), class: nics(first, awsv1.NetworkInterface{DeviceIndex: 1, InterfaceType: "efa-only"}), want: "it takes 0 EFA interfaces, not 1 (spec.networkInterfaces)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.family == "" {
				tc.family = "AL2023"
			}
			c := class(t, tc.family, tc.class)
			if got := instance.Unsuitable(&tc.info, c); got != tc.want {
				t.Errorf("Unsuitable() = %q, want %q", got, tc.want)
			}
			if got := instance.Types([]types.InstanceTypeInfo{tc.info}, region(), c); (len(got) == 1) != (tc.want == "") {
				t.Errorf("Types() has %d types", len(got))
			}
		})
	}
}

func TestOfferings(t *testing.T) {
	t.Parallel()
	i := m5large()
	az1, az2 := map[string]string{"topology.k8s.aws/zone-id": "use1-az1"}, map[string]string{"topology.k8s.aws/zone-id": "use1-az2"}
	reserved := map[string]string{
		"topology.k8s.aws/zone-id": "use1-az2", "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
		"karpenter.k8s.aws/capacity-reservation-type": "default", "karpenter.k8s.aws/capacity-reservation-interruptible": "false",
	}
	c := class(t, "AL2023", func(c *instance.Class) {
		c.Left = map[string]int{"cr-1": 2, "cr-3": 9}
		c.Status.CapacityReservations = []awsv1.CapacityReservation{
			{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-east-1b"},
			{ID: "cr-2", InstanceType: "c5.large", AvailabilityZone: "us-east-1b"},
			{ID: "cr-3", InstanceType: "m5.large", AvailabilityZone: "us-east-1f"}, // there is no subnet there
		}
	})
	got := instance.Type(&i, region(), c)
	if diff := cmp.Diff([]catalog.Offering{
		{Zone: "us-east-1a", CapacityType: "on-demand", Labels: az1, PriceHourly: 0.096, Priced: true, Available: true},
		{Zone: "us-east-1a", CapacityType: "spot", Labels: az1, PriceHourly: 0.03, Priced: true, Available: true},
		{Zone: "us-east-1b", CapacityType: "on-demand", Labels: az2, PriceHourly: 0.096, Priced: true, Available: true},
		{Zone: "us-east-1b", CapacityType: "spot", Labels: az2}, // there is no price
		{Zone: "us-east-1b", CapacityType: "reserved", Labels: reserved, PriceHourly: 0.096 / 1e7, Priced: true, Available: true, Reservation: "cr-1", Left: 2},
	}, got.Offerings); diff != "" {
		t.Errorf("offerings (-want +got):\n%s", diff)
	}
	for key, want := range map[string]string{
		"topology.kubernetes.io/zone": "In [us-east-1a us-east-1b]", "topology.k8s.aws/zone-id": "In [use1-az1 use1-az2]",
		"karpenter.sh/capacity-type": "In [on-demand reserved spot]", "karpenter.k8s.aws/capacity-reservation-id": "DoesNotExist",
	} {
		if got := got.Requirements[key].String(); got != want {
			t.Errorf("requirement of %s is %q, want %q", key, got, want)
		}
	}
}

func TestReservationsThatAreUsedUpOrExpire(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		left  int
		state string
		want  bool
	}{
		"something is left":   {1, "active", true},
		"nothing is left":     {0, "active", true},
		"about to be reaped":  {1, "expiring", false},
		"of an unknown state": {1, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := m5large()
			got := instance.Type(&i, region(), class(t, "AL2023", func(c *instance.Class) {
				c.Left = map[string]int{"cr-1": tc.left}
				c.Status.CapacityReservations = []awsv1.CapacityReservation{{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-east-1a", State: tc.state}}
			})).Offerings[2]
			if got.Reservation != "cr-1" || got.Available != tc.want || got.Left != tc.left {
				t.Errorf("offering is %+v, want available %t", got, tc.want)
			}
		})
	}
}

func TestPartitionsOfAPlacementGroup(t *testing.T) {
	t.Parallel()
	i := m5large()
	i.PlacementGroupInfo = &types.PlacementGroupInfo{SupportedStrategies: []types.PlacementGroupStrategy{types.PlacementGroupStrategyPartition}}
	c := class(t, "AL2023", func(c *instance.Class) {
		c.Group = &instance.Group{ID: "pg-1", Strategy: types.PlacementStrategyPartition, Partitions: 3}
	})
	got := instance.Types([]types.InstanceTypeInfo{i}, region(), c)[0]
	if len(got.Offerings) != 12 || got.Offerings[2].Labels["karpenter.k8s.aws/placement-group-partition"] != "3" {
		t.Errorf("offerings are %+v, want each of four in three partitions", got.Offerings)
	}
	for key, want := range map[string]string{
		"karpenter.k8s.aws/placement-group-id": "In [pg-1]", "karpenter.k8s.aws/placement-group-partition": "In [1 2 3]",
	} {
		if got := got.Requirements[key].String(); got != want {
			t.Errorf("requirement of %s is %q, want %q", key, got, want)
		}
	}
}

// TestFlagsNameAllThatIsReserved: a kubelet that is configured by flags keeps nothing that the
// flag leaves out.
func TestFlagsNameAllThatIsReserved(t *testing.T) {
	t.Parallel()
	i := m5large()
	for family, want := range map[string]map[string]string{
		"AL2":          {"cpu": "200m", "memory": "574Mi", "ephemeral-storage": "1Gi"},
		"Windows2022":  {"cpu": "200m", "memory": "1465Mi", "ephemeral-storage": "1Gi"},
		"AL2023":       {"cpu": "200m"},
		"Bottlerocket": {"cpu": "200m"},
	} {
		got, err := instance.Settings(&i, region(), class(t, family, nil, `{"kubeReserved":{"cpu":"200m"}}`))
		if diff := cmp.Diff(want, got.KubeReserved); err != nil || diff != "" {
			t.Errorf("%s: error %v, kubeReserved (-want +got):\n%s", family, err, diff)
		}
		if none, _ := instance.Settings(&i, region(), class(t, family, nil)); len(none.KubeReserved) > 0 {
			t.Errorf("%s: kubeReserved is %v without a word on it", family, none.KubeReserved)
		}
	}
}
