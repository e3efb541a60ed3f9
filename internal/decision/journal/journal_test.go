package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

const world = `
type small cpu=2 memory=8Gi price=0.10 zones=a
type large cpu=8 memory=32Gi price=0.40 zones=a
pool general
node n1 pool=general type=small zone=a claim=general-1
`

// decide answers the story, some seconds after its usual time.
func decide(t testing.TB, seconds int, lines string) *record.Decision {
	t.Helper()
	snap, err := story.Parse(world + lines)
	if err != nil {
		t.Fatal(err)
	}
	snap.At = story.Now().Add(time.Duration(seconds) * time.Second)
	d := &record.Decision{Loop: record.Provisioning, Snapshot: snap, Plan: pack.Solve(snap, pack.Options{})}
	for i := range d.Plan.Launches {
		d.Claims = append(d.Claims, fmt.Sprintf("general-new%d", i))
	}
	return d
}

// keep opens a journal that writes what it is given, and returns it after it has.
func keep(t testing.TB, opts Options, decisions ...*record.Decision) (j *Journal, outcomes []string) {
	t.Helper()
	if opts.MemoryBytes == 0 {
		opts.MemoryBytes = 1 << 20
	}
	opts.Log, opts.Now, opts.Version = slog.New(slog.DiscardHandler), story.Now, "test"
	opts.Count = func(_ record.Loop, outcome string) { outcomes = append(outcomes, outcome) }
	j, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for chunk := range slices.Chunk(decisions, snapshotsMax) {
		for _, d := range chunk {
			j.Add(d, j.Identify(d))
		}
		j.Run(ctx)
	}
	return j, outcomes
}

