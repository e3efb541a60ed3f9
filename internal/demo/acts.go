package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/examples"
)

const (
	// actPatience bounds each step: some ten times what it takes on an idle machine.
	actPatience = 2 * time.Minute
	// component is the name under which the controller writes events.
	component = "karpenter"

	workload, refused = "web", "nowhere"
)

// install applies the definitions, the node class and the pool.
func (s *stage) install(ctx context.Context) error {
	definitions, err := Manifests(crd.Files())
	if err != nil {
		return err
	}
	if err := Apply(ctx, s.client, definitions...); err != nil {
		return err
	}
	s.tell.line("apply", "the definitions of %s", kinds(definitions))
	return s.apply(ctx, "KWOKNodeClass", "NodePool")
}

// kinds lists what custom resource definitions define.
func kinds(definitions []*unstructured.Unstructured) string {
	var names []string
	for _, d := range definitions {
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
		names = append(names, kind)
	}
	return strings.Join(names, ", ")
}

// apply applies the examples of some kinds.
func (s *stage) apply(ctx context.Context, kinds ...string) error {
	all, err := Manifests(examples.Files())
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		for _, o := range all {
			if o.GetKind() != kind {
				continue
			}
			if kind == "Deployment" {
				if err := unstructured.SetNestedField(o.Object, int64(s.opts.Pods), "spec", "replicas"); err != nil {
					return fmt.Errorf("set replicas of %s: %w", o.GetName(), err)
				}
			}
			if err := Apply(ctx, s.client, o); err != nil {
				return err
			}
			s.tell.line("apply", "%s %s, as in examples/", kind, o.GetName())
		}
	}
	return nil
}

// play is the story: up, a refusal, down.
func (s *stage) play(ctx context.Context) error {
	if err := s.await(ctx, "the NodePool is Ready", actPatience, func(now *state) bool { return now.poolsReady }); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{s.up, s.refuse, s.down} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// up creates the pods and waits until all of them run on machines of ours.
func (s *stage) up(ctx context.Context) error {
	s.heading("1. %d pods, and no machine for them", s.opts.Pods)
	began := s.tell.elapsed()
	if err := s.apply(ctx, "Deployment"); err != nil {
		return err
	}
	var last *state
	err := s.await(ctx, fmt.Sprintf("%d pods run", s.opts.Pods), actPatience, func(now *state) bool {
		last = now
		return now.running == s.opts.Pods && now.pending+now.bound == 0
	})
	if err != nil {
		return err
	}
	if last.elsewhere > 0 || last.claimed == 0 {
		return fmt.Errorf("%d of the pods run on nodes that Dovetail did not launch", last.elsewhere)
	}
	s.tell.line("done", "%d pods Running %.1f s after they were created, %.1f s after the start of the demo",
		s.opts.Pods, (s.tell.elapsed() - began).Seconds(), s.tell.elapsed().Seconds())
	return nil
}

// refuse creates a pod that nothing can take and waits for an event that says why.
func (s *stage) refuse(ctx context.Context) error {
	s.heading("2. a pod that no machine can take: it is told why")
	if err := s.apply(ctx, "Pod"); err != nil {
		return err
	}
	said := ""
	err := s.await(ctx, "the refused pod has an event that says why", actPatience, func(*state) bool {
		said = s.verdict(ctx)
		return said != ""
	})
	if err != nil {
		return err
	}
	s.tell.line("event", "on pod %s: %s", refused, said)
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = namespace, refused
	if err := s.client.Delete(ctx, pod); err != nil {
		return fmt.Errorf("delete pod %s: %w", refused, err)
	}
	return s.await(ctx, "the refused pod is gone", actPatience, func(now *state) bool { return now.pending == 0 })
}

// verdict returns what the controller said about the refused pod; empty: nothing yet.
func (s *stage) verdict(ctx context.Context) string {
	var events corev1.EventList
	if err := s.client.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": refused}); err != nil {
		return "" // asked again soon
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Source.Component == component && e.Reason == "FailedScheduling" {
			return e.Reason + ": " + e.Message
		}
	}
	return ""
}

// down takes the pods away and waits until no machine of ours is left.
func (s *stage) down(ctx context.Context) error {
	s.heading("3. no pods any more: the machines leave when they have been empty for some seconds")
	began := s.tell.elapsed()
	d := &unstructured.Unstructured{}
	d.SetAPIVersion("apps/v1")
	d.SetKind("Deployment")
	d.SetNamespace(namespace)
	d.SetName(workload)
	if err := s.client.Patch(ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))); err != nil {
		return fmt.Errorf("scale %s to 0: %w", workload, err)
	}
	s.tell.line("scale", "Deployment %s to 0", workload)
	gone := func(now *state) bool { return now.pending+now.bound+now.running == 0 && now.empty() }
	if err := s.await(ctx, "all nodes have left", actPatience, gone); err != nil {
		return err
	}
	s.tell.line("done", "the last node left %.1f s after the scale-down", (s.tell.elapsed() - began).Seconds())
	return nil
}

// linger tells on until the context ends.
func (s *stage) linger(ctx context.Context, kubeconfig string) error {
	s.heading(`Everything is still running, and what happens is still told. In another terminal:
  export KUBECONFIG=%s
  kubectl scale deployment %s --replicas 20
  kubectl get nodepools,nodeclaims,nodes
Ctrl-C ends it.`, kubeconfig, workload)
	const forever = 365 * 24 * time.Hour
	return s.await(ctx, "", forever, func(*state) bool { return false })
}
