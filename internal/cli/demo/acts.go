package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/config/crd"
)

const (
	// actPatience bounds each step: some ten times what it takes on an idle computer.
	actPatience = 2 * time.Minute
	// component is the name under which the controller writes events.
	component = "karpenter"

	refused, deployment = "nowhere", "Deployment"
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
	s.narrator.line("apply", "the definitions of %s", kinds(definitions))
	for _, kind := range s.story.base {
		if err := s.apply(ctx, kind); err != nil {
			return err
		}
	}
	return nil
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

// apply applies the examples of a kind. Deployments share the pods as their replicas say.
func (s *stage) apply(ctx context.Context, kind string) error {
	objects, err := s.examples(kind)
	if err != nil {
		return err
	}
	shares := replicas(objects, s.opts.Pods)
	for i, o := range objects {
		reported := ""
		if kind == deployment {
			if err := unstructured.SetNestedField(o.Object, shares[i], "spec", "replicas"); err != nil {
				return fmt.Errorf("set replicas of %s: %w", o.GetName(), err)
			}
			reported = fmt.Sprintf(", %s", count(shares[i], "pod"))
		}
		if err := Apply(ctx, s.client, o); err != nil {
			return err
		}
		s.narrator.line("apply", "%s %s, as in %s%s", kind, o.GetName(), s.story.from, reported)
	}
	return nil
}

// examples returns the examples of a kind.
func (s *stage) examples(kind string) ([]*unstructured.Unstructured, error) {
	all, err := Manifests(s.story.examples)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() != kind }), nil
}

// replicas shares pods among Deployments in proportion to their own replicas. What is left
// over is the first one's.
func replicas(objects []*unstructured.Unstructured, pods int) []int64 {
	shares := make([]int64, len(objects))
	sum := int64(0)
	for i, o := range objects {
		own, _, _ := unstructured.NestedNumberAsFloat64(o.Object, "spec", "replicas") // as YAML has it
		shares[i] = int64(own)
		sum += shares[i]
	}
	left := int64(pods)
	for i := range shares {
		shares[i] = int64(pods) * shares[i] / max(1, sum)
		left -= shares[i]
	}
	if len(shares) > 0 {
		shares[0] += left
	}
	return shares
}

// up creates the pods and waits until all of them run on nodes of ours.
func (s *stage) up(ctx context.Context) error {
	s.act("%d pods, and no node for them", s.opts.Pods)
	began := s.narrator.elapsed()
	if err := s.apply(ctx, deployment); err != nil {
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
	s.narrator.line("done", "%d pods Running %.1f s after they were created, %.1f s after the start of the demo",
		s.opts.Pods, (s.narrator.elapsed() - began).Seconds(), s.narrator.elapsed().Seconds())
	for _, line := range table(last.instances) {
		s.narrator.more("%s", line)
	}
	return nil
}

// refuse creates a pod that nothing can take and waits for an event that says why.
func (s *stage) refuse(ctx context.Context) error {
	s.act("a pod that no node can take: an event says why")
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
	s.narrator.line("event", "on pod %s: %s", refused, said)
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

// down takes the pods away and waits until no node of ours is left.
func (s *stage) down(ctx context.Context) error {
	s.act("no pods any more: the nodes leave when they have been empty for some seconds")
	began := s.narrator.elapsed()
	deployments, err := s.examples(deployment)
	if err != nil {
		return err
	}
	for _, d := range deployments {
		if err := s.client.Patch(ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))); err != nil {
			return fmt.Errorf("scale %s to 0: %w", d.GetName(), err)
		}
		s.narrator.line("scale", "Deployment %s to 0", d.GetName())
	}
	gone := func(now *state) bool { return now.pending+now.bound+now.running == 0 && now.empty() }
	if err := s.await(ctx, "all nodes have left", actPatience, gone); err != nil {
		return err
	}
	s.narrator.line("done", "the last node left %.1f s after the scale-down", (s.narrator.elapsed() - began).Seconds())
	if s.account != nil {
		s.narrator.line("bill", "$%.4f for everything, at EC2's prices of May 2025", s.account.sim.Spent())
	}
	return nil
}

// linger reports what happens until the context ends.
func (s *stage) linger(ctx context.Context, kubeconfig string) error {
	s.narrator.plain("\n"+`Everything is still running, and what happens is still reported. In another terminal:
  export KUBECONFIG=%s
  kubectl scale deployment web --replicas 20
  kubectl get nodepools,nodeclaims,nodes
  dovetail top             # all of it in the terminal; ? lists the keys
  dovetail status          # also: nodes, pending, pools, blockers, offerings, cost, next
  dovetail explain POD     # why a pod is where it is; also of a node
%s
Pages of the same: http://127.0.0.1:%d/ (dovetail ui prints where they are in a cluster).
Ctrl-C ends it.`, kubeconfig, s.faultsAdvice(), s.opts.Settings.DebugPort)
	const forever = 365 * 24 * time.Hour
	return s.await(ctx, "", forever, func(*state) bool { return false })
}

// faultsAdvice says how to play with the account; empty: there is none.
func (s *stage) faultsAdvice() string {
	if s.account == nil {
		return ""
	}
	return fmt.Sprintf("  curl -X POST %s/_awssim/faults -d '{\"kind\": \"interrupt\", \"count\": 1}'   # docs/reference/awssim.md\n", s.account.url)
}
