package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// recording is the session in testdata, which TestRecording writes with -rewrite.
const recording = "testdata/small.dovetail-session"

// TestMain draws times of day where they are the same for everybody.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// small is a cluster in which every screen has something to show.
const small = `
type four cpu=4 memory=8Gi price=0.20 spot=0.08 zones=a,b short=a/spot
type eight cpu=8 memory=16Gi price=0.40 zones=a,b
pool general limit.cpu=20 after=30s
pool batch after=Never budget=0
pdb db allowed=0
node ip-10-0-1-7 pool=general type=four capacity=spot zone=b last-pod-event=10s
running web on=ip-10-0-1-7 cpu=1 memory=1Gi count=2 app=web
running api on=ip-10-0-1-7 cpu=500m memory=4Gi app=api
node ip-10-0-2-2 pool=general type=eight
running db on=ip-10-0-2-2 cpu=7 memory=1Gi app=db pdb=db
node ip-10-0-3-9 pool=batch type=four drifted=NodePoolDrifted
running job on=ip-10-0-3-9 cpu=1 memory=1Gi app=job
node ip-10-0-4-1 pool=general type=four deleting
running web on=ip-10-0-4-1 cpu=1 memory=1Gi app=web
pod big cpu=8 count=2 app=big
pod huge cpu=64 app=huge`

// later is small after a minute: a node is gone, and the large pods have one that starts.
var later = strings.NewReplacer(
	"node ip-10-0-4-1 pool=general type=four deleting\nrunning web on=ip-10-0-4-1 cpu=1 memory=1Gi app=web\n", "",
	"pod big cpu=8 count=2 app=big\n", "",
).Replace(small)

// known is a source that knows one cluster.
type known struct {
	views   *live.Views
	listing journal.Listing
	answers map[string][]journal.Answer
	err     error
	asked   map[string]int // by part
}

// newKnown returns a source that has decided once about a cluster.
func newKnown(t testing.TB, text string) *known {
	t.Helper()
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return knownOf(snap)
}

func knownOf(snap *cluster.Snapshot) *known {
	latest := &live.Latest{}
	latest.Begin(mirror{snap.At})
	p := pack.Decide(snap, pack.Options{})
	latest.Provisioned(snap, p.Refusals, nil)
	d, next := disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{})
	latest.Disrupted(snap, &d, &next, nil)
	at := snap.At
	return &known{
		views: &live.Views{Latest: latest, Now: func() time.Time { return at }}, asked: map[string]int{},
		listing: journal.Listing{Decisions: []journal.Head{
			{ID: journal.ID{Number: 16, Stamp: "k3f9"}, At: at.Add(-time.Hour), Loop: record.Disruption, Nodes: 4, Removals: 1, Steps: 1, Launches: 1, PriceBefore: 1.08, PriceAfter: 0.88, FleetBound: 0.8, Took: 12 * time.Millisecond},
			{ID: journal.ID{Number: 17, Stamp: "k3f9"}, At: at.Add(-2 * time.Minute), Loop: record.Provisioning, Pending: 3, Placed: 1, Launched: 2, Launches: 1, Nodes: 3, PriceBefore: 0.68, PriceAfter: 0.88, Bound: 0.2, Took: 4 * time.Millisecond},
			{ID: journal.ID{Number: 18, Stamp: "k3f9"}, At: at.Add(-3 * time.Second), Loop: record.Provisioning, Pending: 3, Refused: 1, Nodes: 4, PriceBefore: 0.88, PriceAfter: 0.88, Again: 7, Until: at, Error: "conflict"},
		}},
		answers: map[string][]journal.Answer{
			"pod default/huge":      {{Kind: "pod", Name: "default/huge", Now: "pending, refused", Ends: "an instance type is large enough", Says: []journal.Say{{First: at.Add(-time.Minute), Last: at, Times: 8, Decision: journal.ID{Number: 18, Stamp: "k3f9"}, What: "no node can take it", Details: []string{"pool general: too large"}}}}},
			"node ip-10-0-2-2":      {{Kind: "node", Name: "ip-10-0-2-2", Pool: "general", Now: "stays", Ends: "PodDisruptionBudget db allows an eviction", Says: []journal.Say{}}},
			"nodeclaim ip-10-0-1-7": {{Kind: "nodeclaim", Name: "ip-10-0-1-7", Now: "runs pods", Says: []journal.Say{{First: at.Add(-time.Hour), Last: at.Add(-time.Hour), Times: 1, Decision: journal.ID{Number: 16, Stamp: "k3f9"}, What: "launched: the cheapest of 2 offerings"}, {First: at.Add(-62 * time.Minute), Last: at.Add(-61 * time.Minute), Times: 3, What: "launch failed (RequestLimitExceeded)", Details: []string{"too many requests", "the launch is tried again at 2026-11-21T10:59:00Z"}}}}},
			"instancetype four":     {{Kind: "instancetype", Name: "four", Now: "launched by general and batch", Facts: []string{"spot in a is short"}}},
			"web-gone":              {{Kind: "pod", Name: "default/web-gone", Now: "gone", Says: []journal.Say{{First: at.Add(-time.Hour), Last: at.Add(-time.Hour), Times: 1, Decision: journal.ID{Number: 16, Stamp: "k3f9"}, What: "evicted: its node was drifted"}}}},
		},
	}
}

