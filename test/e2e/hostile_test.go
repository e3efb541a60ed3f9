package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/hostile"
)

var (
	hostileSeed    = flag.Uint64("hostile-seed", 1, "chooses the hostile objects of TestHostileObjects")
	hostileObjects = flag.Int("hostile-objects", 235, "how many hostile objects it applies")
	hostileMost    = flag.Int("hostile-most", 15, "how long their lists are")
	hostileRounds  = flag.Int("hostile-rounds", 2, "how often it runs ordinary pods, alternately without them and beside them")
	hostileWait    = flag.Duration("hostile-wait", 10*time.Second, "what they may take beside them in any case: each wait of kube-scheduler before it tries a pod again is at most so long")
	hostileSlower  = flag.Float64("hostile-slower", 4, "how many times as long ordinary pods may take beside them, besides what kube-scheduler alone takes longer")
)

const (
	// ordinaryPods are those that must not notice; ordinaryNodes are enough for them.
	ordinaryPods, ordinaryNodes = 50, 20
	// hostilePatience bounds one round.
	hostilePatience = 5 * time.Minute
	// memoryMost bounds the memory of the controller, in bytes.
	memoryMost = 1 << 30
	// linesEach bounds how many lines the controller logs for each object, and bytesEach how long
	// they are together.
	linesEach, bytesEach = 20, 40 << 10
	// eventsEach bounds how many events it writes on one object in a minute. A NodePool may have 50
	// budgets, and each of them may be wrong.
	eventsEach = 50
	// appliers is how many objects are applied at once.
	appliers = 8
	// strangelySlow times as long as the median takes a round of which all is shown that was logged.
	strangelySlow = 3
)

// TestHostileObjects applies a corpus of hostile objects to a real API server. Whatever that
// takes, the controller survives, and ordinary pods run beside it as they do without: those of
// a second cluster, which has none. The clusters take turns, so that a busy computer slows both.
//
// How long pods take is judged by the slowest of a hundred, in the middle one of the rounds. What kube-scheduler takes longer by itself, with nodes that are there already,
// is not our doing: it is measured, and allowed for.
func TestHostileObjects(t *testing.T) {
	t.Parallel()
	t.Logf("-hostile-seed=%d -hostile-objects=%d -hostile-most=%d", *hostileSeed, *hostileObjects, *hostileMost)
	calm, beset := newSiege(t, "without"), newSiege(t, "beside")
	beset.apply(hostile.Setup())
	beset.accepted = beset.apply(hostile.Generate(hostile.Options{Seed: *hostileSeed, Objects: *hostileObjects, Most: *hostileMost}))
	for range *hostileRounds {
		for _, s := range []*siege{calm, beset} {
			s.rounds = append(s.rounds, s.round(false))
			s.alone = append(s.alone, s.round(true))
		}
	}
	calm.print()
	beset.print()
	was, is := median(calm.rounds), median(beset.rounds)
	others := max(0, median(beset.alone)-median(calm.alone))
	t.Logf("%d ordinary pods, 99 of 100 within: %.1f s without, %.1f s beside %d hostile objects: %.2f times; kube-scheduler alone takes %.1f s longer",
		ordinaryPods, was.Seconds(), is.Seconds(), beset.accepted, is.Seconds()/was.Seconds(), others.Seconds())
	if allowed := time.Duration(*hostileSlower*float64(was)) + others + *hostileWait; is > allowed {
		t.Errorf("ordinary pods take %s beside hostile objects, more than %s", is, allowed)
	}
	beset.checkLaunches(calm)
	beset.checkProcess()
	beset.checkWords()
	beset.checkClaims()
	for _, s := range []*siege{calm, beset} {
		if status := s.controller.stop(); status != 0 {
			t.Errorf("%s: it ends with status %d", s.name, status)
		}
	}
}

// siege is a controller, among hostile objects or not.
type siege struct {
	t          *testing.T
	name       string
	client     client.WithWatch
	controller *process
	started    time.Time
	accepted   int // hostile objects
	ran        int // rounds
	// rounds are of the controller, alone of kube-scheduler by itself.
	rounds, alone []round

	mu     sync.Mutex
	claims map[string]bool // guarded by mu; the names of all claims there ever were
}

