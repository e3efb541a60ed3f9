package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	draDriver = "gpu.example.com"
	// draPods is how many pods claim one device each, of which nodes have draDevices.
	draPods, draDevices = 12, 4
)

// TestDRA has pods with ResourceClaims: by default they are refused, with an event that says why, and
// other pods get nodes. With --ignore-dra-requests=false each runs on a node whose driver publishes
// its devices some time after the node has joined, and no node is launched twice. A pod of another
// size then shares a claim with a third.
func TestDRA(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, chaosCPUs)
	types := writeTypes(t)
	args := []string{"--disable-leader-election=true", "--batch-idle-duration", "300ms", "--instance-types-file-path", types}
	process := controller(t, cluster.Kubeconfig, args...)
	create(t, c, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
	}})
	one := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}}}
	create(t, c, &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: one}})
	template := "one"
	for i := range draPods {
		create(t, c, draPod(fmt.Sprint("gpu-", i), corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: &template}))
	}
	create(t, c, draPod("plain"))

	testkit.Eventually(t, patience, func() error { return refusedForClaims(t.Context(), c, draPods) })
	testkit.Eventually(t, patience, func() error { return runningPods(t.Context(), c, 1) })
	if code := process.stop(); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, process)
	}

	publishDevices(t, c, time.Second)
	process = controller(t, cluster.Kubeconfig, append(args, "--ignore-dra-requests=false")...)
	testkit.Eventually(t, 2*patience, func() error { return runningPods(t.Context(), c, draPods+1) })
	checkDRAClaims(t, c, draPods/draDevices)

	create(t, c, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}, Spec: one})
	shared := "shared"
	for i := range 3 {
		create(t, c, draPod(fmt.Sprint("shared-", i), corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: &shared}))
	}
	testkit.Eventually(t, 2*patience, func() error { return runningPods(t.Context(), c, draPods+4) })
	checkDRAClaims(t, c, draPods/draDevices+1)
	if t.Failed() {
		t.Logf("%s", process)
	}
}

func create(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func draPod(name string, claims ...corev1.PodResourceClaim) *corev1.Pod {
	requests := corev1.ResourceList{"cpu": resource.MustParse("100m")}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		ResourceClaims: claims, Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: requests}}},
	}}
}

// writeTypes writes an instance types file: a cheap type without devices, and one with.
func writeTypes(t *testing.T) string {
	t.Helper()
	entry := func(name, price string) map[string]any {
		requirement := func(key, value string) map[string]any {
			return map[string]any{"key": key, "operator": "In", "values": []string{value}}
		}
		return map[string]any{
			"name": name, "architecture": "amd64", "operatingSystems": []string{"linux"}, "resources": map[string]any{"cpu": "4", "memory": "16Gi"},
			"offerings": []any{map[string]any{"Price": json.Number(price), "Requirements": []any{
				requirement(label.CapacityType, "on-demand"), requirement(label.Zone, "test-zone-a"),
			}}},
		}
	}
	equipped := entry("gpu.large", "1.0")
	equipped["resourceSlices"] = []any{draSlice()}
	text, err := json.Marshal([]any{entry("plain.large", "0.1"), equipped})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "types.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// draSlice is what the driver publishes on a node of type gpu.large.
func draSlice() resourceapi.ResourceSliceSpec {
	s := resourceapi.ResourceSliceSpec{Driver: draDriver, Pool: resourceapi.ResourcePool{Name: "gpus", ResourceSliceCount: 1}}
	for i := range draDevices {
		s.Devices = append(s.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	return s
}

// publishDevices plays the driver: some time after a node with devices has joined, it publishes them.
func publishDevices(t *testing.T, c client.Client, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			var nodes corev1.NodeList
			if err := c.List(ctx, &nodes, client.MatchingLabels{label.InstanceType: "gpu.large"}); err != nil {
				continue
			}
			for i := range nodes.Items {
				n := &nodes.Items[i]
				if time.Since(n.CreationTimestamp.Time) < after {
					continue
				}
				s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: n.Name + "-gpus"}, Spec: draSlice()}
				s.Spec.NodeName, s.Spec.Pool.Name = &n.Name, n.Name
				if err := c.Create(ctx, s); err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
					t.Errorf("publish devices of %s: %v", n.Name, err)
					return
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// refusedForClaims returns an error unless events say of so many pods that their claims are the reason.
func refusedForClaims(ctx context.Context, c client.Client, pods int) error {
	var events corev1.EventList
	if err := c.List(ctx, &events, client.InNamespace("default")); err != nil {
		return err
	}
	refused := map[string]bool{}
	for i := range events.Items {
		if e := &events.Items[i]; e.InvolvedObject.Kind == "Pod" && strings.Contains(e.Message, "ResourceClaims") && e.Source.Component != "default-scheduler" {
			refused[e.InvolvedObject.Name] = true
		}
	}
	if len(refused) < pods {
		return fmt.Errorf("events say of %d pods that they are refused for their claims, want %d", len(refused), pods)
	}
	return nil
}

func runningPods(ctx context.Context, c client.Client, want int) error {
	p, err := observe(ctx, c)
	if err == nil && p.running() != want {
		err = fmt.Errorf("%d of %d pods run, want %d; %d nodes, %d claims", p.running(), len(p.pods), want, len(p.nodes), len(p.claims))
	}
	return err
}

// checkDRAClaims checks that so many nodes with devices were launched, and that they waited for the driver.
func checkDRAClaims(t *testing.T, c client.Client, want int) {
	t.Helper()
	var claims karpenterv1.NodeClaimList
	if err := c.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	equipped := 0
	for i := range claims.Items {
		nc := &claims.Items[i]
		if nc.Labels[label.InstanceType] != "gpu.large" {
			continue
		}
		equipped++
		if got := nc.Annotations[karpenterv1.RequestedDRADriversAnnotationKey]; got != draDriver {
			t.Errorf("NodeClaim %s waits for drivers %q", nc.Name, got)
		}
		for name := range nc.Spec.Resources.Requests {
			if strings.HasPrefix(string(name), "devices") {
				t.Errorf("NodeClaim %s asks for %s", nc.Name, name)
			}
		}
	}
	if equipped != want {
		t.Errorf("%d nodes with devices were launched, want %d", equipped, want)
	}
}
