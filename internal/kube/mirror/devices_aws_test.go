package mirror

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

// gpuInfos are what EC2 says of some instance types.
func gpuInfos() (infos []ec2types.InstanceTypeInfo) {
	for _, t := range []struct {
		name, gpu           string
		gpus, memory, cards int32
	}{
		{"g4dn.xlarge", "T4", 1, 16384, 0}, {"g6.12xlarge", "L4", 4, 22888, 1}, {"p5.48xlarge", "H100", 8, 81920, 32},
	} {
		infos = append(infos, ec2types.InstanceTypeInfo{
			InstanceType: ec2types.InstanceType(t.name),
			GpuInfo: &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
				Name: &t.gpu, Manufacturer: aws.String("NVIDIA"), Count: &t.gpus, MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: &t.memory},
			}}},
			NetworkInfo: &ec2types.NetworkInfo{EfaInfo: &ec2types.EfaInfo{MaximumEfaInterfaces: &t.cards}},
		})
	}
	return infos
}

// newEC2Store returns a mirror whose pool has these instance types and no node.
func newEC2Store(t *testing.T, mode string) *Store {
	t.Helper()
	s := newDeviceStore()
	sharing, err := instance.ParseSharing(mode)
	if err != nil {
		t.Fatal(err)
	}
	infos, types := gpuInfos(), []*catalog.Type{deviceType("plain", 0.1)}
	for i := range infos {
		types = append(types, deviceType(string(infos[i].InstanceType), []float64{0.5, 4.6, 98}[i]))
	}
	s.Pools().SetTypes(cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}, types, nil)
	s.devices.provided = func(_ cloud.ClassRef, name string) []resourceapi.ResourceSliceSpec {
		at := slices.IndexFunc(infos, func(i ec2types.InstanceTypeInfo) bool { return string(i.InstanceType) == name })
		if at < 0 {
			return nil
		}
		return instance.Slices{NVIDIA: true, EFA: true, Sharing: sharing}.Of(&infos[at], &awsv1.EC2NodeClassSpec{})
	}
	for name, expression := range map[string]string{
		"gpu.nvidia.com":         `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"`,
		"efa.networking.k8s.aws": `device.driver == "dra.net" && device.attributes["dra.net"].pciDevice == "Elastic Fabric Adapter (EFA)"`,
	} {
		upsert(s, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
		}})
	}
	return s
}

func exactRequest(class string, n int64, expression string) resourceapi.DeviceRequest {
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n}
	if expression != "" {
		e.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	}
	return resourceapi.DeviceRequest{Name: strings.ReplaceAll(class, ".", "-"), Exactly: e}
}

// TestAClaimGetsAnEC2Instance decides about pods that claim GPUs and EFAs before there is any node: they
// get instance types that have them.
func TestAClaimGetsAnEC2Instance(t *testing.T) {
	t.Parallel()
	gpu := func(n int64, expression string) resourceapi.DeviceRequest {
		return exactRequest("gpu.nvidia.com", n, expression)
	}
	part := gpu(1, "")
	part.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("7Gi")}}
	const root, driverVersion = "resource.kubernetes.io/pcieRoot", "gpu.nvidia.com/driverVersion"
	for name, tc := range map[string]struct {
		mode     string
		requests []resourceapi.DeviceRequest
		alike    resourceapi.FullyQualifiedName // of all devices
		pods     int
		want     string // what is launched, and for how many pods; or why not
	}{
		"one GPU":                      {requests: []resourceapi.DeviceRequest{gpu(1, "")}, pods: 1, want: "g4dn.xlarge 1 gpu.nvidia.com"},
		"four":                         {requests: []resourceapi.DeviceRequest{gpu(4, "")}, pods: 1, want: "g6.12xlarge 1 gpu.nvidia.com"},
		"a recent one":                 {requests: []resourceapi.DeviceRequest{gpu(1, `device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("9.0.0")) >= 0`)}, pods: 1, want: "p5.48xlarge 1 gpu.nvidia.com"},
		"one with much memory":         {requests: []resourceapi.DeviceRequest{gpu(1, `device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("16Gi")) >= 0`)}, pods: 1, want: "g6.12xlarge 1 gpu.nvidia.com"},
		"an EFA":                       {requests: []resourceapi.DeviceRequest{exactRequest("efa.networking.k8s.aws", 1, "")}, pods: 1, want: "g6.12xlarge 1 dra.net"},
		"a GPU and four EFAs beside":   {requests: []resourceapi.DeviceRequest{gpu(1, ""), exactRequest("efa.networking.k8s.aws", 4, "")}, alike: root, pods: 1, want: "p5.48xlarge 1 dra.net,gpu.nvidia.com"},
		"five EFAs beside one GPU":     {requests: []resourceapi.DeviceRequest{gpu(1, ""), exactRequest("efa.networking.k8s.aws", 5, "")}, alike: root, pods: 1, want: "no"},
		"an attribute that is unknown": {requests: []resourceapi.DeviceRequest{gpu(2, "")}, alike: driverVersion, pods: 1, want: "no"},
		"in four shares":               {mode: "4", requests: []resourceapi.DeviceRequest{gpu(1, "")}, pods: 4, want: "g4dn.xlarge 4 gpu.nvidia.com"},
		"in three shares":              {mode: "3", requests: []resourceapi.DeviceRequest{gpu(1, "")}, pods: 4, want: "g4dn.xlarge 3 gpu.nvidia.com; g4dn.xlarge 1 gpu.nvidia.com"},
		"in one share":                 {mode: "1", requests: []resourceapi.DeviceRequest{gpu(1, "")}, pods: 1, want: "g4dn.xlarge 1 gpu.nvidia.com"},
		"two parts of its memory":      {mode: "memory", requests: []resourceapi.DeviceRequest{part}, pods: 2, want: "g4dn.xlarge 2 gpu.nvidia.com"},
		"all of its memory":            {mode: "memory", requests: []resourceapi.DeviceRequest{gpu(1, "")}, pods: 1, want: "g4dn.xlarge 1 gpu.nvidia.com"},
		"shared without a limit":       {mode: "unlimited", requests: []resourceapi.DeviceRequest{gpu(1, "")}, pods: 9, want: "g4dn.xlarge 9 gpu.nvidia.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEC2Store(t, tc.mode)
			spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: tc.requests}}
			if tc.alike != "" {
				spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &tc.alike}}
			}
			upsert(s, &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "devices"}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}})
			for i := range tc.pods {
				p := claimingPod(fmt.Sprint("pod-", i), "devices", "")
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m")}
				upsert(s, p)
			}
			p := pack.Decide(s.Snapshot(), pack.Options{})
			var got []string
			for i := range p.Launches {
				l := &p.Launches[i]
				got = append(got, fmt.Sprint(l.Types[0], " ", len(l.Pods), " ", strings.Join(s.RequestedDrivers(l), ",")))
			}
			slices.SortFunc(got, func(a, b string) int { return strings.Compare(b, a) })
			if len(p.Refusals) == tc.pods {
				got = append(got, "no")
			}
			if text := strings.Join(got, "; "); text != tc.want {
				t.Errorf("launched %q, want %q; refused: %v", text, tc.want, p.Refusals)
			}
		})
	}
}

