package disaster

import (
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// TestNodesAreSmaller has nodes offer less than is expected of their type, so that pods that would
// just fit do not. The provider learns from the first nodes and launches another type.
func TestNodesAreSmaller(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is      awssim.Beliefs
		smaller bool
	}{
		"as expected":                             {},
		"the kernel sees less memory":             {awssim.Beliefs{MemoryError: 0.02}, true},
		"the kubelet keeps memory for more pods":  {awssim.Beliefs{MoreInterfaces: 1}, true},
		"the kubelet keeps memory for fewer pods": {awssim.Beliefs{MoreInterfaces: -1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(o *awssim.Options) { o.Beliefs = c.is })
				defer w.end()
				w.furnish("4")
				edit(w.kube, "general", func(pool *karpenterv1.NodePool) {
					pool.Spec = *pool.Spec.DeepCopy()
					for i := range pool.Spec.Template.Spec.Requirements {
						if in := &pool.Spec.Template.Spec.Requirements[i]; in.Key == awsv1.LabelInstanceCategory {
							in.Key, in.Values = awsv1.LabelInstanceFamily, []string{"m5", "r5"} // with 16 and 32 GiB
						}
					}
				})
				w.begin()
				w.until(5*time.Minute, w.poolReady)
				const pods = 4
				w.kube.scale(&cluster.Workload{Name: "exact", CPUMilli: 3000, MemoryMiB: 14150, GraceSeconds: 5}, pods)
				w.until(5*time.Minute, func() string { return w.allRun(pods) })
				launched, tooSmall := len(w.sim.Instances()), 0
				for _, i := range w.sim.Instances() {
					if i.Type == "m5.xlarge" && c.smaller {
						tooSmall++
					}
				}
				if launched-tooSmall != pods || (tooSmall > 0) != c.smaller || tooSmall > 3*pods {
					t.Errorf("%d instances were launched for %d pods, %d of them too small", launched, pods, tooSmall)
				}
				w.until(20*time.Minute, w.agree)
				if more := len(w.sim.Instances()) - launched; more > 0 {
					t.Errorf("%d instances more were launched when all pods ran", more)
				}
			})
		})
	}
}
