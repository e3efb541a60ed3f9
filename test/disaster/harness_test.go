package disaster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	provider "github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// lastCalls is how long calls of AWS may go on that the product had begun when it ended.
const lastCalls = 3 * time.Minute

// world is an account, a cluster, and the product between them.
type world struct {
	t      *testing.T
	sim    *awssim.Sim
	kube   *kube
	cancel context.CancelFunc // of the account and the cluster
	around sync.WaitGroup     // they

	stop  context.CancelFunc // of the product; nil: it does not run
	ended chan struct{}
	log   *slog.Logger
	qps   int // kube-client-qps and -burst; 0: the defaults

	mu   sync.Mutex
	said map[string]string // the last event of each object, by namespace and name
}

// newWorld starts an account and a cluster. The product is started by begin.
func newWorld(t *testing.T, change func(*awssim.Options)) *world {
	t.Helper()
	w := &world{t: t, said: map[string]string{}, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.kube = cancel, newKube(ctx)
	opts := awssim.Options{Seed: 1, Registrar: w.kube, Latency: 100 * time.Millisecond}
	if change != nil {
		change(&opts)
	}
	var err error
	if w.sim, err = awssim.New(opts); err != nil {
		t.Fatal(err)
	}
	w.around.Go(func() { w.sim.Run(ctx) })
	w.kube.locked(func() {
		must(w.kube.api.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: "172.20.0.10"}}))
	})
	return w
}

// end stops everything.
func (w *world) end() {
	w.kill()
	time.Sleep(lastCalls)
	w.cancel()
	w.around.Wait()
}

// begin starts the product with an empty memory.
func (w *world) begin() {
	ctx, stop := context.WithCancel(context.Background())
	settings := &operator.Settings{}
	settings.AddFlags(pflag.NewFlagSet("disaster", pflag.ContinueOnError))
	settings.DisableClusterStateObservability = true // its metrics are the process's
	if w.qps > 0 {
		settings.KubeClientQPS, settings.KubeClientBurst = w.qps, w.qps
	}
	c := w.kube.newClient(ctx, float64(settings.KubeClientQPS), settings.KubeClientBurst)
	nominations := w.kube.newClient(ctx, 5*float64(settings.KubeClientQPS), 5*settings.KubeClientBurst)
	launches := w.kube.newClient(ctx, 5*float64(settings.KubeClientQPS), 5*settings.KubeClientBurst)
	marks := w.kube.newClient(ctx, 5*float64(settings.KubeClientQPS), 5*settings.KubeClientBurst)
	reader := w.kube.newReader(ctx)
	m := &standIn{client: c, reader: reader, cache: cacheOf{watches: &watches{Reader: reader, kube: w.kube, ctx: ctx}}}
	cloud := w.provider(c, marks, reader)
	parts := &operator.Parts{
		Manager: m, Settings: settings, Cloud: cloud, Nominations: nominations, Launches: launches, Now: time.Now,
		Events: observe.NewRecorder(recorder{w: w}, time.Now), Metrics: observe.NewMetrics(prometheus.NewRegistry()),
		Conditions: observe.NewConditions(cloud.ClassKinds(), time.Now), Log: w.log,
	}
	if err := parts.Assemble(ctx); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan struct{})
	w.stop, w.ended = stop, ended
	go func() {
		defer close(ended)
		m.run(ctx, func(err error) { w.t.Errorf("the product ended by itself: %v", err) })
	}()
}

// kill ends the product as SIGKILL would: it writes nothing any more. What it asks of AWS
// may still get there, as what was on the wire would.
func (w *world) kill() {
	if w.stop != nil {
		w.stop()
		<-w.ended
		w.stop = nil
	}
}

