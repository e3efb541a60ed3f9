package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// Workloads of the play.
const (
	// crashLoad comes and goes, up to crashPods pods of one cpu; more than fit in the limit.
	crashLoad, crashPods = "load", 40
	// crashGuarded has a PodDisruptionBudget that lets awayMost be away.
	crashGuarded, guardedPods = "guarded", 8
	// crashHeld must not be disrupted, and runs on demand.
	crashHeld, heldPods = "held", 2
)

const (
	crashGoing, crashCPUs = 2, 32 // what the pool lets go at once, and has at most
	// crashLife is how long a life may last when what it waits for does not happen; eventsMost
	// how often it has to, fuseMost how long it may last after that.
	crashLife, eventsMost, fuseMost = 8 * time.Second, 3, 300 * time.Millisecond
	// awaitRestMost is how long the end of all work is waited for. kube-scheduler tries a pod again only
	// after five minutes if it has overlooked what made room for it.
	awaitRestMost = 8 * time.Minute
	// restAfter is after how many deaths the controller may come to an end of its work.
	restAfter = 8
)

var (
	crashes   = flag.Int("crashes", 4, "moments at which TestCrash kills the controller")
	crashSeed = flag.Uint64("crash-seed", 1, "chooses these moments")
)

// act is something that gives the controller work, and what the controller is seen doing
// about it: moments to be killed at.
type act struct {
	name    string
	do      func(*play)
	moments []string
}

func acts() []act {
	launching := []string{
		"claim created", "ec2:CreateLaunchTemplate", "ec2:CreateFleet", "claim launched", "ec2:CreateTags", "node joined",
		"claim Registered", "claim Initialized", "pod bound",
	}
	deleting := []string{"claim DisruptionReason", "node tainted", "claim deleted", "node deleted", "pod evicted", "ec2:TerminateInstances", "node gone", "claim gone"}
	return []act{
		{"scale up", (*play).grow, launching},
		{"consolidate", (*play).shrink, deleting},
		{"drift", (*play).drift, slices.Concat(deleting, launching)},
		{"interrupt", (*play).interrupt, slices.Concat([]string{"sqs:DeleteMessage"}, deleting, launching)},
	}
}

// TestCrash kills the controller at random moments of a scale-up, of consolidation, drift and
// interruption, on a simulated AWS account, and watches from outside. -crash-seed repeats a
// choice of moments, as far as that goes with real processes.
func TestCrash(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	first := p.start()
	p.awaitAll(patience)
	p.stage("all run")
	p.judgeBudgets()
	first.kill()
	all := acts()
	for i := range *crashes {
		p.life(i+1, &all[i%len(all)])
		if (i+1)%restAfter == 0 && i+1 < *crashes {
			rest := p.start()
			p.awaitAll(2 * patience)
			p.stage("all run again")
			rest.kill()
		}
	}
	last := p.start()
	p.awaitRest(crashPods / 4)
	p.stage("nothing happens")
	p.end()
	p.stage("nothing is left")
	if unknown := p.sim.Unknown(); len(unknown) > 0 {
		t.Errorf("operations beyond those that are known: %v", unknown)
	}
	if status := last.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	p.report()
}

// play is a cluster, an account, a controller that dies, and who watches it.
type play struct {
	t       *testing.T
	cluster *testkit.Cluster
	client  client.Client
	rights  string // the kubeconfig of the controller
	sim     *awssim.Sim
	env     []string
	witness *witness
	random  *rand.Rand
	load    int // pods of it
	drifts  int
	// processes are all controllers so far, of which the last may be alive.
	processes []*process
	began     time.Time
}

func newPlay(t *testing.T) *play {
	t.Helper()
	t.Logf("-crashes=%d -crash-seed=%d", *crashes, *crashSeed)
	p := &play{
		t: t, cluster: testkit.StartCluster(t), random: rand.New(rand.NewPCG(*crashSeed, 0)),
		began: time.Now(),
	}
	p.client = connect(t, p.cluster)
	installDefinitions(t, p.client)
	p.rights = asInstalled(t, p.cluster, p.client)
	p.sim, p.env = account(t, p.cluster, p.client, awssim.Credentials{})
	p.witness = bearWitness(t, p.cluster.Config, p.sim, rules{
		goingMost: crashGoing, cpusMost: crashCPUs, held: crashHeld,
		budgets: map[string]allowance{crashGuarded: {guardedPods, awayMost}},
	})
	for _, o := range []client.Object{awsClass(), crashPool()} {
		if err := p.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	createWorkload(t, p.client, crashGuarded, guardedPods, 1000)
	p.load = crashPods / 4
	createWorkload(t, p.client, crashLoad, p.load, 1000)
	p.createHeld()
	t.Cleanup(func() {
		if t.Failed() {
			p.witness.mu.Lock()
			for _, b := range p.witness.broken {
				t.Logf("broken: %s", b)
			}
			p.witness.mu.Unlock()
			for _, last := range p.processes[max(0, len(p.processes)-1):] {
				t.Logf("the last controller: %s", last)
			}
		}
	})
	return p
}

// crashPool is a pool of small nodes, spot where there is any, that is consolidated eagerly.
func crashPool() *karpenterv1.NodePool {
	np := awsPool()
	second := time.Second
	np.Spec.Disruption = karpenterv1.Disruption{
		ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpenterv1.NillableDuration{Duration: &second},
		Budgets:             []karpenterv1.Budget{{Nodes: fmt.Sprint(crashGoing)}},
	}
	np.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(crashCPUs, resource.DecimalSI)}
	np.Spec.Template.Spec.Requirements[1].Values = []string{karpenterv1.CapacityTypeSpot, karpenterv1.CapacityTypeOnDemand}
	np.Spec.Template.Spec.Requirements = append(np.Spec.Template.Spec.Requirements,
		karpenterv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"2", "4"}})
	return np
}

