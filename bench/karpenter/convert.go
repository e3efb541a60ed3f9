package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// groupLabel is an annotation of pods: the index of their group.
const groupLabel = "bench/group"

// converted is a scenario in Karpenter's words.
type converted struct {
	scenario *scenario.Scenario
	pools    []*karpenterv1.NodePool // most weight first
	types    map[string][]*cloudprovider.InstanceType
	daemons  []*corev1.Pod
}

func convert(s *scenario.Scenario) *converted {
	c := &converted{scenario: s, types: map[string][]*cloudprovider.InstanceType{}}
	keys := typeKeys(s)
	karpenterv1.WellKnownLabels.Insert(keys...)
	var all []*cloudprovider.InstanceType
	for i := range s.InstanceTypes {
		all = append(all, instanceType(&s.InstanceTypes[i], keys))
	}
	for i := range s.NodePools {
		c.pools = append(c.pools, nodePool(&s.NodePools[i]))
		c.types[s.NodePools[i].Name] = all
	}
	slices.SortStableFunc(c.pools, func(a, b *karpenterv1.NodePool) int {
		return cmp.Or(cmp.Compare(*b.Spec.Weight, *a.Spec.Weight), cmp.Compare(a.Name, b.Name))
	})
	for _, d := range s.DaemonSets {
		c.daemons = append(c.daemons, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: d.Name}, Spec: podSpec(d.CPU, d.Mem, nil)})
	}
	return c
}

// typeKeys returns the labels that types have or lack, sorted.
func typeKeys(s *scenario.Scenario) []string {
	var keys []string
	for i := range s.InstanceTypes {
		for _, r := range s.InstanceTypes[i].Reqs {
			keys = append(keys, r.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func instanceType(t *scenario.InstanceType, keys []string) *cloudprovider.InstanceType {
	out := &cloudprovider.InstanceType{
		Name:         t.Name,
		Requirements: scheduling.NewRequirements(scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, t.Name)),
		Capacity:     resources(t.CPU, t.Mem, t.Ext),
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: resources(t.ReservedCPU, t.ReservedMem, nil)},
	}
	out.Capacity[corev1.ResourcePods] = *resource.NewQuantity(t.Pods, resource.DecimalSI)
	has := map[string]bool{}
	for _, r := range t.Reqs {
		has[r.Key] = true
		out.Requirements.Add(scheduling.NewRequirement(r.Key, corev1.NodeSelectorOperator(r.Op), r.Values...))
	}
	for _, key := range keys {
		if !has[key] {
			out.Requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	var zones, capacityTypes []string
	for _, o := range t.Offerings {
		if !o.Unavailable {
			zones, capacityTypes = append(zones, o.Zone), append(capacityTypes, o.CapacityType)
		}
		out.Offerings = append(out.Offerings, &cloudprovider.Offering{Price: o.Price, Available: !o.Unavailable, Requirements: scheduling.NewLabelRequirements(map[string]string{
			corev1.LabelTopologyZone: o.Zone, karpenterv1.CapacityTypeLabelKey: o.CapacityType,
		})})
	}
	out.Requirements.Add(
		scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zones...),
		scheduling.NewRequirement(karpenterv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, capacityTypes...))
	return out
}

func nodePool(p *scenario.NodePool) *karpenterv1.NodePool {
	out := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: types.UID("pool-" + p.Name)}}
	out.Spec.Weight = &p.Weight
	out.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: v1alpha1.Group, Kind: "TestNodeClass", Name: "default"}
	disruptable(out)
	for _, r := range p.Requirements {
		out.Spec.Template.Spec.Requirements = append(out.Spec.Template.Spec.Requirements, karpenterv1.NodeSelectorRequirementWithMinValues{
			Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Op), Values: r.Values,
		})
	}
	if p.LimitCPU > 0 || p.LimitMem > 0 {
		out.Spec.Limits = karpenterv1.Limits{}
	}
	if p.LimitCPU > 0 {
		out.Spec.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(p.LimitCPU, resource.DecimalSI)
	}
	if p.LimitMem > 0 {
		out.Spec.Limits[corev1.ResourceMemory] = *resource.NewQuantity(p.LimitMem<<20, resource.BinarySI)
	}
	return out
}

// pods returns the pending pods, new ones with each call: a solve changes them.
func (c *converted) pods() []*corev1.Pod {
	var out []*corev1.Pod
	for g := range c.scenario.PodGroups {
		group := &c.scenario.PodGroups[g]
		for i := range group.N {
			out = append(out, pod(group, g, i))
		}
	}
	return out
}

// pod returns the pending pod number i of group g.
func pod(group *scenario.PodGroup, g, i int) *corev1.Pod {
	name := fmt.Sprintf("%06d-%06d", g, i)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name),
			Labels: group.Labels, Annotations: map[string]string{groupLabel: strconv.Itoa(g)},
		},
		Spec:   podSpec(group.CPU, group.Mem, group.Ext),
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if group.DoNotDisrupt {
		p.Annotations[karpenterv1.DoNotDisruptAnnotationKey] = "true"
	}
	p.Spec.NodeSelector = group.NodeSelector
	constrain(&p.Spec, group)
	return p
}

// budgets returns the disruption budgets of groups that have one.
func (c *converted) budgets() []policyv1.PodDisruptionBudget {
	var out []policyv1.PodDisruptionBudget
	for g := range c.scenario.PodGroups {
		group := &c.scenario.PodGroups[g]
		if group.DisruptionsAllowed == nil {
			continue
		}
		out = append(out, policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strconv.Itoa(g)},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: group.Labels}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: *group.DisruptionsAllowed},
		})
	}
	return out
}

// constrain gives a pod the rules of its group.
func constrain(spec *corev1.PodSpec, group *scenario.PodGroup) {
	for _, sp := range group.Spread {
		when := corev1.DoNotSchedule
		if sp.Soft {
			when = corev1.ScheduleAnyway
		}
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: sp.MaxSkew, TopologyKey: sp.Key, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: sp.MatchLabels},
		})
	}
	if len(group.Affinity)+len(group.AntiAffinity) == 0 {
		return
	}
	spec.Affinity = &corev1.Affinity{}
	if len(group.Affinity) > 0 {
		spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(group.Affinity)}
	}
	if len(group.AntiAffinity) > 0 {
		spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(group.AntiAffinity)}
	}
}

func terms(from []scenario.Term) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	for _, t := range from {
		out = append(out, corev1.PodAffinityTerm{TopologyKey: t.Key, LabelSelector: &metav1.LabelSelector{MatchLabels: t.MatchLabels}})
	}
	return out
}

func podSpec(cpu, mem int64, ext map[string]int64) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: resources(cpu, mem, ext), Limits: extended(ext)}}}}
}

func extended(ext map[string]int64) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, n := range ext {
		out[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return out
}

// resources returns millicores and MiB as a list, with extended resources.
func resources(cpu, mem int64, ext map[string]int64) corev1.ResourceList {
	out := extended(ext)
	out[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
	out[corev1.ResourceMemory] = *resource.NewQuantity(mem<<20, resource.BinarySI)
	return out
}
