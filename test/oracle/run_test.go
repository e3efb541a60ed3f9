package oracle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// run is one scenario being enacted in a lane.
type run struct {
	*lane
	id      string
	s       *scenario // enacted
	nodes   []string  // all that were made, in order
	daemons []*appsv1.DaemonSet
	// services and owners are those that were made.
	services []*corev1.Service
	owners   []client.Object
	launched []corev1.Node // by the plan
	// answered: the cloud has said what the nodes of all claims are.
	answered bool
	// csiNodes say how many volumes nodes attach.
	csiNodes []*storagev1.CSINode
	// given are the nominations that pods were given, pod constraints what the plan knew of pods.
	given          map[cluster.PodRef]nominated
	constraintSets map[cluster.PodRef]*cluster.Constraints
	// arranged is how often the placed pods were made anew.
	arranged int
}

// nominated is how often a pod was given its nomination, and when last.
type nominated struct {
	times int
	at    time.Time
}

// set makes everything that the scenario says is there, and returns when the daemons'
// pods are where they belong.
func (r *run) set(ctx context.Context) error {
	if err := r.setStorage(ctx); err != nil {
		return err
	}
	for i := range r.s.LimitRanges {
		if _, err := r.client.CoreV1().LimitRanges(r.s.LimitRanges[i].Namespace).Create(ctx, &r.s.LimitRanges[i], metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create limit range: %w", err)
		}
	}
	if err := r.serve(ctx); err != nil {
		return err
	}
	if err := r.joinAll(ctx, false); err != nil {
		return err
	}
	for i := range r.s.Daemons {
		d := &r.s.Daemons[i]
		made, err := r.client.AppsV1().DaemonSets(d.Namespace).Create(ctx, d, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create daemon set %s: %w", d.Name, err)
		}
		r.daemons = append(r.daemons, made)
	}
	if err := r.settled(ctx); err != nil {
		return err
	}
	pods := slices.Concat(r.s.Running, r.s.Pending)
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Annotations[urgentKey], b.Annotations[urgentKey]) })
	for i := range pods {
		if err := r.create(ctx, &pods[i]); err != nil {
			return err
		}
	}
	want := len(r.s.Running) + len(r.s.Pending)
	err := until(ctx, func() error {
		pods, err := r.lanePods()
		seen := len(slices.DeleteFunc(pods, translate.OwnedByDaemonSet))
		if err == nil && seen < want {
			err = fmt.Errorf("the watch has shown %d of %d pods", seen, want)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.claimed(ctx)
}

// serve makes the services and the controllers of pods, which only those pods heed that
// are spread by default.
func (r *run) serve(ctx context.Context) error {
	for i := range r.s.Services {
		svc := &r.s.Services[i]
		made, err := r.client.CoreV1().Services(svc.Namespace).Create(ctx, svc, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create service %s: %w", svc.Name, err)
		}
		r.services = append(r.services, made)
	}
	for i := range r.s.Owners {
		made, err := r.makeOwner(ctx, &r.s.Owners[i])
		if err != nil {
			return fmt.Errorf("create owner %s: %w", r.s.Owners[i].Name, err)
		}
		r.owners = append(r.owners, made)
		for _, pods := range [][]corev1.Pod{r.s.Running, r.s.Pending} {
			for p := range pods {
				for o := range pods[p].OwnerReferences {
					if ref := &pods[p].OwnerReferences[o]; pods[p].Namespace == made.GetNamespace() && ref.Kind == r.s.Owners[i].Kind && ref.Name == made.GetName() {
						ref.UID = made.GetUID()
					}
				}
			}
		}
	}
	return nil
}

// makeOwner makes a controller of pods that is about to go, and so makes and deletes none.
func (r *run) makeOwner(ctx context.Context, o *owner) (client.Object, error) {
	meta := metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Finalizers: []string{ownerHold}}
	selector := &metav1.LabelSelector{MatchLabels: o.Selector}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: o.Selector}}
	template.Spec.Containers = []corev1.Container{{Name: "main", Image: "none"}}
	none, background := int32(0), metav1.DeletePropagationBackground
	del := metav1.DeleteOptions{PropagationPolicy: &background}
	if o.Kind == "StatefulSet" {
		sets := r.client.AppsV1().StatefulSets(o.Namespace)
		set := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &none, Selector: selector, Template: template}}
		made, err := sets.Create(ctx, set, metav1.CreateOptions{})
		if err == nil {
			err = sets.Delete(ctx, o.Name, del)
		}
		return made, err
	}
	sets := r.client.AppsV1().ReplicaSets(o.Namespace)
	set := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &none, Selector: selector, Template: template}}
	made, err := sets.Create(ctx, set, metav1.CreateOptions{})
	if err == nil {
		err = sets.Delete(ctx, o.Name, del)
	}
	return made, err
}

