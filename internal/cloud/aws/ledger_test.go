package aws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// teller is EC2 as the ledger sees it: it loses answers, answers a client token that it has
// seen as it is believed to, and shows its instances late.
type teller struct {
	mu      sync.Mutex
	now     time.Time
	byToken map[string]outcome
	made    int
	shown   map[string]time.Time     // from when on, by instance id
	tagged  map[string][]ec2Instance // by the name of the batch
	// The next requests fail in these ways.
	lost, unheard, short, closed int
	// repeat is one of awssim's ways to answer a repeated token; late is how long a new
	// instance is not shown.
	repeat string
	late   time.Duration
}

func newTeller() *teller {
	return &teller{now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), byToken: map[string]outcome{}, shown: map[string]time.Time{}, tagged: map[string][]ec2Instance{}}
}

var errCut = errors.New("connection cut")

func (c *teller) launch(o *fleetRequest) (v outcome) {
	n := int(*o.Input.TargetCapacitySpecification.TotalTargetCapacity)
	if c.short > 0 {
		c.short--
		n /= 2
		v.failure = &cloud.Failure{Kind: cloud.NoCapacity, Message: "none left"}
	}
	tags := tagsOf(o.Input.TagSpecifications[0].Tags)
	for range n {
		c.made++
		m := ec2Instance{ID: fmt.Sprintf("i-%08x", c.made), Tags: tags}
		v.instances = append(v.instances, m)
		c.shown[m.ID] = c.now.Add(c.late)
		c.tagged[tags[launchTag]] = append(c.tagged[tags[launchTag]], m)
	}
	return v
}

func (c *teller) send(_ context.Context, o *fleetRequest, _ bool) (outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed > 0 {
		c.closed--
		return outcome{}, errUnseen
	}
	if c.unheard > 0 {
		c.unheard--
		return outcome{}, errCut
	}
	v, repeated := c.byToken[*o.Input.ClientToken]
	switch {
	case !repeated || c.repeat == awssim.RepeatOthers:
		v = c.launch(o)
		c.byToken[*o.Input.ClientToken] = v
	case c.repeat == awssim.RepeatNothing:
		v = outcome{}
	case c.repeat != awssim.RepeatSame:
		return outcome{}, errRepeated
	}
	if c.lost > 0 {
		c.lost--
		return outcome{}, errCut
	}
	return outcome{instances: slices.Clone(v.instances), failure: v.failure}, nil
}

func (c *teller) find(_ context.Context, name string) (found []ec2Instance, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.tagged[name] {
		if !c.now.Before(c.shown[m.ID]) {
			found = append(found, m)
		}
	}
	return found, nil
}

func (c *teller) wait(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// register stands for the NodeClaims and what they are marked with.
type register struct {
	mu      sync.Mutex
	marked  map[member]mark
	adopted map[string]string // the instance of a token, once its claim says so
	gone    map[string]bool   // tokens
	refuse  bool              // the next write
}

func newRegister() *register {
	return &register{marked: map[member]mark{}, adopted: map[string]string{}, gone: map[string]bool{}}
}

func (r *register) note(_ context.Context, m mark, holds func(mark) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	had, is := r.marked[m.member]
	switch {
	case r.refuse:
		r.refuse = false
		return errCut
	case r.gone[m.Token]:
		return errLeft
	case is && holds(had):
		return errElsewhere
	}
	r.marked[m.member] = m
	return nil
}

func (r *register) marks(context.Context) (marks []mark, adopted map[string]bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	adopted = map[string]bool{}
	for _, id := range r.adopted {
		adopted[id] = true
	}
	for m, is := range r.marked {
		if r.adopted[m.Token] == "" && !r.gone[m.Token] {
			marks = append(marks, is)
		}
	}
	return marks, adopted, nil
}

func (r *register) adopt(got map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.adopted, got)
}

func (c *teller) ledger(r *register) *ledger {
	l := newLedger()
	l.now = func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now
	}
	l.log, l.send, l.find, l.note, l.marks = slog.New(slog.DiscardHandler), c.send, c.find, r.note, r.marks
	l.throttle = func(context.Context) error { return nil }
	l.gathered = func(time.Duration, int) {}
	l.isWanted = func(_ context.Context, m member) bool { return !r.gone[m.Token] }
	return l
}

func emptyOrder() fleetRequest {
	return fleetRequest{Input: &ec2.CreateFleetInput{
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{},
		TagSpecifications:           []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance}},
	}}
}

