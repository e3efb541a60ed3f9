package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

const (
	namespace = "default"
	// priceLabel is where a kwok Node says what it costs.
	priceLabel = "eks-node-viewer/instance-price"
)

// board is where the state of the cluster is read from: a cache of our own, not the
// controller's, so that the demo sees what any user would.
type board struct {
	cache cache.Cache
	// account sends the bill; nil: nobody does.
	account *account
}

// newBoard returns when it knows what there is. It watches until ctx ends.
func newBoard(ctx context.Context, config *rest.Config, a *account) (*board, error) {
	c, err := cache.New(config, cache.Options{Scheme: operator.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("watch the cluster: %w", err)
	}
	go func() { _ = c.Start(ctx) }() // it ends with ctx, and errors show as a cache that stands still
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &karpenterv1.NodeClaim{}, &karpenterv1.NodePool{}} {
		if _, err := c.GetInformer(ctx, kind); err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	if !c.WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}
	return &board{c, a}, nil
}

// observe returns the state now.
func (b *board) observe(ctx context.Context) (*state, error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var claims karpenterv1.NodeClaimList
	var pools karpenterv1.NodePoolList
	for _, list := range []client.ObjectList{&pods, &nodes, &claims, &pools} {
		if err := b.cache.List(ctx, list); err != nil {
			return nil, fmt.Errorf("look at the cluster: %w", err)
		}
	}
	s := summarise(pods.Items, nodes.Items, claims.Items, pools.Items)
	if b.account != nil {
		b.account.bill(s)
	}
	return s, nil
}

func summarise(pods []corev1.Pod, nodes []corev1.Node, claims []karpenterv1.NodeClaim, pools []karpenterv1.NodePool) *state {
	s := &state{claimed: len(claims), poolsReady: len(pools) > 0}
	price, ours, on := map[string]float64{}, map[string]bool{}, map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		if n.Labels[karpenterv1.NodePoolLabelKey] == "" {
			continue
		}
		s.nodes++
		ours[n.Name] = true
		price[n.Name], _ = strconv.ParseFloat(n.Labels[priceLabel], 64) // without a price: 0
		s.priceHourly += price[n.Name]
	}
	for i := range pods {
		s.count(&pods[i], ours)
		on[pods[i].Spec.NodeName]++
	}
	for i := range claims {
		c := &claims[i]
		if isTrue(c.Status.Conditions, karpenterv1.ConditionTypeRegistered) {
			s.registered++
		}
		isReady := isTrue(c.Status.Conditions, karpenterv1.ConditionTypeInitialized)
		if isReady {
			s.ready++
		}
		if isTrue(c.Status.Conditions, karpenterv1.ConditionTypeLaunched) {
			s.instances = append(s.instances, instance{
				claim: c.Name, pool: c.Labels[karpenterv1.NodePoolLabelKey], instance: instanceID(c.Status.ProviderID), node: c.Status.NodeName,
				instanceType: c.Labels[corev1.LabelInstanceTypeStable], zone: c.Labels[corev1.LabelTopologyZone],
				capacityType: c.Labels[karpenterv1.CapacityTypeLabelKey], arch: c.Labels[corev1.LabelArchStable],
				priceHourly: price[c.Status.NodeName], pods: on[c.Status.NodeName], isReady: isReady, leaves: c.DeletionTimestamp != nil,
			})
		}
	}
	slices.SortFunc(s.instances, func(a, b instance) int { return strings.Compare(a.claim, b.claim) })
	for i := range pools {
		s.poolsReady = s.poolsReady && isTrue(pools[i].Status.Conditions, karpenterv1.ConditionTypeReady)
	}
	return s
}

// count counts one pod.
func (s *state) count(p *corev1.Pod, ours map[string]bool) {
	switch {
	case p.Namespace != namespace:
	case p.Spec.NodeName == "":
		s.pending++
	case p.Status.Phase != corev1.PodRunning:
		s.bound++
	default:
		s.running++
		if !ours[p.Spec.NodeName] {
			s.elsewhere++
		}
	}
}

func isTrue(conditions []metav1.Condition, name string) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Type == name && c.Status == metav1.ConditionTrue
	})
}
