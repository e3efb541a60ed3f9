package disaster

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var (
	hourSeeds  = flag.Uint64("hour-seeds", 1, "how many hours of mixed faults there are")
	hourFirst  = flag.Uint64("hour-first", 0, "the seed of the first")
	hourLength = flag.Duration("hour-length", 20*time.Minute, "how long an hour of mixed faults is")
)

func during(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// trouble is what the account does to us, and how one sees that it did: an answer that it
// gave, or else that more instances were launched than are needed without it.
type trouble struct {
	faults []awssim.Fault
	sign   string
}

func troubles() map[string]trouble {
	one := func(sign string, f awssim.Fault) trouble { return trouble{[]awssim.Fault{f}, sign} }
	twice := func(sign string, f awssim.Fault) trouble {
		again := f
		again.At = during(20 * time.Second)
		return trouble{[]awssim.Fault{f, again}, sign}
	}
	return map[string]trouble{
		"every pool is short":           one("InsufficientInstanceCapacity", awssim.Fault{Kind: awssim.FaultShort, For: during(5 * time.Minute)}),
		"one zone is gone":              one("", awssim.Fault{Kind: awssim.FaultZone, For: during(8 * time.Minute)}),
		"the quotas are reached":        one("Exceeded", awssim.Fault{Kind: awssim.FaultQuota, Target: "*", Count: 64, For: during(5 * time.Minute)}),
		"the subnets have no addresses": one("InsufficientFreeAddressesInSubnet", awssim.Fault{Kind: awssim.FaultAddresses, For: during(5 * time.Minute)}),
		"a storm of throttling":         one("RequestLimitExceeded", awssim.Fault{Kind: awssim.FaultThrottle, Rate: 0.8, For: during(3 * time.Minute)}),
		"errors of the service":         one("InternalError", awssim.Fault{Kind: awssim.FaultError, Rate: 0.5, For: during(4 * time.Minute)}),
		"connections are cut after the work": {[]awssim.Fault{
			{Kind: awssim.FaultCut, Operation: "ec2:CreateFleet", Times: 2, For: during(4 * time.Minute)},
			{Kind: awssim.FaultCut, Rate: 0.7, For: during(4 * time.Minute)},
		}, "ec2:CreateFleet cut"},
		"new things are unseen for 30 s":           one("DryRunOperation", awssim.Fault{Kind: awssim.FaultInconsistent, Delay: during(30 * time.Second), For: during(8 * time.Minute)}), // they are asked for by filters, which just find nothing
		"launch templates are deleted by hand":     twice("InvalidLaunchTemplateName.NotFoundException", awssim.Fault{Kind: awssim.FaultDeleteTemplates, Target: "*"}),
		"instances are terminated by hand":         twice("", awssim.Fault{Kind: awssim.FaultTerminate, Count: 3}),
		"images are deprecated":                    one("", awssim.Fault{Kind: awssim.FaultDeprecate, Target: "*"}),
		"the credentials have expired":             one("RequestExpired", awssim.Fault{Kind: awssim.FaultExpired, For: during(3 * time.Minute)}),
		"the endpoints are down":                   one("ec2:CreateFleet down", awssim.Fault{Kind: awssim.FaultDown, For: during(3 * time.Minute)}),
		"spot instances are taken back":            one("", awssim.Fault{Kind: awssim.FaultInterrupt, Count: 4}),
		"instances fail their checks":              one("", awssim.Fault{Kind: awssim.FaultImpair, Count: 2}),
		"instances are retired in ten minutes":     one("", awssim.Fault{Kind: awssim.FaultMaintenance, Count: 3, Delay: during(10 * time.Minute)}),
		"leaving some spot instances is suggested": one("DryRunOperation", awssim.Fault{Kind: awssim.FaultRebalance, Count: 4}), // and nothing follows
	}
}

// TestFaults has each fault happen by itself, while more instances are needed: in an account that
// is as believed, and in one where all is otherwise. Under the race detector it has one of them.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, some := range troubles() {
		for kind, is := range map[string]awssim.Beliefs{"as believed": {}, "otherwise": contrary()} {
			if (testkit.Raced || testing.Short()) && (name != "a storm of throttling" || kind != "as believed") {
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					d := newDisaster(t, 1)
					defer d.end()
					d.sim.Believe(is)
					d.until(5*time.Minute, d.poolReady)
					d.load(40)
					d.until(10*time.Minute, func() string { return d.allRun(40) })
					d.inject(some.faults...)
					d.load(70)
					time.Sleep(9 * time.Minute)
					d.sim.Clear()
					d.settled(70, is)
					d.shows(some.sign)
				})
			})
		}
	}
}