// fileOf returns what WriteFile writes.
func fileOf(t testing.TB, j *Journal, id ID) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := j.WriteFile(&b, id); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRepeatedDecisionsAreCounted(t *testing.T) {
	t.Parallel()
	refusedPod := "pod w cpu=9\n"
	j, outcomes := keep(t, Options{},
		decide(t, 0, refusedPod), decide(t, 1, refusedPod), decide(t, 2, refusedPod),
		decide(t, 3, refusedPod+"pod x cpu=1\n"),
		decide(t, 4, refusedPod))
	if diff := cmp.Diff([]string{Written, Same, Same, Written, Written}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	heads := j.Heads()
	if len(heads) != 3 || heads[0].Again != 2 || !heads[0].Until.Equal(story.Now().Add(2*time.Second)) {
		t.Errorf("heads: %+v", heads)
	}
	want := []Refused{{
		Namespace: "default", Name: "w", UID: "w", Reason: verdict.TooLarge, Why: j.Refusals()[0].Why,
		First: story.Now(), Last: story.Now().Add(4 * time.Second), Times: 5,
	}}
	if diff := cmp.Diff(want, j.Refusals()); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

// TestHeadsHavePrices holds that nodes that are being deleted, or have no known price, do not
// count, and what commands and removals change.
func TestHeadsHavePrices(t *testing.T) {
	t.Parallel()
	d := decide(t, 0, "node n2 pool=general type=large zone=a\nnode n3 pool=general type=large zone=a deleting\nnode n4 cpu=4\npod w cpu=7\npod x cpu=7\n")
	d.Disruption.Removals = []plan.Removal{{Node: "n1"}}
	d.Disruption.Commands = []plan.Command{{SavingHourly: 0.25, Remove: []plan.Removal{{Node: "n2"}}, Launch: []plan.Launch{{}}}}
	h := headOf(d, ID{Number: 1}, "")
	got := fmt.Sprintf("%.2f to %.2f, %d come, %d go", h.PriceBefore, h.PriceAfter, h.Launches, h.Removals)
	if want := "0.50 to 0.55, 2 come, 2 go"; got != want {
		t.Errorf("head says %s, want %s", got, want)
	}
}

func TestAmountsInReasonsToStayMakeNoDifference(t *testing.T) {
	t.Parallel()
	stays := func(at int, detail string) *record.Decision {
		d := decide(t, at, "")
		d.Loop, d.Plan = record.Disruption, plan.Plan{}
		d.Disruption = plan.Disruption{At: d.At(), Blocked: []verdict.Verdict{verdict.Of(verdict.ConsolidateAfterNotElapsed, "n1", "%s", detail)}}
		return d
	}
	acts := stays(75, "held by pod db")
	acts.Disruption.Marks = []plan.Removal{{Node: "n1"}}
	_, outcomes := keep(t, Options{}, stays(0, "last pod event  3s"), stays(5, "last pod event  8s"), stays(9, "held by pod web"), stays(70, "held by pod web"), acts, stays(76, "last pod event  8s"))
	if diff := cmp.Diff([]string{Written, Same, Idle, Written, Written, Written}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// TestEachNodeHasItsOwnReasonToStay: of three nodes one has another reason in the next decision.
func TestEachNodeHasItsOwnReasonToStay(t *testing.T) {
	t.Parallel()
	stay := func(at int, details ...string) *record.Decision {
		d := decide(t, at, "")
		d.Loop, d.Plan, d.Disruption = record.Disruption, plan.Plan{}, plan.Disruption{At: d.At()}
		for i, detail := range details {
			d.Disruption.Blocked = append(d.Disruption.Blocked, verdict.Of(verdict.ConsolidateAfterNotElapsed, fmt.Sprintf("n%d", i), "%s", detail))
		}
		return d
	}
	j, _ := keep(t, Options{}, stay(0, "held by pod web", "last pod event 3s", "held by pod db"), stay(70, "held by pod web", "held by pod web", "held by pod db"))
	for i, want := range []int{1, 2, 1} {
		node := Subject{Kind: KindNode, Name: fmt.Sprintf("n%d", i)}
		if got := j.Explain(node); len(got) != 1 || len(got[0].Says) != want {
			t.Errorf("%s has the reasons %+v, want %d", node.Name, got, want)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var all []*record.Decision
	for i := range 40 {
		all = append(all, decide(t, i, fmt.Sprintf("pod w%d cpu=1\n", i)))
	}
	j, _ := keep(t, Options{MemoryBytes: 20_000}, all...)
	heads := j.Heads()
	if len(heads) == 0 || len(heads) == 40 || heads[len(heads)-1].ID.Number != 40 {
		t.Errorf("%d decisions kept: %+v", len(heads), heads)
	}
	if file := fileOf(t, j, ID{}); len(file) > 21_000 {
		t.Errorf("the file has %d bytes", len(file))
	}
}

func TestALoopNeverWaits(t *testing.T) {
	t.Parallel()
	dropped := 0
	j, err := Open(Options{Count: func(_ record.Loop, outcome string) {
		if outcome == Dropped {
			dropped++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range queueMax + 3 {
		j.Add(decide(t, 0, ""), ID{})
	}
	(*Journal)(nil).Add(nil, ID{})
	if dropped != 3 {
		t.Errorf("%d dropped, want 3", dropped)
	}
}

// TestManyThatWaitLoseTheirSnapshotsBeforeTheirPlans hands in more decisions at once than may wait with
// their snapshots: of the others the plan is kept, which explains, and cannot be decided again.
func TestManyThatWaitLoseTheirSnapshotsBeforeTheirPlans(t *testing.T) {
	t.Parallel()
	var outcomes []string
	j, err := Open(Options{
		MemoryBytes: 1 << 20, Now: story.Now, Log: slog.New(slog.DiscardHandler),
		Count: func(_ record.Loop, outcome string) { outcomes = append(outcomes, outcome) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range snapshotsMax + 1 {
		j.Add(decide(t, i, fmt.Sprintf("pod w%d cpu=1\n", i)), ID{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Run(ctx)
	if want := append(slices.Repeat([]string{Written}, snapshotsMax), SnapshotDropped); !slices.Equal(outcomes, want) {
		t.Errorf("outcomes %q, want %q", outcomes, want)
	}
	f, err := ReadFrom(bytes.NewReader(fileOf(t, j, ID{})), "j")
	if err != nil {
		t.Fatal(err)
	}
	last := &f.Decisions[snapshotsMax]
	d, err := last.Decision()
	if !errors.Is(err, ErrNoSnapshot) || len(d.Plan.Assignments) != 1 || last.Nodes != 1 || last.Pending != 1 {
		t.Errorf("the last is %+v with the plan %+v, error %v", last.Head, d.Plan, err)
	}
	if answers := j.Explain(Subject{Kind: KindPod, Name: fmt.Sprintf("w%d", snapshotsMax)}); len(answers) != 1 {
		t.Errorf("its pod is explained by %+v", answers)
	}
}

func TestTimelinesAreBounded(t *testing.T) {
	t.Parallel()
	lines := newTimelines(10)
	for i := range 25 {
		ref := cluster.PodRef{Namespace: "default", Name: fmt.Sprint(i), UID: fmt.Sprint(i)}
		at := story.Now().Add(time.Duration(i) * time.Second)
		d := &record.Decision{Loop: record.Provisioning, Snapshot: &cluster.Snapshot{At: at}}
		d.Plan.Refusals = []plan.Refusal{{Pod: ref, Why: verdict.Of(verdict.NoPlace, "", "no")}}
		lines.decided(d, saying{loop: d.Loop, at: at, until: at, times: 1})
	}
	all := lines.refusals()
	if len(all) > 10 || all[len(all)-1].Name != "24" || lines.count != len(all) {
		t.Errorf("%d refusals remembered, the newest %s; %d counted", len(all), all[len(all)-1].Name, lines.count)
	}
}

// TestWhatIsOnDiskIsReadAgain writes through several files and two runs of the program.
func TestWhatIsOnDiskIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	keep(t, Options{Dir: dir, DiskBytes: 1 << 20}, decide(t, 0, "pod w cpu=9\n"), decide(t, 1, "pod w cpu=9\n"))
	j, _ := keep(t, Options{Dir: dir, DiskBytes: 1 << 20}, decide(t, 70, "pod w cpu=9\n"), decide(t, 71, "pod w cpu=1\n"))
	f, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range f.Decisions {
		got = append(got, fmt.Sprintf("%d again %d refused %d", e.ID.Number, e.Again, e.Refused))
	}
	if diff := cmp.Diff([]string{"1 again 1 refused 1", "2 again 0 refused 1", "3 again 0 refused 0"}, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if n := len(j.Heads()); n != 3 {
		t.Errorf("the second run has %d decisions in memory, want its own 2 and that of the first", n)
	}
	d, err := f.Decisions[2].Decision()
	if err != nil {
		t.Fatal(err)
	}
	if again := d.Redo(); again.Bug != "" || !record.SamePlan(again, d) {
		t.Errorf("decided again: %s %v", again.Bug, record.Differences(d, again))
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("files: %v %v", entries, err)
	}
}

// TestARestartForgetsNothing asks a process about what one before it decided: a decision, with its snapshot,
// which is on disk only, and why a pod is refused, since when, and how often.
func TestARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	opts := Options{Dir: t.TempDir(), DiskBytes: 1 << 20}
	first, _ := keep(t, opts, decide(t, 0, "pod w cpu=9\n"), decide(t, 1, "pod w cpu=9\n"))
	old := first.Heads()[0].ID
	j, _ := keep(t, opts)
	if answers := j.Explain(Subject{Kind: KindPod, Name: "w"}); len(answers) != 1 || len(answers[0].Says) != 1 || answers[0].Says[0].Times != 2 || answers[0].Says[0].Decision != old {
		t.Errorf("before it decides, the second run says %+v", answers)
	}
	j, _ = keep(t, opts, decide(t, 3600, "pod w cpu=9\npod x cpu=1\n"))
	answers := j.Explain(Subject{Kind: KindPod, Name: "w"})
	if len(answers) != 1 || len(answers[0].Says) != 1 {
		t.Fatalf("it says %+v, want one thing", answers)
	}
	if said := answers[0].Says[0]; said.Times != 3 || !said.First.Equal(story.Now()) || said.Decision == old || len(said.Details) != 1 {
		t.Errorf("it says %+v, want that it was said three times since the first run", said)
	}
	for _, asked := range []ID{old, {Number: old.Number}} {
		f, err := ReadFrom(bytes.NewReader(fileOf(t, j, asked)), "j")
		if err != nil || len(f.Decisions) != 1 || f.Decisions[0].ID != old {
			t.Fatalf("decision %s: %+v, error %v", asked, f, err)
		}
		d, err := f.Decisions[0].Decision()
		if err != nil || !record.SamePlan(d.Redo(), d) {
			t.Errorf("decision %s cannot be made again: %v", asked, err)
		}
	}
	if err := j.WriteFile(io.Discard, ID{Number: 99}); !errors.Is(err, ErrNoDecision) {
		t.Errorf("a decision that there is not: %v", err)
	}
}

// TestWhoLeadsNextKnowsWhatWasDecidedBefore has two replicas with one directory, of which the second one was
// there all the time and leads after the first one is gone.
func TestWhoLeadsNextKnowsWhatWasDecidedBefore(t *testing.T) {
	t.Parallel()
	opts := Options{Dir: t.TempDir(), DiskBytes: 1 << 20}
	first, _ := keep(t, opts, decide(t, 0, "pod v cpu=9\n"))
	second, _ := keep(t, opts)
	second.opts.Now = func() time.Time { return story.Now().Add(time.Second) }
	for i := range 2 {
		first.takeNow(decide(t, 60*(i+1), fmt.Sprintf("pod w%d cpu=9\n", i)))
	}
	old := first.Heads()[2].ID
	second.takeNow(decide(t, 300, "pod x cpu=1\n")) // the first decision may be made before the files are read
	second.Recall()
	second.Recall()
	second.takeNow(decide(t, 301, "pod y cpu=1\n"))
	var got []string
	for _, h := range second.Heads() {
		got = append(got, h.ID.String())
	}
	if len(got) != 5 || got[2] != old.String() || got[4] != second.last[asker{record.Provisioning, ""}].id.String() {
		t.Errorf("the second replica has %q, want three of the first, the last %s, and two of its own", got, old)
	}
	if answers := second.Explain(Subject{Kind: KindPod, Name: "w1"}); len(answers) != 1 || answers[0].Says[0].Decision != old {
		t.Errorf("it says %+v", answers)
	}
	if f, err := ReadFrom(bytes.NewReader(fileOf(t, second, old)), "j"); err != nil || len(f.Decisions) != 1 || f.Decisions[0].NoSnapshot {
		t.Errorf("decision %s: %+v, %v", old, f, err)
	}
	(*Journal)(nil).Recall()
}

// TestADamagedFileDoesNotKeepTheControllerFromStarting has a file in the directory that is no journal.
func TestADamagedFileDoesNotKeepTheControllerFromStarting(t *testing.T) {
	t.Parallel()
	opts := Options{Dir: t.TempDir(), DiskBytes: 1 << 20}
	keep(t, opts, decide(t, 0, "pod w cpu=9\n"))
	if err := os.WriteFile(filepath.Join(opts.Dir, "999999999999998"+suffix), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, _ := keep(t, opts, decide(t, 9, "pod x cpu=1\n"))
	if heads := j.Heads(); len(heads) != 2 || heads[1].ID.Number != 2 {
		t.Errorf("it has %+v", heads)
	}
}

// TestWhatIsRecalledIsBounded begins with a directory that has more than memory is for.
func TestWhatIsRecalledIsBounded(t *testing.T) {
	t.Parallel()
	opts := Options{Dir: t.TempDir(), DiskBytes: 16 << 20, MemoryBytes: workingBytes}
	many := make([]*record.Decision, 20)
	for i := range many {
		many[i] = decide(t, i, fmt.Sprintf("pod w%d cpu=9\n", i))
		many[i].Error = randomText(i, 100_000)
	}
	keep(t, opts, many[:10]...)
	keep(t, opts, many[10:]...)
	j, _ := keep(t, opts)
	if n := len(j.Heads()); n == 0 || n >= len(many) || j.bytes > j.memory/plansShare {
		t.Errorf("%d decisions of %d with %d bytes are recalled, bound %d", n, len(many), j.bytes, j.memory/plansShare)
	}
	if newest := j.Heads()[len(j.Heads())-1].ID.Number; newest != int64(len(many)) {
		t.Errorf("the newest is %d", newest)
	}
}

// randomText returns a text that cannot be compressed.
func randomText(seed, length int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 1)) //nolint:gosec // the same each time
	b := make([]byte, length)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"[r.IntN(64)]
	}
	return string(b)
}

func TestDiskIsBounded(t *testing.T) {
	t.Parallel()
	dir, most := t.TempDir(), int64(40_000)
	var all []*record.Decision
	for i := range 100 {
		all = append(all, decide(t, i, fmt.Sprintf("pod w%d cpu=1\n", i)))
	}
	keep(t, Options{Dir: dir, DiskBytes: most}, all...)
	files, err := filesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if len(files) < 3 || total > most {
		t.Errorf("%d files with %d bytes, bound %d", len(files), total, most)
	}
	f, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.Decisions); n == 0 || f.Decisions[n-1].ID.Number != 100 {
		t.Errorf("%d decisions read", n)
	}
}

// TestATornLineIsSkippedAndReported cuts a journal at every byte of its last line.
func TestATornLineIsSkippedAndReported(t *testing.T) {
	t.Parallel()
	j, _ := keep(t, Options{}, decide(t, 0, "pod w cpu=1\n"), decide(t, 1, "pod x cpu=9\n"))
	whole := fileOf(t, j, ID{})
	lastLine := strings.LastIndexByte(string(whole[:len(whole)-1]), '\n') + 1
	for cut := lastLine + 1; cut < len(whole)-1; cut++ {
		f, err := ReadFrom(strings.NewReader(string(whole[:cut])), "j")
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Decisions) != 1 || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "the last line was cut short") {
			t.Fatalf("cut at %d: %d decisions, notes %q", cut, len(f.Decisions), f.Notes)
		}
	}
	damaged := strings.Replace(string(whole), `{"format":"dovetail-journal/2","decision":{"id":"1.6fb9m0",`, `{"format":"dovetail-journal/2","decision":{"id":"x",`, 1)
	f, err := ReadFrom(strings.NewReader(damaged), "j")
	if err != nil || len(f.Decisions) != 1 || len(f.Notes) != 1 || !strings.HasPrefix(f.Notes[0], "j:3: ") {
		t.Errorf("damaged in the middle: %v, %+v", err, f)
	}
}

func TestWhatIsNoJournalIsSaid(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"a text":              {"hello\n", "j:1: invalid character"},
		"a Kubernetes object": {`{"kind":"Pod"}`, "this is no journal of dovetail"},
		"a later format":      {`{"format":"dovetail-journal/3"}`, `"dovetail-journal/3"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadFrom(strings.NewReader(tc.text), "j")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "there is no *.dovetail-journal in it") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestARecordIsAJournalOfOne(t *testing.T) {
	t.Parallel()
	text, err := decide(t, 0, "pod w cpu=1\n").Encode()
	if err != nil {
		t.Fatal(err)
	}
	f, err := ReadFrom(strings.NewReader(string(text)), "j")
	if err != nil || len(f.Decisions) != 1 || f.Decisions[0].Pending != 1 {
		t.Errorf("read %+v, error %v", f, err)
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	j, _ := keep(t, Options{}, decide(t, 0, "pod w cpu=1\n"), decide(t, 1, "pod x cpu=9\n"))
	server := httptest.NewServer(j.Handler())
	t.Cleanup(server.Close)
	for path, want := range map[string]struct {
		status, decisions int
		body              string
	}{
		Path:           {200, 0, `"id": "2.6fb9m0"`},
		Path + "/":     {200, 0, `"why": "`},
		Path + "/all":  {200, 2, ""},
		Path + "/2":    {200, 1, ""},
		Path + "/3":    {404, 0, "decision 3: there is no such decision"},
		Path + "/tree": {400, 0, `"tree" names no decision`},
	} {
		t.Run(path, func(t *testing.T) { // one after the other: readers are few
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close() //nolint:errcheck // it is read whole
			if answer.StatusCode != want.status {
				t.Errorf("status %d, want %d", answer.StatusCode, want.status)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || !strings.Contains(string(body), want.body) {
				t.Errorf("body %s, error %v, want %s", body, err, want.body)
			}
			if want.decisions > 0 {
				f, err := ReadFrom(bytes.NewReader(body), path)
				if err != nil || len(f.Decisions) != want.decisions {
					t.Errorf("read %+v, error %v", f, err)
				}
			}
		})
	}
}

// asking asks the journal whenever a piece is put.
type asking struct {
	record.Pieces
	ask func()
	put int
}

func (a *asking) Put(name string, text []byte, refs []int64) int64 {
	a.ask()
	a.put++
	return a.Pieces.Put(name, text, refs)
}

// TestQuestionsAreAnsweredWhileADecisionIsWritten: the first snapshot of a large cluster takes seconds.
func TestQuestionsAreAnsweredWhileADecisionIsWritten(t *testing.T) {
	t.Parallel()
	j, _ := keep(t, Options{}, decide(t, 0, "pod w cpu=9\n"))
	during := &asking{Pieces: j.pieces, ask: func() {
		if answers := j.Explain(Subject{Kind: KindPod, Name: "w"}); len(answers) != 1 || len(j.Heads()) != 1 || len(j.Refusals()) != 1 {
			t.Errorf("it answers %+v, heads %+v", answers, j.Heads())
		}
	}}
	j.writer = record.NewWriter(during)
	j.takeNow(decide(t, 1, "pod x cpu=1\n"))
	if during.put == 0 || len(j.Heads()) != 2 {
		t.Errorf("%d pieces were put, %d decisions are kept", during.put, len(j.Heads()))
	}
}

// stuck is a reader that does not read: each write waits until it is let go.
type stuck struct {
	httptest.ResponseRecorder
	reading, release chan struct{}
	longest          int
}

func (s *stuck) Write(b []byte) (int, error) {
	select {
	case s.reading <- struct{}{}:
	default:
	}
	<-s.release
	s.longest = max(s.longest, len(b))
	return len(b), nil
}

// TestAReaderThatDoesNotReadHoldsNobodyUp has as many readers as there may be, none of which reads:
// decisions are taken in as ever, one reader more is turned away, and what they are given later is
// written line by line.
func TestAReaderThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	j, _ := keep(t, Options{}, decide(t, 0, "pod w cpu=1\n"), decide(t, 1, "pod x cpu=9\n"))
	whole := len(fileOf(t, j, ID{}))
	h, release := j.Handler(), make(chan struct{})
	ask := func(w http.ResponseWriter) { h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+"/all", nil)) }
	var readers [readersMost]*stuck
	var answered sync.WaitGroup
	for i := range readers {
		readers[i] = &stuck{ResponseRecorder: *httptest.NewRecorder(), reading: make(chan struct{}, 1), release: release}
		answered.Go(func() { ask(readers[i]) })
		<-readers[i].reading
	}
	late := httptest.NewRecorder()
	ask(late)
	if late.Code != http.StatusTooManyRequests {
		t.Errorf("one reader more is answered %d, want %d", late.Code, http.StatusTooManyRequests)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.opts.Count = func(record.Loop, string) {}
	j.Add(decide(t, 2, "pod y cpu=2\n"), ID{})
	j.Run(ctx) // returns when it has taken in what waits
	if n := len(j.Heads()); n != 3 {
		t.Errorf("%d decisions are kept while two read, want 3", n)
	}
	close(release)
	answered.Wait()
	for _, r := range readers {
		if r.longest == 0 || r.longest > whole*3/4 {
			t.Errorf("the longest write has %d of the file's %d bytes: it is not written line by line", r.longest, whole)
		}
	}
	after := httptest.NewRecorder()
	if ask(after); after.Code != http.StatusOK {
		t.Errorf("with the readers gone: %d", after.Code)
	}
}