// mirror knows of a shortage and of a budget.
type mirror struct{ at time.Time }

func (m mirror) Shortages() []catalog.Shortage {
	return []catalog.Shortage{{Place: catalog.Place{Type: "four", Zone: "a", CapacityType: "spot"}, Until: m.at.Add(3 * time.Minute), Risk: 0.2, Reported: m.at, Shorts: 1}}
}

func (m mirror) BudgetChanges() map[string][]time.Time {
	return map[string][]time.Time{"batch": {m.at.Add(time.Hour)}}
}

func (m mirror) BudgetSchedule(string) view.BudgetSchedule { return nil }

func (k *known) Name() string { return "prod" }

func (k *known) Fill(_ context.Context, name, by string, into any) error {
	if k.asked[name]++; k.err != nil {
		return k.err
	}
	if name == PartDecisions {
		*into.(*journal.Listing) = k.listing
		return nil
	}
	v, err := k.views.Of(name, by)
	if err == nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(v))
	}
	return err
}

func (k *known) Explain(_ context.Context, s journal.Subject) ([]journal.Answer, error) {
	if answers, ok := k.answers[s.String()]; ok {
		return answers, nil
	}
	return nil, fmt.Errorf("there is no %s", s)
}

// closable is a file in memory.
type closable struct{ bytes.Buffer }

func (*closable) Close() error { return nil }

// record returns a session of two moments, and of everything that the source can explain.
func recorded(t *testing.T) []byte {
	t.Helper()
	file := &closable{}
	r, first := NewRecorder(file, "prod"), newKnown(t, small)
	at := story.Now()
	for i, k := range []*known{first, newKnown(t, small), newKnown(t, later)} {
		parts := map[string]any{}
		for _, name := range allParts() {
			into := empty(name)
			if err := k.Fill(t.Context(), name, "namespace", into); err != nil {
				t.Fatal(err)
			}
			parts[name] = into
		}
		r.moment(at.Add(time.Duration(i)*time.Minute), parts)
	}
	for _, name := range []string{"pod default/huge", "node ip-10-0-2-2", "nodeclaim ip-10-0-1-7", "instancetype four", "web-gone"} {
		s, err := journal.ParseSubject(strings.Fields(name)...)
		if err != nil {
			t.Fatal(err)
		}
		r.explained(at, s, first.answers[name])
	}
	if err := errors.Join(r.Err(), r.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// hands presses keys and looks at the screen.
type hands struct {
	t testing.TB
	p program
}

// take hands a model to someone. What it asks for is answered at once, and its timers never end.
func take(t testing.TB, opts Options, width, height int) *hands {
	t.Helper()
	if opts.Now == nil {
		opts.Now = story.Now
	}
	m := newModel(t.Context(), opts)
	m.after = func(time.Duration, func(time.Time) tea.Msg) tea.Cmd { return nil }
	h := &hands{t, program{model: m}}
	h.run(h.p.Init())
	h.send(tea.WindowSizeMsg{Width: width, Height: height})
	return h
}

func (h *hands) send(msg tea.Msg) {
	_, cmd := h.p.Update(msg)
	h.run(cmd)
}

func (h *hands) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			h.run(c)
		}
	case nil:
	default:
		h.send(msg)
	}
}

