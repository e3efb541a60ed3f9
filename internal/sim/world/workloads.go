package world

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

const (
	appLabel      = "app"
	revisionLabel = "revision"
	namespace     = "default"
	// daemonPriority is above everybody else's, important that of workloads that drive others out.
	daemonPriority, important = 2_000_000, 1_000
)

// app is a Deployment, or with runs a Job, or with keeps a StatefulSet: it keeps its pods at
// their number.
type app struct {
	name      string
	replicas  int
	revision  int
	cpuMilli  int64
	memoryMiB int64
	zone      string // empty: any
	spread    bool   // over zones
	apart     bool   // one a node
	held      bool   // do-not-disrupt
	priority  int32
	claim     string // that all of its pods use; empty: none
	grace     int64
	runs      time.Duration // zero: for ever
	keeps     bool          // each pod has a name and a volume that outlive it
	owner     client.Object
	stirred   bool
}

// workloads stands in for the controllers of pods: ReplicaSets, StatefulSets, Jobs, DaemonSets
// and disruption budgets.
type workloads struct {
	c      *Cluster
	apps   []*app
	of     map[string]*app
	daemon *appsv1.DaemonSet
	made   int
}

func newWorkloads(c *Cluster) *workloads {
	l := &workloads{c: c, of: map[string]*app{}}
	pods := c.api.shelf("Pod")
	pods.indexes[appLabel] = byOne(func(o client.Object) string { return o.GetLabels()[appLabel] })
	c.api.shelf("PodDisruptionBudget").indexes[appLabel] = byOne(appOf)
	c.api.watchers = append(c.api.watchers, l.hear)
	return l
}

// hear has the controller of a pod look when something happened to one of its pods.
func (l *workloads) hear(kind string, was, is client.Object) {
	o := is
	if o == nil {
		o = was
	}
	switch kind {
	case "Pod":
		l.stir(l.of[o.GetLabels()[appLabel]])
	case "Node":
		if was == nil {
			l.c.soon(100*time.Millisecond, time.Second, func() { l.daemons(o.GetName()) })
		}
	}
}

func (l *workloads) stir(a *app) {
	if a == nil || a.stirred {
		return
	}
	a.stirred = true
	l.c.soon(50*time.Millisecond, 500*time.Millisecond, func() {
		a.stirred = false
		l.keep(a)
	})
}

// add begins a workload, with a disruption budget unless most is empty.
func (l *workloads) add(a *app, budget *policyv1.PodDisruptionBudgetSpec) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: a.name}
	a.owner = &appsv1.ReplicaSet{ObjectMeta: meta}
	if a.keeps {
		a.owner = &appsv1.StatefulSet{ObjectMeta: meta}
	}
	_ = l.c.api.create(a.owner) // names are unique
	l.apps = append(l.apps, a)
	l.of[a.name] = a
	if budget != nil {
		budget.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: a.name}}
		_ = l.c.api.create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.name}, Spec: *budget})
	}
	l.stir(a)
}

// keep makes and removes pods until there are as many as there should be.
func (l *workloads) keep(a *app) {
	var active []*corev1.Pod
	readyOnes := 0
	for _, pod := range l.c.api.podsOf(a.name) {
		switch {
		case !isActive(pod):
			l.c.api.remove(pod, 0)
		case pod.DeletionTimestamp == nil:
			active = append(active, pod)
			if ready(pod) {
				readyOnes++
			}
		}
	}
	l.fill(a, len(active))
	for i := range len(active) - a.replicas {
		if a.keeps {
			i = len(active) - 1 - i
		}
		l.c.api.remove(active[i], graceOf(active[i]))
	}
	if readyOnes == a.replicas && len(active) == a.replicas {
		l.renew(a, active)
	}
	if b, ok := find[*policyv1.PodDisruptionBudget](l.c.api, namespace, a.name); ok {
		l.c.api.countBudget(b, a.replicas)
	}
}

// renew has the first pod go that is of an earlier revision.
func (l *workloads) renew(a *app, active []*corev1.Pod) {
	if a.revision == 0 {
		return // there was none before
	}
	revision := fmt.Sprint(a.revision)
	for _, pod := range active {
		if pod.Labels[revisionLabel] != revision {
			l.c.api.remove(pod, graceOf(pod))
			return
		}
	}
}

// fill makes the pods that are missing. One of a StatefulSet is made when the last of its name
// is gone.
func (l *workloads) fill(a *app, active int) {
	if !a.keeps {
		for range a.replicas - active {
			l.made++
			_ = l.c.api.create(a.pod(l.made)) // names are unique
		}
		return
	}
	for n := range a.replicas {
		if p := a.pod(n); l.c.api.get("Pod", namespace, p.Name) == nil {
			l.c.volumes.ask(p.Name)
			_ = l.c.api.create(p) // nobody has the name
		}
	}
}

// pod returns a new pod of a workload.
func (a *app) pod(n int) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%06d", a.name, n),
			Labels:          map[string]string{appLabel: a.name, revisionLabel: fmt.Sprint(a.revision)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kindOf(a.owner), Name: a.name, UID: a.owner.GetUID(), Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, TerminationGracePeriodSeconds: &a.grace,
			Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: requests(a.cpuMilli, a.memoryMiB)}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if a.priority > leastPriority {
		p.Spec.Priority = &a.priority
	}
	if a.keeps {
		p.Name = fmt.Sprintf("%s-%d", a.name, n)
		a.mount(p, claimOf(p.Name))
	}
	if a.claim != "" {
		a.mount(p, a.claim)
	}
	if a.held {
		p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}
	}
	if a.zone != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: a.zone}
	}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: a.name}}
	if a.spread {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own,
		}}
	}
	if a.apart {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: own},
		}}}
	}
	return p
}

// mount has a pod use a claim.
func (a *app) mount(p *corev1.Pod, claim string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

func requests(cpuMilli, memoryMiB int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memoryMiB<<20, resource.BinarySI),
	}
}

// addDaemon begins a DaemonSet that has a pod on every node.
func (l *workloads) addDaemon() {
	labels, priority := map[string]string{"daemon": "agent"}, int32(daemonPriority)
	l.daemon = &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Priority: &priority,
				Containers: []corev1.Container{{Name: "agent", Image: "agent", Resources: corev1.ResourceRequirements{Requests: requests(100, 128)}}},
			}},
		},
	}
	_ = l.c.api.create(l.daemon) // names are unique
}

// daemons makes the daemon's pod for a node.
func (l *workloads) daemons(node string) {
	if _, there := find[*corev1.Node](l.c.api, "", node); !there || l.daemon == nil {
		return
	}
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "agent-" + node, Labels: l.daemon.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: l.daemon.UID, Controller: &yes}},
		},
		Spec: *l.daemon.Spec.Template.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	p.Spec.NodeName = node
	_ = l.c.api.create(p) // there is one already
}

// podsOf returns the pods of a workload, sorted by name.
func (a *api) podsOf(name string) []*corev1.Pod { return a.pods(appLabel, name) }

// podsOn returns the pods that are bound to a node, sorted by name.
func (a *api) podsOn(node string) []*corev1.Pod { return a.pods(nodeIndex, node) }

func (a *api) pods(field, value string) []*corev1.Pod {
	found, _ := a.shelf("Pod").find(field, value)
	pods := make([]*corev1.Pod, len(found))
	for i, o := range found {
		pods[i] = o.(*corev1.Pod)
	}
	return pods
}

// percent is a share in a budget.
func percent(n int) *intstr.IntOrString {
	v := intstr.FromString(fmt.Sprintf("%d%%", n))
	return &v
}

func number(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}
