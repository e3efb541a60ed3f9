package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

const (
	revisionLabel = "revision"
	// daemonPriority is above that of all workloads.
	daemonPriority = 2_000_000
	// ImportantPriority is that of workloads whose pods preempt those without a priority.
	ImportantPriority = 1_000
)

// Workload is what a controller keeps at a number of pods: a ReplicaSet, with RunsFor a Job, or with Stateful a
// StatefulSet.
type Workload struct {
	Name     string
	Replicas int
	// Revision is how many rollouts there were: pods of earlier ones are replaced one by one.
	Revision int
	// CPUMilli and MemoryMiB are what each pod requests.
	CPUMilli, MemoryMiB int64
	// Zone is the only one that pods may go to; empty: any. Spread has them spread evenly over zones,
	// Apart has them on different nodes.
	Zone          string
	Spread, Apart bool
	// DoNotDisrupt has pods annotated with do-not-disrupt.
	DoNotDisrupt bool
	Priority     int32
	// Claim is a PersistentVolumeClaim that all pods use; empty: none.
	Claim        string
	GraceSeconds int64
	// RunsFor is how long a pod runs at most until it has succeeded; zero: it does not end by itself.
	RunsFor time.Duration
	// Stateful has each pod have a name and a volume that outlive it.
	Stateful bool
	// Gang is how many of its pods are bound at once or not at all: they are of a PodGroup of the workload's
	// name. Zero: each is bound for itself. Together: the PodGroup says that its pods are only disrupted all at once.
	Gang     int
	Together bool
	// NodeSelector is what pods ask of Nodes beside Zone, Tolerates the taint that they tolerate; empty: none.
	NodeSelector map[string]string
	Tolerates    string
	// Described has the owner of a ReplicaSet's pods say what they are and how many there should be.
	Described bool
	// Slow is how long the creation of a pod takes besides, where there is a pace.
	Slow time.Duration

	owner    client.Object
	waking   bool // reconcile is due
	creating bool // pods are being created, at a pace
}

// Workloads stands in for the controllers of pods: ReplicaSets, StatefulSets, Jobs, DaemonSets
// and disruption budgets.
type Workloads struct {
	config  *Config
	api     *API
	volumes *Volumes
	All     []*Workload
	byName  map[string]*Workload
	daemon  *appsv1.DaemonSet
	created int
	pacer   *pacer // nil: controllers create all pods at once
}

func newWorkloads(config *Config, api *API, volumes *Volumes) *Workloads {
	l := &Workloads{config: config, api: api, volumes: volumes, byName: map[string]*Workload{}}
	api.Shelf("Pod").Index(AppLabel, func(o client.Object) []string { return []string{o.GetLabels()[AppLabel]} })
	api.Shelf("PodDisruptionBudget").Index(AppLabel, func(o client.Object) []string { return []string{appOf(o)} })
	return l
}

// SetPace has controllers create pods at a pace.
func (l *Workloads) SetPace(p Pace) { l.pacer = &pacer{Pace: p} }

// observe wakes the controller of a workload when something happens to one of its pods.
func (l *Workloads) observe(kind string, was, is client.Object) {
	o := is
	if o == nil {
		o = was
	}
	switch kind {
	case "Pod":
		l.Wake(l.byName[o.GetLabels()[AppLabel]])
	case "Node":
		if was == nil {
			l.config.soon(100*time.Millisecond, time.Second, func() { l.createDaemon(o.GetName()) })
		}
	}
}

// Wake has a workload's controller run soon. After a change of Replicas or Revision it must be called.
func (l *Workloads) Wake(a *Workload) {
	if a == nil || a.waking {
		return
	}
	a.waking = true
	least, most := 50*time.Millisecond, 500*time.Millisecond
	if l.pacer != nil {
		least, most = wakeLeast, wakeMost
	}
	l.config.soon(least, most, func() {
		a.waking = false
		l.reconcile(a)
	})
}

// Add begins a workload, with a PodDisruptionBudget unless budget is nil.
func (l *Workloads) Add(a *Workload, budget *policyv1.PodDisruptionBudgetSpec) {
	meta := metav1.ObjectMeta{Namespace: Namespace, Name: a.Name}
	a.owner = &appsv1.ReplicaSet{ObjectMeta: meta}
	if a.Stateful {
		a.owner = &appsv1.StatefulSet{ObjectMeta: meta}
	}
	_ = l.api.Create(a.owner) // names are unique
	if a.Gang > 0 {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: meta}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(a.Gang)}
		if a.Together {
			g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
		}
		_ = l.api.Create(g) // names are unique
	}
	l.All = append(l.All, a)
	l.byName[a.Name] = a
	if budget != nil {
		budget.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: a.Name}}
		_ = l.api.Create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: a.Name}, Spec: *budget})
	}
	l.Wake(a)
}

