package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// deviceSeeds is how many scenarios with devices are judged; ORACLE_DEVICE_SEEDS says another number.
const deviceSeeds = 40

// deviceGate keeps pods from kube-scheduler until there is a plan.
const deviceGate = "example.com/planning"

// devicePool is the NodePool of every scenario with devices.
const devicePool = "devices"

// deviceRun is one scenario with devices: instance types with random devices, pods with random claims.
type deviceRun struct {
	*world
	rng    *rand.Rand
	id     string // its namespace, and the label of its nodes
	types  []*catalog.Type
	slices map[string][]resourceapi.ResourceSliceSpec // by type
	nodes  int
	pods   []*corev1.Pod
	// elsewhere is how many planned pods are on another node: kube-scheduler may see the devices of
	// a node later than of the node.
	elsewhere int
}

// TestPlannedPodsGetTheirDevices has the real kube-scheduler judge plans for pods with ResourceClaims:
// each planned pod is bound when its turn comes, and no refused pod could run on a node of
// any type.
func TestPlannedPodsGetTheirDevices(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	w, err := newWorld(t.Context(), cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	n, first := uint64(deviceSeeds), uint64(0)
	if text := os.Getenv("ORACLE_DEVICE_SEEDS"); text != "" {
		n = number(t, "ORACLE_DEVICE_SEEDS", text)
	}
	if text := os.Getenv("ORACLE_DEVICE_SEED"); text != "" {
		first, n = number(t, "ORACLE_DEVICE_SEED", text), 1
	}
	var mu sync.Mutex
	placed, refused, launched, elsewhere := 0, 0, 0, 0
	work := make(chan uint64)
	var group sync.WaitGroup
	for range lanes / 2 {
		group.Go(func() {
			for seed := range work {
				r := &deviceRun{world: w, rng: rand.New(rand.NewPCG(seed, 7)), id: "devices-" + strconv.FormatUint(seed, 10)}
				p, err := r.judge(t.Context())
				if err != nil {
					t.Errorf("ORACLE_DEVICE_SEED=%d: %v", seed, err)
				}
				mu.Lock()
				refused, launched = refused+len(p.Refusals), launched+len(p.Launches)
				placed, elsewhere = placed+len(r.pods)-len(p.Refusals), elsewhere+r.elsewhere
				mu.Unlock()
			}
		})
	}
	for seed := first; seed < first+n; seed++ {
		work <- seed
	}
	close(work)
	group.Wait()
	fmt.Printf("oracle: %d scenarios with devices: %d pods placed (%d of them elsewhere than planned) on %d new nodes and others, %d refused\n", n, placed, elsewhere, launched, refused)
}

// judge enacts the scenario.
func (r *deviceRun) judge(ctx context.Context) (p plan.Plan, err error) {
	if err := r.set(ctx); err != nil {
		return p, fmt.Errorf("set: %w", err)
	}
	defer r.clear(context.WithoutCancel(ctx))
	if p, err = r.plan(ctx); err != nil {
		return p, fmt.Errorf("plan: %w", err)
	}
	nodeOf := map[string]string{}
	for _, a := range p.Assignments {
		nodeOf[a.Pod.Name] = a.Node
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		node, err := r.join(ctx, l.Types[r.rng.IntN(len(l.Types))])
		if err != nil {
			return p, err
		}
		for _, ref := range l.Pods {
			nodeOf[ref.Name] = node
		}
	}
	for _, i := range r.rng.Perm(len(r.pods)) {
		pod := r.pods[i]
		if node := nodeOf[pod.Name]; node != "" {
			if err := r.release(ctx, pod.Name, node); err != nil {
				return p, fmt.Errorf("pod %s, planned for %s: %w\n%s", pod.Name, node, err, r.describe(ctx, nodeOf))
			}
		}
	}
	for _, refusal := range p.Refusals {
		for _, t := range r.types {
			if _, err := r.join(ctx, t.Name); err != nil {
				return p, err
			}
		}
		if err := r.release(ctx, refusal.Pod.Name, ""); err == nil {
			return p, fmt.Errorf("pod %s was refused (%s), and could run", refusal.Pod.Name, refusal.Why)
		}
	}
	return p, nil
}

// describe says what there is and what was planned, for a failure.
func (r *deviceRun) describe(ctx context.Context, nodeOf map[string]string) string {
	text := ""
	line := func(what string, values ...any) {
		b, _ := json.Marshal(values)
		text += what + " " + string(b) + "\n"
	}
	for _, t := range r.types {
		line("type", t.Name, t.Capacity, r.slices[t.Name])
	}
	templates, err := r.client.ResourceV1().ResourceClaimTemplates(r.id).List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range templates.Items {
			line("template", templates.Items[i].Name, templates.Items[i].Spec.Spec)
		}
	}
	nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: laneKey + "=" + r.id})
	if err == nil {
		for i := range nodes.Items {
			line("node", nodes.Items[i].Name, nodes.Items[i].Labels[label.InstanceType])
		}
	}
	pods, err := r.client.CoreV1().Pods(r.id).List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range pods.Items {
			p := &pods.Items[i]
			line("pod", p.Name, p.Spec.NodeName, nodeOf[p.Name], p.Spec.Containers[0].Resources.Requests, p.Spec.ResourceClaims)
		}
	}
	claims, err := r.client.ResourceV1().ResourceClaims(r.id).List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range claims.Items {
			if a := claims.Items[i].Status.Allocation; a != nil {
				line("claim", claims.Items[i].Name, a.Devices.Results)
			}
		}
	}
	return text
}

