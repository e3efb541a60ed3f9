package aws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// teller is EC2 as the ledger sees it: it answers a client token with what it launched
// for it first, and loses answers.
type teller struct {
	mu      sync.Mutex
	byToken map[string]verdict
	made    int
	// The next orders fail in these ways.
	lost, unheard, short, closed int
}

var errCut = errors.New("connection cut")

func (c *teller) send(_ context.Context, o *order, _ bool) (verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed > 0 {
		c.closed--
		return verdict{}, errUnseen
	}
	if c.unheard > 0 {
		c.unheard--
		return verdict{}, errCut
	}
	v, repeated := c.byToken[*o.Input.ClientToken]
	if !repeated {
		n := int(*o.Input.TargetCapacitySpecification.TotalTargetCapacity)
		if c.short > 0 {
			c.short--
			n /= 2
			v.failure = &cloud.Failure{Kind: cloud.NoCapacity, Message: "none left"}
		}
		for range n {
			c.made++
			v.machines = append(v.machines, machine{ID: fmt.Sprintf("i-%08x", c.made)})
		}
		c.byToken[*o.Input.ClientToken] = v
	}
	if c.lost > 0 {
		c.lost--
		return verdict{}, errCut
	}
	return verdict{append([]machine(nil), v.machines...), v.failure}, nil
}

func testLedger(c client.Client, send func(context.Context, *order, bool) (verdict, error)) *ledger {
	l := newLedger()
	l.client, l.reader, l.namespace, l.cluster = c, c, "kube-system", "test"
	l.now, l.log, l.send = time.Now, slog.New(slog.DiscardHandler), send
	l.turn = func(context.Context) error { return nil }
	l.gathered = func(time.Duration, int) {}
	l.waits = func(context.Context, member) bool { return true }
	return l
}

func emptyOrder() order {
	return order{Input: &ec2.CreateFleetInput{
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{},
		TagSpecifications:           []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance}},
	}}
}

// launchAll asks for all tokens at once, as the provider does.
func launchAll(ctx context.Context, l *ledger, tokens []string) map[string]string {
	got := map[string]string{}
	if l.ready(ctx) != nil {
		return got
	}
	batches := map[string]*batch{}
	for _, token := range tokens {
		batches[token] = l.join("same", member{token, "claim-" + token}, emptyOrder)
	}
	rounds := map[string]<-chan struct{}{}
	for _, token := range tokens {
		rounds[token] = l.begin(ctx, batches[token])
	}
	for _, token := range tokens {
		if m, err := l.answer(ctx, batches[token], rounds[token], token); err == nil {
			got[token] = m.ID
		}
	}
	return got
}

// TestOneMachineForOneToken orders machines from an EC2 that loses requests and answers
// and has too few, through ledgers that forget everything and an API server that refuses
// writes. Whatever happens, all who ask for a token are told the same machine, no two
// tokens share one, and every machine that was made has somebody who asked for it.
func TestOneMachineForOneToken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cloud := &teller{byToken: map[string]verdict{}}
		var refuse atomic.Bool
		api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if refuse.CompareAndSwap(true, false) { // several batches may be written at once
					return errCut
				}
				return c.Create(ctx, obj, opts...)
			},
		}).Build()
		ctx := context.Background()
		l := testLedger(api, cloud.send)
		told := map[string]string{}
		ask := func(tokens []string) {
			for token, id := range launchAll(ctx, l, tokens) {
				if had := told[token]; had != "" && had != id {
					t.Fatalf("token %s was answered with %s and then with %s", token, had, id)
				}
				told[token] = id
			}
		}
		all := make([]string, rapid.IntRange(1, 8).Draw(t, "tokens"))
		for i := range all {
			all[i] = fmt.Sprintf("t%d", i)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				cloud.lost = 1
			case 1:
				cloud.unheard = 1
			case 2:
				cloud.short = 1
			case 3:
				refuse.Store(true)
			case 4:
				cloud.closed = 1
			case 5: // a crash
				l = testLedger(api, cloud.send)
			default:
				ask(rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), func(s string) string { return s }).Draw(t, "asked"))
			}
		}
		cloud.lost, cloud.unheard, cloud.short, cloud.closed = 0, 0, 0, 0
		refuse.Store(false)
		for range 2 + len(all) { // those short of machines are asked for again
			ask(all)
		}
		holders := map[string]string{}
		for _, token := range all {
			if told[token] == "" {
				t.Fatalf("token %s has no machine", token)
			}
			if other := holders[told[token]]; other != "" {
				t.Fatalf("tokens %s and %s share machine %s", token, other, told[token])
			}
			holders[told[token]] = token
		}
		if cloud.made != len(all) {
			t.Fatalf("%d machines were made for %d tokens", cloud.made, len(all))
		}
	})
}