// TestWhatTheProviderSaysMayChange: devices of which only the provider says something are those that it
// says last.
func TestWhatTheProviderSaysMayChange(t *testing.T) {
	t.Parallel()
	s := newDeviceStore(2)
	key, class := typeOfPool{"general", "gpu-2"}, cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}
	first := s.devices.templateOf(class, key)
	if first == nil || s.devices.templateOf(class, key) != first {
		t.Fatal("the same is made twice")
	}
	s.devices.provided = func(cloud.ClassRef, string) []resourceapi.ResourceSliceSpec {
		return []resourceapi.ResourceSliceSpec{deviceSlice(3)}
	}
	if again := s.devices.templateOf(class, key); again == nil || again == first {
		t.Error("what the provider says now is not heeded")
	}
	s.devices.provided = func(cloud.ClassRef, string) []resourceapi.ResourceSliceSpec { return nil }
	if again := s.devices.templateOf(class, key); again != nil {
		t.Error("devices stay that the provider does not have any more")
	}
}

// TestDevicesOnRequest: that a node has no EFA, because nobody asked for one when it was launched, says
// nothing of the next node of its type; and a starting node has those that it was launched for.
func TestDevicesOnRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		drivers string // that the pods of the starting node wait for
		ready   bool
		want    string
	}{
		"a node that runs without":   {ready: true, want: "launch 0 [g6.12xlarge p5.48xlarge]"},
		"a node that starts without": {drivers: "gpu.nvidia.com", want: "launch 0 [g6.12xlarge p5.48xlarge]"},
		"a node that starts with it": {drivers: "dra.net,gpu.nvidia.com", want: "on n1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEC2Store(t, "")
			s.devices.onRequest = []string{instance.DriverEFA}
			deviceNode(s, "n1", 1)
			upsert(s, &karpenterv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{
					Name: "c1", Annotations: map[string]string{karpenterv1.RequestedDRADriversAnnotationKey: tc.drivers},
					Labels: map[string]string{karpenterv1.NodePoolLabelKey: "general", label.InstanceType: "g6.12xlarge"},
				},
				Spec:   karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"}},
				Status: karpenterv1.NodeClaimStatus{ProviderID: "p://n1", NodeName: "n1"},
			})
			n := s.nodes.get("n1").DeepCopy()
			n.Labels[label.InstanceType] = "g6.12xlarge"
			if !tc.ready {
				delete(n.Labels, karpenterv1.NodeInitializedLabelKey)
			} else {
				spec := deviceSlice(2)
				spec.Driver, spec.Pool.Name, spec.NodeName = instance.DriverEFA, "n1", &n.Name
				upsert(s, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "n1-interfaces"}, Spec: spec})
			}
			upsert(s, n)
			upsert(s, &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "devices"}, Spec: resourceapi.ResourceClaimTemplateSpec{
				Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{exactRequest("efa.networking.k8s.aws", 1, "")}}},
			}})
			upsert(s, claimingPod("a", "devices", ""))
			p := pack.Decide(s.Snapshot(), pack.Options{})
			if got := outcomeOf(&p, "a"); !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