func (r *deviceRun) driver(kind string) string { return kind + "." + r.id + ".example.com" }

// equip gives the type random devices.
func (r *deviceRun) equip() (specs []resourceapi.ResourceSliceSpec) {
	gpu := resourceapi.ResourceSliceSpec{Driver: r.driver("gpu"), Pool: resourceapi.ResourcePool{Name: "gpus", ResourceSliceCount: 1}}
	switch kind := r.rng.IntN(8); kind {
	case 0: // none
	case 1: // parts that share counters
		gpu.Pool.ResourceSliceCount = 2
		counters := *gpu.DeepCopy()
		for g := range 1 + r.rng.IntN(2) {
			set := "set-" + strconv.Itoa(g)
			counters.SharedCounters = append(counters.SharedCounters, resourceapi.CounterSet{Name: set, Counters: map[string]resourceapi.Counter{"parts": {Value: resource.MustParse("4")}}})
			for size, count := range map[int]int{4: 1, 2: 2, 1: 4} {
				for i := range count {
					gpu.Devices = append(gpu.Devices, resourceapi.Device{
						Name: fmt.Sprintf("g%d-s%d-%d", g, size, i), Attributes: attributes(size/2, g),
						ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourceapi.Counter{"parts": {Value: resource.MustParse(strconv.Itoa(size))}}}},
					})
				}
			}
		}
		slices.SortFunc(gpu.Devices, func(a, b resourceapi.Device) int { return compare(a.Name, b.Name) })
		specs = append(specs, counters, gpu)
	default:
		for i := range 1 + r.rng.IntN(8) {
			d := resourceapi.Device{Name: "gpu-" + strconv.Itoa(i), Attributes: attributes(r.rng.IntN(2), i%2)}
			if kind == 2 {
				d.AllowMultipleAllocations = ptr.To(true)
				d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
			}
			gpu.Devices = append(gpu.Devices, d)
		}
		specs = append(specs, gpu)
	}
	if n := r.rng.IntN(4); n > 0 {
		nic := resourceapi.ResourceSliceSpec{Driver: r.driver("nic"), Pool: resourceapi.ResourcePool{Name: "nics", ResourceSliceCount: 1}}
		for i := range n {
			nic.Devices = append(nic.Devices, resourceapi.Device{Name: "nic-" + strconv.Itoa(i), Attributes: attributes(0, i%2)})
		}
		specs = append(specs, nic)
	}
	return specs
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

