package mirror

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// newDeviceStore returns a mirror with a pool, whose type "gpu-N" has so many devices by the provider's
// word, and a type without.
func newDeviceStore(gpus ...int) *Store {
	v := translate.NewVocabulary(nil, nil)
	v.Devices = true
	s := NewStore(Options{
		Vocabulary: v, Now: atNoon, BatchMax: 10 * time.Second, Manages: func(group, _ string) bool { return group == classGroup },
		Devices: func(_ cloud.ClassRef, name string) []resourceapi.ResourceSliceSpec {
			n := 0
			if _, err := fmt.Sscanf(name, "gpu-%d", &n); err != nil {
				return nil
			}
			return []resourceapi.ResourceSliceSpec{deviceSlice(n)}
		},
	})
	s.devices.allocator.SearchMost, s.devices.allocator.CompileMost = time.Minute, time.Minute // beside other tests
	upsert(s, &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: karpenterv1.NodePoolSpec{
		Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"},
		}},
	}, Status: karpenterv1.NodePoolStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}}})
	list := []*catalog.Type{deviceType("plain", 0.1)}
	for _, n := range gpus {
		list = append(list, deviceType(fmt.Sprint("gpu-", n), float64(n)))
	}
	s.Pools().SetTypes(cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}, list, nil)
	upsert(s, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	for n := range 4 {
		upsert(s, &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("gpus-", n)}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: deviceClaim(n)}})
	}
	return s
}

func deviceType(name string, price float64) *catalog.Type {
	return &catalog.Type{
		Name: name, Capacity: quantity.List{"cpu": 32_000, "memory": 64 << 30, "pods": 110},
		Requirements: label.Requirements{label.InstanceType: label.In(name), label.Zone: label.In("a"), label.CapacityType: label.In("spot")},
		Offerings:    []catalog.Offering{{Zone: "a", CapacityType: "spot", PriceHourly: price, Priced: true, Available: true}},
	}
}

func deviceSlice(n int) resourceapi.ResourceSliceSpec {
	s := resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "gpus", ResourceSliceCount: 1}}
	for i := range n {
		s.Devices = append(s.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	return s
}

// deviceClaim is for n devices; of none: for all of a node.
func deviceClaim(n int) resourceapi.ResourceClaimSpec {
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(n)}
	if n == 0 {
		e.AllocationMode = resourceapi.DeviceAllocationModeAll
	}
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: e}}}}
}

// claimingPod is a pending pod that claims devices by the template of that name, or the claim.
func claimingPod(name, template, claim string) *corev1.Pod {
	p := pendingPod(name)
	c := corev1.PodResourceClaim{Name: "c"}
	if c.ResourceClaimTemplateName = &template; claim != "" {
		c.ResourceClaimName, c.ResourceClaimTemplateName = &claim, nil
	}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{c}
	return p
}

// deviceNode is an initialized node of the pool with a slice of n devices.
func deviceNode(s *Store, name string, n int) {
	upsert(s, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			karpenterv1.NodePoolLabelKey: "general", label.InstanceType: "learned", label.Hostname: name,
			karpenterv1.NodeRegisteredLabelKey: "true", karpenterv1.NodeInitializedLabelKey: "true",
		}},
		Spec:   corev1.NodeSpec{ProviderID: "p://" + name},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	spec := deviceSlice(n)
	spec.NodeName, spec.Pool.Name = &name, name
	upsert(s, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-gpus"}, Spec: spec})
}

// allocatedClaim has a device of a node.
func allocatedClaim(name, node, device string, users ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: deviceClaim(1)}
	c.Status.Allocation = &resourceapi.AllocationResult{
		Devices:      resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: node, Device: device}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}},
	}
	for _, u := range users {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: u, UID: types.UID(u)})
	}
	return c
}

