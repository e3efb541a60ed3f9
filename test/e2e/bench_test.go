package e2e

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	benchPods = 500
	// benchCPUs is the size of the largest node: 15 pods fit on it.
	benchCPUs = 16
)

// BenchmarkScaleUp500 measures from the creation of a Deployment of 500 pods of 1 cpu, in
// an empty cluster, to the last NodeClaim created, to the last pod bound, and to the last
// pod running. The kubelets are KWOK's, and the control plane shares the computer.
func BenchmarkScaleUp500(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		cluster := testkit.StartCluster(b)
		c := connect(b, cluster)
		installDefinitions(b, c)
		installPool(b, c, benchCPUs)
		p := controller(b, cluster.Kubeconfig)
		awaitPool(b, c)
		testkit.AwaitDefinition(b, c, &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: karpenterv1.NodeClaimSpec{
			NodeClassRef: &karpenterv1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"},
			Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{},
		}})
		before := b.Elapsed()
		b.StartTimer()
		deploy(b, c, benchPods)
		claims, claimed, bound := 0, time.Duration(0), time.Duration(0)
		testkit.Eventually(b, patience, func() error {
			now, err := observe(b.Context(), c)
			if err != nil {
				return err
			}
			if len(now.claims) > claims {
				claims, claimed = len(now.claims), b.Elapsed()
			}
			if bound == 0 && now.bound() == benchPods {
				bound = b.Elapsed()
			}
			if now.running() < benchPods {
				return fmt.Errorf("%d of %d pods run", now.running(), benchPods)
			}
			return nil
		})
		running := b.Elapsed()
		b.StopTimer()
		b.ReportMetric((claimed - before).Seconds(), "s-to-last-claim")
		b.ReportMetric((bound - before).Seconds(), "s-to-last-bound")
		b.ReportMetric((running - before).Seconds(), "s-to-last-running")
		b.ReportMetric(float64(claims), "claims")
		b.Logf("%s: %d pods on %d nodes; %s/%s, %d cpus, %s", created(b, c), benchPods, claims, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
		p.kill()
		cluster.Kill()
		b.StartTimer()
	}
}

// awaitPool returns when nodes may be launched from the pool.
func awaitPool(b *testing.B, c client.Client) {
	b.Helper()
	testkit.Eventually(b, patience, func() error { return poolReady(b.Context(), c) })
}

// created returns the day of the measurement.
func created(b *testing.B, c client.Client) string {
	b.Helper()
	var d appsv1.Deployment
	if err := c.Get(b.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, &d); err != nil {
		b.Fatal(err)
	}
	return d.CreationTimestamp.UTC().Format(time.DateOnly)
}
