package journal

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/static"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestStories runs the stories in testdata: "cluster" describes one, "provision after=1m"
// and "disrupt after=1m" let the core decide about it so long after the last decision,
// "scale after=1m pool=x" about a static pool, with claims=a,b for the launches, "explain pod/x"
// asks the journal of all that.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &stage{at: story.Now()}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				var err error
				if s.snap, err = story.Parse(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "provision", "disrupt", "scale":
				return s.decide(t, d)
			case "explain":
				return s.explain(t, d)
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
				return ""
			}
		})
	})
}

// stage is where a story happens.
type stage struct {
	at        time.Time
	snap      *cluster.Snapshot
	decisions []*record.Decision
}

func (s *stage) decide(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	after := "0s"
	d.MaybeScanArgs(t, "after", &after)
	passed, err := time.ParseDuration(after)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	s.at = s.at.Add(passed)
	snap := *s.snap
	snap.At = s.at
	decision := &record.Decision{Loop: record.Provisioning, Snapshot: &snap}
	switch d.Cmd {
	case "provision":
		decision.Plan = pack.Decide(&snap, decision.Pack)
	case "disrupt":
		decision.Loop = record.Disruption
		decision.Disrupt.Repair = disrupt.Repair{On: true, CanReboot: true}
		decision.Disruption, _ = disrupt.Propose(&snap, decision.Memory, decision.Disrupt)
	default:
		pool := ""
		d.ScanArgs(t, "pool", &pool)
		decision.Loop, decision.Scaling = record.Static, static.Next(&snap, pool)
		decision.Snapshot = static.Part(&snap, pool)
	}
	for _, arg := range d.CmdArgs {
		if arg.Key == "claims" {
			decision.Claims = arg.Vals
		}
	}
	s.decisions = append(s.decisions, decision)
	return strings.Join(record.Lines(decision), "\n") + "\n"
}

func (s *stage) explain(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	subject, err := ParseSubject(d.CmdArgs[0].Key)
	if err != nil {
		return err.Error() + "\n"
	}
	j, _ := keep(t, Options{}, s.decisions...)
	file := fileOf(t, j, ID{})
	f, err := ReadFrom(bytes.NewReader(file), "journal")
	if err != nil {
		t.Fatal(err)
	}
	answers, err := f.Explain(subject)
	if err != nil {
		return err.Error() + "\n"
	}
	var out strings.Builder
	if err := Print(&out, answers, s.at); err != nil {
		t.Fatal(err)
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

// TestAReplacementIsExplainedByItsCommand asks about a node that was launched for a command.
func TestAReplacementIsExplainedByItsCommand(t *testing.T) {
	t.Parallel()
	step := decide(t, 0, "")
	step.Loop, step.Disruption = record.Disruption, plan.Disruption{At: step.At(), Commands: []plan.Command{{
		ID: "step-7", Reason: disrupt.Drifted, Remove: []plan.Removal{{Node: "n1", Reason: disrupt.Drifted}}, Launch: []plan.Launch{{Pool: "general"}},
	}}}
	later := decide(t, 60, "node n2 pool=general type=small claim=general-2\n")
	for i := range later.Snapshot.Nodes {
		if n := &later.Snapshot.Nodes[i]; n.Name == "n2" {
			n.Replaces = "step-7"
		}
	}
	j, _ := keep(t, Options{}, step, later)
	file := fileOf(t, j, ID{})
	f, err := ReadFrom(bytes.NewReader(file), "journal")
	if err != nil {
		t.Fatal(err)
	}
	answers, err := f.Explain(Subject{Kind: KindClaim, Name: "general-2"})
	if err != nil || len(answers) != 1 || len(answers[0].Says) != 1 {
		t.Fatalf("answers %+v, error %v", answers, err)
	}
	if said := answers[0].Says[0]; said.What != "launched by command 1 (Drifted)" || said.Decision.Number != 1 {
		t.Errorf("it says %+v", said)
	}
}

// TestAClaimThatOutlivesItsNodeKeepsWhatWasSaidOfIt asks about a claim whose Node was removed, and is gone before it.
func TestAClaimThatOutlivesItsNodeKeepsWhatWasSaidOfIt(t *testing.T) {
	t.Parallel()
	step := decide(t, 0, "node n2 pool=general type=small claim=general-2\n")
	step.Loop, step.Disruption = record.Disruption, plan.Disruption{At: step.At(), Commands: []plan.Command{{
		Reason: disrupt.Empty, Remove: []plan.Removal{{Node: "n2", Claim: "general-2", Reason: disrupt.Empty}},
	}}}
	later := decide(t, 60, "node general-2 pool=general type=small claim=general-2 deleting\n")
	j, _ := keep(t, Options{}, step, later)
	f, err := ReadFrom(bytes.NewReader(fileOf(t, j, ID{})), "journal")
	if err != nil {
		t.Fatal(err)
	}
	answers, err := f.Explain(Subject{Kind: KindClaim, Name: "general-2"})
	if err != nil || len(answers) != 1 || !slices.ContainsFunc(answers[0].Says, func(s Say) bool { return s.What == "to be removed by command 1 (Empty)" }) {
		t.Errorf("answers %+v, error %v", answers, err)
	}
}
