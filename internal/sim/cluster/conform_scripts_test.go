package cluster

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	hold      = "example.com/hold"
	finalizer = "example.com/finalizer"
)

func intQuantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

// scripts are the stories that are played on both grounds. Each leaves no choice of where a pod
// goes: what kube-scheduler prefers is not compared.
func scripts() map[string][]step {
	one := &policyv1.PodDisruptionBudgetSpec{MaxUnavailable: Number(1)}
	all := map[string][]step{
		"room": {
			joins("a", 2, "z1"), run(Workload{Name: "web", Replicas: 5}, nil), joins("b", 2, "z1"), joins("c", 2, "z1"),
			scale("web", 0), run(Workload{Name: "big", Replicas: 1, CPUMilli: 2500}, nil), joins("d", 3, "z1"),
		},
		"taints": {
			joins("a", 4, "z1", hold), run(Workload{Name: "web", Replicas: 2}, nil), open("a"), taint("a", hold, corev1.TaintEffectNoSchedule),
			scale("web", 3), taint("a", "example.com/soft", corev1.TaintEffectPreferNoSchedule), open("a"),
		},
		"thrown-out": {
			joins("a", 4, "z1"), run(Workload{Name: "web", Replicas: 2}, nil), taint("a", hold, corev1.TaintEffectNoExecute), joins("b", 4, "z1"),
		},
		"cordon": {
			joins("a", 4, "z1"), run(Workload{Name: "web", Replicas: 2}, nil), cordon("a", true), evict("web", "a", 1), joins("b", 1, "z1"), cordon("a", false), scale("web", 3),
		},
		"zones": {
			joins("a", 8, "z1"), joins("b", 8, "z2"), run(Workload{Name: "web", Replicas: 2, Spread: true}, nil), cordon("b", true), scale("web", 3),
			scale("web", 4), joins("c", 8, "z3"), cordon("b", false), run(Workload{Name: "home", Replicas: 2, Zone: "z2"}, nil), run(Workload{Name: "nowhere", Replicas: 1, Zone: "z9"}, nil),
		},
		"apart": {
			joins("a", 8, "z1"), joins("b", 8, "z1"), run(Workload{Name: "web", Replicas: 3, Apart: true}, nil), joins("c", 8, "z2"),
			cordon("c", true), evict("web", "c", 1), cordon("c", false),
		},
		"budget": {
			joins("a", 4, "z1"), run(Workload{Name: "web", Replicas: 3}, one), evict("web", "a", 1), cordon("a", true), evict("web", "a", 2), evict("web", "a", 1),
			joins("b", 4, "z1"), cordon("b", true), evict("web", "a", 2), cordon("b", false), evict("web", "a", 1),
		},
		"share": {
			joins("a", 8, "z1"), run(Workload{Name: "web", Replicas: 5}, &policyv1.PodDisruptionBudgetSpec{MaxUnavailable: Percent(25)}),
			cordon("a", true), evict("web", "a", 3), cordon("a", false), run(Workload{Name: "most", Replicas: 3}, &policyv1.PodDisruptionBudgetSpec{MinAvailable: Percent(50)}), cordon("a", true), evict("most", "a", 2), cordon("a", false), scale("most", 1), evict("most", "a", 1),
		},
		"never": {
			joins("a", 8, "z1"), run(Workload{Name: "web", Replicas: 2}, &policyv1.PodDisruptionBudgetSpec{MaxUnavailable: Percent(0)}), evict("web", "a", 1),
		},
		"waits": {
			run(Workload{Name: "web", Replicas: 2}, one), evict("web", "", 2), joins("a", 1, "z1"),
			evict("web", "a", 1),
		},
		"silent": {
			write("silent node a", func(a *actor, c client.Client) error {
				a.ground.boot(a.name("a"), true)
				return c.Create(a.ctx, a.node("a", 8, "z1", nil))
			}),
			run(Workload{Name: "web", Replicas: 2}, one), evict("web", "a", 2),
		},
		"nominated": {
			joins("a", 2, "z1", hold), joins("b", 2, "z1", hold), joins("c", 1, "z1", hold), run(Workload{Name: "web", Replicas: 1, CPUMilli: 1500}, nil),
			nominate("web", "b"), cordon("a", true), open("a"), open("b"),
			run(Workload{Name: "small", Replicas: 1, CPUMilli: 1200}, nil), nominate("small", "c"), open("c"), cordon("a", false),
		},
	}
	all["important"] = []step{
		joins("a", 2, "z1"), run(Workload{Name: "web", Replicas: 2}, nil), run(Workload{Name: "vital", Replicas: 1, Priority: ImportantPriority}, nil),
		joins("b", 1, "z1"), scale("vital", 3), run(Workload{Name: "large", Replicas: 1, CPUMilli: 4000, Priority: ImportantPriority}, nil),
	}
	all["spared"] = []step{
		joins("a", 1, "z1"), run(Workload{Name: "guarded", Replicas: 1}, &policyv1.PodDisruptionBudgetSpec{MaxUnavailable: Percent(0)}),
		joins("b", 1, "z1"), run(Workload{Name: "plain", Replicas: 1}, nil), run(Workload{Name: "vital", Replicas: 1, Priority: ImportantPriority}, nil), scale("vital", 2),
	}
	all["sets"] = []step{
		joins("a", 3, "z1"), run(Workload{Name: "db", Replicas: 2, Stateful: true}, one), evict("db", "a", 1), cordon("a", true), evict("db", "a", 2),
		cordon("a", false), scale("db", 4), scale("db", 1),
	}
	all["volumes"] = []step{
		disk("d", "z2"), joins("a", 4, "z1"), run(Workload{Name: "web", Replicas: 2, Claim: "d"}, nil), joins("b", 4, "z2"), cordon("b", true), evict("web", "b", 1), cordon("b", false),
		run(Workload{Name: "lost", Replicas: 1, Claim: "nothing"}, nil),
	}
	all["writes"] = writes()
	all["finalizers"] = finalizers()
	all["owners"] = owners()
	return all
}

