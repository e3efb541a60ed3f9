package world

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// launch starts an instance on the best choice that is in stock.
func (c *cloudSim) launch(r *cloud.LaunchRequest) (cloud.Instance, error) {
	if had := c.byToken[r.Token]; had != nil {
		return had.Instance, nil
	}
	if c.w.late.failures {
		return c.accept(r).Instance, nil
	}
	var short []catalog.Place
	for _, choice := range r.Choices {
		place := catalog.Place{Type: choice.Type.Name, Zone: choice.Offering.Zone, CapacityType: choice.Offering.CapacityType}
		left, limited := c.stock[place]
		if limited && left <= 0 {
			if !slices.Contains(short, place) {
				short = append(short, place)
			}
			continue
		}
		if limited {
			c.stock[place]--
		}
		return c.boot(r, choice, place, false).Instance, nil
	}
	c.w.count("launches without capacity")
	return cloud.Instance{}, &cloud.Failure{Kind: cloud.NoCapacity, Message: "nothing in stock", Short: short}
}

// accept takes the best choice, whether or not it is in stock.
func (c *cloudSim) accept(r *cloud.LaunchRequest) *instance {
	choice := r.Choices[0]
	place := catalog.Place{Type: choice.Type.Name, Zone: choice.Offering.Zone, CapacityType: choice.Offering.CapacityType}
	left, limited := c.stock[place]
	isDoomed := limited && left <= 0
	if limited && !isDoomed {
		c.stock[place]--
	}
	return c.boot(r, choice, place, isDoomed)
}

func (c *cloudSim) boot(r *cloud.LaunchRequest, choice catalog.Choice, place catalog.Place, isDoomed bool) *instance {
	n := c.made
	c.made++
	facts := map[string]string{corev1.LabelTopologyZone: place.Zone}
	for name, requirement := range choice.Type.Requirements {
		if value, ok := requirement.Only(); ok {
			facts[name] = value
		}
	}
	for name, requirement := range choice.Offering.Requirements() {
		facts[name], _ = requirement.Only()
	}
	i := &instance{
		Instance: cloud.Instance{
			ID: fmt.Sprintf("world:///%s/i-%06d", place.Zone, n), Token: r.Token, Claim: r.Claim, ImageID: fmt.Sprintf("image-%d", c.image),
			Labels: facts, Capacity: choice.Type.Capacity, Allocatable: choice.Type.Allocatable(), Created: c.w.at.Truncate(time.Second),
		},
		place: place, price: choice.Offering.Price(), launched: c.w.at, image: c.image, node: fmt.Sprintf("n-%06d", n), ordered: *r,
	}
	c.all = append(c.all, i)
	c.byID[i.ID], c.byToken[i.Token], c.byNode[i.node] = i, i, i
	c.w.note("cloud launched %s for %s: %s %s %s", i.ID, r.Claim, place.Type, place.Zone, place.CapacityType)
	c.w.count("instances")
	c.w.arrivals.launches()
	i.isDoomed = isDoomed
	c.w.checks.launched(i)
	c.w.late.launched(i)
	c.w.late.boots(i)
	return i
}

// joins has an instance join some time later, if it does.
func (c *cloudSim) joins(i *instance) {
	if wait, joins := c.w.chaos.joining(); joins {
		c.w.after(wait, func() { c.join(i) })
	}
}

// join makes the instance's Node, which is ready a little later.
func (c *cloudSim) join(i *instance) {
	if i.state != booting {
		return
	}
	i.state = joined
	labels := maps.Clone(i.ordered.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, i.Labels)
	labels[corev1.LabelHostname] = i.node
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.node, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: i.ID, Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{BootID: i.bootID()},
			Capacity: translate.ResourceList(i.Capacity), Allocatable: translate.ResourceList(i.Allocatable),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: cluster.WireTime(c.w.at)}},
		},
	}
	for _, t := range i.ordered.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	if err := c.w.api.Create(node); err != nil {
		panic(err) // names are unique
	}
	c.w.after(c.w.between(2*time.Second, 8*time.Second), func() {
		if now, ok := cluster.Find[*corev1.Node](c.w.api, "", i.node); ok && c.kubeletUp(i.node) {
			c.w.cluster.Kubelets.SetReady(now, true)
		}
	})
}

// stop begins the end of an instance.
func (c *cloudSim) stop(i *instance, why string) {
	if i.state >= stopping {
		return
	}
	c.w.note("cloud stops %s: %s", i.ID, why)
	c.w.arrivals.stops(i)
	i.state, i.Terminating = stopping, true
	if i.silentSince.IsZero() {
		i.silentSince = c.w.at
	}
	c.w.after(c.w.between(3*time.Second, 40*time.Second), func() {
		i.state = gone
		if left, limited := c.stock[i.place]; limited && !i.isDoomed {
			c.stock[i.place] = left + 1
		}
		delete(c.byID, i.ID)
		delete(c.byID, provisionalPrefix+i.node)
		c.all = slices.DeleteFunc(c.all, func(o *instance) bool { return o == i })
		c.w.note("cloud ended %s", i.ID)
	})
}

