package scale

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	cpuSizes    = []int64{100, 250, 500, 500, 800, 1200, 1700}
	memoryRatio = []int64{1, 2, 4}
)

// pod returns the i-th pod, pending. It is as large as pods of real workloads are: two containers with
// environments, probes and mounts. Pods of a workload share what is alike, since only the controller's memory counts.
func (f *fleet) pod(i int) *corev1.Pod {
	w := i % workloads
	return newPod(w, fmt.Sprintf("%s-%05x", workloadName(w), i), i, f.born())
}

// newPod returns a pending pod of a workload.
func newPod(w int, name string, number int, born metav1.Time) *corev1.Pod {
	yes := true
	labels := appLabels(w)
	labels["app.kubernetes.io/instance"], labels["team"] = "production", namespaceOf(w)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaceOf(w), Name: name, GenerateName: workloadName(w) + "-", UID: podUID(number), CreationTimestamp: born, Labels: labels,
			Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "example.com/config-hash": fmt.Sprintf("%064x", w)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workloadName(w), UID: ownerUID(w), Controller: &yes, BlockOwnerDeletion: &yes}},
			ManagedFields:   managed(),
		},
		Spec: specs[w](),
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: born, Message: "no node has room for this pod",
		}}},
	}
}

func podUID(number int) types.UID {
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", uint32(number)*2654435761, number*40503&0xffff, number*977&0xfff, number*31&0xfff, uint64(number)))
}

// specs has the spec of each workload, made when it is first asked for.
var specs = func() (specs [workloads]func() corev1.PodSpec) {
	for w := range specs {
		specs[w] = sync.OnceValue(func() corev1.PodSpec { return specOf(w) })
	}
	return specs
}()

func specOf(w int) corev1.PodSpec {
	cpu := cpuSizes[w%len(cpuSizes)]
	memory := cpu * memoryRatio[w/len(cpuSizes)%len(memoryRatio)]
	spec := corev1.PodSpec{
		Containers:    []corev1.Container{container("app", w, 25, cpu*9/10, memory*9/10), container("proxy", w, 10, cpu/10, memory/10)},
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)), DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "app", DeprecatedServiceAccount: "app",
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), FSGroup: new(int64(1000))}, SchedulerName: corev1.DefaultSchedulerName,
		Priority: new(int32(0)), EnableServiceLinks: new(true), PreemptionPolicy: new(corev1.PreemptLowerPriority),
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			}}}},
		},
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))})
	}
	switch w % 10 {
	case 0, 1, 2: // like those that want to survive the loss of a zone
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: appLabels(w)}}}
	case 3: // and of a node
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: appLabels(w)}}}}}
	default:
	}
	return spec
}

func container(name string, w, variables int, cpuMilli, memoryMiB int64) corev1.Container {
	c := corev1.Container{
		Name: name, Image: fmt.Sprintf("example.com/platform/service-%03d:v1.2.%d", w, w), ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/app/server", "--config=/etc/app/config.yaml"},
		Ports:                  []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Resources:              corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(cpuMilli, "m")), corev1.ResourceMemory: resource.MustParse(fmt.Sprint(memoryMiB, "Mi"))}},
		VolumeMounts:           []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app", ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"}, {Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
		TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true)},
	}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}}, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3}
	c.LivenessProbe, c.ReadinessProbe = probe, probe
	for i := range variables {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SERVICE_SETTING_NUMBER_%02d", i), Value: fmt.Sprintf("value of setting %02d of workload %03d", i, w)})
	}
	return c
}

// bind makes a pending pod a running one.
func bind(p *corev1.Pod, node string, number int, at metav1.Time) {
	p.Spec.NodeName = node
	ip := fmt.Sprintf("10.%d.%d.%d", number/65536%256, number/256%256, number%256)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: "10.1.2.3", HostIPs: []corev1.HostIP{{IP: "10.1.2.3"}}, StartTime: &at}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: new(true), Image: c.Image, ImageID: c.Image + "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", ContainerID: fmt.Sprintf("containerd://%064x", number),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		})
	}
}

// arrived returns a pod that has just been created.
func arrived(number int, now time.Time) *corev1.Pod {
	w := number % workloads
	return newPod(w, fmt.Sprintf("%s-new-%05x", workloadName(w), number), 1_000_000+number, metav1.NewTime(now.UTC().Truncate(time.Second)))
}

// large makes a pod so large that no node of the fleet has room for it.
func large(p *corev1.Pod) *corev1.Pod {
	p.Spec.Containers = slices.Clone(p.Spec.Containers)
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("14")}
	return p
}
