package scale

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var (
	profiles = flag.String("profiles", "", "directory for profiles of the controller; empty: none")
	idleFor  = flag.Duration("idle", time.Minute, "how long BenchmarkController looks at an idle controller")
	parts    = flag.String("parts", "idle,events,plans,reconnect,scrape,lead", "what BenchmarkController measures after the start, separated by commas; empty: nothing")
)

const (
	// heartbeat is how often the kubelet of a Node reports its status when nothing changes.
	heartbeat = 5 * time.Minute
	// podEvents is how many pods are reported again to measure what an event costs.
	podEvents = 5_000
)

// run is one controller with a server.
type run struct {
	b      *testing.B
	fleet  *fleet
	server *server
	*process
	kubeconfig string
	arrivals   int
	here       []*corev1.Pod // that arrived, and have not left
}

// BenchmarkController runs bin/dovetail, built by make build, with a large cluster, and reports what each thing that
// happens costs it: go test ./test/scale -run '^$' -bench Controller -benchtime 1x. Bytes are those of the process,
// CPU times those of all its threads.
func BenchmarkController(b *testing.B) {
	f := newFleet(b, *fleetPods, time.Now())
	r := &run{b: b, fleet: f, server: newServer(b, f)}
	r.kubeconfig = r.server.kubeconfig(b)
	b.Logf("%d nodes, %d pods, %.0f $/h; %s", len(f.nodes), len(f.pods), f.price, computer())
	for b.Loop() {
		r.measure()
	}
	b.ReportMetric(0, "ns/op")
}

func (r *run) report(name string, value float64, unit string) {
	r.b.Logf("%-34s %10.1f %s", name, value, unit)
	r.b.ReportMetric(value, strings.ReplaceAll(name, " ", "-")+"-"+unit)
}

func (r *run) measure() {
	measures := map[string]func(){"idle": r.idle, "events": r.events, "plans": r.plans, "reconnect": r.reconnect, "scrape": r.scrapes, "lead": r.lead}
	var asked []func()
	for part := range strings.SplitSeq(*parts, ",") {
		switch measure := measures[part]; {
		case measure != nil:
			asked = append(asked, measure)
		case part != "":
			r.b.Fatalf("-parts: %q is none of %v", part, slices.Sorted(maps.Keys(measures)))
		}
	}
	r.begin()
	for _, measure := range asked {
		measure()
	}
}

// begin measures from the start to the first launch, for a pod that is there already.
func (r *run) begin() {
	r.server.counted()
	r.arriveLarge()
	r.process = start(r.b, r.kubeconfig)
	launched, profiled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(profiled)
		r.profileStart(launched)
	}()
	r.awaitClaims(1)
	r.report("start to first launch", r.cpu().Seconds(), "cpu-s")
	close(launched)
	<-profiled
	r.report("memory peak at start", r.memory("VmHWM")/1e6, "MB")
	r.leave()
	before := r.cpu()
	r.awaitRemoved()
	r.calm()
	r.report("node of a pod that has left", float64((r.cpu() - before).Milliseconds()), "cpu-ms")
	r.report("memory live", r.live()/1e6, "MB")
	r.report("memory resident", r.memory("VmRSS")/1e6, "MB")
	r.keepProfile("heap", "/debug/pprof/heap")
}

// profileStart writes profiles until something was launched, if a directory is wanted for them: go tool pprof adds them
// up. One alone cannot last so long, since the port answers for less than a minute.
func (r *run) profileStart(launched chan struct{}) {
	for i := 0; *profiles != ""; i++ {
		r.keepProfile(fmt.Sprintf("start-%02d", i), "/debug/pprof/profile?seconds=10")
		select {
		case <-launched:
			return
		default:
		}
	}
}

// profile writes a profile of the next seconds, if a directory is wanted for them.
func (r *run) profile(name string, seconds int) {
	if *profiles != "" {
		go r.keepProfile(name, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds))
	}
}

