package journal

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

func TestIDsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ID{
		"17": {17, ""}, "17.6f3k9a": {17, "6f3k9a"}, "9223372036854775807.0": {1<<63 - 1, "0"},
		"": {}, "0": {}, "-1": {}, "+1": {}, "x": {}, "17.": {}, "17.6F3K9A": {}, "17.6f3.k9a": {}, "17.zz": {}, "17.+6": {}, "17.-6": {}, ".6f3k9a": {},
	} {
		got, err := ParseID(text)
		if got != want || (err != nil) != want.IsZero() {
			t.Errorf("%q is read as %v, error %v; want %v", text, got, err, want)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for text, want := range map[string]ID{`17`: {17, ""}, `"17.6f3k9a"`: {17, "6f3k9a"}, `null`: {}} {
		var got ID
		if err := got.UnmarshalJSON([]byte(text)); err != nil || got != want {
			t.Errorf("JSON %s is read as %v, error %v; want %v", text, got, err, want)
		}
	}
	if a, b := stampOf(story.Now()), stampOf(story.Now().Add(time.Second)); a >= b || len(a) != 6 || len(b) != 6 {
		t.Errorf("the stamp of one second is %s, that of the next %s", a, b)
	}
}

// process is a journal of one run of the program, which begins so many seconds after the story.
type process struct {
	*Journal
	ids []string
}

func begin(t *testing.T, dir string, seconds int) *process {
	t.Helper()
	now := story.Now().Add(time.Duration(seconds) * time.Second)
	j, err := Open(Options{
		MemoryBytes: 1 << 20, Dir: dir, DiskBytes: 1 << 20, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &process{Journal: j}
}

func (p *process) identify(d *record.Decision) ID {
	id := p.Identify(d)
	p.ids = append(p.ids, id.String())
	return id
}

// TestNoTwoDecisionsHaveTheSameID restarts the program with and without a directory, also after a crash in
// which decisions were carried out that the disk does not have.
func TestNoTwoDecisionsHaveTheSameID(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", t.TempDir()} {
		seen := map[string]bool{}
		for run := range 4 {
			p := begin(t, dir, 10*run)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for i := range 3 {
				d := decide(t, i, fmt.Sprintf("pod w%d cpu=9\n", 10*run+i))
				p.Add(d, p.identify(d))
			}
			p.Run(ctx)
			for i := range 2 { // the process ends before these are written
				p.identify(decide(t, 5, fmt.Sprintf("pod lost%d cpu=1\npod x cpu=3\n", i)))
			}
			for _, id := range p.ids {
				if seen[id] {
					t.Errorf("directory %q, run %d: decision %s has been before", dir, run, id)
				}
				seen[id] = true
			}
		}
		if dir == "" {
			continue
		}
		f, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		newest := f.Decisions[len(f.Decisions)-1]
		found, err := f.Find(ID{Number: newest.ID.Number})
		if err != nil || found.ID != newest.ID {
			t.Errorf("the newest number %d is %+v, error %v; want %s", newest.ID.Number, found, err, newest.ID)
		}
	}
}

// TestANumberAloneIsTheNewest has the same number twice, of two processes.
func TestANumberAloneIsTheNewest(t *testing.T) {
	t.Parallel()
	var both bytes.Buffer
	for run := range 2 {
		p := begin(t, "", 10*run)
		d := decide(t, 10*run, "pod w cpu=9\n")
		p.Add(d, p.Identify(d))
		p.take(<-p.queue)
		both.Write(fileOf(t, p.Journal, ID{}))
	}
	f, err := ReadFrom(&both, "both")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		asked ID
		want  int
	}{{ID{Number: 1}, 1}, {f.Decisions[0].ID, 0}, {f.Decisions[1].ID, 1}} {
		if got, err := f.Find(c.asked); err != nil || got.ID != f.Decisions[c.want].ID {
			t.Errorf("%s is %+v, error %v; want %s", c.asked, got, err, f.Decisions[c.want].ID)
		}
	}
	if _, err := f.Find(ID{1, "0"}); err == nil || !strings.Contains(err.Error(), "decision 1.0: there is no such decision; there are "+f.Decisions[0].ID.String()) {
		t.Errorf("the decision of a process that is not there: %v", err)
	}
}

// TestWhatIsCountedHasAnID hands in what changes nothing and what changes something, again and again: the ID that
// each decision has before it is carried out is found later.
func TestWhatIsCountedHasAnID(t *testing.T) {
	t.Parallel()
	stays := func(at int, detail string) *record.Decision {
		d := decide(t, at, "")
		d.Loop, d.Plan = record.Disruption, plan.Plan{}
		d.Disruption = plan.Disruption{At: d.At(), Blocked: []verdict.Verdict{verdict.Of(verdict.ConsolidateAfterNotElapsed, "n1", "%s", detail)}}
		return d
	}
	fails := func(at int) *record.Decision {
		d := decide(t, at, "pod v cpu=3\n")
		d.Claims, d.Error = nil, "no rights"
		return d
	}
	p := begin(t, "", 0)
	var got []string
	for _, d := range []*record.Decision{
		stays(0, "held by a"), stays(1, "held by a"), stays(2, "held by b"), stays(70, "held by b"), stays(71, "held by c"),
		decide(t, 72, "pod w cpu=9\n"), decide(t, 73, "pod w cpu=9\n"), decide(t, 74, "pod w cpu=9\npod x cpu=9\n"),
		fails(75), fails(76), decide(t, 77, "pod w cpu=9\npod x cpu=9\n"),
	} {
		id := p.identify(d)
		p.Add(d, id)
		p.take(<-p.queue)
		if f, err := ReadFrom(bytes.NewReader(fileOf(t, p.Journal, id)), "j"); err != nil || len(f.Decisions) != 1 {
			t.Errorf("decision %s is not found: %v", id, err)
		}
		got = append(got, strings.TrimSuffix(id.String(), "."+id.Stamp))
	}
	want := []string{"1", "1", "1", "2", "2", "3", "3", "4", "5", "6", "7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("IDs (-want +got):\n%s", diff)
	}
	f, err := ReadFrom(bytes.NewReader(fileOf(t, p.Journal, ID{})), "j")
	if err != nil {
		t.Fatal(err)
	}
	counted, err := f.Find(ID{Number: 6})
	if err != nil || counted.ID.Number != 5 || counted.Again != 1 {
		t.Errorf("the second failure is found as %+v, error %v; want 5, again once", counted, err)
	}
}