// outcomeOf says where a plan has a pod.
func outcomeOf(p *plan.Plan, pod string) string {
	for _, a := range p.Assignments {
		if a.Pod.Name == pod {
			return "on " + a.Node
		}
	}
	for i := range p.Launches {
		for _, ref := range p.Launches[i].Pods {
			if ref.Name == pod {
				return fmt.Sprintf("launch %d %v", i, p.Launches[i].Types)
			}
		}
	}
	for _, r := range p.Refusals {
		if r.Pod.Name == pod {
			return "refused: " + r.Why.String()
		}
	}
	return "unknown"
}

// TestPodsWithResourceClaims says where pods go that claim devices.
func TestPodsWithResourceClaims(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gpus []int
		set  func(s *Store)
		want map[string]string // by pod: the beginning of its outcome
	}{
		"two of two devices share a node": {
			[]int{2, 4}, func(s *Store) {
				upsert(s, claimingPod("a", "gpus-2", ""))
				upsert(s, claimingPod("b", "gpus-2", ""))
				upsert(s, pendingPod("plain"))
			}, map[string]string{"a": "launch 0 [gpu-4]", "b": "launch 0 [gpu-4]", "plain": "launch 0"},
		},
		"more than any has": {
			[]int{2},
			func(s *Store) { upsert(s, claimingPod("a", "gpus-3", "")) },
			map[string]string{"a": "refused: "},
		},
		"no type is known to have devices": {
			nil,
			func(s *Store) { upsert(s, claimingPod("a", "gpus-1", "")) },
			map[string]string{"a": "refused: no instance type is known to have devices"},
		},
		"a claim that is not there": {
			[]int{2},
			func(s *Store) { upsert(s, claimingPod("a", "", "lost")) },
			map[string]string{"a": "refused: ResourceClaim lost is not found"},
		},
		"a shared claim keeps pods together, and is allocated once": {
			[]int{1}, func(s *Store) {
				upsert(s, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}, Spec: deviceClaim(1)})
				for _, pod := range []string{"a", "b", "c"} {
					upsert(s, claimingPod(pod, "", "shared"))
				}
			}, map[string]string{"a": "launch 0 [gpu-1]", "b": "launch 0 [gpu-1]", "c": "launch 0 [gpu-1]"},
		},
		"a running node has one left": {
			[]int{1}, func(s *Store) {
				deviceNode(s, "n1", 2)
				upsert(s, allocatedClaim("other", "n1", "gpu-0", "someone"))
				upsert(s, claimingPod("a", "gpus-1", ""))
				upsert(s, claimingPod("b", "gpus-1", ""))
			}, map[string]string{"a": "on n1", "b": "launch 0 [gpu-1]"},
		},
		"an allocated claim pins": {
			[]int{1}, func(s *Store) {
				deviceNode(s, "n1", 2)
				deviceNode(s, "n2", 2)
				upsert(s, allocatedClaim("mine", "n2", "gpu-0", "a"))
				upsert(s, claimingPod("a", "", "mine"))
			}, map[string]string{"a": "on n2"},
		},
		"a type is learned from its nodes": {
			nil, func(s *Store) {
				deviceNode(s, "n1", 2)
				s.Pools().SetTypes(cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}, []*catalog.Type{deviceType("learned", 1)}, nil)
				upsert(s, allocatedClaim("other", "n1", "gpu-0", "someone"))
				upsert(s, allocatedClaim("another", "n1", "gpu-1", "someone"))
				upsert(s, claimingPod("a", "gpus-2", ""))
			}, map[string]string{"a": "launch 0 [learned]"},
		},
		"an extended resource that is devices": {
			[]int{2}, func(s *Store) {
				name := "example.com/gpu"
				upsert(s, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &name}})
				for _, pod := range []string{"a", "b"} {
					p := pendingPod(pod)
					p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
					upsert(s, p)
				}
				upsert(s, claimingPod("c", "gpus-1", ""))
			}, map[string]string{"a": "launch 0 [gpu-2]", "b": "launch 0 [gpu-2]", "c": "launch 1 [gpu-2]"},
		},
		"an extended resource whose devices are allocated": {
			[]int{2}, func(s *Store) {
				name := "example.com/gpu"
				upsert(s, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &name}})
				deviceNode(s, "n1", 1)
				upsert(s, allocatedClaim("made", "n1", "gpu-0", "a"))
				p := pendingPod("a")
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
				p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "made"}
				upsert(s, p)
			}, map[string]string{"a": "on n1"},
		},
		"a node that is draining gives its pods claims anew": {
			[]int{1}, func(s *Store) {
				deviceNode(s, "n1", 1)
				s.nodes.get("n1").DeletionTimestamp = &metav1.Time{Time: noon}
				upsert(s, allocatedClaim("made", "n1", "gpu-0", "a"))
				p := claimingPod("a", "gpus-1", "")
				made := "made"
				p.Spec.NodeName, p.Status.ResourceClaimStatuses = "n1", []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &made}}
				upsert(s, p)
			}, map[string]string{"a": "launch 0 [gpu-1]"},
		},
		"all devices, of which some are on no node": {
			[]int{3}, func(s *Store) {
				spec := deviceSlice(1)
				everywhere := true
				spec.AllNodes = &everywhere
				upsert(s, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "roaming"}, Spec: spec})
				upsert(s, claimingPod("a", "gpus-0", ""))
			}, map[string]string{"a": "refused: a ResourceClaim asks for all devices"},
		},
		"all of a node, and some": {
			[]int{3}, func(s *Store) {
				upsert(s, claimingPod("a", "gpus-0", ""))
				upsert(s, claimingPod("b", "gpus-1", ""))
				upsert(s, claimingPod("c", "gpus-1", ""))
			}, map[string]string{"a": "launch 0", "b": "launch 1", "c": "launch 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDeviceStore(tc.gpus...)
			tc.set(s)
			p := pack.Decide(s.Snapshot(), pack.Options{})
			for pod, want := range tc.want {
				if got := outcomeOf(&p, pod); !strings.HasPrefix(got, want) {
					t.Errorf("pod %s: %s, want %s", pod, got, want)
				}
			}
			for i := range p.Launches {
				for resource := range p.Launches[i].Requests {
					if strings.HasPrefix(resource, quantity.DevicePrefix) {
						t.Errorf("a launch asks for %s", resource)
					}
				}
				drivers := strings.Join(s.RequestedDrivers(&p.Launches[i]), ",")
				if want := map[bool]string{true: "gpu.example.com"}[!strings.Contains(fmt.Sprint(p.Launches[i].Types), "plain")]; drivers != want {
					t.Errorf("a launch of %v waits for drivers %q, want %q", p.Launches[i].Types, drivers, want)
				}
			}
		})
	}
}

// BenchmarkPodsWithResourceClaims decides about 5,000 pods of ten sizes; of one in ten claims devices,
// in four ways.
func BenchmarkPodsWithResourceClaims(b *testing.B) {
	for _, claims := range []bool{false, true} {
		b.Run(fmt.Sprintf("claims=%t", claims), func(b *testing.B) {
			s := newDeviceStore(1, 2, 4, 8)
			for i := range 5_000 {
				p := pendingPod(fmt.Sprint("pod-", i))
				if claims && i%10 == 0 {
					p = claimingPod(p.Name, fmt.Sprint("gpus-", i/10%4), "")
				}
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(100*(1+i%7)), resource.DecimalSI)}
				upsert(s, p)
			}
			for b.Loop() {
				s.devices.allocator = newDeviceIndex(&s.opts, s.listeners).allocator // nothing is remembered
				if p := pack.Decide(s.Snapshot(), pack.Options{}); len(p.Refusals) > 0 {
					b.Fatalf("%d pods are refused: %s", len(p.Refusals), p.Refusals[0].Why)
				}
			}
		})
	}
}