// TestRecordsGo shows that what is written down does not stay.
func TestRecordsGo(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().Build()
	cloud := &teller{byToken: map[string]verdict{}}
	l := testLedger(api, cloud.send)
	launchAll(t.Context(), l, []string{"a", "b"})
	records := func() int {
		var list corev1.ConfigMapList
		if err := api.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if n := records(); n != 1 {
		t.Errorf("after a launch there are %d records, want one", n)
	}
	l.now = func() time.Time { return time.Now().Add(recordKept + time.Second) }
	l.tidy(t.Context())
	if n := records(); n != 0 {
		t.Errorf("long after the launch there are %d records, want none", n)
	}
	if l.holding("a") != nil {
		t.Error("the token is still held")
	}
}

// TestLaterBatchAnswers shows that a token that got nothing in one batch is not launched a
// third time while a second batch, which a predecessor left, may have a machine for it.
func TestLaterBatchAnswers(t *testing.T) {
	t.Parallel()
	for i := range 8 { // the names decide which batch is read first
		a, b, c := fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i)
		api := fake.NewClientBuilder().Build()
		cloud := &teller{byToken: map[string]verdict{}, short: 1}
		l := testLedger(api, cloud.send)
		launchAll(t.Context(), l, []string{a, b}) // b gets nothing
		cloud.lost = 1
		launchAll(t.Context(), l, []string{b, c})
		l = testLedger(api, cloud.send) // a crash
		for range 3 {
			launchAll(t.Context(), l, []string{a, b})
		}
		if got := launchAll(t.Context(), l, []string{a, b, c}); len(got) != 3 || cloud.made != 3 {
			t.Errorf("%d machines were made, and the tokens have %v; want three", cloud.made, got)
		}
	}
}

// TestNothingIsBoughtForThoseWhoLeft has claims give up while EC2 lets nobody in, or after a
// request of which nobody knows whether it arrived.
func TestNothingIsBoughtForThoseWhoLeft(t *testing.T) {
	t.Parallel()
	cloud := &teller{byToken: map[string]verdict{}, closed: 1}
	l := testLedger(fake.NewClientBuilder().Build(), cloud.send)
	launchAll(t.Context(), l, []string{"a", "b"})
	l.settleAll(t.Context())
	if cloud.made != 0 {
		t.Errorf("%d machines were made for those who were not let in, and did not ask again", cloud.made)
	}
	if got := launchAll(t.Context(), l, []string{"a"}); len(got) != 1 || cloud.made != 1 {
		t.Errorf("%d machines were made when one of two asked again, who has %v; want one", cloud.made, got)
	}

	cloud.unheard = 1
	launchAll(t.Context(), l, []string{"c"})
	name := l.byToken["c"].name
	if !l.unsettled(name) {
		t.Error("nobody waits for a batch of unknown outcome that was just asked for")
	}
	l.waits = func(context.Context, member) bool { return false }
	l.settleAll(t.Context())
	if cloud.made != 1 || l.unsettled(name) {
		t.Errorf("%d machines were made, one of them for a claim that has long left; that is waited for: %t", cloud.made, l.unsettled(name))
	}
	if got := launchAll(t.Context(), l, []string{"c"}); len(got) != 1 || cloud.made != 2 {
		t.Errorf("%d machines were made when it asked after all, and it has %v; want two", cloud.made, got)
	}
}

