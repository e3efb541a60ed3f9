package simulate

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/static"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// scale shows the mirror the NodeClaims of the nodes that static pools are missing, as the controller
// and the provider would make them, so that they are room for pods. Nodes that are too many stay in the
// case.
func (m *manifests) scale(store *mirror.Store, vocabulary translate.Vocabulary, at time.Time) (pools []StaticPool, err error) {
	snap := store.Snapshot()
	for _, np := range m.pools {
		if !translate.Static(np) {
			continue
		}
		p, launches := scaled(snap, np)
		for i := range launches {
			claim := translate.NodeClaim(np, &launches[i], vocabulary)
			claim.Name = fmt.Sprintf("%s-static-%d", np.Name, i+1)
			claim.UID, claim.CreationTimestamp = types.UID("NodeClaim//"+claim.Name), metav1.NewTime(at)
			if pool, ok := snap.PoolByName(np.Name); ok {
				if choices := catalog.Choices(pool.Types, launches[i].Requirements, nil); len(choices) > 0 {
					becomes(claim, choices[0])
				}
			}
			if err := store.Observe(claim); err != nil {
				return nil, err
			}
		}
		pools = append(pools, p)
	}
	return pools, nil
}

// becomes writes into a claim what its instance is.
func becomes(claim *karpenterv1.NodeClaim, is catalog.Choice) {
	for _, decides := range []label.Requirements{is.Type.Requirements, is.Offering.Requirements()} {
		for key, r := range decides {
			if value, only := r.Only(); only {
				claim.Labels[key] = value
			}
		}
	}
	claim.Labels[label.Hostname] = claim.Name
	claim.Status.ProviderID = "file:///" + claim.Name
	claim.Status.Capacity, claim.Status.Allocatable = translate.ResourceList(is.Type.Capacity), translate.ResourceList(is.Type.Allocatable())
}

// scaled returns what becomes of a static pool, and the launches for it.
func scaled(snap *cluster.Snapshot, np *karpenterv1.NodePool) (StaticPool, []plan.Launch) {
	next := static.Next(snap, np.Name)
	p := StaticPool{
		Pool: np.Name, Replicas: translate.Replicas(np), Nodes: static.CountOf(snap, np.Name).Active - len(next.Removals),
		Launched: len(next.Launches), Removed: len(next.Removals),
	}
	for i := range next.Launches {
		p.PriceHourly += next.Launches[i].PriceHourly
	}
	if !next.Blocked.IsYes() {
		p.Why = next.Blocked.About("").String()
	}
	return p, next.Launches
}