// bare returns a Node that is only an object: pods cannot go there.
func (a *actor) bare(name string) *corev1.Node {
	n := a.node(name, 0, "none", []string{hold})
	n.Spec.Unschedulable = true
	return n
}

// disk returns a step that makes a volume in a zone, and a claim that has it.
func disk(name, zone string) step {
	return write("disk "+name+" in "+zone, func(a *actor, c client.Client) error {
		class := ""
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		err := c.Create(a.ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: a.name(name)}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size, NodeAffinity: inZone(zone),
			ClaimRef:               &corev1.ObjectReference{Namespace: Namespace, Name: a.name(name)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
		}})
		if err != nil {
			return err
		}
		return c.Create(a.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: a.name(name)}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: modes, VolumeName: a.name(name), Resources: corev1.VolumeResourceRequirements{Requests: size},
		}})
	})
}

func create(name string, change func(a *actor, n *corev1.Node)) step {
	return write("create "+name, func(a *actor, c client.Client) error {
		a.ground.boot(a.name(name), true)
		n := a.bare(name)
		if change != nil {
			change(a, n)
		}
		err := c.Create(a.ctx, n)
		if err == nil {
			a.noted[name] = n
		}
		return err
	})
}

func remove(name string, opts ...client.DeleteOption) step {
	return write("delete "+name, func(a *actor, c client.Client) error {
		return c.Delete(a.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.name(name)}}, opts...)
	})
}

// patch changes an object as it was noted, or with fresh as it is now.
func patch(what, name string, fresh, lock bool, change func(n *corev1.Node)) step {
	return write(fmt.Sprintf("%s of %s, fresh %v, locked %v", what, name, fresh, lock), func(a *actor, c client.Client) error {
		n, ok := a.noted[name].DeepCopyObject().(*corev1.Node)
		if !ok {
			return fmt.Errorf("%s was not noted", name)
		}
		if fresh {
			if err := c.Get(a.ctx, client.ObjectKeyFromObject(n), n); err != nil {
				return err
			}
		}
		before := n.DeepCopy()
		change(n)
		if lock {
			return c.Patch(a.ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		}
		return c.Patch(a.ctx, n, client.MergeFrom(before))
	})
}

func label(value string) func(n *corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, "example.com/value", value) }
}

