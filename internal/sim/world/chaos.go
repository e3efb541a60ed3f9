package world

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// timed has the mean time between two of each fault that strikes from time to time.
//
//nolint:gochecknoglobals // what there is, which nobody changes
var timed = []struct {
	fault Fault
	mean  time.Duration
	does  func(*chaos)
}{
	{Crash, 40 * time.Minute, (*chaos).crash},
	{Stopped, 60 * time.Minute, (*chaos).stopLeader},
	{WatchLags, 8 * time.Minute, (*chaos).lag},
	{WatchRelist, 10 * time.Minute, (*chaos).relist},
	{Freeze, 30 * time.Minute, (*chaos).freezeOne},
	{Reclaim, 25 * time.Minute, (*chaos).reclaim},
	{Shortage, 20 * time.Minute, (*chaos).shortage},
	{NodeDeleted, 60 * time.Minute, (*chaos).deleteNode},
	{PodDeleted, 10 * time.Minute, (*chaos).deletePod},
	{ClaimGone, 60 * time.Minute, (*chaos).deleteClaim},
	{PoolEdited, 45 * time.Minute, (*chaos).editPool},
	{PoolGone, 4 * time.Hour, (*chaos).deletePool},
	{Drift, 3 * time.Hour, (*chaos).drift},
	{ClockJump, 90 * time.Minute, (*chaos).jump},
	{Scale, 6 * time.Minute, (*chaos).scale},
	{Rollout, 60 * time.Minute, (*chaos).rollout},
}

func newChaos(w *World) *chaos { return &chaos{w: w, odds: map[Fault]float64{}} }

