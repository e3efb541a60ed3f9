package cluster

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// silentFor is after what time without its kubelet a Node becomes not ready, and
	// patience how long its pods then stay.
	silentFor = 40 * time.Second
	patience  = 5 * time.Minute
	// StartupTaint is taken away from Nodes some time after they joined.
	StartupTaint = "world.example/starting"
)

// Kubelets stands in for the kubelets and for the controllers of Nodes and their pods
// in the control plane.
type Kubelets struct {
	config    *Config
	api       *API
	volumes   *Volumes
	workloads *Workloads
}

func (k *Kubelets) observe(kind string, was, is client.Object) {
	if is == nil {
		return
	}
	switch kind {
	case "Pod":
		before, _ := was.(*corev1.Pod)
		pod := is.(*corev1.Pod)
		if pod.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == "") {
			k.config.soon(time.Second, 4*time.Second, func() { k.start(pod) })
		}
		if pod.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil) {
			most := min(5*time.Second, time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second)
			k.config.soon(200*time.Millisecond, max(300*time.Millisecond, most), func() { k.stop(pod) })
		}
	case "Node":
		node := is.(*corev1.Node)
		if HasTaint(node, StartupTaint) && (was == nil || !HasTaint(was.(*corev1.Node), StartupTaint)) {
			k.config.soon(3*time.Second, 10*time.Second, func() { k.untaint(node.Name, StartupTaint) })
		}
		if throwsOut(node) && (was == nil || !throwsOut(was.(*corev1.Node))) {
			k.config.soon(50*time.Millisecond, time.Second, func() { k.throwOut(node.Name) })
		}
	}
}

// HasTaint reports whether a Node has a taint with a key.
func HasTaint(node *corev1.Node, taint string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
}

// throwsOut reports whether a taint drives pods from a Node at once. Those of silent
// Nodes are left to check.
func throwsOut(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && t.Key != corev1.TaintNodeUnreachable
	})
}

// throwOut deletes the pods that do not tolerate such taints.
func (k *Kubelets) throwOut(name string) {
	node, ok := Find[*corev1.Node](k.api, "", name)
	if !ok {
		return
	}
	for _, pod := range k.api.PodsOn(name) {
		if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoExecute && t.Key != corev1.TaintNodeUnreachable &&
				!slices.ContainsFunc(pod.Spec.Tolerations, func(x corev1.Toleration) bool { return tolerates(x, &t) })
		}) {
			k.api.Delete(pod, GraceOf(pod))
		}
	}
}

func (k *Kubelets) untaint(name, taint string) {
	if node, ok := Find[*corev1.Node](k.api, "", name); ok {
		Edit(k.api, node, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == taint })
		})
	}
}

// same returns the pod as it is now, if it is still there.
func (k *Kubelets) same(pod *corev1.Pod) (*corev1.Pod, bool) {
	now, ok := Find[*corev1.Pod](k.api, pod.Namespace, pod.Name)
	return now, ok && now.UID == pod.UID
}

// start runs a pod, as soon as its kubelet is there.
func (k *Kubelets) start(pod *corev1.Pod) {
	now, there := k.same(pod)
	if !there || now.DeletionTimestamp != nil || now.Status.Phase != corev1.PodPending {
		return
	}
	if !k.config.isUp(now.Spec.NodeName) || !k.volumes.isAttached(now) {
		k.config.after(10*time.Second, func() { k.start(pod) })
		return
	}
	Edit(k.api, now, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		setPodCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: WireTime(k.config.now())})
	})
	if a := k.workloads.byName[pod.Labels[AppLabel]]; a != nil && a.RunsFor > 0 {
		k.config.soon(a.RunsFor/2, a.RunsFor, func() { k.finish(pod) })
	}
}

// finish ends a pod that has done its work.
func (k *Kubelets) finish(pod *corev1.Pod) {
	if now, there := k.same(pod); there && now.DeletionTimestamp == nil && k.config.isUp(now.Spec.NodeName) {
		a := k.workloads.byName[pod.Labels[AppLabel]]
		a.Replicas = max(0, a.Replicas-1)
		Edit(k.api, now, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodSucceeded
			setPodCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: WireTime(k.config.now())})
		})
	}
}

// stop ends a pod that is being deleted, as soon as its kubelet works.
func (k *Kubelets) stop(pod *corev1.Pod) {
	now, there := k.same(pod)
	if !there {
		return
	}
	if now.Spec.NodeName != "" && !k.config.isUp(now.Spec.NodeName) {
		k.config.after(10*time.Second, func() { k.stop(pod) })
		return
	}
	k.api.Drop("Pod", now)
}

// check does what the control plane does from time to time: it marks Nodes whose kubelet
// is silent, drives pods from them, and clears away what belonged to Nodes that are gone.
func (k *Kubelets) check() {
	for _, node := range All[*corev1.Node](k.api) {
		i, there := k.config.Instances.State(node.Name)
		switch {
		case i.Up && HasTaint(node, corev1.TaintNodeUnreachable):
			k.SetReady(node, true)
		case !i.Up && there && k.config.now().Sub(i.SilentSince) >= silentFor && !HasTaint(node, corev1.TaintNodeUnreachable):
			k.SetReady(node, false)
		case !i.Up && there && k.config.now().Sub(i.SilentSince) >= silentFor+patience:
			for _, pod := range k.api.PodsOn(node.Name) {
				k.api.Delete(pod, GraceOf(pod))
			}
		}
		if !there || i.Ended && k.config.now().Sub(i.SilentSince) > time.Minute {
			k.api.Delete(node, 0) // the cloud's own controller
		}
	}
	k.RemoveOrphans()
}

// RemoveOrphans removes the pods of Nodes that are gone.
func (k *Kubelets) RemoveOrphans() {
	var left []*corev1.Pod
	for node := range k.api.Shelf("Pod").indexes[nodeIndex].rows {
		if node != "" && k.api.Get("Node", "", node) == nil {
			left = append(left, k.api.PodsOn(node)...)
		}
	}
	slices.SortFunc(left, func(a, b *corev1.Pod) int { return compareKeys(KeyOf(a), KeyOf(b)) })
	for _, pod := range left {
		k.api.Drop("Pod", pod)
	}
}

// SetReady writes whether a Node is ready, with its taints and its pods.
func (k *Kubelets) SetReady(node *corev1.Node, isReady bool) {
	status := corev1.ConditionUnknown
	if isReady {
		status = corev1.ConditionTrue
	}
	Edit(k.api, node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeUnreachable || isReady && t.Key == corev1.TaintNodeNotReady
		})
		if !isReady {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
				corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute})
		}
		n.Status.Conditions = slices.DeleteFunc(slices.Clone(n.Status.Conditions), func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: WireTime(k.config.now())})
	})
	for _, pod := range k.api.PodsOn(node.Name) {
		if pod.Status.Phase == corev1.PodRunning {
			podReady := corev1.ConditionFalse
			if isReady {
				podReady = corev1.ConditionTrue
			}
			Edit(k.api, pod, func(p *corev1.Pod) {
				setPodCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: podReady, LastTransitionTime: WireTime(k.config.now())})
			})
		}
	}
}
