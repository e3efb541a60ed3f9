package e2e

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
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
	launchPause = flag.Duration("launch-pause", 4500*time.Millisecond, "pause between them: a pod that comes while a node has yet to join finds the controller patient")
)

// BenchmarkOnePod measures, on a cluster where nothing else happens, from before a pod is created to the
// watch events of a NodeClaim, of the launch call and of the condition that an instance is launched for it. The call of the
// provider kwok creates the Node. No pod fits on the nodes of the others. Published Karpenter is measured likewise, if make
// karpenter has built it.
func BenchmarkOnePod(b *testing.B) {
	early := func(is bool) func(b *testing.B, kubeconfig string) *process {
		return func(b *testing.B, kubeconfig string) *process {
			b.Helper()
			return controller(b, kubeconfig, fmt.Sprint("--batch-launch-early=", is))
		}
	}
	for _, of := range []struct {
		name  string
		start func(b *testing.B, kubeconfig string) *process
	}{
		{"early=true", early(true)},
		{"early=false", early(false)},
		{"karpenter", func(b *testing.B, kubeconfig string) *process {
			b.Helper()
			return startKarpenter(b, testkit.Binary(b, "karpenter"), kubeconfig)
		}},
	} {
		b.Run(of.name, func(b *testing.B) {
			for b.Loop() {
				onePodAtATime(b, of.start)
			}
		})
	}
}

func onePodAtATime(b *testing.B, start func(b *testing.B, kubeconfig string) *process) {
	b.Helper()
	cluster := testkit.StartCluster(b)
	c := connect(b, cluster)
	installDefinitions(b, c)
	installPool(b, c, benchCPUs)
	p := start(b, cluster.Kubeconfig)
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
	calls, err := watching.Watch(b.Context(), &corev1.NodeList{})
	if err != nil {
		b.Fatal(err)
	}
	defer calls.Stop()
	var created, called, launched []time.Duration
	seen := map[string]bool{}
	for i := range *launchTries {
		time.Sleep(*launchPause)
		begun := time.Now()
		if err := c.Create(b.Context(), podOfMoreThanHalf(i)); err != nil {
			b.Fatal(err)
		}
		at, err := awaitLaunch(events.ResultChan(), calls.ResultChan(), seen, begun)
		if err != nil {
			b.Fatalf("%v: %s\n%s", err, placed(b, c), p)
		}
		created, called, launched = append(created, at.created), append(called, at.called), append(launched, at.launched)
	}
	slices.Sort(created)
	slices.Sort(called)
	slices.Sort(launched)
	at := func(of []time.Duration, percent int) float64 {
		return float64(of[min(len(of)-1, len(of)*percent/100)].Milliseconds())
	}
	b.ReportMetric(at(created, 50), "ms-p50-to-claim")
	b.ReportMetric(at(created, 99), "ms-p99-to-claim")
	b.ReportMetric(at(called, 50), "ms-p50-to-call")
	b.ReportMetric(at(called, 99), "ms-p99-to-call")
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

// launch is how long after an instant a NodeClaim was there, its launch was called for, and it said that it is launched.
type launch struct{ created, called, launched time.Duration }

// placed says on which nodes pods are, and why not, and what events there are about pods that are gone.
func placed(b *testing.B, c client.Client) string {
	b.Helper()
	var pods corev1.PodList
	if err := c.List(b.Context(), &pods, client.InNamespace("default")); err != nil {
		b.Fatal(err)
	}
	var lines []string
	for i := range pods.Items {
		p := &pods.Items[i]
		line := p.Name + " on " + p.Spec.NodeName
		for _, cond := range p.Status.Conditions {
			if cond.Status != corev1.ConditionTrue {
				line += ", " + string(cond.Type) + ": " + cond.Message
			}
		}
		lines = append(lines, line)
	}
	var events corev1.EventList
	if err := c.List(b.Context(), &events, client.InNamespace("default")); err != nil {
		b.Fatal(err)
	}
	for i := range events.Items {
		if e := &events.Items[i]; !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == e.InvolvedObject.Name }) {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", e.InvolvedObject.Name, e.Reason, e.Message))
		}
	}
	return strings.Join(lines, "; ")
}

// awaitLaunch returns that of the next NodeClaim.
func awaitLaunch(claims, calls <-chan watch.Event, seen map[string]bool, begun time.Time) (at launch, err error) {
	timeout := time.After(patience)
	for at.called == 0 || at.launched == 0 {
		select {
		case e := <-calls:
			if e.Type == watch.Added {
				at.called = time.Since(begun)
			}
		case e := <-claims:
			nc, is := e.Object.(*karpenterv1.NodeClaim)
			if !is || seen[nc.Name] {
				continue
			}
			if at.created == 0 {
				at.created = time.Since(begun)
			}
			if meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeLaunched) {
				seen[nc.Name] = true
				at.launched = time.Since(begun)
			}
		case <-timeout:
			return at, errors.New("nothing was launched for a pod")
		}
	}
	return at, nil
}