// press presses keys: characters, and ⏎, esc, space, up, down, pgdn, pgup with blanks around them.
func (h *hands) press(script string) {
	for _, word := range strings.Fields(script) {
		named := map[string]rune{"⏎": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "pgdn": tea.KeyPgDown, "pgup": tea.KeyPgUp}
		if code, is := named[word]; is {
			h.send(tea.KeyPressMsg{Code: code})
			continue
		}
		if word == "space" {
			h.send(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
			continue
		}
		for _, r := range word {
			h.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

// screen returns what is drawn, without the blanks at the end of lines.
func (h *hands) screen() string {
	var b strings.Builder
	for line := range strings.SplitSeq(ansi.Strip(h.p.frame()), "\n") {
		b.WriteString(strings.TrimRight("|"+line, " ") + "\n")
	}
	return b.String()
}

func openRecording(t testing.TB) *Session {
	t.Helper()
	s, err := OpenSession(recording)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRecording compares the session in testdata with what is recorded now.
func TestRecording(t *testing.T) {
	t.Parallel()
	now := recorded(t)
	rewritten := false
	for _, arg := range os.Args {
		rewritten = rewritten || arg == "-rewrite" || arg == "--rewrite"
	}
	if rewritten {
		if err := os.WriteFile(recording, now, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is, err := readSession(bytes.NewReader(now))
	if err != nil {
		t.Fatal(err)
	}
	was := openRecording(t)
	if len(is.moments) != 2 {
		t.Errorf("%d moments were recorded of three, of which two are equal", len(is.moments))
	}
	a, errA := json.Marshal(is.moments)
	b, errB := json.Marshal(was.moments)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the session in testdata is not what is recorded now: go test -run TestRecording -rewrite, then TestScreens (%v, %v)", errA, errB)
	}
}

// TestScreens plays the recording: "open" begins, "keys" presses some, "wait" lets time pass.
func TestScreens(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/screens", func(t *testing.T, path string) {
		var h *hands
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "open":
				width, height := 0, 0
				d.ScanArgs(t, "width", &width)
				d.ScanArgs(t, "height", &height)
				h = take(t, Options{Source: openRecording(t), ASCII: d.HasArg("ascii"), Colors: d.HasArg("colors")}, width, height)
			case "keys":
				h.press(d.Input)
			case "wait":
				wait, err := time.ParseDuration(strings.TrimSpace(d.Input))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				h.send(clockMsg(h.p.now.Add(wait)))
			default:
				d.Fatalf(t, "there is no command %q", d.Cmd)
			}
			return h.screen()
		})
	})
}

// TestMomentsAreMadeWhenTheyAreLookedAt begins with the newest, makes each once, and goes back and forth.
func TestMomentsAreMadeWhenTheyAreLookedAt(t *testing.T) {
	t.Parallel()
	start, made := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC), []int(nil)
	s := NewSession("a journal", []time.Time{start, start.Add(time.Minute)}, func(at int) Moment {
		made = append(made, at)
		var m Moment
		m.Set(&view.Pools{Pools: make([]view.Pool, at+1)})
		return m
	}, func(journal.Subject) ([]journal.Answer, error) { return nil, errors.New("asked") })
	expect := func(pools int, at time.Time) {
		t.Helper()
		if m := s.moment(); len(m.Pools.Pools) != pools || !m.At.Equal(at) {
			t.Errorf("%d pools at %s, want %d at %s", len(m.Pools.Pools), m.At, pools, at)
		}
	}
	s.sync(time.Unix(0, 0))
	expect(2, start.Add(time.Minute))
	expect(2, start.Add(time.Minute))
	s.halt(true)
	s.step(-1)
	expect(1, start)
	s.step(1)
	expect(2, start.Add(time.Minute))
	if fmt.Sprint(made) != "[1 0 1]" {
		t.Errorf("moments were made in this order: %v", made)
	}
	if _, err := s.Explain(t.Context(), journal.Subject{Name: "a"}); err == nil || err.Error() != "asked" {
		t.Errorf("Explain() = %v", err)
	}
}