// TestWaits asks which claims still wait for their instance.
func TestWaits(t *testing.T) {
	t.Parallel()
	claim := func(name string, deleted bool) *karpenterv1.NodeClaim {
		c := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Finalizers: []string{"test/held"}}}
		if deleted {
			c.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		return c
	}
	scheme := runtime.NewScheme()
	if err := karpenterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	away := false
	p := &Provider{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim("there", false), claim("going", true)).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if away {
				return errCut
			}
			return c.Get(ctx, k, obj, opts...)
		},
	}).Build()}
	for m, want := range map[member]bool{
		{"there-uid", "there"}: true, {"going-uid", "going"}: false, {"gone-uid", "gone"}: false, {"older-uid", "there"}: false,
	} {
		if got := p.waits(t.Context(), m); got != want {
			t.Errorf("waits(%+v) = %t, want %t", m, got, want)
		}
	}
	away = true
	if !p.waits(t.Context(), member{"gone-uid", "gone"}) {
		t.Error("a claim does not wait of which nobody can say whether it is there")
	}
}

// TestOutcomeIsNoted restarts after a fleet that had a machine too few: EC2 is not asked
// again for what it gave, and the one who got nothing is launched anew.
func TestOutcomeIsNoted(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().Build()
	cloud := &teller{byToken: map[string]verdict{}, short: 1}
	first := launchAll(t.Context(), testLedger(api, cloud.send), []string{"a", "b"})
	sent := 0
	l := testLedger(api, func(ctx context.Context, o *order, doubtful bool) (verdict, error) {
		sent++
		return cloud.send(ctx, o, doubtful)
	})
	if err := l.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.settleAll(t.Context())
	if len(first) != 1 || sent != 0 {
		t.Fatalf("the first fleet gave %v, and %d were sent after the restart; want one machine and none", first, sent)
	}
	if got := launchAll(t.Context(), l, []string{"a", "b"}); got["a"] != first["a"] || got["b"] == "" || cloud.made != 2 || sent != 1 {
		t.Errorf("%d machines were made by %d fleets, and the tokens have %v; want %s as before and another", cloud.made, sent, got, first["a"])
	}
}

// TestAnotherHasLaunched has two processes: one launched for a and b, and b got nothing. The
// other, which has not heard of it, may launch for b, and finds a's machine.
func TestAnotherHasLaunched(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().Build()
	cloud := &teller{byToken: map[string]verdict{}, short: 1}
	other := testLedger(api, cloud.send)
	if err := other.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := launchAll(t.Context(), testLedger(api, cloud.send), []string{"a", "b"})
	launchAll(t.Context(), other, []string{"a"}) // learns that somebody was there before
	if got := launchAll(t.Context(), other, []string{"a"}); got["a"] != first["a"] || cloud.made != 1 {
		t.Errorf("%d machines were made, and a has %v; want %v", cloud.made, got, first)
	}
	if got := launchAll(t.Context(), other, []string{"b"}); len(got) != 1 || cloud.made != 2 {
		t.Errorf("%d machines were made, and b has %v; want a second one", cloud.made, got)
	}
}

// TestSomeHaveLeft sends an order whole whose outcome is not known though one of its claims
// has gone: the others get theirs, and the one too many is told as the one's who left, so
// that it is swept.
func TestSomeHaveLeft(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]bool{"EC2 had launched": true, "EC2 had not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := &teller{byToken: map[string]verdict{}}
			if cloud.unheard = 1; heard {
				cloud.lost, cloud.unheard = 1, 0
			}
			l := testLedger(fake.NewClientBuilder().Build(), cloud.send)
			l.waits = func(_ context.Context, m member) bool { return m.Token != "gone" }
			launchAll(t.Context(), l, []string{"a", "gone", "b"})
			l.settleAll(t.Context())
			if cloud.made != 3 || len(cloud.byToken) != 1 {
				t.Fatalf("%d machines were made by %d fleets, want three by one", cloud.made, len(cloud.byToken))
			}
			holders := map[string]string{}
			for id, m := range l.machines() {
				holders[m.Token] = id
			}
			if len(holders) != 3 || holders["gone"] == "" {
				t.Errorf("the machines are told as of %v", holders)
			}
			if got := launchAll(t.Context(), l, []string{"a", "b"}); got["a"] != holders["a"] || got["b"] != holders["b"] || cloud.made != 3 {
				t.Errorf("those who stayed got %v of %v", got, holders)
			}
		})
	}
}