// enough is how many instances are launched when nothing goes wrong, 7 and then 5 more.
const enough = 12

// shows fails the test if there is no sign that the fault did anything.
func (d *disaster) shows(sign string) {
	d.t.Helper()
	if launched := len(d.sim.Instances()); sign == "" && launched <= enough {
		d.t.Errorf("%d instances were launched, as many as without a fault", launched)
	}
	for answer := range d.sim.Refused() {
		if strings.Contains(answer, sign) {
			return
		}
	}
	d.t.Errorf("none of these answers has %q in it: %v", sign, d.sim.Refused())
}

// TestClassBecomesReady has pods wait for a class that is made after them: as soon as it can
// be used, instances are bought.
func TestClassBecomesReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisaster(t, 1)
		defer d.end()
		d.load(20)
		d.until(time.Minute, d.poolReady)
		d.until(5*time.Second, func() string {
			if len(d.sim.Instances()) == 0 {
				return "no instance was bought"
			}
			return ""
		})
	})
}

// TestDownAtStart begins while nothing of AWS answers.
func TestDownAtStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisaster(t, 1, awssim.Fault{Kind: awssim.FaultDown, For: during(4 * time.Minute)})
		defer d.end()
		d.load(30)
		begun := time.Now()
		d.until(15*time.Minute, func() string { return d.allRun(30) })
		t.Logf("all run %s after the start", time.Since(begun))
		d.aftermath(30)
	})
}

// TestHourOfFaults mixes all faults at random, with load that comes and goes, and with
// crashes of the product. With an odd seed AWS does otherwise than is believed.
func TestHourOfFaults(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	for seed := *hourFirst; seed < *hourFirst+*hourSeeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { hour(t, seed) })
		})
	}
}

func hour(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	all := troubles()
	names := slices.Sorted(maps.Keys(all))
	d := newDisaster(t, seed)
	defer d.end()
	is := awssim.Beliefs{}
	if seed%2 == 1 {
		is = contrary()
		d.sim.Believe(is)
	}
	pods := 0
	for begun := time.Now(); time.Since(begun) < *hourLength; {
		switch rng.IntN(4) {
		case 0:
			pods = rng.IntN(120)
			d.load(pods)
		case 1, 2:
			name := names[rng.IntN(len(names))]
			t.Logf("%s: %s", time.Since(begun), name)
			d.inject(all[name].faults...)
		case 3:
			if rng.IntN(3) == 0 {
				t.Logf("%s: a crash", time.Since(begun))
				d.kill()
				time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
				d.begin()
			}
		}
		time.Sleep(time.Duration(10+rng.IntN(80)) * time.Second)
	}
	d.sim.Clear()
	d.settled(pods, is)
}

// disaster is a world in which something goes wrong.
type disaster struct {
	*world
	adopted map[string]string // the claim of each instance that ever had one
	double  []string          // claims that had a second one
	begun   time.Time
	ended   map[string]time.Time // when claims were gone, by name
	orders  map[string][]string  // the claims that were marked with a launch, by its name
}

func newDisaster(t *testing.T, seed uint64, begin ...awssim.Fault) *disaster {
	t.Helper()
	d := &disaster{world: newWorld(t, func(o *awssim.Options) { o.Seed = seed }), adopted: map[string]string{}, begun: time.Now(), ended: map[string]time.Time{}, orders: map[string][]string{}}
	d.inject(begin...)
	had := map[string]string{} // by claim
	d.kube.locked(func() {
		d.kube.api.Watch(func(kind string, was, is client.Object) {
			if claim, ok := is.(*karpenterv1.NodeClaim); ok && claim != nil {
				d.order(claim)
			}
			if kind == "NodeClaim" && is == nil {
				d.ended[was.GetName()] = time.Now()
			}
			claim, ok := is.(*karpenterv1.NodeClaim)
			if kind != "NodeClaim" || !ok || claim == nil || claim.Status.ProviderID == "" {
				return
			}
			id := claim.Status.ProviderID
			if before := had[claim.Name]; before != "" && before != id {
				d.double = append(d.double, fmt.Sprintf("claim %s had %s and then %s", claim.Name, before, id))
			}
			had[claim.Name], d.adopted[id[strings.LastIndex(id, "/")+1:]] = id, claim.Name
		})
	})
	d.furnish("4", "8")
	d.begin()
	return d
}