// reconcile makes and removes pods until there are as many as there should be.
func (l *Workloads) reconcile(a *Workload) {
	var active []*corev1.Pod
	readyOnes := 0
	for _, pod := range l.api.PodsOf(a.Name) {
		switch {
		case !IsActive(pod):
			l.api.Delete(pod, 0)
		case pod.DeletionTimestamp == nil:
			active = append(active, pod)
			if IsReady(pod) {
				readyOnes++
			}
		}
	}
	l.describe(a)
	l.createMissing(a, len(active))
	for i := range len(active) - a.Replicas {
		if a.Stateful {
			i = len(active) - 1 - i
		}
		l.api.Delete(active[i], GraceOf(active[i]))
	}
	if readyOnes == a.Replicas && len(active) == a.Replicas {
		l.rollOut(a, active)
	}
	if b, ok := Find[*policyv1.PodDisruptionBudget](l.api, Namespace, a.Name); ok {
		l.api.updateBudget(b, a.Replicas)
	}
}

// rollOut deletes the first pod that is of an earlier revision.
func (l *Workloads) rollOut(a *Workload, active []*corev1.Pod) {
	if a.Revision == 0 {
		return // there was none before
	}
	revision := fmt.Sprint(a.Revision)
	for _, pod := range active {
		if pod.Labels[revisionLabel] != revision {
			l.api.Delete(pod, GraceOf(pod))
			return
		}
	}
}

// RollsOut reports whether a workload still has pods of an earlier revision, or of which there are too many.
func (l *Workloads) RollsOut(a *Workload) bool {
	pods := l.api.PodsOf(a.Name)
	return len(pods) > a.Replicas || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Labels[revisionLabel] != fmt.Sprint(a.Revision) })
}

// describe writes into the owner of a workload how many pods there should be, and what they are.
func (l *Workloads) describe(a *Workload) {
	owner, is := Find[*appsv1.ReplicaSet](l.api, Namespace, a.Name)
	if !a.Described || !is || owner.Spec.Replicas != nil && int(*owner.Spec.Replicas) == a.Replicas {
		return
	}
	pod := a.pod(0)
	Edit(l.api, owner, func(o *appsv1.ReplicaSet) {
		o.Spec.Replicas = new(int32(a.Replicas))
		o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: a.Name}}
		o.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
	})
}

// createMissing makes the pods that are missing. One of a StatefulSet is made when the last of its name
// is gone.
func (l *Workloads) createMissing(a *Workload, active int) {
	if l.pacer != nil && !a.Stateful {
		if !a.creating {
			l.createPaced(a, 1)
		}
		return
	}
	if !a.Stateful {
		for range a.Replicas - active {
			l.created++
			_ = l.api.Create(a.pod(l.created)) // names are unique
		}
		return
	}
	for n := range a.Replicas {
		if p := a.pod(n); l.api.Get("Pod", Namespace, p.Name) == nil {
			l.volumes.createClaim(p.Name)
			_ = l.api.Create(p) // nobody has the name
		}
	}
}

// pod returns a new pod of a workload.
func (a *Workload) pod(n int) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: fmt.Sprintf("%s-%06d", a.Name, n),
			Labels:          map[string]string{AppLabel: a.Name, revisionLabel: fmt.Sprint(a.Revision)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: KindOf(a.owner), Name: a.Name, UID: a.owner.GetUID(), Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, TerminationGracePeriodSeconds: &a.GraceSeconds,
			Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: Requests(a.CPUMilli, a.MemoryMiB)}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if a.Priority > leastPriority {
		p.Spec.Priority = &a.Priority
	}
	if a.Stateful {
		p.Name = fmt.Sprintf("%s-%d", a.Name, n)
		a.mount(p, claimOf(p.Name))
	}
	if a.Claim != "" {
		a.mount(p, a.Claim)
	}
	if a.DoNotDisrupt {
		p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}
	}
	if a.Zone != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: a.Zone}
	}
	if a.Gang > 0 {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &a.Name}
	}
	if len(a.NodeSelector) > 0 {
		p.Spec.NodeSelector = maps.Clone(a.NodeSelector)
	}
	if a.Tolerates != "" {
		p.Spec.Tolerations = []corev1.Toleration{{Key: a.Tolerates, Operator: corev1.TolerationOpExists}}
	}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: a.Name}}
	if a.Spread {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own,
		}}
	}
	if a.Apart {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: own},
		}}}
	}
	return p
}

// mount has a pod use a claim.
func (a *Workload) mount(p *corev1.Pod, claim string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

// Requests returns cpu and memory as a container requests them.
func Requests(cpuMilli, memoryMiB int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memoryMiB<<20, resource.BinarySI),
	}
}

// AddDaemon begins a DaemonSet that has a pod on every node.
func (l *Workloads) AddDaemon() {
	labels, priority := map[string]string{"daemon": "agent"}, int32(daemonPriority)
	l.daemon = &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Priority: &priority,
				Containers: []corev1.Container{{Name: "agent", Image: "agent", Resources: corev1.ResourceRequirements{Requests: Requests(100, 128)}}},
			}},
		},
	}
	_ = l.api.Create(l.daemon) // names are unique
}

// createDaemon makes the daemon's pod for a node.
func (l *Workloads) createDaemon(node string) {
	if _, there := Find[*corev1.Node](l.api, "", node); !there || l.daemon == nil {
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
	_ = l.api.Create(p) // there is one already
}

// Percent is a share of the pods that a PodDisruptionBudget selects.
func Percent(n int) *intstr.IntOrString {
	v := intstr.FromString(fmt.Sprintf("%d%%", n))
	return &v
}

// Number is a number of the pods that a PodDisruptionBudget selects.
func Number(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}
