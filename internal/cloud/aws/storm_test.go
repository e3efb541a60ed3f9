package aws

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestThousandInstances launches 1,000 instances of 12 kinds whose claims come as fast as the
// API server takes them, 200 a second, four in a call. EC2's token buckets are on, and
// none may run dry.
func TestThousandInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const instances, kinds, inCall = 1000, 12, 4
		w := newWorld(t, func(o *awssim.Options) { o.Latency = 300 * time.Millisecond })
		p := w.provider(t)
		w.ready(t, p, "default")
		started := time.Now()
		before := w.sim.Calls()
		rs := requests(t, p, instances, onDemand)
		for i := range rs {
			rs[i].Labels = map[string]string{label.NodePool: fmt.Sprintf("pool-%d", i%kinds)}
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		var took []time.Duration
		for some := range slices.Chunk(rs, inCall) {
			begun := time.Now()
			all.Go(func() {
				got := launchIDs(t, p, some)
				mu.Lock()
				defer mu.Unlock()
				for range got {
					took = append(took, time.Since(begun))
				}
			})
			time.Sleep(inCall * 5 * time.Millisecond)
		}
		all.Wait()
		if n := len(w.sim.Instances()); n != instances || len(took) != instances {
			t.Errorf("%d instances run and %d claims have one, want %d", n, len(took), instances)
		}
		for key, n := range w.sim.Refused() {
			if strings.Contains(key, "RequestLimitExceeded") {
				t.Errorf("EC2 throttled %s %d times", key, n)
			}
		}
		slices.Sort(took)
		calls := 0
		for operation, n := range w.sim.Calls() {
			if n -= before[operation]; n > 0 {
				t.Logf("%4d %s", n, operation)
				calls += n
			}
		}
		t.Logf("%d instances in %s of virtual time, %.2f calls for each; from request to answer p50 %s, p99 %s",
			instances, time.Since(started).Round(time.Millisecond), float64(calls)/instances,
			took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond))
	})
}

// An hour of storm is -storm-steps=240.
var (
	stormSeeds = flag.Uint64("storm-seeds", 1, "how many storms of faults there are")
	stormSteps = flag.Int("storm-steps", 40, "how many times, 15 seconds apart, each asks for instances")
)

// TestStormOfFaults asks for instances while EC2 fails in every way there is, at random,
// for a while of virtual time, through providers that crash. When the faults are over,
// each claim has its one instance, and no instance is without a claim once the sweep has ended
// those.
func TestStormOfFaults(t *testing.T) {
	t.Parallel()
	for seed := range *stormSeeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { storm(t, seed) })
		})
	}
}

func storm(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, func(o *awssim.Options) { o.Seed, o.Latency = seed, 100*time.Millisecond })
	p := w.provider(t)
	w.ready(t, p, "default")
	ctx := t.Context()
	wanted := map[string]cloud.LaunchRequest{} // by token; a claim that was refused by NoCapacity is gone
	reported := map[string]string{}
	next := 0
	for range *stormSteps {
		if rng.IntN(3) == 0 {
			fault := []awssim.Fault{
				{Kind: awssim.FaultCut, Operation: "ec2:CreateFleet", Times: 1 + rng.IntN(3)},
				{Kind: awssim.FaultError, Operation: "ec2:CreateFleet", Times: 1 + rng.IntN(3)},
				{Kind: awssim.FaultThrottle, Times: 1 + rng.IntN(30)},
				{Kind: awssim.FaultDown, Times: 1 + rng.IntN(5)},
				{Kind: awssim.FaultInconsistent, Delay: metav1.Duration{Duration: 30 * time.Second}},
				{Kind: awssim.FaultExpired, Times: 1 + rng.IntN(3)},
				{Kind: awssim.FaultDeleteTemplates, Target: "*"},
				{Kind: awssim.FaultShort, Target: "us-east-1a"},
			}[rng.IntN(8)]
			if err := w.sim.Inject(fault); err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(4) == 0 {
			w.sim.Clear()
		}
		if rng.IntN(20) == 0 {
			sold := p.market.latest
			p = w.provider(t) // a crash
			p.market.latest, p.market.readAt = sold, time.Now()
		}
		for _, r := range requests(t, p, rng.IntN(6), onDemand) {
			r.Token, r.Claim = fmt.Sprintf("uid-%d", next), fmt.Sprintf("claim-%d", next)
			wanted[r.Token] = r
			next++
		}
		ask(ctx, t, p, wanted, reported)
		time.Sleep(15 * time.Second)
	}
	w.sim.Clear()
	for range 10 {
		ask(ctx, t, p, wanted, reported)
		sweep(ctx, t, p, wanted, reported)
		time.Sleep(30 * time.Second)
	}
	held := map[string]bool{}
	for token := range wanted {
		if reported[token] == "" {
			t.Errorf("claim of token %s has no instance", token)
		}
		held[reported[token]] = true
	}
	running := 0
	for _, i := range w.sim.Instances() {
		if i.State != "running" && i.State != "pending" {
			continue
		}
		running++
		if id := "aws:///" + i.Zone + "/" + i.ID; !held[id] {
			t.Errorf("instance %s belongs to nobody", id)
		}
	}
	t.Logf("%d claims, %d instances run, %d were ever made; %v", len(wanted), running, len(w.sim.Instances()), w.sim.Refused())
}

// ask launches what has no instance yet, as the lifecycle of claims does: a definite no ends
// the claim.
func ask(ctx context.Context, t *testing.T, p *Provider, wanted map[string]cloud.LaunchRequest, reported map[string]string) {
	t.Helper()
	var rs []cloud.LaunchRequest
	for token, r := range wanted {
		if reported[token] == "" {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b cloud.LaunchRequest) int { return strings.Compare(a.Token, b.Token) })
	for i, result := range p.Launch(ctx, rs) {
		token := rs[i].Token
		var failure *cloud.Failure
		switch {
		case result.Err == nil:
			reported[token] = result.Instance.ID
		case errors.As(result.Err, &failure) && failure.Kind == cloud.NoCapacity:
			delete(wanted, token)
		}
	}
}

// sweep ends what no claim knows, as the garbage collector does.
func sweep(ctx context.Context, t *testing.T, p *Provider, wanted map[string]cloud.LaunchRequest, reported map[string]string) {
	t.Helper()
	all, err := p.List(ctx)
	if err != nil {
		t.Fatalf("List(): %v", err)
	}
	adopted := map[string]bool{}
	for token := range wanted {
		adopted[reported[token]] = true
	}
	for _, i := range all {
		_, open := wanted[i.Token]
		if !adopted[i.ID] && !(open && reported[i.Token] == "") && !i.Terminating && time.Since(i.Created) > 30*time.Second {
			if err := p.Terminate(ctx, i.ID); err != nil && !errors.Is(err, cloud.ErrNotFound) {
				t.Errorf("Terminate(%s): %v", i.ID, err)
			}
		}
	}
}