func attributes(model, numa int) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {IntValue: ptr.To(int64(model))}, "example.com/numa": {IntValue: ptr.To(int64(numa))},
	}
}

// extended is the name under which pods may ask for devices as for any resource.
func (r *deviceRun) extended() corev1.ResourceName {
	return corev1.ResourceName(r.driver("x") + "/gpu")
}

// claim draws what a pod claims.
func (r *deviceRun) claim() resourceapi.ResourceClaimSpec {
	class := func(kind string) string { return kind + "-" + r.id }
	exactly := func(name, kind string, n int) resourceapi.DeviceRequest {
		q := resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class(kind), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(n)}}
		if r.rng.IntN(3) == 0 && kind == "gpu" {
			q.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf("device.attributes[%q].model >= %d", r.driver("gpu"), r.rng.IntN(3)),
			}}}
		}
		return q
	}
	var spec resourceapi.ResourceClaimSpec
	switch r.rng.IntN(9) {
	case 0:
		spec.Devices.Requests = append(spec.Devices.Requests, exactly("a", "gpu", 1), exactly("b", "nic", 1))
		spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("example.com/numa"))}}
	case 1:
		spec.Devices.Requests = append(spec.Devices.Requests, exactly("a", "gpu", 2))
		spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"a"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("example.com/numa"))}}
	case 2:
		q := exactly("a", "gpu", 0)
		q.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
		spec.Devices.Requests = append(spec.Devices.Requests, q)
	case 3:
		spec.Devices.Requests = append(spec.Devices.Requests, resourceapi.DeviceRequest{Name: "first", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "big", DeviceClassName: class("big"), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
			{Name: "two", DeviceClassName: class("gpu"), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2},
		}})
	case 4:
		spec.Devices.Requests = append(spec.Devices.Requests, exactly("a", "big", 1))
	case 5:
		spec.Devices.Requests = append(spec.Devices.Requests, exactly("a", "nic", 1+r.rng.IntN(2)))
	default:
		spec.Devices.Requests = append(spec.Devices.Requests, exactly("a", "gpu", 1+r.rng.IntN(3)))
	}
	return spec
}

// set makes everything but the pods' nodes.
func (r *deviceRun) set(ctx context.Context) error {
	if _, err := r.newNamespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.id}}); err != nil {
		return err
	}
	r.slices = map[string][]resourceapi.ResourceSliceSpec{}
	for i := range 2 + r.rng.IntN(3) {
		t := &catalog.Type{
			Name: fmt.Sprintf("t%d", i), Capacity: quantity.List{"cpu": 4000 * int64(1+r.rng.IntN(4)), "memory": 64 << 30, "pods": 110},
			Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", PriceHourly: 0.1 + r.rng.Float64(), Priced: true, Available: true}},
		}
		t.Requirements = label.Requirements{label.InstanceType: label.In(t.Name), label.Zone: label.In("a"), label.CapacityType: label.In("on-demand")}
		r.types, r.slices[t.Name] = append(r.types, t), r.equip()
	}
	for name, expression := range map[string]string{
		"gpu": fmt.Sprintf("device.driver == %q", r.driver("gpu")), "nic": fmt.Sprintf("device.driver == %q", r.driver("nic")),
		"big": fmt.Sprintf("device.driver == %q && device.attributes[%q].model >= 1", r.driver("gpu"), r.driver("gpu")),
	} {
		c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + r.id}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}}
		if name == "gpu" {
			c.Spec.ExtendedResourceName = ptr.To(string(r.extended()))
		}
		if _, err := r.client.ResourceV1().DeviceClasses().Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	var menu []string
	for i := range 1 + r.rng.IntN(4) {
		name := fmt.Sprintf("claim-%d", i)
		tpl := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: r.claim()}}
		if _, err := r.client.ResourceV1().ResourceClaimTemplates(r.id).Create(ctx, tpl, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("%+v: %w", tpl.Spec.Spec.Devices, err)
		}
		menu = append(menu, name)
	}
	if r.rng.IntN(2) == 0 { // a node that has pods already
		if _, err := r.join(ctx, r.types[r.rng.IntN(len(r.types))].Name); err != nil {
			return err
		}
		for i := range r.rng.IntN(3) {
			name := fmt.Sprintf("running-%d", i)
			if err := r.create(ctx, r.pod(name, menu)); err != nil {
				return err
			}
			err := r.release(ctx, name, "")
			if err == nil {
				continue
			}
			now := int64(0) // it finds no room, and must not take what others get
			if err := r.client.CoreV1().Pods(r.id).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				return err
			}
			if err := until(ctx, func() error { return r.noClaimsOf(ctx, name) }); err != nil {
				return err
			}
		}
	}
	for i := range 3 + r.rng.IntN(10) {
		p := r.pod(fmt.Sprintf("pod-%d", i), menu)
		if r.rng.IntN(6) == 0 {
			p.Spec.ResourceClaims = nil
		}
		if err := r.create(ctx, p); err != nil {
			return err
		}
		r.pods = append(r.pods, p)
	}
	return nil
}

