package savings

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// subject is the objects of a cluster with the NodePools and NodeClaims that were added.
type subject struct {
	objects  []client.Object
	adoption *adoption
	// workloads are what made each pod, by namespace/name.
	workloads map[string]string
}

// workloadsOf returns what made each pod. A ReplicaSet stands for its Deployment.
func workloadsOf(objects []client.Object) map[string]string {
	out := map[string]string{}
	for _, o := range objects {
		p, is := o.(*corev1.Pod)
		if !is {
			continue
		}
		name := "Pod/" + p.Name
		if owner := metav1.GetControllerOf(p); owner != nil {
			name = owner.Kind + "/" + owner.Name
			if hash := p.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(owner.Name, "-"+hash) {
				name = "Deployment/" + strings.TrimSuffix(owner.Name, "-"+hash)
			}
		}
		out[p.Namespace+"/"+p.Name] = p.Namespace + " " + name
	}
	return out
}

func (s *subject) pools() (pools []*karpenterv1.NodePool) {
	for _, o := range s.objects {
		if np, is := o.(*karpenterv1.NodePool); is {
			pools = append(pools, np)
		}
	}
	return pools
}

// proposed returns the NodePools that were added.
func (s *subject) proposed() []*karpenterv1.NodePool { return s.adoption.pools }

// reasons says why nodes are left alone, as the end of a sentence.
func (s *subject) reasons() string {
	why := map[string]int{}
	for _, w := range s.adoption.alone {
		why[w]++
	}
	var parts []string
	for _, w := range slices.Sorted(maps.Keys(why)) {
		parts = append(parts, fmt.Sprintf("nodes: %d, %s", why[w], w))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// redact replaces the names that people chose, in all that is said afterwards.
func (s *subject) redact() error {
	for _, o := range s.objects {
		kind, err := apiutil.GVKForObject(o, operator.Scheme())
		if err != nil {
			return fmt.Errorf("redact %s: %w", o.GetName(), err)
		}
		o.GetObjectKind().SetGroupVersionKind(kind)
	}
	trees, err := simulate.Redact(s.objects)
	if err != nil {
		return err
	}
	numbers := map[string]string{}
	names := slices.Sorted(maps.Values(s.workloads))
	for i, w := range slices.Compact(names) {
		numbers[w] = fmt.Sprintf("workload-%04d", i+1)
	}
	was := s.objects
	s.objects = make([]client.Object, len(was))
	alone, workloads, pools := map[string]string{}, map[string]string{}, map[string]*karpenterv1.NodePool{}
	for i, tree := range trees {
		o, err := operator.Scheme().New(was[i].GetObjectKind().GroupVersionKind())
		if err != nil {
			return fmt.Errorf("redact: %w", err)
		}
		b, err := json.Marshal(tree)
		if err == nil {
			err = json.Unmarshal(b, o)
		}
		if err != nil {
			return fmt.Errorf("redact: %w", err)
		}
		s.objects[i] = o.(client.Object)
		switch o := o.(type) {
		case *corev1.Pod:
			workloads[o.Namespace+"/"+o.Name] = o.Namespace + " " + numbers[s.workloads[was[i].GetNamespace()+"/"+was[i].GetName()]]
		case *corev1.Node:
			if why, is := s.adoption.alone[was[i].GetName()]; is {
				alone[o.Name] = why
			}
		case *karpenterv1.NodePool:
			pools[was[i].GetName()] = o
		}
	}
	proposed := make([]*karpenterv1.NodePool, len(s.adoption.pools))
	for i, np := range s.adoption.pools {
		proposed[i] = pools[np.Name]
	}
	s.adoption = &adoption{pools: proposed, claims: s.adoption.claims, alone: alone}
	s.workloads = workloads
	return nil
}
