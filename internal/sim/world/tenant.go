package world

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// What a hostile tenant does: he makes pods that nothing can hold, and pods that are dear to decide
// about. None of them ever runs, and nobody else is to notice.
const (
	hostile = "hostile" // namespace
	// absurd is the label of pods with absurd quantities, heavy that of those with many rules.
	absurd, heavy = "absurd", "heavy"
	// heavyPods and heavyRules are how many pods there are at once, and rules of each: about as many units as
	// heavyEffort where few others run. A quarter of them take far less, as all that others ask for does.
	heavyPods, heavyRules, heavyEffort = 24, 250, 600_000
	// retryLeast and retryMost bound the pauses between decisions about heavy pods, retrySlack is how
	// much sooner one may be.
	retryLeast, retryMost, retrySlack = time.Minute, time.Hour, 15 * time.Second
	// together is up to how far apart decisions are those of one run of a loop.
	together = 8 * time.Second
)

// The tenant's faults.
const (
	AbsurdPods Fault = "absurd-pods"
	HeavyPods  Fault = "heavy-pods"
)

func newTenant(w *World, seed uint64) *tenant {
	t := &tenant{w: w, rand: rand.New(rand.NewPCG(seed, 0x686f7374)), mean: map[Fault]time.Duration{}}
	for _, f := range []Fault{AbsurdPods, HeavyPods} {
		mean := time.Duration(float64(time.Hour) * math.Pow(4, t.rand.Float64()-0.75))
		if on := t.rand.Float64() < 0.35; (on || w.opts.Ordinary) && !slices.Contains(w.opts.Without, f) && w.opts.Stormy > 0 {
			t.mean[f] = mean
		}
	}
	return t
}

// begin has him do things now and then until the storm is over.
func (t *tenant) begin() {
	if len(t.mean) == 0 {
		return
	}
	_ = t.w.api.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostile}})
	t.again(AbsurdPods, t.makeAbsurd)
	t.again(HeavyPods, t.makeHeavy)
	t.w.every(checkEvery, t.check)
}

func (t *tenant) again(f Fault, does func()) {
	mean, on := t.mean[f]
	if !on {
		return
	}
	if t.w.opts.Ordinary {
		mean *= seldom
	}
	t.w.after(time.Duration(t.rand.ExpFloat64()*float64(mean)), func() {
		if !t.w.chaos.stormy {
			return
		}
		t.w.note("fault %s", f)
		t.w.count(string(f))
		does()
		t.again(f, does)
	})
}

// effort bounds decisions about pending pods where there are heavy ones; 0: production's own bound.
func (t *tenant) effort() int64 {
	if _, on := t.mean[HeavyPods]; on {
		return heavyEffort
	}
	return 0
}

// create makes a pod, which is deleted after a time. Some outlive the storm.
func (t *tenant) create(kind string, spec corev1.PodSpec, lasts time.Duration) {
	t.made++
	spec.SchedulerName, spec.TerminationGracePeriodSeconds = corev1.DefaultSchedulerName, new(int64(1))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: hostile, Name: fmt.Sprintf("%s-%06d", kind, t.made), Labels: map[string]string{hostile: kind}},
		Spec:       spec, Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	_ = t.w.api.Create(p) // names are unique
	t.w.after(lasts, func() {
		if had, ok := cluster.Find[*corev1.Pod](t.w.api, hostile, p.Name); ok {
			t.w.api.Delete(had, cluster.GraceOf(had))
		}
	})
}

// lasts decides for how long pods are there.
func (t *tenant) lasts() time.Duration {
	return 5*time.Minute + time.Duration(t.rand.ExpFloat64()*float64(time.Hour))
}

// makeAbsurd makes a few pods that ask for more than there is. Where sums wrap they ask for
// nearly nothing.
func (t *tenant) makeAbsurd() {
	const most = math.MaxInt64
	asks := [][]string{
		{"memory=4Ei", "memory=4Ei", "memory=4Ei", "memory=4Ei"},            // 0 in 64 bits
		{"memory=7Ei", "memory=7Ei", "memory=2049Mi", "memory=2Ei"},         // 2049 Mi
		{"cpu=9223372036854775", "cpu=9223372036854775", "cpu=2"},           // 384 milli-cpus
		{fmt.Sprint("memory=", most), fmt.Sprint("memory=", most)},          // -2
		{fmt.Sprint("cpu=", most), fmt.Sprint("cpu=", most), "memory=1Gi"},  // both at the bound
		{"cpu=1e18", fmt.Sprint("memory=", most), "cpu=100m", "memory=1Mi"}, // beyond it
	}
	for range 1 + t.rand.IntN(4) {
		var spec corev1.PodSpec
		for _, ask := range asks[t.rand.IntN(len(asks))] {
			name, amount, _ := strings.Cut(ask, "=")
			spec.Containers = append(spec.Containers, corev1.Container{
				Name: fmt.Sprint("c", len(spec.Containers)), Image: "absurd",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}},
			})
		}
		t.create(absurd, spec, t.lasts())
	}
}