func writes() []step {
	other, old := types.UID("00000000-0000-0000-0000-000000000000"), "1"
	return []step{
		create("a", nil), create("a", nil), patch("label", "a", true, true, label("1")), patch("label", "a", false, true, label("2")),
		patch("label", "a", false, false, label("3")), patch("label", "a", true, true, label("3")),
		write("a JSON patch whose test fails", func(a *actor, c client.Client) error {
			return c.Patch(a.ctx, a.bare("a"), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/labels/script","value":"x"}]`)))
		}),
		write("a JSON patch", func(a *actor, c client.Client) error {
			return c.Patch(a.ctx, a.bare("a"), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`)))
		}),
		remove("a", client.Preconditions{UID: &other}), remove("a", client.Preconditions{ResourceVersion: &old}), remove("a"), remove("a"),
		write("patch what is gone", func(a *actor, c client.Client) error {
			return c.Patch(a.ctx, a.bare("a"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`)))
		}),
		write("patch the status of what is gone", func(a *actor, c client.Client) error {
			return c.Status().Patch(a.ctx, a.bare("a"), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`)))
		}),
		write("evict what is gone", func(a *actor, c client.Client) error {
			return c.SubResource("eviction").Create(a.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: a.name("nobody")}}, &policyv1.Eviction{})
		}),
		write("evict what is held", evictHeld),
	}
}

// evictHeld evicts a pod that a finalizer holds, and returns what the pod then says about itself, as an error.
func evictHeld(a *actor, c client.Client) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: a.name("held"), Finalizers: []string{finalizer}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{spotLabel: "none"},
			Containers:   []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{Requests: Requests(100, 64)}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if err := c.Create(a.ctx, pod); err != nil {
		return err
	}
	evicted := c.SubResource("eviction").Create(a.ctx, pod, &policyv1.Eviction{})
	if err := c.Get(a.ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	why := "nothing"
	for i := range pod.Status.Conditions {
		if r := &pod.Status.Conditions[i]; r.Type == corev1.DisruptionTarget {
			why = fmt.Sprintf("%s, %s", r.Status, r.Reason)
		}
	}
	before := pod.DeepCopy()
	pod.Finalizers = nil
	return errors.Join(fmt.Errorf("eviction %s, deleted %v, its condition says %s", reason(evicted), before.DeletionTimestamp != nil, why), c.Patch(a.ctx, pod, client.MergeFrom(before)))
}

func finalizers() []step {
	with := func(names ...string) func(n *corev1.Node) { return func(n *corev1.Node) { n.Finalizers = names } }
	return []step{
		create("a", func(_ *actor, n *corev1.Node) { n.Finalizers = []string{finalizer} }), remove("a"), remove("a"), create("a", nil),
		patch("a new finalizer", "a", true, true, with(finalizer, finalizer+"-2")), patch("a label", "a", true, true, label("1")),
		patch("no finalizer", "a", true, true, with()), patch("no finalizer", "a", false, true, with()),
	}
}

func owners() []step {
	owned := func(by ...string) func(a *actor, n *corev1.Node) {
		return func(a *actor, n *corev1.Node) {
			for _, name := range by {
				n.OwnerReferences = append(n.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: a.name(name), UID: a.noted[name].GetUID()})
			}
		}
	}
	return []step{
		create("a", nil), create("b", nil), create("of-a", owned("a")), create("of-both", owned("a", "b")), create("of-of-a", owned("of-a")),
		create("held", func(a *actor, n *corev1.Node) { owned("a")(a, n); n.Finalizers = []string{finalizer} }),
		remove("a"), remove("b"), patch("no finalizer", "held", true, true, func(n *corev1.Node) { n.Finalizers = nil }),
	}
}
