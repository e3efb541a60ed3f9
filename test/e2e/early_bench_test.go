package e2e

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var (
	launchTries = flag.Int("launch-tries", 20, "how many pods BenchmarkOnePod creates, one after the other")
	launchPause = flag.Duration("launch-pause", 4500*time.Millisecond, "pause between them: a pod that comes earlier finds the controller patient")
)

// BenchmarkOnePod measures, on a cluster where nothing else happens, from before a pod is created to the
// watch event that says that an instance is launched for it. No pod fits on the nodes of the others.
func BenchmarkOnePod(b *testing.B) {
	for _, early := range []bool{true, false} {
		b.Run(fmt.Sprint("early=", early), func(b *testing.B) {
			for b.Loop() {
				onePodAtATime(b, early)
			}
		})
	}
}

func onePodAtATime(b *testing.B, early bool) {
	cluster := testkit.StartCluster(b)
	c := connect(b, cluster)
	installDefinitions(b, c)
	installPool(b, c, benchCPUs)
	p := controller(b, cluster.Kubeconfig, fmt.Sprint("--batch-launch-early=", early))
	defer p.kill()
	awaitPool(b, c)
	watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	events, err := watching.Watch(b.Context(), &karpenterv1.NodeClaimList{})
	if err != nil {
		b.Fatal(err)
	}
	defer events.Stop()
	var created, launched []time.Duration
	seen := map[string]bool{}
	for i := range *launchTries {
		time.Sleep(*launchPause)
		begun := time.Now()
		if err := c.Create(b.Context(), podOfMoreThanHalf(i)); err != nil {
			b.Fatal(err)
		}
		atCreation, atLaunch, err := awaitLaunch(events.ResultChan(), seen, begun)
		if err != nil {
			b.Fatalf("%v\n%s", err, p)
		}
		created, launched = append(created, atCreation), append(launched, atLaunch)
	}
	slices.Sort(created)
	slices.Sort(launched)
	at := func(of []time.Duration, percent int) float64 {
		return float64(of[min(len(of)-1, len(of)*percent/100)].Milliseconds())
	}
	b.ReportMetric(at(created, 50), "ms-p50-to-claim")
	b.ReportMetric(at(created, 99), "ms-p99-to-claim")
	b.ReportMetric(at(launched, 50), "ms-p50-to-launch")
	b.ReportMetric(at(launched, 99), "ms-p99-to-launch")
	b.Logf("%d pods; %s/%s, %d cpus, %s", len(launched), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// podOfMoreThanHalf is a pod of which one fits on a node of two cpus, and more on larger ones.
func podOfMoreThanHalf(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("one-", i)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1100m")},
		}}}},
	}
}

// awaitLaunch returns how long after an instant the next NodeClaim was there, and said that it is launched.
func awaitLaunch(events <-chan watch.Event, seen map[string]bool, begun time.Time) (created, launched time.Duration, err error) {
	timeout := time.After(patience)
	for {
		select {
		case e := <-events:
			nc, is := e.Object.(*karpenterv1.NodeClaim)
			if !is || seen[nc.Name] {
				continue
			}
			if created == 0 {
				created = time.Since(begun)
			}
			if meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeLaunched) {
				seen[nc.Name] = true
				return created, time.Since(begun), nil
			}
		case <-timeout:
			return 0, 0, errors.New("nothing was launched for a pod")
		}
	}
}