// makeHeavy makes pods with rules of which no two are alike, unless there are some: terms of
// anti-affinity that select all of them (what selects none costs little), and in some worlds giant alternatives as well. They ask for a Node that nobody has.
func (t *tenant) makeHeavy() {
	if slices.ContainsFunc(cluster.All[*corev1.Pod](t.w.api), func(p *corev1.Pod) bool { return p.Labels[hostile] == heavy }) {
		return
	}
	t.newest = t.w.at
	lasts, giant := t.lasts(), t.rand.Float64() < 0.3
	for i := range heavyPods {
		var terms []corev1.PodAffinityTerm
		affinity := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		var or []corev1.NodeSelectorTerm
		for r := range heavyRules {
			values := []string{fmt.Sprint(t.made, "-", i, "-", r), heavy}
			terms = append(terms, corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: hostile, Operator: metav1.LabelSelectorOpIn, Values: values}},
			}})
			or = append(or, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostile, Operator: corev1.NodeSelectorOpIn, Values: values}}})
		}
		affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = terms
		if giant {
			affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: or}}
		}
		t.create(heavy, corev1.PodSpec{
			NodeSelector: map[string]string{hostile: "nowhere"}, Affinity: affinity,
			Containers: []corev1.Container{{Name: "main", Image: "heavy", Resources: corev1.ResourceRequirements{Requests: cluster.Requests(100, 128)}}},
		}, lasts)
	}
}

// event judges what the product says of a pod.
func (t *tenant) event(o client.Object, reason, message string) {
	pod, ok := o.(*corev1.Pod)
	switch {
	case !ok:
	case pod.Namespace == hostile && reason == "Nominated":
		t.w.fail("pod %s, which nothing can hold, is promised a node: %s", pod.Name, message)
	case pod.Namespace != hostile && strings.Contains(message, "too much effort"):
		t.w.fail("pod %s waits for a hostile one: %s", pod.Name, message)
	}
}

// check counts decisions that provisioning gave up: about the same heavy pods again only after twice as long as
// the last time, and again at all.
func (t *tenant) check() {
	p, g := t.w.process, &t.gaveUp
	if p == nil || p.dead || p.stopped.After(t.w.at) {
		return
	}
	if g.p != p {
		*g = gaveUps{p: p}
	}
	count := p.gaveUp(record.Provisioning)
	if t.newest.After(g.at) {
		g.wait = 0
	}
	now := p.now()
	switch {
	case count > g.seen:
		if since := now.Sub(g.last); g.wait > 0 && since > together && since < g.wait-retrySlack {
			t.w.fail("hot loop: a decision about heavy pods was given up %s after the last, of the same pods; want %s", since, g.wait)
		} else if g.wait == 0 || since > together {
			g.wait = min(max(2*g.wait, retryLeast), retryMost)
			t.w.count("decisions given up")
		}
		g.last, g.at, g.seen = now, t.w.at, count
	case p.quarantined() && !g.last.IsZero() && now.Sub(g.last) > 2*retryMost:
		t.w.fail("pods are quarantined since %s, and not decided about again", now.Sub(g.last))
	}
}

// gaveUp returns how many decisions of a loop the product gave up for their effort.
func (p *process) gaveUp(of record.Loop) float64 {
	var m dto.Metric
	_ = p.parts.Metrics.DecisionsGivenUp.WithLabelValues(string(of), plan.CauseEffort).Write(&m) // never fails
	return m.GetCounter().GetValue()
}

// quarantined reports whether the product says that pods are.
func (p *process) quarantined() bool {
	var m dto.Metric
	_ = p.parts.Metrics.QuarantinedPods.Write(&m) // never fails
	return m.GetGauge().GetValue() > 0
}

// forgetful is a loop that forgets something before each run.
type forgetful struct {
	loop.Reconciler
	loop.Triggered
	forget func()
}

// Reconcile forgets, and runs the loop.
func (f forgetful) Reconcile(ctx context.Context) time.Duration {
	f.forget()
	return f.Reconciler.Reconcile(ctx)
}