// round is how ordinary pods did.
type round struct {
	// asked is when kube-scheduler had found no node for the last of them, p99 and last when 99 of
	// 100, and all ran.
	asked, p99, last time.Duration
	// cpu is what the controller spent on it, and launched how many claims were made meanwhile.
	cpu      time.Duration
	launched int
	// logged is what the controller logged meanwhile.
	logged []string
}

// median returns what the middle one of the rounds took; of two, the shorter.
func median(rounds []round) time.Duration {
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b round) int { return cmp.Compare(a.p99, b.p99) })
	return sorted[(len(sorted)-1)/2].p99
}

// newSiege starts a cluster and a controller.
func newSiege(t *testing.T, name string) *siege {
	t.Helper()
	cluster := testkit.StartCluster(t)
	c, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	s := &siege{t: t, name: name, client: c, started: time.Now(), claims: map[string]bool{}}
	installDefinitions(t, s.client)
	s.installPool()
	s.must(s.client.Create(t.Context(), &schedulingv1.PriorityClass{
		// kube-scheduler tries these first, or else they wait until it has been through all that are hostile.
		ObjectMeta: metav1.ObjectMeta{Name: "ordinary"}, Value: 1000, PreemptionPolicy: new(corev1.PreemptNever),
	}))
	s.controller = controller(t, cluster.Kubeconfig)
	t.Cleanup(s.logEnd)
	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), s.client) })
	go s.watch(t.Context(), &karpenterv1.NodeClaimList{}, func(o client.Object) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.claims[o.GetName()] = true
		return false
	})
	return s
}

func (s *siege) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// watch calls f for what there is, and for whatever changes, until it is content.
func (s *siege) watch(ctx context.Context, list client.ObjectList, f func(client.Object) (enough bool), opts ...client.ListOption) {
	for ctx.Err() == nil {
		w, err := s.client.Watch(ctx, list, opts...)
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			if o, ok := e.Object.(client.Object); ok && e.Type != watch.Deleted && f(o) {
				w.Stop()
				return
			}
		}
	}
}

// launched returns how many claims have been made, apart from those that are hostile themselves.
func (s *siege) launched() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.claims {
		if !strings.HasPrefix(name, "hostile-claim-") {
			n++
		}
	}
	return n
}

// installPool installs the example pool with small nodes and no bound. Whoever asks for a rack may have it.
func (s *siege) installPool() {
	s.t.Helper()
	for _, o := range exampleObjects(s.t) {
		switch o.GetKind() {
		case "KWOKNodeClass":
		case "NodePool":
			set(s.t, o, []any{
				map[string]any{"key": "kubernetes.io/os", "operator": "In", "values": []any{"linux"}},
				map[string]any{"key": "kubernetes.io/arch", "operator": "In", "values": []any{"amd64"}},
				map[string]any{"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lte", "values": []any{fmt.Sprint(chaosCPUs)}},
				map[string]any{"key": "rack", "operator": "Exists"},
			}, "spec", "template", "spec", "requirements")
			set(s.t, o, "1s", "spec", "disruption", "consolidateAfter")
			set(s.t, o, map[string]any{}, "spec", "limits")
		default:
			continue
		}
		if err := demo.Apply(s.t.Context(), s.client, o); err != nil {
			s.t.Fatal(err)
		}
	}
}

// apply creates the objects that the API server takes, and returns how many those are.
func (s *siege) apply(objects []hostile.Object) (accepted int) {
	s.t.Helper()
	type progress struct{ yes, no int }
	var mu sync.Mutex
	families := map[string]*progress{}
	queue := make(chan hostile.Object)
	var workers sync.WaitGroup
	for range appliers {
		workers.Go(func() {
			for o := range queue {
				err := s.create(o)
				mu.Lock()
				if families[o.Family] == nil {
					families[o.Family] = &progress{}
				}
				if err == nil {
					accepted++
					families[o.Family].yes++
				} else {
					families[o.Family].no++
				}
				mu.Unlock()
			}
		})
	}
	for _, o := range objects {
		queue <- o
	}
	close(queue)
	workers.Wait()
	var lines []string
	for _, name := range append([]string{"setup"}, hostile.Families()...) {
		if of := families[name]; of != nil {
			lines = append(lines, fmt.Sprintf("%s %d/%d", name, of.yes, of.yes+of.no))
		}
	}
	s.t.Logf("accepted %d of %d: %s", accepted, len(objects), strings.Join(lines, ", "))
	return accepted
}

