package translate

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/resource"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// PodRef names a pod for good.
func PodRef(p *corev1.Pod) cluster.PodRef {
	return cluster.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// PodRequests returns what a pod asks for as kube-scheduler counts it, itself included. Nothing of it
// is below zero: a pod gives no room to others.
func PodRequests(p *corev1.Pod) quantity.List {
	l := Quantities(resource.PodRequests(p, resource.PodResourcesOptions{UseStatusResources: true}))
	for name, amount := range l {
		l[name] = max(0, amount)
	}
	l[quantity.Pods] = 1
	return l
}

// Unwanted reports whether a pod says itself that it wants no node of ours.
func Unwanted(p *corev1.Pod) bool {
	for _, term := range requiredTerms(p) {
		for _, e := range term.MatchExpressions {
			if e.Key == karpenterv1.NodePoolLabelKey && e.Operator == corev1.NodeSelectorOpDoesNotExist {
				return true
			}
		}
	}
	return false
}

// ClaimsDevices reports whether kube-scheduler allocates devices to the pod (dynamic resource
// allocation). Unless ResourceClaims are watched, it is not known which node would have such devices,
// so none is launched for the pod. None that it runs on is removed by choice.
func ClaimsDevices(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || p.Status.ExtendedResourceClaimStatus != nil
}

// ConstraintsKey is equal for pods that are alike to the scheduler.
func ConstraintsKey(p *corev1.Pod) string {
	key := struct {
		Requests    quantity.List
		Selector    map[string]string
		Affinity    *corev1.Affinity
		Spread      []corev1.TopologySpreadConstraint
		Tolerations []corev1.Toleration
		Ports       []cluster.HostPort
		Namespace   string
		Labels      map[string]string
		Devices     bool
	}{
		PodRequests(p), p.Spec.NodeSelector, p.Spec.Affinity, p.Spec.TopologySpreadConstraints, p.Spec.Tolerations,
		HostPorts(p), p.Namespace, selectable(p.Labels), ClaimsDevices(p),
	}
	b, err := json.Marshal(key)
	if err != nil { // none of these types can fail
		return string(p.UID)
	}
	return string(b)
}

// SameConstraints reports whether two pods, or two states of one, surely have the same constraints. It takes little time
// if they share memory, as PodTrimmer has them do.
func SameConstraints(a, b *corev1.Pod) bool {
	if a.Namespace != b.Namespace || ClaimsDevices(a) || ClaimsDevices(b) || isInPlaceResized(a) || isInPlaceResized(b) || !maps.Equal(a.Labels, b.Labels) {
		return false
	}
	compared := specPairs.Get().(*[2]corev1.PodSpec)
	defer specPairs.Put(compared)
	compared[0], compared[1] = a.Spec, b.Spec
	compared[0].NodeName, compared[1].NodeName = "", ""
	return reflect.DeepEqual(&compared[0], &compared[1])
}

// specPairs are where specs are compared: a pair of them has 2 kB.
var specPairs = sync.Pool{New: func() any { return new([2]corev1.PodSpec) }} //nolint:gochecknoglobals // memory, not state

// isInPlaceResized reports whether the status of a pod says something of its resources.
func isInPlaceResized(p *corev1.Pod) bool {
	return len(p.Status.ContainerStatuses)+len(p.Status.InitContainerStatuses) > 0 || p.Status.Resources != nil || p.Status.AllocatedResources != nil ||
		resource.IsPodResizeInfeasible(p) || resource.IsPodResizeDeferred(p)
}

// PodConstraints returns everything that decides where a pod can go. restricted are the label
// domains that users may not ask for.
func PodConstraints(p *corev1.Pod, restricted Vocabulary) *cluster.Constraints {
	sh := &cluster.Constraints{
		Requests: PodRequests(p), Tolerations: Tolerations(p.Spec.Tolerations), Ports: HostPorts(p),
		Namespace: p.Namespace, Labels: selectable(p.Labels),
	}
	problems := addRules(sh, p)
	if ClaimsDevices(p) && !restricted.Devices {
		problems = append(problems, "the pod needs ResourceClaims, and no node is launched or removed for a pod that does")
	}
	selector := label.Requirements{}
	for key, value := range p.Spec.NodeSelector {
		key = NormalKey(key)
		problems = append(problems, restricted.problem("nodeSelector", key, []string{value})...)
		selector.Add(key, label.In(value))
	}
	terms := requiredTerms(p)
	for _, term := range terms {
		if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue // an empty term matches no node
		}
		r, bad := termRequirements(term, restricted)
		problems = append(problems, bad...)
		sh.Terms = append(sh.Terms, selector.Intersect(r))
	}
	if len(sh.Terms) == 0 {
		sh.Terms = []label.Requirements{selector}
		if len(terms) > 0 {
			problems = append(problems, "required node affinity: an empty term matches no node")
		}
	}
	slices.Sort(problems)
	sh.Invalid = strings.Join(slices.Compact(problems), "; ")
	return sh
}

