package disaster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestSomeClaimsHaveLeft kills the product while nobody knows what became of its fleets, and
// deletes half of the claims meanwhile. Afterwards the others have their instances, what was
// launched for those who left is gone within three minutes, and nothing was launched twice.
func TestSomeClaimsHaveLeft(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{"EC2 had launched": awssim.FaultCut, "EC2 had not": awssim.FaultDown} {
		if (testkit.Raced || testing.Short()) && fault != awssim.FaultCut {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDisaster(t, 1, awssim.Fault{Kind: fault, Operation: "ec2:CreateFleet", At: during(2 * time.Minute), For: during(time.Minute)})
				defer d.end()
				d.until(time.Minute, d.poolReady)
				time.Sleep(2*time.Minute - time.Since(d.begun))
				d.load(40)
				time.Sleep(20 * time.Second)
				d.kill()
				claims, left := 0, 0
				edit(d.kube, "general", func(pool *karpenterv1.NodePool) {
					pool.Spec.Disruption.ConsolidateAfter.Duration = nil // what stays is empty, and stays
				})
				d.kube.locked(func() {
					for i, claim := range cluster.All[*karpenterv1.NodeClaim](d.kube.api) {
						if claims++; i%2 == 0 {
							left++
							d.kube.api.Delete(claim, 0)
						}
					}
				})
				d.load(0) // so that nothing is launched anew
				time.Sleep(time.Minute)
				d.begin()
				if claims < 4 || left == claims {
					t.Fatalf("%d of %d claims have left", left, claims)
				}
				d.until(4*time.Minute, func() string {
					if p := d.picture(); p.claims != claims-left || p.nodes != p.claims {
						return fmt.Sprintf("of %d claims %d have left: %s", claims, left, p)
					}
					return d.agree()
				})
				if launched := len(d.sim.Instances()); launched > claims {
					t.Errorf("%d instances were launched for %d claims", launched, claims)
				}
			})
		})
	}
}