// create sends one object and then its status, of which the API server takes what it likes.
func (s *siege) create(o hostile.Object) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	made := o.DeepCopy()
	if err := s.client.Create(ctx, made); err != nil {
		return err
	}
	if o.Status == nil {
		return nil
	}
	body, err := json.Marshal(map[string]any{"status": o.Status})
	if err != nil {
		return err
	}
	target := &unstructured.Unstructured{}
	target.SetGroupVersionKind(o.GroupVersionKind())
	target.SetNamespace(o.GetNamespace())
	target.SetName(o.GetName())
	_ = s.client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, body))
	return nil
}

// print logs the rounds.
func (s *siege) print() {
	for i, r := range s.rounds {
		s.t.Logf("%s, round %d: of %d pods kube-scheduler found no node for the last after %.1f s, 99 of 100 ran after %.1f s, all after %.1f s; %d claims, %s of CPU; kube-scheduler alone: %.1f s",
			s.name, i+1, ordinaryPods, r.asked.Seconds(), r.p99.Seconds(), r.last.Seconds(), r.launched, r.cpu, s.alone[i].p99.Seconds())
		if r.p99 > strangelySlow*median(s.rounds) {
			for _, line := range r.logged {
				s.t.Logf("round %d: %.400s", i+1, line)
			}
		}
	}
}

// round creates ordinary pods, and takes them away when they run. Alone, there are nodes for them.
func (s *siege) round(alone bool) round {
	s.t.Helper()
	s.ran++
	name := fmt.Sprintf("ordinary-%d", s.ran)
	d, nodes := ordinary(name, s.ran), []*corev1.Node(nil)
	if alone {
		d.Spec.Template.Spec.NodeSelector = map[string]string{"example.com/alone": name}
		nodes = s.nodesFor(name)
	}
	before, used, said, start := s.launched(), s.cpu(), s.controller.lines(), time.Now()
	s.must(s.client.Create(s.t.Context(), d))
	ran, asked := s.awaitPods(start, name)
	r := round{cpu: s.cpu() - used, launched: s.launched() - before, p99: ran[len(ran)-1-len(ran)/100], last: ran[len(ran)-1], asked: asked, logged: s.controller.since(said)}
	s.must(s.client.Delete(s.t.Context(), d, client.PropagationPolicy("Background")))
	s.await(func() error {
		var pods corev1.PodList
		if err := s.client.List(s.t.Context(), &pods, client.InNamespace(d.Namespace)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d ordinary pods are left", len(pods.Items))
		}
		return nil
	})
	for _, n := range nodes {
		s.must(s.client.Delete(s.t.Context(), n))
	}
	return r
}

// awaitPods returns how long each of the pods took until it ran, sorted, and after what time the last
// was found to fit nowhere.
func (s *siege) awaitPods(start time.Time, name string) (ran []time.Duration, asked time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), hostilePatience)
	defer cancel()
	took, refused := map[string]time.Duration{}, map[string]bool{}
	s.watch(ctx, &corev1.PodList{}, func(o client.Object) bool {
		p, ok := o.(*corev1.Pod)
		if !ok {
			return false
		}
		if _, known := took[p.Name]; !known && p.Status.Phase == corev1.PodRunning {
			took[p.Name] = time.Since(start)
		}
		if !refused[p.Name] && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		}) {
			refused[p.Name], asked = true, time.Since(start)
		}
		return len(took) == ordinaryPods || !s.controller.running()
	}, client.InNamespace("default"), client.MatchingLabels{"app": name})
	if len(took) != ordinaryPods {
		s.t.Fatalf("%s: %d of %d ordinary pods run, %d were found to fit nowhere; the controller runs: %v", s.name, len(took), ordinaryPods, len(refused), s.controller.running())
	}
	return slices.Sorted(maps.Values(took)), asked
}