// idle measures a controller to which nothing is reported, and then one to which kubelets report as they do when
// nothing changes.
func (r *run) idle() {
	r.calm()
	r.calm()
	before, began := r.cpu(), time.Now()
	r.profile("idle", int(idleFor.Seconds())-5)
	time.Sleep(*idleFor)
	r.report("idle", 100*(r.cpu()-before).Seconds()/time.Since(began).Seconds(), "%-of-a-core")
	r.server.counted()
	before, began = r.cpu(), time.Now()
	pace := time.NewTicker(heartbeat / time.Duration(len(r.fleet.nodes)))
	defer pace.Stop()
	for i := 0; time.Since(began) < *idleFor; i++ {
		<-pace.C
		r.beat(i)
		if i == 1 {
			r.profile("heartbeats", int(idleFor.Seconds())-5)
		}
	}
	took := time.Since(began)
	r.report("heartbeats of all nodes", 100*(r.cpu()-before).Seconds()/took.Seconds(), "%-of-a-core")
	requests := r.server.counted()
	sum := 0
	for _, n := range requests {
		sum += n
	}
	r.b.Logf("requests in %s: %v", took.Round(time.Second), requests)
	r.report("requests per node and hour", float64(sum)/took.Hours()/float64(len(r.fleet.nodes)), "requests")
}

// beat has the kubelet of a Node report.
func (r *run) beat(i int) {
	r.server.do(func(api *cluster.API) {
		node, ok := cluster.Find[*corev1.Node](api, "", r.fleet.nodes[i%len(r.fleet.nodes)].GetName())
		if !ok {
			return
		}
		cluster.Edit(api, node, func(n *corev1.Node) {
			n.Status.Conditions = slices.Clone(n.Status.Conditions)
			for k := range n.Status.Conditions {
				n.Status.Conditions[k].LastHeartbeatTime = metav1.NewTime(time.Now().Truncate(time.Second).Add(time.Duration(i) * time.Second))
			}
		})
	})
}

// events measures what it costs when the status of a pod is reported.
func (r *run) events() {
	r.calm()
	r.profile("events", 8)
	before := r.cpu()
	for i := range podEvents {
		r.server.do(func(api *cluster.API) {
			pod := r.fleet.pods[i*7919%len(r.fleet.pods)]
			if now, ok := cluster.Find[*corev1.Pod](api, pod.Namespace, pod.Name); ok {
				cluster.Edit(api, now, func(p *corev1.Pod) {
					p.Status.ContainerStatuses = slices.Clone(p.Status.ContainerStatuses)
					p.Status.ContainerStatuses[0].RestartCount++
				})
			}
		})
		time.Sleep(time.Millisecond)
	}
	r.calm()
	r.report("pod event", float64((r.cpu()-before).Microseconds())/podEvents, "cpu-us")
}

// plans measures all that is done for new pods until their nodes are launched, and have joined.
func (r *run) plans() {
	for _, pods := range []int{1, 1000} {
		r.calm()
		before := r.cpu()
		if pods == 1 {
			r.arriveLarge()
		} else {
			r.arrive(pods)
		}
		r.awaitClaims(1)
		r.report(fmt.Sprintf("%d new pods to first launch", pods), float64((r.cpu() - before).Milliseconds()), "cpu-ms")
		r.calm()
		r.report(fmt.Sprintf("%d new pods in all", pods), float64((r.cpu() - before).Milliseconds()), "cpu-ms")
	}
}

// arrive creates pods.
func (r *run) arrive(pods int) {
	for range pods {
		r.arrivals++
		r.create(arrived(r.arrivals, time.Now()))
	}
}

// arriveLarge creates a pod that needs a node of its own.
func (r *run) arriveLarge() {
	r.arrivals++
	r.create(large(arrived(r.arrivals, time.Now())))
}

func (r *run) create(pod *corev1.Pod) {
	r.server.do(func(api *cluster.API) {
		if err := api.Create(pod); err != nil {
			r.b.Fatal(err)
		}
	})
	r.here = append(r.here, pod)
}

// leave has the pods that arrived go again: nothing binds them.
func (r *run) leave() {
	r.server.do(func(api *cluster.API) {
		for _, pod := range r.here {
			api.Delete(pod, 0)
		}
	})
	r.here = nil
}