// launchAll asks for all tokens at once, as the provider does.
func launchAll(ctx context.Context, l *ledger, tokens ...string) map[string]string {
	got := map[string]string{}
	if l.ready(ctx) != nil {
		return got
	}
	batches := map[string]*batch{}
	for _, token := range tokens {
		batches[token] = l.join("same", member{token, "claim-" + token}, emptyOrder)
	}
	attempts := map[string]<-chan struct{}{}
	for _, token := range tokens {
		attempts[token] = l.begin(ctx, batches[token])
	}
	for _, token := range tokens {
		if m, err := l.answer(ctx, batches[token], attempts[token], token); err == nil {
			got[token] = m.ID
		}
	}
	return got
}

func repeats() []string {
	return []string{awssim.RepeatSame, awssim.RepeatNothing, awssim.RepeatMismatch, awssim.RepeatRefused, awssim.RepeatOthers}
}

// TestOneInstanceForOneToken requests instances from an EC2 that loses requests and answers, has
// too few, shows them late and answers a repeated token in any way, through ledgers that forget
// everything and an API server that refuses writes. Whatever happens, every claim ends up with
// one instance and no two share one. More are made only if EC2 launches twice for one token,
// and those have nobody who asked for them, so that they are swept.
func TestOneInstanceForOneToken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ec2, claims := newTeller(), newRegister()
		ec2.repeat = rapid.SampledFrom(repeats()).Draw(t, "repeat")
		ec2.late = time.Duration(rapid.IntRange(0, 8).Draw(t, "late")) * 10 * time.Second
		ctx := context.Background()
		l := ec2.ledger(claims)
		ask := func(tokens []string, isRecorded bool) {
			tokens = slices.DeleteFunc(slices.Clone(tokens), func(token string) bool { return claims.adopted[token] != "" })
			if got := launchAll(ctx, l, tokens...); isRecorded {
				claims.adopt(got)
			}
		}
		all := make([]string, rapid.IntRange(1, 8).Draw(t, "tokens"))
		for i := range all {
			all[i] = fmt.Sprintf("t%d", i)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			ec2.wait(time.Duration(rapid.IntRange(0, 4).Draw(t, "wait")) * 15 * time.Second)
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				ec2.lost = 1
			case 1:
				ec2.unheard = 1
			case 2:
				ec2.short = 1
			case 3:
				claims.refuse = true
			case 4:
				ec2.closed = 1
			case 5: // a crash
				l = ec2.ledger(claims)
			default:
				some := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), func(s string) string { return s }).Draw(t, "asked")
				ask(some, rapid.Bool().Draw(t, "recorded"))
			}
		}
		ec2.lost, ec2.unheard, ec2.short, ec2.closed, claims.refuse = 0, 0, 0, 0, false
		for range 4 + len(all) { // those short of instances are asked for again
			ask(all, true)
			ec2.wait(shownAfter)
		}
		holders := map[string]string{}
		for _, token := range all {
			id := claims.adopted[token]
			if id == "" {
				t.Fatalf("token %s has no instance", token)
			}
			if other := holders[id]; other != "" {
				t.Fatalf("tokens %s and %s share instance %s", token, other, id)
			}
			holders[id] = token
		}
		if ec2.made != len(all) && ec2.repeat != awssim.RepeatOthers {
			t.Fatalf("%d instances were made for %d tokens", ec2.made, len(all))
		}
		for id, m := range l.instances() {
			if holders[id] != m.Token {
				t.Fatalf("instance %s is listed as that of %s, and %s has it", id, m.Token, holders[id])
			}
		}
	})
}

// TestRepeatedToken loses the answer to a fleet. However EC2 answers the repeat, and whenever it
// shows what the first brought, both claims have one instance each when it had the time to show it.
func TestRepeatedToken(t *testing.T) {
	t.Parallel()
	for _, repeat := range repeats() {
		for _, late := range []time.Duration{0, 20 * time.Second, seenAfter} {
			for _, short := range []int{0, 1} {
				ec2, claims := newTeller(), newRegister()
				ec2.repeat, ec2.late, ec2.short, ec2.lost = repeat, late, short, 1
				l := ec2.ledger(claims)
				if got := launchAll(t.Context(), l, "a", "b"); len(got) > 0 {
					t.Fatalf("the answer was lost, and yet there is %v", got)
				}
				got := map[string]string{}
				for range 12 {
					for token, id := range launchAll(t.Context(), l, "a", "b") {
						if got[token] != "" && got[token] != id {
							t.Errorf("%q, shown after %s: %s has %s and then %s", repeat, late, token, got[token], id)
						}
						got[token] = id
					}
					ec2.wait(10 * time.Second)
				}
				if len(got) != 2 || got["a"] == got["b"] || len(l.instances()) != 2 {
					t.Errorf("%q, shown after %s, %d short: the claims have %v, and %d instances are somebody's", repeat, late, short, got, len(l.instances()))
				}
				if ec2.made != 2 && repeat != awssim.RepeatOthers {
					t.Errorf("%q, shown after %s, %d short: %d instances were made", repeat, late, short, ec2.made)
				}
			}
		}
	}
}