// selectable returns the labels without those that are different for every pod of a
// workload: with them no two pods would be alike. A rule that selects by one of them
// selects nothing here.
func selectable(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		switch k {
		case appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, "batch.kubernetes.io/job-completion-index":
		default:
			out[k] = v
		}
	}
	return out
}

func requiredTerms(p *corev1.Pod) []corev1.NodeSelectorTerm {
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func termRequirements(term corev1.NodeSelectorTerm, restricted Vocabulary) (r label.Requirements, problems []string) {
	r = label.Requirements{}
	if len(term.MatchFields) > 0 {
		problems = append(problems, "required node affinity: matchFields names a single node")
	}
	for _, e := range term.MatchExpressions {
		key := NormalKey(e.Key)
		problems = append(problems, restricted.problem("required node affinity", key, e.Values)...)
		q, err := label.Parse(label.Operator(e.Operator), e.Values)
		if err != nil {
			problems = append(problems, fmt.Sprintf("required node affinity: %s: %s", key, err))
			continue
		}
		r.Add(key, q)
	}
	return r, problems
}

// HostPorts returns the host ports that a pod takes on its node, those of sidecars included.
func HostPorts(p *corev1.Pod) []cluster.HostPort {
	var ports []cluster.HostPort
	take := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.HostPort == 0 {
				continue
			}
			protocol := string(port.Protocol)
			if protocol == "" {
				protocol = string(corev1.ProtocolTCP)
			}
			ports = append(ports, cluster.HostPort{IP: port.HostIP, Protocol: protocol, Port: port.HostPort})
		}
	}
	for i := range p.Spec.Containers {
		take(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			take(c)
		}
	}
	return ports
}

// Vocabulary is the label keys that mean something to the core or the provider: which a
// pool leaves open when it does not mention them, and which users may not ask for.
type Vocabulary struct {
	WellKnown         map[string]bool
	RestrictedDomains []string
	// Devices: what pods claim of devices is worked out elsewhere, and is no reason to refuse them.
	Devices bool
}

// NewVocabulary returns the core's vocabulary with a provider's added.
func NewVocabulary(wellKnown, restrictedDomains []string) Vocabulary {
	v := Vocabulary{WellKnown: map[string]bool{
		karpenterv1.NodePoolLabelKey: true, karpenterv1.CapacityTypeLabelKey: true,
		corev1.LabelTopologyZone: true, corev1.LabelTopologyRegion: true, corev1.LabelInstanceTypeStable: true,
		corev1.LabelArchStable: true, corev1.LabelOSStable: true, corev1.LabelWindowsBuild: true,
	}, RestrictedDomains: append([]string{karpenterv1.Group}, restrictedDomains...)}
	for _, key := range wellKnown {
		v.WellKnown[key] = true
	}
	return v
}

// Restricted reports whether users may not set or ask for the key.
func (v Vocabulary) Restricted(key string) bool {
	if v.WellKnown[key] {
		return false
	}
	domain, _, _ := strings.Cut(key, "/")
	return key == corev1.LabelHostname || slices.ContainsFunc(v.RestrictedDomains, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}

func (v Vocabulary) problem(where, key string, values []string) (problems []string) {
	if v.Restricted(key) {
		problems = append(problems, fmt.Sprintf("%s: label %s is restricted", where, key))
	}
	for _, value := range values {
		if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
			problems = append(problems, fmt.Sprintf("%s: %s: %q is no label value", where, key, value))
		}
	}
	return problems
}