// nodesFor returns nodes for ordinary pods, which are ready and not ours.
func (s *siege) nodesFor(name string) (nodes []*corev1.Node) {
	s.t.Helper()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3900m"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("64")}
	for i := range ordinaryNodes {
		n := &corev1.Node{}
		n.Name = fmt.Sprintf("%s-%d", name, i)
		n.Labels = map[string]string{"kwok.x-k8s.io/node": "fake", "example.com/alone": name, corev1.LabelHostname: n.Name}
		n.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
		n.Status.Capacity, n.Status.Allocatable = amounts, amounts
		s.must(s.client.Create(s.t.Context(), n))
		nodes = append(nodes, n)
	}
	s.await(func() error {
		var list corev1.NodeList
		if err := s.client.List(s.t.Context(), &list, client.MatchingLabels{"example.com/alone": name}); err != nil {
			return err
		}
		for i := range list.Items {
			if n := &list.Items[i]; !translate.NodeReady(n) || len(n.Spec.Taints) > 0 {
				return fmt.Errorf("node %s is not ready, or has taints: %v", n.Name, n.Spec.Taints)
			}
		}
		return nil
	})
	return nodes
}

// ordinary returns a deployment that asks for what people ask for, from the example pool, and for a
// rack of its own: nodes that are left from the round before, for hostile pods, are no head start.
func ordinary(name string, rack int) *appsv1.Deployment {
	replicas := int32(ordinaryPods)
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = "default", name
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec = corev1.PodSpec{
		PriorityClassName: "ordinary",
		NodeSelector:      map[string]string{karpenterv1.NodePoolLabelKey: "general", "rack": fmt.Sprint(rack)},
		Containers:        []corev1.Container{{Name: "a", Image: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}}}},
	}
	return d
}

// await asks now and then: lists of what is hostile are dear to the API server.
func (s *siege) await(check func() error) {
	s.t.Helper()
	var next time.Time
	err := errors.New("not asked yet")
	testkit.Eventually(s.t, hostilePatience, func() error {
		if !s.controller.running() {
			s.t.Fatalf("the controller ended:\n%s", s.controller)
		}
		if now := time.Now(); now.After(next) {
			err, next = check(), time.Now().Add(max(500*time.Millisecond, 5*time.Since(now)))
		}
		return err
	})
}

// lines returns how many lines the process has written to stdout.
func (p *process) lines() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.stdout)
}

// since returns the lines of stdout after the first n.
func (p *process) since(n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.stdout[n:])
}

// logEnd logs the end of what the controller has said, if the test has failed.
func (s *siege) logEnd() {
	if !s.t.Failed() {
		return
	}
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	for _, line := range s.controller.stdout[max(0, len(s.controller.stdout)-40):] {
		s.t.Logf("%.700s", line)
	}
}

// checkLaunches checks that claims don't come and go: beside hostile objects ordinary pods get no
// more than half as many again in a round, and hostile objects one for two of them in all.
func (s *siege) checkLaunches(calm *siege) {
	s.t.Helper()
	most := func(rounds []round) int {
		return slices.MaxFunc(rounds, func(a, b round) int { return cmp.Compare(a.launched, b.launched) }).launched
	}
	all, without := s.launched(), calm.launched()
	s.t.Logf("claims made: %d without, %d beside; in one round at most %d and %d", without, all, most(calm.rounds), most(s.rounds))
	if allowed := most(calm.rounds)*3/2 + s.accepted/50; most(s.rounds) > allowed {
		s.t.Errorf("%d claims were made in a round beside hostile objects, more than %d", most(s.rounds), allowed)
	}
	if allowed := without*3/2 + s.accepted/2; all > allowed {
		s.t.Errorf("%d claims were made beside hostile objects, more than %d", all, allowed)
	}
}