// TestAfterACrash starts anew while nobody knows what became of a fleet. What EC2 launched is
// found by its tag and dealt out by the places on the claims, but for what claims have already;
// what it did not launch is requested once EC2 would show it, and not before.
func TestAfterACrash(t *testing.T) {
	t.Parallel()
	t.Run("EC2 had launched", func(t *testing.T) {
		t.Parallel()
		ec2, claims := newTeller(), newRegister()
		first := launchAll(t.Context(), ec2.ledger(claims), "a", "b", "c")
		claims.adopt(map[string]string{"b": first["b"]})
		l := ec2.ledger(claims)
		if got := launchAll(t.Context(), l, "a", "c"); got["a"] != first["a"] || got["c"] != first["c"] || ec2.made != 3 {
			t.Errorf("after the crash the claims have %v of %v, and %d instances were made", got, first, ec2.made)
		}
		if b := (ec2Instance{ID: first["b"], Tags: map[string]string{launchTag: claims.marked[member{"b", "claim-b"}].batch}}); l.unresolved(&b) {
			t.Error("an instance that a claim has is waited for")
		}
	})
	t.Run("EC2 had launched one too few", func(t *testing.T) {
		t.Parallel()
		ec2, claims := newTeller(), newRegister()
		ec2.short = 1
		first := launchAll(t.Context(), ec2.ledger(claims), "a", "b")
		l := ec2.ledger(claims)
		if got := launchAll(t.Context(), l, "a", "b"); len(got) > 0 {
			t.Errorf("%v was reported before EC2 had the time to show all", got)
		}
		ec2.wait(shownAfter)
		launchAll(t.Context(), l, "a", "b")
		if got := launchAll(t.Context(), l, "a", "b"); got["a"] != first["a"] || len(got) != 2 || ec2.made != 2 {
			t.Errorf("the claims have %v, %v before the crash, and %d instances were made", got, first, ec2.made)
		}
	})
	t.Run("EC2 had not", func(t *testing.T) {
		t.Parallel()
		ec2, claims := newTeller(), newRegister()
		ec2.unheard = 1
		launchAll(t.Context(), ec2.ledger(claims), "a", "b")
		l := ec2.ledger(claims)
		launchAll(t.Context(), l, "a", "b")
		ec2.wait(shownAfter - 2*time.Second)
		if got := launchAll(t.Context(), l, "a", "b"); len(got) > 0 || ec2.made > 0 {
			t.Errorf("%v was reported before EC2 had the time to show all", got)
		}
		ec2.wait(2 * time.Second)
		launchAll(t.Context(), l, "a", "b")
		if got := launchAll(t.Context(), l, "a", "b"); len(got) != 2 || ec2.made != 2 {
			t.Errorf("the claims have %v, and %d instances were made", got, ec2.made)
		}
	})
}

// TestNothingIsLaunchedForClaimsThatAreGone has claims give up while EC2 lets nobody in, after a
// request of which nobody knows whether it arrived, or before their fleet is sent.
func TestNothingIsLaunchedForClaimsThatAreGone(t *testing.T) {
	t.Parallel()
	ec2, claims := newTeller(), newRegister()
	ec2.closed = 1
	l := ec2.ledger(claims)
	launchAll(t.Context(), l, "a", "b")
	l.resolveAll(t.Context())
	if ec2.made != 0 {
		t.Errorf("%d instances were made for those who were not let in, and did not ask again", ec2.made)
	}
	if got := launchAll(t.Context(), l, "a"); len(got) != 1 || ec2.made != 1 {
		t.Errorf("%d instances were made when one of two asked again, who has %v; want one", ec2.made, got)
	}
	ec2.unheard = 1
	launchAll(t.Context(), l, "c")
	its := ec2Instance{Tags: map[string]string{launchTag: l.byToken["c"].name}}
	claims.gone["c"] = true
	l.resolveAll(t.Context())
	if ec2.made != 1 || !l.unresolved(&its) {
		t.Errorf("%d instances were made, one of them for a claim that has left; its fleet is waited for: %t", ec2.made, l.unresolved(&its))
	}
	ec2.wait(seenAfter)
	l.resolveAll(t.Context())
	if ec2.made != 1 || l.unresolved(&its) {
		t.Errorf("when EC2 had the time to show it, %d instances were made, and it is waited for: %t", ec2.made, l.unresolved(&its))
	}
	if got := launchAll(t.Context(), l, "c", "d", "e"); len(got) != 2 || ec2.made != 3 {
		t.Errorf("%d instances were made, and those who stayed have %v; want one each", ec2.made, got)
	}
}