func (w *world) provider(c client.Client, marks client.Writer, reader client.Reader) *provider.Provider {
	cr := w.sim.Options().Credentials
	p, err := provider.New(c, provider.Options{
		ClusterName: "demo", ClusterEndpoint: "https://demo.example", ClusterCABundle: "Y2E=",
		VMMemoryOverheadPercent: 0.075, Reservations: true, InterruptionQueue: "demo", Now: time.Now, Log: w.log, Marks: marks, Reader: reader,
		KubernetesVersion: func(context.Context) (string, error) { return "1.35", nil },
		Config: aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String("http://awssim.local"), HTTPClient: &http.Client{Transport: w.sim.Transport()},
			Credentials: credentials.NewStaticCredentialsProvider(cr.AccessKey, cr.SecretKey, cr.SessionToken),
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// recorder keeps the last event of each object.
type recorder struct{ w *world }

func (r recorder) Event(o runtime.Object, _, reason, message string) {
	obj := o.(client.Object)
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.said[cluster.KeyOf(obj).String()] = reason + ": " + message
}

func (recorder) Eventf(runtime.Object, string, string, string, ...any) {}

func (recorder) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}

// lastSaid returns the last event about an object.
func (w *world) lastSaid(k cluster.Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said[k.String()]
}

// furnish makes a class and a pool whose instances have so many cpus.
func (w *world) furnish(cpus ...string) {
	tags := map[string]string{"karpenter.sh/discovery": "demo"}
	in := func(key string, values ...string) karpenterv1.NodeSelectorRequirementWithMinValues {
		return karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: "In", Values: values}
	}
	after := time.Minute
	class := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: awsv1.EC2NodeClassSpec{
			SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{Tags: tags}}, SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: tags}},
			AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}, Role: "KarpenterNodeRole-demo",
		},
	}
	pool := &karpenterv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "general"},
		Spec: karpenterv1.NodePoolSpec{
			Disruption: karpenterv1.Disruption{
				ConsolidateAfter: karpenterv1.NillableDuration{Duration: &after}, Budgets: []karpenterv1.Budget{{Nodes: "10%"}}, // the default
			},
			Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
				NodeClassRef: &karpenterv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
				Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{
					in("kubernetes.io/os", "linux"), in("karpenter.sh/capacity-type", "spot", "on-demand"), in(awsv1.LabelInstanceCategory, "c", "m", "r"),
					in(awsv1.LabelInstanceCPU, cpus...),
				},
			}},
		},
	}
	w.kube.locked(func() {
		must(w.kube.api.Create(class))
		must(w.kube.api.Create(pool))
	})
}

// until waits for something, for so long at most; asked once a second.
func (w *world) until(most time.Duration, what func() string) {
	w.t.Helper()
	end := time.Now().Add(most)
	for {
		missing := what()
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("after %s: %s", most, missing)
		}
		time.Sleep(time.Second)
	}
}

// poolReady says what keeps the pool from being used; empty: nothing.
func (w *world) poolReady() (missing string) {
	w.kube.locked(func() {
		pool, _ := cluster.Find[*karpenterv1.NodePool](w.kube.api, "", "general")
		for _, c := range pool.Status.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionTrue {
				return
			}
		}
		missing = fmt.Sprintf("pool is not ready: %v", pool.Status.Conditions)
	})
	return missing
}

// picture is what there is at an instant.
type picture struct {
	pods, running, bound, unbound int
	nodes, claims                 int
}

func (p picture) String() string {
	return fmt.Sprintf("%d pods (%d running, %d more bound, %d without a node), %d nodes, %d claims", p.pods, p.running, p.bound, p.unbound, p.nodes, p.claims)
}

func (w *world) picture() (p picture) {
	w.kube.locked(func() {
		for _, pod := range cluster.All[*corev1.Pod](w.kube.api) {
			p.pods++
			switch {
			case pod.Spec.NodeName == "":
				p.unbound++
			case pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil:
				p.running++
			default:
				p.bound++
			}
		}
		p.nodes, p.claims = w.kube.api.Shelf("Node").Len(), w.kube.api.Shelf("NodeClaim").Len()
	})
	return p
}

// allRun says which pods do not run; empty: all do.
func (w *world) allRun(pods int) string {
	p := w.picture()
	if p.pods == pods && p.running == pods {
		return ""
	}
	return p.String()
}

// agree says in what claims, Nodes and instances differ; empty: they belong together one
// to one.
func (w *world) agree() string {
	live := map[string]bool{}
	for _, i := range w.sim.Instances() {
		if i.Live() {
			live["aws:///"+i.Zone+"/"+i.ID] = true
		}
	}
	var wrong []string
	w.kube.locked(func() {
		nodes := map[string]bool{}
		for _, n := range cluster.All[*corev1.Node](w.kube.api) {
			nodes[n.Spec.ProviderID] = true
		}
		for _, c := range cluster.All[*karpenterv1.NodeClaim](w.kube.api) {
			if !live[c.Status.ProviderID] || !nodes[c.Status.ProviderID] {
				wrong = append(wrong, fmt.Sprintf("claim %s: instance %q lives: %v, has a Node: %v", c.Name, c.Status.ProviderID, live[c.Status.ProviderID], nodes[c.Status.ProviderID]))
			}
			delete(live, c.Status.ProviderID)
			delete(nodes, c.Status.ProviderID)
		}
		for id := range nodes {
			wrong = append(wrong, "Node without a claim: "+id)
		}
	})
	for id := range live {
		wrong = append(wrong, "instance without a claim: "+id)
	}
	slices.Sort(wrong)
	return strings.Join(wrong[:min(len(wrong), 5)], "\n")
}