// checkProcess checks what the controller has used, and what it was at its wits' end about.
func (s *siege) checkProcess() {
	s.t.Helper()
	memory := s.memory()
	bugs := s.metric("dovetail_bugs_total")
	s.t.Logf("the controller has taken %d MiB and %s of CPU, and recovered from %v bugs; decisions: %v; given up: %v; slow: %v", memory>>20, s.cpu(), bugs,
		s.metric("dovetail_plan_seconds_count"), s.metric("dovetail_decisions_given_up_total"), s.metric("dovetail_decisions_slow_total"))
	if memory > memoryMost {
		s.t.Errorf("it has taken %d MiB, more than %d", memory>>20, memoryMost>>20)
	}
	if bugs > float64(s.accepted) {
		s.t.Errorf("it has recovered from %v bugs, more than one for each of %d objects", bugs, s.accepted)
	}
	if up := s.metric("dovetail_decisions_given_up_total"); up > float64(s.accepted) {
		s.t.Errorf("it has given up %v decisions, more than one for each of %d objects", up, s.accepted)
	}
	said := map[string]int{}
	for _, e := range s.controller.errors() {
		if strings.Contains(e.Error, "panic") || strings.Contains(e.Error, "bug: ") || strings.Contains(e.Message, "panic") {
			said[e.Message+": "+e.Error]++
		}
	}
	for text, times := range said {
		s.t.Errorf("said %d times: %.500s", times, text)
	}
	for _, line := range s.controller.errorLines() {
		s.t.Errorf("on standard error: %s", line)
	}
}

// checkWords checks that what the controller says is bounded by what there is to say it about.
func (s *siege) checkWords() {
	s.t.Helper()
	objects := s.accepted + s.ran*ordinaryPods + s.launched()
	s.controller.mu.Lock()
	lines, bytes := len(s.controller.stdout), 0
	for _, line := range s.controller.stdout {
		bytes += len(line)
	}
	s.controller.mu.Unlock()
	var list corev1.EventList
	s.must(s.client.List(s.t.Context(), &list))
	events, most := map[string]int{}, ""
	for i := range list.Items {
		e := &list.Items[i]
		if e.ReportingController != "karpenter" && e.Source.Component != "karpenter" {
			continue
		}
		on := e.InvolvedObject.Kind + " " + e.InvolvedObject.Name
		if events[on] += int(max(1, e.Count)); events[on] > events[most] {
			most = on
		}
	}
	s.t.Logf("it has logged %d lines of %d KiB about %d objects, and written events on %d, at most %d on one (%s)", lines, bytes>>10, objects, len(events), events[most], most)
	if lines > linesEach*objects || bytes > bytesEach*objects {
		s.t.Errorf("it has logged %d lines of %d bytes about %d objects, more than %d of %d each", lines, bytes, objects, linesEach, bytesEach)
	}
	if allowed := eventsEach * (1 + int(time.Since(s.started)/time.Minute)); events[most] > allowed {
		s.t.Errorf("it has written %d events on %s, more than %d", events[most], most, allowed)
	}
}

// checkClaims checks that no claim asks for less than nothing.
func (s *siege) checkClaims() {
	s.t.Helper()
	var claims karpenterv1.NodeClaimList
	if err := s.client.List(s.t.Context(), &claims); err != nil {
		s.t.Fatal(err)
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Labels[karpenterv1.NodePoolLabelKey] == "" || strings.HasPrefix(c.Name, "hostile-claim-") {
			continue
		}
		for name, q := range c.Spec.Resources.Requests {
			if q.Sign() < 0 {
				s.t.Errorf("claim %s asks for %s of %s", c.Name, q.String(), name)
			}
		}
	}
}

// cpu returns how much CPU time the controller has used.
func (s *siege) cpu() time.Duration {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.controller.cmd.Process.Pid))
	if err != nil {
		return 0 // another system, or the process has ended
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var ticks int64
	for _, f := range fields[11:13] { // user and system, in hundredths of a second
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory returns the most memory that the controller has had, in bytes.
func (s *siege) memory() int64 {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.controller.cmd.Process.Pid))
	if err != nil {
		return 0 // another system
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return n << 10
		}
	}
	return 0
}

// metric returns the sum of a metric over its labels; there may be none yet.
func (s *siege) metric(name string) (sum float64) {
	s.t.Helper()
	for line := range strings.Lines(get(s.t.Context(), s.t, s.controller.address("metrics")+"/metrics")) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		s.must(err)
		sum += v
	}
	return sum
}