// noClaimsOf returns an error while there are ResourceClaims that were made for a pod.
func (r *deviceRun) noClaimsOf(ctx context.Context, pod string) error {
	claims, err := r.client.ResourceV1().ResourceClaims(r.id).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		for _, o := range claims.Items[i].OwnerReferences {
			if o.Name == pod {
				return fmt.Errorf("claim %s of pod %s is left", claims.Items[i].Name, pod)
			}
		}
	}
	return nil
}

func (r *deviceRun) pod(name string, menu []string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.id, Name: name},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{laneKey: r.id}, SchedulingGates: []corev1.PodSchedulingGate{{Name: deviceGate}},
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				"cpu": *resource.NewMilliQuantity(int64(100*(1+r.rng.IntN(20))), resource.DecimalSI),
			}}}},
		},
	}
	for i := range 1 + r.rng.IntN(5)/4 {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprint("c", i), ResourceClaimTemplateName: &menu[r.rng.IntN(len(menu))]})
	}
	if r.rng.IntN(8) == 0 { // the devices have an older name, too
		p.Spec.ResourceClaims = nil
		n := *resource.NewQuantity(int64(1+r.rng.IntN(2)), resource.DecimalSI)
		resources := &p.Spec.Containers[0].Resources
		resources.Requests[r.extended()], resources.Limits = n, corev1.ResourceList{r.extended(): n}
	}
	return p
}

func (r *deviceRun) create(ctx context.Context, p *corev1.Pod) error {
	_, err := r.client.CoreV1().Pods(r.id).Create(ctx, p, metav1.CreateOptions{})
	return err
}

// join makes a node of a type with its devices, and returns its name.
func (r *deviceRun) join(ctx context.Context, instanceType string) (string, error) {
	r.nodes++
	name := fmt.Sprintf("%s-%d", r.id, r.nodes)
	at := slices.IndexFunc(r.types, func(t *catalog.Type) bool { return t.Name == instanceType })
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			laneKey: r.id, label.InstanceType: instanceType, label.Zone: "a", label.CapacityType: "on-demand", label.Hostname: name,
		}},
	}
	n.Status.Allocatable = translate.ResourceList(r.types[at].Capacity)
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	if _, err := r.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	for i, spec := range r.slices[instanceType] {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i)}, Spec: *spec.DeepCopy()}
		s.Spec.NodeName, s.Spec.Pool.Name, s.Spec.Pool.Generation = &name, name+"-"+spec.Pool.Name, 1
		if _, err := r.client.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return "", fmt.Errorf("slice %+v: %w", s.Spec, err)
		}
	}
	return name, until(ctx, func() error {
		n, err := r.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(n.Spec.Taints) > 0 {
			err = fmt.Errorf("node %s has taint %s", name, n.Spec.Taints[0].Key)
		}
		return err
	})
}