// unserve removes them.
func (r *run) unserve(ctx context.Context) error {
	for _, svc := range r.services {
		if err := r.client.CoreV1().Services(svc.Namespace).Delete(ctx, svc.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("remove service %s: %w", svc.Name, err)
		}
	}
	free := []byte(`{"metadata":{"finalizers":null}}`)
	for _, o := range r.owners {
		var err error
		if _, is := o.(*appsv1.StatefulSet); is {
			_, err = r.client.AppsV1().StatefulSets(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, free, metav1.PatchOptions{})
		} else {
			_, err = r.client.AppsV1().ReplicaSets(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, free, metav1.PatchOptions{})
		}
		if err != nil {
			return fmt.Errorf("remove owner %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// create makes a pod and lets happen to it what the scenario says has happened.
func (r *run) create(ctx context.Context, p *corev1.Pod) error {
	if _, err := r.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", p.Name, err)
	}
	if p.Annotations[deletingKey] != "" {
		return r.end(ctx, p)
	}
	if cpu := p.Annotations[allocatedKey]; cpu != "" && p.Spec.NodeName != "" {
		return r.allocate(ctx, p, cpu)
	}
	if p.Annotations[urgentKey] != "" {
		return r.makeRoom(ctx, p)
	}
	return nil
}

// allocate says what the kubelet has given to a pod.
func (r *run) allocate(ctx context.Context, p *corev1.Pod, cpu string) error {
	list := fmt.Sprintf(`{"cpu":%q,"memory":%q}`, cpu, p.Spec.Containers[0].Resources.Requests.Memory())
	patch := fmt.Sprintf(`{"status":{"containerStatuses":[{"name":%q,"image":"none","imageID":"none","ready":true,"restartCount":0,"allocatedResources":%s,"resources":{"requests":%s}}]}}`,
		p.Spec.Containers[0].Name, list, list)
	if _, err := r.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("allocate cpu to pod %s: %w", p.Name, err)
	}
	return until(ctx, func() error {
		now, err := r.pods.Pods(p.Namespace).Get(p.Name)
		if err == nil && len(now.Status.ContainerStatuses) == 0 {
			err = fmt.Errorf("the watch has not shown the status of pod %s", p.Name)
		}
		return err
	})
}

// makeRoom waits until the scheduler has made up its mind about an urgent pod: if it makes
// room for it, until it has deleted others.
func (r *run) makeRoom(ctx context.Context, p *corev1.Pod) error {
	ref := cluster.PodRef{Namespace: p.Namespace, Name: p.Name}
	return until(ctx, func() error {
		now, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
		switch {
		case err != nil:
			return err
		case now.Spec.NodeName == "" && refusal(now) == "":
			return fmt.Errorf("the scheduler has not decided about %s", ref)
		case now.Status.NominatedNodeName == "":
			return nil
		}
		all, err := r.lanePods()
		if err == nil && !slices.ContainsFunc(all, func(v *corev1.Pod) bool {
			return v.Spec.NodeName == now.Status.NominatedNodeName && v.DeletionTimestamp != nil
		}) {
			err = fmt.Errorf("no pod makes room for %s", ref)
		}
		return err
	})
}

// joinAll makes the scenario's Nodes: those in flight, or the others.
func (r *run) joinAll(ctx context.Context, inFlight bool) error {
	for i := range r.s.Nodes {
		if n := &r.s.Nodes[i]; (n.Annotations[inFlightKey] != "") == inFlight {
			if err := r.join(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// end deletes a pod. There is no kubelet to end it, so it stays as it is.
func (r *run) end(ctx context.Context, p *corev1.Pod) error {
	long := int64(600)
	if err := r.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &long}); err != nil {
		return fmt.Errorf("end pod %s: %w", p.Name, err)
	}
	return until(ctx, func() error {
		now, err := r.pods.Pods(p.Namespace).Get(p.Name)
		if err == nil && now.DeletionTimestamp == nil {
			err = fmt.Errorf("the watch has not shown pod %s ending", p.Name)
		}
		return err
	})
}

// join makes a Node that is ready, unless it is not to be.
func (r *run) join(ctx context.Context, n *corev1.Node) error {
	n = n.DeepCopy()
	n.Labels["beta.kubernetes.io/os"], n.Labels["beta.kubernetes.io/arch"] = n.Labels[corev1.LabelOSStable], n.Labels[corev1.LabelArchStable]
	now := metav1.Now()
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Oracle", LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	if n.Annotations[notReadyKey] != "" {
		n.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	if err := r.attaches(ctx, n); err != nil {
		return err
	}
	r.nodes = append(r.nodes, n.Name)
	if _, err := r.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", n.Name, err)
	}
	return nil
}

// settled waits until the nodes are open, and every daemon has its pod on every node
// that it belongs on or was refused there by the scheduler.
func (r *run) settled(ctx context.Context) error {
	return until(ctx, func() error {
		var nodes []*corev1.Node
		for _, name := range r.nodes {
			n, err := r.world.nodes.Get(name)
			if err != nil {
				return err
			}
			cordonTaint := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
			notReady := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
			if notReady != (n.Annotations[notReadyKey] != "") || cordonTaint != n.Spec.Unschedulable {
				return fmt.Errorf("node %s is not open: %v", name, n.Spec.Taints)
			}
			nodes = append(nodes, n)
		}
		pods, err := r.lanePods()
		if err != nil {
			return err
		}
		for _, d := range r.daemons {
			if want, have := daemonPods(d, nodes), judged(pods, d.UID); have < want {
				return fmt.Errorf("daemon set %s has %d of %d pods", d.Name, have, want)
			}
		}
		return nil
	})
}

// daemonPods returns how many of the nodes the set's controller makes a pod for.
func daemonPods(d *appsv1.DaemonSet, nodes []*corev1.Node) (n int) {
	spec := &d.Spec.Template.Spec
	tolerations := slices.Clone(spec.Tolerations)
	for _, key := range []string{corev1.TaintNodeUnschedulable, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure} {
		tolerations = append(tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	tolerations = append(tolerations, corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	required := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity)
	hard := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	for _, node := range nodes {
		_, tainted := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, tolerations, hard, false)
		if ok, err := required.Match(node); ok && err == nil && !tainted {
			n++
		}
	}
	return n
}

// judged returns how many pods of an owner the scheduler has bound or refused.
func judged(pods []*corev1.Pod, owner types.UID) (n int) {
	for _, p := range pods {
		if len(p.OwnerReferences) == 1 && p.OwnerReferences[0].UID == owner && (p.Spec.NodeName != "" || refusal(p) != "") {
			n++
		}
	}
	return n
}

// refusal returns what the scheduler said when it found no node for the pod; empty: it
// did not say so.
func refusal(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

// open takes off the taints of nodes that were still starting.
func (r *run) open(ctx context.Context) error {
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if n.Annotations[startingKey] == "" {
			continue
		}
		err := until(ctx, func() error { // others change the node's taints too
			now, err := r.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			now.Spec.Taints = slices.DeleteFunc(now.Spec.Taints, func(t corev1.Taint) bool {
				return translate.IsEphemeralTaint(t) || slices.Contains(startupTaints(), t)
			})
			now.Labels[karpenterv1.NodeInitializedLabelKey] = karpenterv1.LabelValueTrue
			delete(now.Annotations, notReadyKey)
			if now, err = r.client.CoreV1().Nodes().Update(ctx, now, metav1.UpdateOptions{}); err != nil {
				return err
			}
			now.Status.Conditions[0].Status = corev1.ConditionTrue
			_, err = r.client.CoreV1().Nodes().UpdateStatus(ctx, now, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("open node %s: %w", n.Name, err)
		}
		err = until(ctx, func() error {
			now, err := r.world.nodes.Get(n.Name)
			if err == nil && (now.Labels[karpenterv1.NodeInitializedLabelKey] == "" || !translate.NodeReady(now)) {
				err = fmt.Errorf("the watch has not shown node %s initialized", n.Name)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const claimSuffix = "-claim"

func startupTaints() []corev1.Taint {
	return []corev1.Taint{{Key: "example.com/agent", Value: "down", Effect: corev1.TaintEffectNoSchedule}}
}

// claims returns the claims of the nodes that are in flight or still starting. They are
// not in the API: only the mirror reads them.
func (r *run) claims() (claims []*karpenterv1.NodeClaim) {
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if n.Annotations[startingKey]+n.Annotations[inFlightKey] == "" {
			continue
		}
		nc := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: n.Name + claimSuffix, UID: types.UID(n.Name), Labels: maps.Clone(n.Labels)}}
		delete(nc.Labels, corev1.LabelHostname)
		nc.Spec.NodeClassRef = r.s.Pools[0].Spec.Template.Spec.NodeClassRef
		nc.Spec.StartupTaints = startupTaints()
		if n.Annotations[inFlightKey] != "" {
			nc.Spec.Taints = n.Spec.Taints
		}
		if n.Annotations[openKey] != "" {
			nc.Spec.Requirements = r.s.claimOptions(n)
			for _, q := range nc.Spec.Requirements {
				delete(nc.Labels, q.Key)
			}
			delete(nc.Labels, kwokv1alpha1.InstanceCPULabelKey)
			delete(nc.Labels, corev1.LabelArchStable)
			delete(nc.Labels, corev1.LabelOSStable)
			claims = append(claims, nc)
			continue
		}
		nc.Status.ProviderID = n.Spec.ProviderID
		nc.Status.Capacity, nc.Status.Allocatable = n.Status.Capacity, n.Status.Allocatable
		claims = append(claims, nc)
	}
	return claims
}

// nodeLabels returns the labels of a node of a pool that are the same for all
// that could be launched as this offering.
func nodeLabels(np *karpenterv1.NodePool, t *catalog.Type, o *catalog.Offering) map[string]string {
	labels := map[string]string{}
	for key, q := range t.Requirements {
		if v, ok := q.Only(); ok {
			labels[key] = v
		}
	}
	for key, q := range o.Requirements() {
		labels[key], _ = q.Only()
	}
	maps.Copy(labels, np.Spec.Template.Labels)
	labels[karpenterv1.NodePoolLabelKey] = np.Name
	labels[translate.ClassLabel(np.Spec.Template.Spec.NodeClassRef)] = class.Name
	labels[karpenterv1.NodeRegisteredLabelKey] = karpenterv1.LabelValueTrue
	labels[karpenterv1.NodeInitializedLabelKey] = karpenterv1.LabelValueTrue
	return labels
}

// launchedNode returns the Node that a launch of the pool as this offering becomes.
func launchedNode(name string, np *karpenterv1.NodePool, t *catalog.Type, o *catalog.Offering, more map[string]string) *corev1.Node {
	labels := nodeLabels(np, t, o)
	maps.Copy(labels, more)
	labels[corev1.LabelHostname] = name
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "oracle://" + name, Taints: np.Spec.Template.Spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: translate.ResourceList(t.Capacity), Allocatable: translate.ResourceList(t.Allocatable()),
		},
	}
	const attach = corev1.ResourceName(quantity.AttachPrefix + driver)
	if most, ok := n.Status.Capacity[attach]; ok {
		n.Annotations = map[string]string{attachKey: most.String()}
		delete(n.Status.Capacity, attach)
		delete(n.Status.Allocatable, attach)
	}
	return n
}
