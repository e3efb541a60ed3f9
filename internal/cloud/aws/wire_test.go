package aws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// world is an account, an API server in memory, and providers between them. Inside a
// synctest bubble its time is virtual.
type world struct {
	sim *awssim.Sim
	api client.Client
	// url of the account; empty: it is reached without a socket.
	url string
}

func named(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

var classRef = cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: "default"}

func newWorld(t *testing.T, change func(*awssim.Options)) *world {
	t.Helper()
	opts := awssim.Options{Seed: 1, Families: []string{"c5", "c6g", "g2", "g4ad", "g4dn", "g6", "m5", "m5d", "p3", "p4de", "p5", "r5", "t3"}} // some of each kind
	if change != nil {
		change(&opts)
	}
	sim, err := awssim.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, karpenterv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&awsv1.EC2NodeClass{}).WithObjects(newClass("default")).Build()
	return &world{sim: sim, api: api}
}

func newClass(name string) *awsv1.EC2NodeClass {
	tags := map[string]string{"karpenter.sh/discovery": "demo"}
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Spec: awsv1.EC2NodeClassSpec{
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: tags}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: tags}},
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			Role:                       "KarpenterNodeRole-demo",
		},
	}
}

// provider returns one that knows nothing of what others have in memory.
func (w *world) provider(t *testing.T) *Provider {
	t.Helper()
	cr := w.sim.Options().Credentials
	url, over := w.url, http.DefaultTransport
	if url == "" {
		url, over = "http://awssim.local", w.sim.Transport()
	}
	p, err := New(w.api, Options{
		ClusterName: "demo", ClusterEndpoint: "https://demo.example", ClusterCABundle: "Y2E=",
		VMMemoryOverheadPercent: 0.075, Reservations: true, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		KubernetesVersion: func(context.Context) (string, error) { return "1.35", nil },
		Config: aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(url), HTTPClient: &http.Client{Transport: over},
			Credentials: credentials.NewStaticCredentialsProvider(cr.AccessKey, cr.SecretKey, cr.SessionToken),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	marked := claims{w.api, w.api, w.api}
	p.ledger.note = func(ctx context.Context, m mark, holds func(mark) bool) error {
		// Requests of tests come without their claims.
		claim := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: m.Claim, UID: types.UID(m.Token)}}
		if err := w.api.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return marked.note(ctx, m, holds)
	}
	p.ledger.marks, p.ledger.isWanted = marked.marks, func(context.Context, member) bool { return true }
	return p
}

// ready brings a class to Ready.
func (w *world) ready(t *testing.T, p *Provider, name string) {
	t.Helper()
	for range 5 {
		_, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named(name)})
		if err != nil {
			t.Fatal(err)
		}
		class := &awsv1.EC2NodeClass{}
		if err := w.api.Get(t.Context(), named(name), class); err != nil {
			t.Fatal(err)
		}
		var why string
		for _, c := range class.Status.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionTrue {
				return
			}
			why += fmt.Sprintf("%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
		t.Log(why)
		time.Sleep(5 * time.Second)
	}
	t.Fatalf("class %s did not become ready", name)
}

// requests returns n requests for a small instance of class default.
func requests(t *testing.T, p *Provider, n int, want label.Requirements) []cloud.LaunchRequest {
	t.Helper()
	return requestsOf(t, p, classRef, n, want)
}

func requestsOf(t *testing.T, p *Provider, class cloud.ClassRef, n int, want label.Requirements) []cloud.LaunchRequest {
	t.Helper()
	all, err := p.Types(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	need := quantity.List{quantity.CPU: 1500, quantity.Pods: 5}
	choices := catalog.Choices(all, want, need)
	if len(choices) == 0 {
		t.Fatalf("none of %d types is available", len(all))
	}
	const priceCap = 1.5 // as claims have by default
	choices = slices.DeleteFunc(choices, func(o catalog.Choice) bool { return o.Offering.Cost() > priceCap*choices[0].Offering.Cost() })
	out := make([]cloud.LaunchRequest, n)
	for i := range out {
		out[i] = cloud.LaunchRequest{
			Token: fmt.Sprintf("token-%d", i), Claim: fmt.Sprintf("general-%d", i), Class: class, Choices: choices, Requirements: want, Requests: need,
			Labels: map[string]string{label.NodePool: "general"},
			Taints: []cluster.Taint{{Key: "karpenter.sh/unregistered", Effect: cluster.NoExecute}},
		}
	}
	return out
}

var onDemand = label.Requirements{
	label.CapacityType: label.In(label.OnDemand), corev1.LabelOSStable: label.In("linux"), corev1.LabelArchStable: label.In("amd64"),
}

// launchIDs launches and returns the instances by token; what failed in a way that asks
// for a repeat is left out.
func launchIDs(t *testing.T, p *Provider, requests []cloud.LaunchRequest) map[string]string {
	t.Helper()
	got := map[string]string{}
	for i, result := range p.Launch(t.Context(), requests) {
		if result.Err != nil {
			var failure *cloud.Failure
			if errors.As(result.Err, &failure) {
				t.Errorf("request %d: %v", i, result.Err)
			}
			continue
		}
		got[requests[i].Token] = result.Instance.ID
	}
	return got
}

func TestLostAnswerOverTheWire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		rs := requests(t, p, 20, onDemand)
		if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultCut, Operation: "ec2:CreateFleet", Times: 1}); err != nil {
			t.Fatal(err)
		}
		if got := launchIDs(t, p, rs); len(got) != 0 {
			t.Fatalf("the answer was lost, yet there is %v", got)
		}
		got := launchIDs(t, w.provider(t), rs[5:15]) // after a crash, some of them
		for token, id := range launchIDs(t, p, rs) {
			if had := got[token]; had != "" && had != id {
				t.Errorf("token %s: %s and then %s", token, had, id)
			}
			got[token] = id
		}
		if len(got) != 20 || len(w.sim.Instances()) != 20 {
			t.Errorf("%d tokens have instances, and there are %d of them; want 20", len(got), len(w.sim.Instances()))
		}
		t.Log(w.sim.Calls(), w.sim.Refused(), w.sim.Unknown())
	})
}