// createHeld creates the pods that must not be disrupted.
func (p *play) createHeld() {
	p.t.Helper()
	createWorkload(p.t, p.client, crashHeld, 0, 1000)
	p.patch(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: crashHeld}}, fmt.Sprintf(`{"spec":{"replicas":%d,"template":{"metadata":{"annotations":{%q:"true"}},"spec":{"nodeSelector":{%q:%q}}}}}`,
		heldPods, karpenterv1.DoNotDisruptAnnotationKey, karpenterv1.CapacityTypeLabelKey, karpenterv1.CapacityTypeOnDemand))
}

func (p *play) patch(o client.Object, patch string) {
	p.t.Helper()
	if err := p.client.Patch(p.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *play) start() *process {
	p.t.Helper()
	return p.startAs(p.rights, p.env, "--disable-leader-election=true")
}

// startAs starts a controller that finds the servers by its own ways.
func (p *play) startAs(kubeconfig string, env []string, flags ...string) *process {
	p.t.Helper()
	args := append([]string{
		"controller", "--kubeconfig", kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0", "--cloud-provider=aws",
		"--cluster-name=demo", "--interruption-queue=demo", "--batch-idle-duration=300ms", "--consolidation-rest=10s",
	}, flags...)
	c := startIn(p.t, env, args...)
	p.t.Cleanup(func() {
		if strings.Contains(c.String(), "forbidden") {
			p.t.Errorf("a controller was not allowed something: %s", c)
		}
	})
	p.processes = append(p.processes, c)
	return c
}

// life has the controller work on an act until something has happened some times, and a
// little longer; then it is killed.
func (p *play) life(number int, a *act) {
	p.t.Helper()
	moment, times := a.moments[p.random.IntN(len(a.moments))], 1+p.random.IntN(eventsMost)
	fuse := time.Duration(p.random.Int64N(int64(fuseMost)))
	if p.random.IntN(2) == 0 {
		fuse = 0
	}
	early := p.random.IntN(2) == 0 // it comes before the controller does
	if early {
		a.do(p)
	}
	before := p.witness.count(moment)
	c := p.start()
	if !early {
		p.witness.await("ec2:CreateFleet", p.witness.count("ec2:CreateFleet")+1, time.Duration(p.random.Int64N(int64(4*time.Second))))
		a.do(p)
	}
	p.witness.await(moment, before+times, crashLife)
	timer := time.NewTimer(fuse)
	<-timer.C
	if !c.running() {
		p.t.Fatalf("the controller ended by itself:\n%s", c)
	}
	c.kill()
	p.stage(fmt.Sprintf("kill %d, %s, %s after %s, %d of %d", number, a.name, fuse.Round(time.Millisecond), moment, p.witness.count(moment)-before, times))
}

// grow asks for more than the pool may have, more or less.
func (p *play) grow() { p.scale(crashPods/2 + p.random.IntN(crashPods/2)) }

func (p *play) shrink() { p.scale(p.random.IntN(crashPods / 4)) }

func (p *play) scale(pods int) {
	p.load = pods
	scaleWorkload(p.t, p.client, crashLoad, pods)
}

// drift changes what the pool's nodes should be like.
func (p *play) drift() {
	p.drifts++
	changePool(p.t, p.client, func(np *karpenterv1.NodePool) {
		np.Spec.Template.Labels = map[string]string{"generation": fmt.Sprint(p.drifts)}
	})
}

// interrupt gives one or two spot instances their notice.
func (p *play) interrupt() {
	p.t.Helper()
	var spot []string
	for _, in := range p.sim.Instances() {
		if in.Live() && in.CapacityType == karpenterv1.CapacityTypeSpot && in.Interrupted.IsZero() {
			spot = append(spot, in.ID)
		}
	}
	for range min(len(spot), 1+p.random.IntN(2)) {
		i := p.random.IntN(len(spot))
		p.witness.expect(spot[i])
		if err := p.sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Target: spot[i], Count: 1}); err != nil {
			p.t.Fatal(err)
		}
		spot = slices.Delete(spot, i, i+1)
	}
}