// begin makes the cluster and starts everything.
func (c *chaos) begin() {
	w := c.w
	c.stormy = w.opts.Stormy > 0
	w.api.Watch(func(kind string, was, is client.Object) {
		for _, p := range w.processes() {
			if n := p.informers.of[kind]; n != nil {
				n.observe(was, is)
			}
		}
	})
	for _, name := range []string{cluster.Namespace, "kube-system"} {
		_ = w.api.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	_ = w.api.Create(&kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	c.setReady()
	if w.arrivals != nil {
		c.pools = append(c.pools, w.arrivals.pool())
	} else {
		c.makePools()
	}
	for _, p := range c.pools {
		_ = w.api.Create(p.DeepCopy())
	}
	w.statics.begin()
	w.workloads.AddDaemon()
	w.cluster.Volumes.AddClass()
	if w.arrivals != nil {
		w.arrivals.begin()
	} else {
		c.makeApps()
	}
	w.buffers.begin()
	w.gangs.begin()
	w.reboots.begin()
	w.late.begin()
	if slices.Contains(w.opts.With, ShortAtFirst) {
		c.shortage()
	}
	w.startProcess()
	w.cluster.Start()
	w.every(checkEvery, w.checks.checkAll)
	c.arm()
	w.tenant.begin()
	w.after(w.opts.Stormy, c.end)
}

// arm decides which faults there are in this world, and how often.
func (c *chaos) arm() {
	w := c.w
	off := func(f Fault) bool { return slices.Contains(w.opts.Without, f) }
	named := func(f Fault) bool { return slices.Contains(w.opts.With, f) }
	for _, faults := range [][]Fault{writeFaults, launchFaults, joinFaults, volumeFaults, thinkFaults} {
		for _, f := range faults {
			p := math.Pow(10, -1.3-2*w.rand.Float64()) // 5 % … 0.05 %
			if f == CrashBefore || f == CrashAfter {
				p /= 20
				if w.opts.Ordinary {
					p /= seldom
				}
			}
			if on := w.chance(0.6); (on || w.opts.Ordinary) && !off(f) && c.stormy {
				c.odds[f] = p
			}
			if named(f) {
				c.odds[f] = namedOdds
			}
		}
	}
	c.slow = w.between(0, 20*time.Second)
	for _, t := range timed {
		mean := time.Duration(float64(c.meanOf(t.fault, t.mean)) * math.Pow(4, w.rand.Float64()*2-1))
		on := w.chance(0.7)
		if named(t.fault) {
			on, mean = true, namedMean
		}
		if (on || t.fault == Scale || w.opts.Ordinary) && !off(t.fault) && c.stormy {
			c.again(t.fault, mean, t.does)
		}
	}
	if w.opts.Ordinary {
		c.followHours()
	}
}

// again has a fault strike now and then until the storm is over.
func (c *chaos) again(f Fault, mean time.Duration, does func(*chaos)) {
	c.w.after(time.Duration(c.w.rand.ExpFloat64()*float64(mean)), func() {
		if !c.stormy {
			return
		}
		c.w.note("fault %s", f)
		c.w.count(string(f))
		does(c)
		c.again(f, mean, does)
	})
}

// end is the end of the storm: everything that was broken is as it should be.
func (c *chaos) end() {
	w := c.w
	w.note("calm")
	w.tenant.check() // before the clocks are right again, as in jump
	c.stormy, c.skew, c.slow = false, 0, 0
	clear(c.odds)
	clear(w.cloud.stock)
	for _, i := range w.cloud.live() {
		if i.frozen.After(w.at) {
			i.frozen = time.Time{}
			if !i.boots {
				i.silentSince = time.Time{}
			}
		}
	}
	for _, p := range c.pools {
		if had, ok := cluster.Find[*karpenterv1.NodePool](w.api, "", p.Name); ok && had.DeletionTimestamp == nil {
			cluster.Edit(w.api, had, func(np *karpenterv1.NodePool) { np.Spec = *p.Spec.DeepCopy() })
		} else {
			_ = w.api.Create(p.DeepCopy())
		}
	}
	w.statics.end()
	w.buffers.end()
	w.gangs.end()
	w.reboots.end()
	for _, a := range w.workloads.All {
		if a.RunsFor > 0 {
			a.Replicas = 0
		}
		w.workloads.Wake(a)
	}
}

func (c *chaos) crash() {
	if p := c.w.process; p != c.w.former {
		p.crash()
	}
}

const (
	// lease is for how long a leader that does not renew its lease leads.
	lease = 15 * time.Second
	// lastWords is how long one goes on at most that was stopped for longer: it ends when its
	// fence keeps something in.
	lastWords = 500 * time.Millisecond
)

// stopLeader has the process stand still for so long that another leads when it goes on where
// it was.
func (c *chaos) stopLeader() {
	w := c.w
	p := w.process
	if p.dead || !p.running || w.former != nil {
		return
	}
	w.former = p
	_ = p.fence.Renew(func() error { return nil }) // the last time
	next := w.between(lease, lease+2*time.Second)
	p.stopped = w.at.Add(w.between(lease, 4*lease))
	w.after(next, w.startProcess)
	w.after(max(next, p.stopped.Sub(w.at))+w.between(0, lastWords), func() {
		p.end()
		w.former = nil
	})
}

func (c *chaos) lag() {
	p := c.w.process
	if p.dead || !p.running {
		return
	}
	n := pick(c.w, p.informers.sorted)
	n.held = c.w.at.Add(c.w.between(100*time.Millisecond, 15*time.Second))
}

func (c *chaos) relist() {
	p := c.w.process
	if p.dead || !p.running {
		return
	}
	pick(c.w, p.informers.sorted).relist(false)
}

func (c *chaos) victim() *instance {
	if live := c.w.cloud.live(); len(live) > 0 {
		return pick(c.w, live)
	}
	return nil
}

func (c *chaos) freezeOne() {
	if i := c.victim(); i != nil && i.state == joined {
		c.w.cloud.freeze(i, c.w.between(10*time.Second, 25*time.Minute))
	}
}

func (c *chaos) reclaim() {
	if i := c.victim(); i != nil {
		c.w.cloud.stop(i, "reclaimed")
	}
}

// shortage empties the stock of some places for a while.
func (c *chaos) shortage() {
	w := c.w
	for _, t := range w.cloud.types {
		for n := range t.Offerings {
			if w.chance(0.3) {
				place := catalog.Place{Type: t.Name, Zone: t.Offerings[n].Zone, CapacityType: t.Offerings[n].CapacityType}
				w.cloud.stock[place] = w.rand.IntN(2)
				w.after(w.between(time.Minute, 20*time.Minute), func() { delete(w.cloud.stock, place) })
			}
		}
	}
}

func (c *chaos) deleteNode() {
	if nodes := cluster.All[*corev1.Node](c.w.api); len(nodes) > 0 {
		c.w.api.Delete(pick(c.w, nodes), 0)
	}
}

func (c *chaos) deletePod() {
	if pods := cluster.All[*corev1.Pod](c.w.api); len(pods) > 0 {
		pod := pick(c.w, pods)
		c.w.api.Delete(pod, cluster.GraceOf(pod))
	}
}

func (c *chaos) deleteClaim() {
	if claims := cluster.All[*karpenterv1.NodeClaim](c.w.api); len(claims) > 0 {
		c.w.api.Delete(pick(c.w, claims), 0)
	}
}

// pool returns a pool that chaos may edit: those of statics and gangs have users of their own.
func (c *chaos) pool() *karpenterv1.NodePool {
	pools := slices.DeleteFunc(cluster.All[*karpenterv1.NodePool](c.w.api), func(np *karpenterv1.NodePool) bool {
		return !slices.ContainsFunc(c.pools, func(p *karpenterv1.NodePool) bool { return p.Name == np.Name })
	})
	if len(pools) > 0 {
		return pick(c.w, pools)
	}
	return nil
}

func (c *chaos) editPool() {
	np := c.pool()
	if np == nil {
		return
	}
	cluster.Edit(c.w.api, np, func(np *karpenterv1.NodePool) {
		switch c.w.rand.IntN(4) {
		case 0:
			np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: pick(c.w, []string{"0", "10%", "50%", "2"})}}
		case 1:
			np.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(8+c.w.rand.IntN(100)), resource.DecimalSI)}
		case 2:
			np.Spec.Template.Labels = map[string]string{"team": fmt.Sprint(c.w.rand.IntN(3))}
		default:
			np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{Duration: new(pick(c.w, []time.Duration{0, time.Minute, 10 * time.Minute}))}
		}
	})
}