// awaitRemoved returns when the nodes that were launched for pods that have left are gone.
func (r *run) awaitRemoved() {
	testkit.Eventually(r.b, *patience, func() (err error) {
		r.server.do(func(api *cluster.API) {
			if now := len(cluster.All[*karpenterv1.NodeClaim](api)); now > len(r.fleet.claims) {
				err = fmt.Errorf("%d of %d NodeClaims", now, len(r.fleet.claims))
			}
		})
		return err
	})
}

// awaitClaims returns when so many NodeClaims have been created.
func (r *run) awaitClaims(n int) {
	timeout := time.After(*patience)
	for n > 0 {
		select {
		case name := <-r.server.created:
			if name == "NodeClaim" {
				n--
			}
		case <-timeout:
			r.b.Fatalf("nothing was launched for a pod")
		}
	}
}

// reconnect measures what it costs when all watches end: when they can go on where they were, and when everything
// must be listed again.
func (r *run) reconnect() {
	for _, expired := range []bool{false, true} {
		r.calm()
		watches, before := r.server.watching(), r.cpu()
		r.server.drop(expired)
		testkit.Eventually(r.b, *patience, func() error {
			if now := r.server.watching(); now < watches {
				return fmt.Errorf("%d of %d watches", now, watches)
			}
			return nil
		})
		r.calm()
		name := map[bool]string{false: "reconnect", true: "reconnect and list again"}[expired]
		r.report(name, (r.cpu() - before).Seconds(), "cpu-s")
	}
	r.report("memory peak after listing again", r.memory("VmHWM")/1e6, "MB")
}

// scrapes measures what reading the metrics costs: the first time, and when that has been done before.
func (r *run) scrapes() {
	for _, name := range []string{"scrape", "scrape again"} {
		r.calm()
		had, before := r.memory("VmRSS"), r.cpu()
		bytes := r.scrape()
		r.report(name, (r.cpu() - before).Seconds(), "cpu-s")
		r.report(name+" answer", float64(bytes)/1e6, "MB")
		r.report(name+" resident growth", (r.memory("VmRSS")-had)/1e6, "MB")
		r.report(name+" memory peak", r.memory("VmHWM")/1e6, "MB")
	}
	r.keepProfile("scrape-allocs", "/debug/pprof/allocs")
}

// lead measures from the end of the leader to the first launch of a replica that was on standby.
func (r *run) lead() {
	standby := start(r.b, r.kubeconfig)
	standby.calm()
	r.report("memory live on standby", standby.live()/1e6, "MB")
	before, began := standby.cpu(), time.Now()
	r.stop()
	drain(r.server.created)
	r.arriveLarge()
	r.process = standby
	r.awaitClaims(1)
	r.report("leader change to first launch", float64((standby.cpu() - before).Milliseconds()), "cpu-ms")
	r.b.Logf("leader change took %s", time.Since(began).Round(100*time.Millisecond))
	requests := r.server.counted()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		r.b.Logf("requests: %s %d", name, requests[name])
	}
	standby.stop()
}

// TestASmallFleet starts the controller with a small fleet: it lists everything, launches for a pod, and removes nothing.
func TestASmallFleet(t *testing.T) {
	f := newFleet(t, 400, time.Now())
	s := newServer(t, f)
	s.do(func(api *cluster.API) {
		if err := api.Create(large(arrived(0, time.Now()))); err != nil {
			t.Fatal(err)
		}
	})
	start(t, s.kubeconfig(t))
	t.Cleanup(func() {
		pool, _ := cluster.Find[*karpenterv1.NodePool](s.api, "", poolName)
		t.Logf("%v\n%+v", s.counted(), pool.Status)
	})
	testkit.Eventually(t, *patience, func() error {
		if !slices.Contains(drain(s.created), "NodeClaim") {
			return errors.New("no NodeClaim was created")
		}
		return nil
	})
	requests := s.counted()
	for name, n := range requests {
		if strings.HasPrefix(name, "DELETE Node") {
			t.Errorf("%d times %s", n, name)
		}
	}
	if requests["WATCH Pod"] != 1 || requests["LIST Pod"] != 0 {
		t.Errorf("the pods were not listed once, by a watch: %v", requests)
	}
}

// drain returns what a channel has.
func drain(names chan string) (had []string) {
	for {
		select {
		case name := <-names:
			had = append(had, name)
		default:
			return had
		}
	}
}