// Name returns what metrics call it.
func (s *provider) Name() string { return "world" }

// ClassKinds returns KWOKNodeClass.
func (s *provider) ClassKinds() []schema.GroupVersionKind { return s.cloud.words.ClassKinds() }

// Vocabulary returns the labels of the instance types.
func (s *provider) Vocabulary() cloud.Vocabulary { return s.cloud.words.Vocabulary() }

// RepairPolicies says that a Node that is not ready for ten minutes is broken, and in some worlds which is to be
// rebooted.
func (s *provider) RepairPolicies() []cloud.RepairPolicy {
	return append(s.cloud.words.RepairPolicies(), s.cloud.w.reboots.policies...)
}

// Types returns what is on choice.
func (s *provider) Types(_ context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	if s.p.mayAct() != nil || s.cloud.w.chaos.cloudFails() {
		return nil, errCloud
	}
	if s.cloud.w.api.Get(ref.Kind, "", ref.Name) == nil {
		return nil, cloud.ErrNotFound
	}
	return s.cloud.types, nil
}

// Launch starts instances.
func (s *provider) Launch(_ context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	w := s.cloud.w
	results := make([]cloud.LaunchResult, len(requests))
	for i := range requests {
		r := requests[i]
		if m := w.opts.Mutant; m != nil && m.Launch != nil {
			m.Launch(w, &r)
		}
		switch fault := w.chaos.onLaunch(); {
		case s.p.mayAct() != nil:
			results[i].Err = errGone
		case fault == LaunchRefused:
			results[i].Err = errCloud
		case fault == LaunchUnready:
			results[i].Err = &cloud.Failure{Kind: cloud.ClassNotReady, Message: "the class is being looked at"}
		default:
			w.checks.acts(s.p, "launch")
			results[i].Instance, results[i].Err = s.cloud.launch(&r)
			if m := w.opts.Mutant; m != nil && m.Answer != nil {
				m.Answer(&results[i].Instance)
			}
			if fault == LaunchLost && results[i].Err == nil {
				results[i] = cloud.LaunchResult{Err: errCloud}
			}
			if fault == CrashAfter {
				s.p.crash()
			}
		}
	}
	return results
}

// Terminate begins the end of an instance.
func (s *provider) Terminate(_ context.Context, id string) error {
	w := s.cloud.w
	if s.p.mayAct() != nil || w.chaos.cloudFails() {
		return errCloud
	}
	if m := w.opts.Mutant; m != nil && m.Terminate != nil {
		if done, err := m.Terminate(id); done {
			return err
		}
	}
	i := s.cloud.byID[id]
	if i == nil {
		return cloud.ErrNotFound
	}
	w.note("product terminates %s", id)
	w.checks.acts(s.p, "termination")
	w.checks.terminates(i)
	s.cloud.stop(i, "asked to")
	if w.chaos.cloudFails() { // after it was done
		return errCloud
	}
	return nil
}

// Get returns an instance.
func (s *provider) Get(_ context.Context, id string) (cloud.Instance, error) {
	if s.p.mayAct() != nil || s.cloud.w.chaos.cloudFails() {
		return cloud.Instance{}, errCloud
	}
	i := s.cloud.byID[id]
	if i == nil || i.state >= stopping {
		return cloud.Instance{}, cloud.ErrNotFound
	}
	got := i.Instance
	if m := s.cloud.w.opts.Mutant; m != nil && m.Answer != nil {
		m.Answer(&got)
	}
	return got, nil
}

// List returns all instances.
func (s *provider) List(context.Context) ([]cloud.Instance, error) {
	w := s.cloud.w
	if s.p.mayAct() != nil || w.chaos.cloudFails() {
		return nil, errCloud
	}
	var list []cloud.Instance
	for _, i := range s.cloud.all {
		list = append(list, i.Instance)
	}
	if m := w.opts.Mutant; m != nil && m.List != nil {
		list = m.List(list)
	}
	return list, nil
}

// Drifted reports whether an instance has an old image.
func (s *provider) Drifted(_ context.Context, _ cloud.ClassRef, id string) (string, error) {
	if s.p.mayAct() != nil {
		return "", errCloud
	}
	i := s.cloud.byID[id]
	if i == nil {
		return "", cloud.ErrNotFound
	}
	if i.image != s.cloud.image {
		return "ImageDrifted", nil
	}
	return "", nil
}