// deletePool removes a pool, and makes it again some time later.
func (c *chaos) deletePool() {
	np := c.pool()
	if np == nil {
		return
	}
	c.w.api.Delete(np, 0)
	for _, p := range c.pools {
		if p.Name == np.Name {
			c.w.after(c.w.between(time.Second, 10*time.Minute), func() { _ = c.w.api.Create(p.DeepCopy()) })
		}
	}
}

func (c *chaos) drift() { c.w.cloud.image++ }

func (c *chaos) jump() {
	c.w.tenant.check() // while it is known by which clock
	c.skew = c.w.between(-90*time.Second, 90*time.Second)
}

func (c *chaos) scale() {
	a := pick(c.w, c.w.workloads.All)
	if a.Apart || a.Stateful || a.Gang > 0 {
		return
	}
	factor := 0.3 + 2*c.w.rand.Float64()
	if most := 4 * (a.Replicas + 2); c.w.opts.Nodes > manyNodes {
		factor = 0.7 + 0.6*c.w.rand.Float64()
		a.Replicas = min(most, max(1, int(float64(a.Replicas)*factor)))
	} else {
		a.Replicas = min(60, max(1, int(float64(a.Replicas)*factor)))
	}
	c.w.workloads.Wake(a)
}

func (c *chaos) rollout() {
	a := pick(c.w, c.w.workloads.All)
	a.Revision++
	c.w.workloads.Wake(a)
}