// TestAnotherHasLaunched has two processes, one of which the other does not know: it finds the
// other's mark and that one's instance, and launches for those who got nothing.
func TestAnotherHasLaunched(t *testing.T) {
	t.Parallel()
	ec2, claims := newTeller(), newRegister()
	other := ec2.ledger(claims)
	if err := other.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := launchAll(t.Context(), ec2.ledger(claims), "a", "b")
	launchAll(t.Context(), other, "a", "x") // learns that somebody was there before
	if got := launchAll(t.Context(), other, "a", "x"); got["a"] != first["a"] || got["x"] == "" || ec2.made != 3 {
		t.Errorf("%d instances were made, and there is %v; want %v and one for x", ec2.made, got, first)
	}
}

// TestSomeHaveLeft repeats a launch request whole whose outcome is not known though one of its claims
// has gone: the others get theirs, and the one too many is listed for the claim that has gone, so
// that it is swept.
func TestSomeHaveLeft(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]bool{"EC2 had launched": true, "EC2 had not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec2, claims := newTeller(), newRegister()
			if ec2.unheard = 1; observed {
				ec2.lost, ec2.unheard = 1, 0
			}
			l := ec2.ledger(claims)
			launchAll(t.Context(), l, "a", "gone", "b")
			claims.gone["gone"] = true
			l.resolveAll(t.Context())
			if ec2.made != 3 || len(ec2.byToken) != 1 {
				t.Fatalf("%d instances were made by %d fleets, want three by one", ec2.made, len(ec2.byToken))
			}
			holders := map[string]string{}
			for id, m := range l.instances() {
				holders[m.Token] = id
			}
			if len(holders) != 3 || holders["gone"] == "" {
				t.Errorf("the instances are listed as of %v", holders)
			}
			if got := launchAll(t.Context(), l, "a", "b"); got["a"] != holders["a"] || got["b"] != holders["b"] || ec2.made != 3 {
				t.Errorf("those who stayed got %v of %v", got, holders)
			}
		})
	}
}

// TestBatchesAreForgotten shows that the ledger does not grow for ever.
func TestBatchesAreForgotten(t *testing.T) {
	t.Parallel()
	ec2 := newTeller()
	l := ec2.ledger(newRegister())
	launchAll(t.Context(), l, "a", "b")
	ec2.wait(batchKept)
	if l.forgetOld(); len(l.batches) != 1 || l.holding("a") == nil {
		t.Errorf("%d batches are remembered, want one", len(l.batches))
	}
	ec2.wait(time.Second)
	if l.forgetOld(); len(l.batches)+len(l.byToken)+len(l.opened) != 0 {
		t.Errorf("long after the launch there are %v and %v", l.batches, l.byToken)
	}
}

// TestForeignMarks reads marks that somebody else has written: none names a batch without end,
// a place that there is not, or a time that keeps its claim waiting.
func TestForeignMarks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"launch-1 0/1 2026-11-01T12:00:00Z":                               true,
		"launch-1 49/50 2026-11-01T12:00:00Z":                             true,
		"launch-1 1/1 2026-11-01T12:00:00Z":                               false,
		"launch-1 -1/1 2026-11-01T12:00:00Z":                              false,
		"launch-1 0/51 2026-11-01T12:00:00Z":                              false,
		"other-1 0/1 2026-11-01T12:00:00Z":                                false,
		"launch-1 0/1":                                                    false,
		"launch-1 0/1 yesterday":                                          false,
		"launch-1 a/b 2026-11-01T12:00:00Z":                               false,
		"launch-" + strings.Repeat("1", 99) + " 0/1 2026-11-01T12:00:00Z": false,
		"": false,
	} {
		m, ok := parseMark(text)
		if ok != want || ok && m.String() != text {
			t.Errorf("parseMark(%q) = %s, %t", text, &m, ok)
		}
	}
	ec2, claims := newTeller(), newRegister()
	a := member{"a", "claim-a"}
	claims.marked[a] = mark{a, "launch-of-a-stranger", 0, 50, ec2.now.Add(100 * 365 * 24 * time.Hour)}
	l := ec2.ledger(claims)
	launchAll(t.Context(), l, "a")
	ec2.wait(shownAfter)
	launchAll(t.Context(), l, "a")
	if got := launchAll(t.Context(), l, "a"); len(got) != 1 || ec2.made != 1 {
		t.Errorf("with a stranger's mark the claim has %v after %s", got, shownAfter)
	}
}
