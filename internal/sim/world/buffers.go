package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// What users do with CapacityBuffers. Buffers is that there are any.
const (
	Buffers        Fault = "buffers"
	BufferConsumed Fault = "buffer-consumed"
	BufferEdited   Fault = "buffer-edited"
	BufferTemplate Fault = "buffer-template-edited"
)

const (
	// chunksMost is the most chunks of a buffer by its number.
	chunksMost = 6
	// consumedIn is how long after the storm each buffer is consumed once more.
	consumedIn = 10 * time.Minute
)

func newBuffers(w *World, seed uint64) *buffers {
	return &buffers{beside: newBeside(w, seed, 0x62756666, Buffers)}
}

// begin makes one to three buffers, each with a workload whose pods take the room, and has users change both
// now and then.
func (b *buffers) begin() {
	if !b.on {
		return
	}
	for i := range b.upTo(1, 3) {
		b.all = append(b.all, b.makeBuffer(i))
	}
	b.w.every(checkEvery, b.check)
	b.again(BufferConsumed, 10*time.Minute, b.consume)
	b.again(BufferEdited, 25*time.Minute, b.edit)
	b.again(BufferTemplate, 45*time.Minute, b.editTemplate)
}

// makeBuffer makes a buffer, by a pod template or by the ReplicaSet of the workload that takes the room.
func (b *buffers) makeBuffer(i int) *buffer {
	a := &cluster.Workload{Name: fmt.Sprintf("burst-%d", i), CPUMilli: one(&b.beside, int64(250), 500, 1000, 2000), GraceSeconds: 10}
	a.MemoryMiB = a.CPUMilli * one(&b.beside, int64(1), 2, 4)
	if b.chance(0.2) {
		a.Zone = one(&b.beside, zones...)
	}
	cb := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: fmt.Sprintf("buffer-%d", i)}}
	cb.Spec.ProvisioningStrategy = new(autoscalingv1beta1.ProvisioningStrategyActiveCapacity)
	of := &buffer{name: cb.Name, burst: a}
	if b.chance(0.4) {
		a.Described, a.Replicas = true, b.upTo(1, chunksMost)
		cb.Spec.ScalableRef = &autoscalingv1beta1.ScalableRef{APIGroup: "apps", Kind: "ReplicaSet", Name: a.Name}
		cb.Spec.Percentage = new(int32(one(&b.beside, 25, 50, 100)))
	}
	if cb.Spec.ScalableRef == nil || b.chance(0.5) {
		cb.Spec.Replicas = new(int32(b.upTo(1, chunksMost)))
	}
	b.w.workloads.Add(a, nil)
	if cb.Spec.ScalableRef == nil {
		of.template = cb.Name
		cb.Spec.PodTemplateRef = &autoscalingv1beta1.LocalObjectRef{Name: of.template}
		t := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: of.template}}
		t.Template.Spec = b.specOf(a)
		_ = b.w.api.Create(t) // names are unique
	}
	_ = b.w.api.Create(cb) // names are unique
	return of
}

// specOf returns what the pods of a workload ask for.
func (b *buffers) specOf(a *cluster.Workload) corev1.PodSpec {
	spec := corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
		Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: cluster.Requests(a.CPUMilli, a.MemoryMiB)},
	}}}
	if a.Zone != "" {
		spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: a.Zone}
	}
	return spec
}

// consume has the workload of a buffer take up to all of its room and more, or give it back.
func (b *buffers) consume() {
	of := one(&b.beside, b.all...)
	of.burst.Replicas = b.upTo(0, 2*chunksMost)
	b.change()
	b.w.workloads.Wake(of.burst)
}

// edit has a buffer ask for another number of pods.
func (b *buffers) edit() {
	of := one(&b.beside, b.all...)
	n := int32(b.upTo(0, chunksMost))
	if cb, there := cluster.Find[*autoscalingv1beta1.CapacityBuffer](b.w.api, cluster.Namespace, of.name); there {
		cluster.Edit(b.w.api, cb, func(cb *autoscalingv1beta1.CapacityBuffer) { cb.Spec.Replicas = &n })
	}
	b.change()
}

// editTemplate has a buffer ask for room for other pods than its workload has.
func (b *buffers) editTemplate() {
	of := one(&b.beside, b.all...)
	cpu := one(&b.beside, int64(250), 500, 1000, 2000)
	t, there := cluster.Find[*corev1.PodTemplate](b.w.api, cluster.Namespace, of.template)
	if !there {
		return
	}
	cluster.Edit(b.w.api, t, func(t *corev1.PodTemplate) {
		a := *of.burst
		a.CPUMilli, a.MemoryMiB = cpu, 2*cpu
		t.Template.Spec = b.specOf(&a)
	})
	b.change()
}

// end has each buffer consumed once more after the storm.
func (b *buffers) end() {
	b.lastLoad = b.w.at
	for _, of := range b.all {
		b.change()
		more := b.upTo(1, chunksMost)
		b.w.after(consumedIn, func() {
			of.burst.Replicas += more
			b.lastLoad = b.w.at
			b.change()
			b.w.workloads.Wake(of.burst)
		})
	}
}

// change takes note of a change after which room may be short for a while.
func (b *buffers) change() { b.shortSince = time.Time{} }