func (d *disaster) inject(some ...awssim.Fault) {
	d.t.Helper()
	some = slices.Clone(some)
	for i := range some {
		if live := d.sim.Instances(); some[i].Kind == awssim.FaultZone && len(live) > 0 {
			some[i].Zone = live[0].Zone // one that matters
		}
	}
	if err := d.sim.Inject(some...); err != nil {
		d.t.Fatal(err)
	}
}

// order notes for which launch a claim is marked.
func (d *disaster) order(claim *karpenterv1.NodeClaim) {
	launch, _, marked := strings.Cut(claim.Annotations[awsv1.AnnotationLaunch], " ")
	if marked && !slices.Contains(d.orders[launch], claim.Name) {
		d.orders[launch] = append(d.orders[launch], claim.Name)
	}
}

// orphans returns the instances that were never a claim's, but for those that were launched
// for claims that gave up before they learned of them: one for each.
func (d *disaster) orphans(ever []awssim.Instance) (orphans []string) {
	had := map[string]bool{}
	for _, claim := range d.adopted {
		had[claim] = true
	}
	for _, i := range ever {
		if d.adopted[i.ID] != "" {
			continue
		}
		claims := d.orders[i.Tags[awsv1.AnnotationLaunch]]
		at := slices.IndexFunc(claims, func(claim string) bool {
			ended, ok := d.ended[claim]
			return !had[claim] && ok && ended.After(i.Launched)
		})
		if at < 0 {
			orphans = append(orphans, fmt.Sprintf("%s (of %s, launched %s)", i.ID, claims, i.Launched.Sub(d.begun)))
			continue
		}
		had[claims[at]] = true
	}
	return orphans
}

// load wants so many pods, of three kinds.
func (d *disaster) load(pods int) {
	for i, a := range []*cluster.Workload{
		{Name: "small", CPUMilli: 300, MemoryMiB: 500, GraceSeconds: 5},
		{Name: "web", CPUMilli: 1000, MemoryMiB: 1500, GraceSeconds: 20},
		{Name: "big", CPUMilli: 2500, MemoryMiB: 4000, GraceSeconds: 30},
	} {
		d.kube.scale(a, (pods+i)/3)
	}
}

// aftermath checks what must be when the faults are over: all pods run, every instance
// has its claim and Node, none was bought twice, and in the end nothing is left.
func (d *disaster) aftermath(pods int) {
	t := d.t
	t.Helper()
	begun := time.Now()
	d.until(20*time.Minute, func() string { return d.allRun(pods) })
	t.Logf("all %d pods run %s after the faults", pods, time.Since(begun))
	d.until(20*time.Minute, d.agree)
	ever := d.sim.Instances()
	if orphans := d.orphans(ever); len(orphans) > 0 {
		t.Errorf("%d of %d instances were never a claim's: %v", len(orphans), len(ever), orphans)
	}
	for _, line := range d.double {
		t.Error(line)
	}
	d.load(0)
	d.until(20*time.Minute, func() string { return d.allRun(0) })
	d.kube.locked(func() {
		for _, pool := range cluster.All[*karpenterv1.NodePool](d.kube.api) {
			d.kube.api.Delete(pool, 0)
		}
		for _, claim := range cluster.All[*karpenterv1.NodeClaim](d.kube.api) { // whom the pool owned
			d.kube.api.Delete(claim, 0)
		}
		for _, class := range cluster.All[*awsv1.EC2NodeClass](d.kube.api) {
			d.kube.api.Delete(class, 0)
		}
	})
	d.until(30*time.Minute, func() (left string) {
		d.kube.locked(func() {
			if n := len(cluster.All[*awsv1.EC2NodeClass](d.kube.api)); n > 0 {
				left = fmt.Sprintf("%d classes, %d claims, %d Nodes are left", n, len(cluster.All[*karpenterv1.NodeClaim](d.kube.api)), d.kube.api.Shelf("Node").Len())
			}
		})
		return left
	})
	d.until(10*time.Minute, d.agree)
	if templates, profiles := d.sim.Templates(), d.sim.Profiles(); len(templates)+len(profiles) > 0 {
		t.Errorf("launch templates %v and instance profiles %v are left", templates, profiles)
	}
	if unknown := d.sim.Unknown(); len(unknown) > 0 {
		t.Errorf("operations that EC2's simulator does not know: %v", unknown)
	}
}