// plan shows the mirror what there is, with all pods that wait as unschedulable.
func (r *deviceRun) plan(ctx context.Context) (plan.Plan, error) {
	v := translate.NewVocabulary([]string{laneKey}, nil)
	v.Devices = true
	store := mirror.NewStore(mirror.Options{
		Vocabulary: v, Now: time.Now, Manages: func(string, string) bool { return true },
		Devices: func(_ cloud.ClassRef, t string) []resourceapi.ResourceSliceSpec { return r.slices[t] },
	})
	ref := &karpenterv1.NodeClassReference{Group: "example.com", Kind: "Class", Name: "default"}
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: devicePool}}
	np.Spec.Template.Spec.NodeClassRef = ref
	np.Spec.Template.Labels = map[string]string{laneKey: r.id}
	np.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	store.Pools().SetTypes(cloud.ClassRef{Group: ref.Group, Kind: ref.Kind, Name: ref.Name}, r.types, nil)
	objects := []client.Object{np}
	nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: laneKey + "=" + r.id})
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range nodes.Items {
		objects = append(objects, &nodes.Items[i])
	}
	api := r.client.ResourceV1()
	all, err := api.ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range all.Items {
		objects = append(objects, &all.Items[i])
	}
	classes, err := api.DeviceClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range classes.Items {
		objects = append(objects, &classes.Items[i])
	}
	templates, err := api.ResourceClaimTemplates(r.id).List(ctx, metav1.ListOptions{})
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range templates.Items {
		objects = append(objects, &templates.Items[i])
	}
	claims, err := api.ResourceClaims(r.id).List(ctx, metav1.ListOptions{})
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range claims.Items {
		objects = append(objects, &claims.Items[i])
	}
	pods, err := r.client.CoreV1().Pods(r.id).List(ctx, metav1.ListOptions{})
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if len(p.Spec.SchedulingGates) > 0 {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		} else if p.Spec.NodeName == "" {
			continue // it found no room before
		}
		objects = append(objects, p)
	}
	if err := store.Observe(objects...); err != nil {
		return plan.Plan{}, err
	}
	return pack.Decide(store.Snapshot(), pack.Options{}), nil
}

// release nominates a pod for a node, lets kube-scheduler try it, and returns an error unless it is
// bound; an empty node is any, and one try is enough to say no.
func (r *deviceRun) release(ctx context.Context, name, node string) error {
	pods := r.client.CoreV1().Pods(r.id)
	if node != "" {
		if _, err := pods.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"status":{"nominatedNodeName":%q}}`, node), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	if _, err := pods.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	var last string
	err := until(ctx, func() error {
		p, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Spec.NodeName != "" {
			last = p.Spec.NodeName
			return nil
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				last = ""
				if node == "" { // the nodes had been there before the pod was tried
					return nil
				}
				return fmt.Errorf("unschedulable: %s", c.Message)
			}
		}
		return fmt.Errorf("it was not tried: %+v", p.Status.Conditions)
	})
	switch {
	case err != nil:
		return err
	case last == "":
		return fmt.Errorf("unschedulable")
	case node != "" && last != node:
		r.elsewhere++
		return nil
	default:
		return nil
	}
}

// clear removes nodes, slices and pods.
func (r *deviceRun) clear(ctx context.Context) {
	now := int64(0)
	_ = r.client.CoreV1().Pods(r.id).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	_ = r.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: laneKey + "=" + r.id})
	for i := range r.nodes {
		for j := range 3 {
			_ = r.client.ResourceV1().ResourceSlices().Delete(ctx, fmt.Sprintf("%s-%d-%d", r.id, i+1, j), metav1.DeleteOptions{})
		}
	}
	_ = r.client.ResourceV1().ResourceClaimTemplates(r.id).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}
