package boot

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node is what the kubelet registers.
func (c *config) node(family string, m Instance) (*corev1.Node, error) {
	capacity := c.capacity(family, m)
	allocatable, err := c.allocatable(capacity)
	if err != nil {
		return nil, err
	}
	arch, system := "amd64", "linux"
	if m.Arch == "arm64" {
		arch = "arm64"
	}
	if strings.HasPrefix(family, Windows) {
		system = "windows"
	}
	labels := map[string]string{
		corev1.LabelArchStable: arch, corev1.LabelOSStable: system, corev1.LabelHostname: m.NodeName,
		"beta.kubernetes.io/arch": arch, "beta.kubernetes.io/os": system,
		corev1.LabelInstanceTypeStable: m.InstanceType, corev1.LabelTopologyZone: m.Zone, corev1.LabelTopologyRegion: m.Region,
		"topology.k8s.aws/zone-id": m.ZoneID,
	}
	if build := windowsBuild(family); build != "" {
		labels[corev1.LabelWindowsBuild] = build
	}
	for k, v := range c.labels {
		labels[k] = v
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.NodeName, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + m.Zone + "/" + m.InstanceID, Taints: c.taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: m.Local}, {Type: corev1.NodeHostName, Address: m.NodeName}},
			NodeInfo: corev1.NodeSystemInfo{
				BootID: m.BootID, KubeletVersion: m.KubeletVersion, OperatingSystem: system, Architecture: arch, OSImage: family, ContainerRuntimeVersion: "containerd://2.1.4",
			},
		},
	}, nil
}

func windowsBuild(family string) string {
	return map[string]string{"windows2019": "10.0.17763", "windows2022": "10.0.20348", "windows2025": "10.0.26100"}[family]
}

func (c *config) capacity(family string, m Instance) corev1.ResourceList {
	pods := c.maxPods
	if c.podsPerCore > 0 {
		pods = min(pods, c.podsPerCore*m.VCPUs)
	}
	device := map[string]string{Bottlerocket: "/dev/xvdb"}[family]
	if device == "" {
		device = "/dev/xvda"
	}
	if strings.HasPrefix(family, Windows) {
		device = "/dev/sda1"
	}
	disk := m.Volumes[device]
	if c.raid0 && m.StorageBytes > 0 {
		disk = m.StorageBytes
	}
	out := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(m.VCPUs), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(m.MemoryBytes/1024*1024, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI), corev1.ResourcePods: *resource.NewQuantity(int64(pods), resource.DecimalSI),
	}
	for k, v := range m.Devices {
		out[k] = v
	}
	return out
}

// allocatable is capacity less what is kept for kubelet, for the system, and free.
func (c *config) allocatable(capacity corev1.ResourceList) (corev1.ResourceList, error) {
	kept := map[corev1.ResourceName]string{
		corev1.ResourceCPU:              strconv.FormatInt(reservedMilli(capacity.Cpu().MilliValue()), 10) + "m",
		corev1.ResourceMemory:           fmt.Sprintf("%dMi", 11*c.reservedFor+255),
		corev1.ResourceEphemeralStorage: "1Gi",
	}
	for k, v := range c.kubeReserved {
		kept[corev1.ResourceName(k)] = v
	}
	out := capacity.DeepCopy()
	for _, reserved := range []map[corev1.ResourceName]string{kept, named(c.systemReserved)} {
		for k, text := range reserved {
			q, err := amount(text)
			if err != nil {
				return nil, fmt.Errorf("kubelet: reserved %s: %w", k, err)
			}
			subtract(out, k, q)
		}
	}
	for signal, k := range map[string]corev1.ResourceName{"memory.available": corev1.ResourceMemory, "nodefs.available": corev1.ResourceEphemeralStorage} {
		q, err := threshold(c.evictHard[signal], capacity[k])
		if err != nil {
			return nil, fmt.Errorf("kubelet: evictionHard %s: %w", signal, err)
		}
		subtract(out, k, q)
	}
	return out, nil
}

func named(m map[string]string) map[corev1.ResourceName]string {
	out := map[corev1.ResourceName]string{}
	for k, v := range m {
		out[corev1.ResourceName(k)] = v
	}
	return out
}

// subtract takes an amount away, down to nothing.
func subtract(from corev1.ResourceList, k corev1.ResourceName, q resource.Quantity) {
	left, ok := from[k]
	if !ok {
		return
	}
	left.Sub(q)
	if left.Sign() < 0 {
		left.Set(0)
	}
	from[k] = left
}

// amount reads a quantity that is not negative.
func amount(text string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return q, fmt.Errorf("%q: %w", text, err)
	}
	if q.Sign() < 0 {
		return q, fmt.Errorf("%q is negative", text)
	}
	return q, nil
}

// threshold is an eviction threshold as an amount. 100% switches it off.
func threshold(text string, of resource.Quantity) (resource.Quantity, error) {
	percent, isPercent := strings.CutSuffix(text, "%")
	switch {
	case text == "":
		return resource.Quantity{}, nil
	case !isPercent:
		return amount(text)
	}
	p, err := strconv.ParseFloat(percent, 32)
	if err != nil || p < 0 || p > 100 {
		return resource.Quantity{}, fmt.Errorf("%q is not a percentage", text)
	}
	if p == 100 {
		return resource.Quantity{}, nil
	}
	return *resource.NewQuantity(int64(float64(of.Value())*float64(float32(p)/100)), resource.BinarySI), nil
}

// reservedMilli is what the images keep of the processors, in millicores: 6 % of the first
// core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest.
func reservedMilli(total int64) int64 {
	kept, from := int64(0), int64(0)
	for _, step := range []struct{ to, perTenThousand int64 }{{1000, 600}, {2000, 100}, {4000, 50}, {total, 25}} {
		to := min(step.to, total)
		if to > from {
			kept += (to - from) * step.perTenThousand / 10000
			from = to
		}
	}
	return kept
}