// awaitAll returns when all pods run for which the pool has room, or that are guarded.
func (p *play) awaitAll(within time.Duration) {
	p.t.Helper()
	testkit.Eventually(p.t, within, func() error {
		now, err := observe(p.t.Context(), p.client)
		if err != nil {
			return err
		}
		running := map[string]int{}
		for i := range now.pods {
			if isHealthy(&now.pods[i]) {
				running[now.pods[i].Labels["app"]]++
			}
		}
		want := map[string]int{crashLoad: min(p.load, crashPods/4), crashGuarded: guardedPods, crashHeld: heldPods}
		for name, n := range want {
			if running[name] < n {
				return fmt.Errorf("%d of %d pods of %s run; %d claims", running[name], n, name, len(now.claims))
			}
		}
		return nil
	})
}

func (p *play) judgeBudgets() {
	p.witness.mu.Lock()
	defer p.witness.mu.Unlock()
	p.witness.judged = true
}

// awaitRest gives the load a last size, and returns when nothing happens any more and nodes,
// claims and Nodes are one to one.
func (p *play) awaitRest(pods int) {
	p.t.Helper()
	p.scale(pods)
	reported := false
	testkit.Eventually(p.t, awaitRestMost, func() error {
		idle := p.witness.idle()
		if idle < stillFor {
			return fmt.Errorf("nothing happened for %s: %s", idle, p.witness)
		}
		now, err := observe(p.t.Context(), p.client)
		if err != nil {
			return err
		}
		if idle > time.Minute && !reported {
			reported = true
			p.stage("nothing happened for a minute")
			p.logWaiting(now)
		}
		if want := pods + guardedPods + heldPods; now.running() != want || len(now.pods) != want {
			return fmt.Errorf("%d of %d pods run, want %d", now.running(), len(now.pods), want)
		}
		if len(now.nodes) != len(now.claims) {
			return fmt.Errorf("%d nodes, %d claims", len(now.nodes), len(now.claims))
		}
		for i := range now.claims {
			if nc := &now.claims[i]; nc.DeletionTimestamp != nil || !is(nc, karpenterv1.ConditionTypeInitialized) {
				return fmt.Errorf("claim %s is not initialized, or goes", nc.Name)
			}
		}
		return agree(p.t, p.client, p.sim)
	})
}

// logWaiting logs the pods that have no node, what kube-scheduler says of them, and the nodes.
func (p *play) logWaiting(now *picture) {
	p.t.Helper()
	used := map[string][]string{}
	for i := range now.pods {
		pod := &now.pods[i]
		used[pod.Spec.NodeName] = append(used[pod.Spec.NodeName], pod.Name)
		if pod.Spec.NodeName == "" {
			p.t.Logf("pod %s has no node; nominated for %q, conditions %v", pod.Name, pod.Status.NominatedNodeName, pod.Status.Conditions)
		}
	}
	for i := range now.nodes {
		n := &now.nodes[i]
		p.t.Logf("node %s, deleted %v, allocatable cpu %s, taints %v, pods %v", n.Name, n.DeletionTimestamp, n.Status.Allocatable.Cpu(), n.Spec.Taints, used[n.Name])
	}
}

// end takes everything away: nothing is left in the account.
func (p *play) end() {
	p.t.Helper()
	p.witness.letGo()
	for _, name := range []string{crashLoad, crashGuarded, crashHeld} {
		scaleWorkload(p.t, p.client, name, 0)
	}
	for _, o := range []client.Object{crashPool(), awsClass()} {
		if err := p.client.Delete(p.t.Context(), o); err != nil {
			p.t.Fatal(err)
		}
	}
	testkit.Eventually(p.t, 2*patience, func() error {
		now, err := observe(p.t.Context(), p.client)
		if err != nil {
			return err
		}
		left := len(running(p.sim)) + len(p.sim.Templates()) + len(p.sim.Profiles())
		if left+len(now.claims)+len(now.nodes)+len(now.pods) > 0 {
			return fmt.Errorf("left: %d instances, templates %v, profiles %v, %d claims, %d nodes, %d pods",
				len(running(p.sim)), p.sim.Templates(), p.sim.Profiles(), len(now.claims), len(now.nodes), len(now.pods))
		}
		return nil
	})
}

// stage logs how far the test is.
func (p *play) stage(what string) {
	p.t.Helper()
	p.t.Logf("%5.1f s: %s; %s", time.Since(p.began).Seconds(), what, p.witness)
}

// report says what was seen, and fails when a promise was broken.
func (p *play) report() {
	p.t.Helper()
	p.witness.mu.Lock()
	defer p.witness.mu.Unlock()
	p.t.Logf("%d claims, %d evictions; seen: %v; AWS refused %v", p.witness.seen["claim created"], p.witness.seen["pod evicted"], p.witness.seen, p.sim.Refused())
	for _, b := range p.witness.broken {
		p.t.Error(b)
		for _, claim := range claimName.FindAllString(b, -1) {
			p.reportOf(claim)
		}
	}
}

// claimName is how claims of the only pool are called.
var claimName = regexp.MustCompile(`general-\w+`)

// reportOf prints what all controllers said of a claim.
func (p *play) reportOf(claim string) {
	p.t.Helper()
	for i, c := range p.processes {
		for line := range strings.Lines(c.String()) {
			if strings.Contains(line, claim) {
				p.t.Logf("controller %d: %s", i+1, strings.TrimSpace(line))
			}
		}
	}
}
