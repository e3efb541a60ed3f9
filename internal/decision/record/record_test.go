package record_test

import (
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// fill sets everything that can be set in v, so that what is lost on the way is seen.
func fill(v reflect.Value, seed *int64, depth int) {
	*seed++
	if depth == 0 { // a verdict has verdicts below it
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(*seed % 100)
	case reflect.Float64:
		v.SetFloat(float64(*seed) / 7)
	case reflect.String:
		v.SetString(string(rune('a'+*seed%26)) + `"é<`)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), seed, depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, seed, depth-1)
			fill(value, seed, depth-1)
			v.SetMapIndex(key, value)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), seed, depth-1)
	case reflect.Struct:
		switch p := v.Addr().Interface().(type) {
		case *time.Time:
			*p = time.Unix(*seed, *seed).UTC()
			return
		case *label.Requirement:
			*p = label.Between(*seed, *seed+2).Intersect(label.NotIn("x")).WithMinValues(2)
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), seed, depth-1)
		}
	default: // what has no written form fails when it is written
	}
}

// TestNothingIsLost writes a decision in which every field is set, those that somebody
// adds to the core tomorrow included, and wants it back.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	want, seed := &record.Decision{}, int64(0)
	fill(reflect.ValueOf(want).Elem(), &seed, 12)
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := record.Decode(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("written and read (-want +got):\n%s", diff)
	}
}

func TestWhatIsSharedStaysShared(t *testing.T) {
	t.Parallel()
	sh := &cluster.Constraints{Requests: quantity.List{quantity.CPU: 1}, Terms: []label.Requirements{{}}}
	alike := *sh
	alike.OwnTerms, alike.Ports = []label.Requirements{}, nil
	ty := &catalog.Type{Name: "t", Offerings: []catalog.Offering{{PriceHourly: math.Inf(1), Priced: true}}}
	want := &record.Decision{Loop: record.Provisioning, Snapshot: &cluster.Snapshot{
		Pending: []cluster.Pod{{Constraints: sh}, {Constraints: sh}, {Constraints: &alike}},
		Pools:   []cluster.Pool{{Types: []*catalog.Type{ty}, Requirements: label.Requirements{}}, {Types: []*catalog.Type{ty}}},
	}}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	d, err := record.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	got := d.Snapshot
	if got.Pending[0].Constraints != got.Pending[1].Constraints || got.Pending[0].Constraints == got.Pending[2].Constraints {
		t.Error("pod constraints are not shared as before")
	}
	if got.Pools[0].Types[0] != got.Pools[1].Types[0] {
		t.Error("types are not shared as before")
	}
	if sh := got.Pending[2].Constraints; sh.OwnTerms == nil || sh.Ports != nil {
		t.Errorf("no list and an empty one are not distinguished: %+v", sh)
	}
	if got.Pools[0].Requirements == nil || got.Pools[1].Requirements != nil || !math.IsInf(got.Pools[0].Types[0].Offerings[0].PriceHourly, 1) {
		t.Errorf("nothing and empty, or infinity, are not distinguished: %+v", got.Pools)
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"another format":               {`{"format":"x/1"}`, `the format is "x/1"; this program reads "dovetail-decision/1"`},
		"a field of tomorrow":          {`{"format":"dovetail-decision/1","decision":{"Snapshot":{"Tides":1}}}`, "decision.Snapshot.Tides: there is no such field; a newer version wrote it"},
		"a text for a number":          {`{"format":"dovetail-decision/1","decision":{"Took":"long"}}`, "decision.Took: long is no time.Duration"},
		"an index into nothing":        {`{"format":"dovetail-decision/1","decision":{"Plan":{"Placements":[{"Pod":3}]}}}`, "decision.Plan.Assignments[0].Pod: 3 is not the index of one of 0 pods"},
		"a number too large":           {`{"format":"dovetail-decision/1","decision":{"Snapshot":{"Pools":[{"Weight":5000000000}]}}}`, "value out of range"},
		"an end before the end":        {`{"format":"dovetail-decision/1","decision":{"Plan":{`, "unexpected EOF"},
		"no snapshot":                  {`{"format":"dovetail-decision/1","decision":{}}`, "it has no Snapshot"},
		"a table that there is not":    {`{"format":"dovetail-decision/1","moons":[]}`, "moons: there is no such table"},
		"something else altogether":    {`hello`, "invalid character"},
		"a promoted name is no field":  {`{"format":"dovetail-decision/1","decision":{"Snapshot":{"Pending":[{"UID":"u"}]}}}`, "Pending[0].UID: there is no such field"},
		"a requirement of two kinds":   {`{"format":"dovetail-decision/1","decision":{"Snapshot":{"Pools":[{"Requirements":{"k":{}}}]}}}`, `Pools[0].Requirements["k"]: requirement {}: want either in or notIn`},
		"a list where an object is":    {`{"format":"dovetail-decision/1","decision":[]}`, "decision: [, want {"},
		"an object where a list is":    {`{"format":"dovetail-decision/1","pods":{}}`, "pods: {, want ["},
		"a pointer that is no object":  {`{"format":"dovetail-decision/1","decision":{"Snapshot":7}}`, "Snapshot: 7, want an object"},
		"a flag that is no flag":       {`{"format":"dovetail-decision/1","decision":{"Pack":{"FirstFitOnly":"yes"}}}`, "FirstFitOnly: yes is no bool"},
		"a shared thing by its fields": {`{"format":"dovetail-decision/1","decision":{"Plan":{"Refusals":[{"Pod":{}}]}}}`, "Pod: { is not the index of one of 0 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := record.Decode([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Decode(%s): %v, want %s", tc.text, err, tc.want)
			}
		})
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	pod := func(name string) cluster.PodRef { return cluster.PodRef{Namespace: "default", Name: name, UID: name} }
	a := record.Decision{Plan: plan.Plan{
		Assignments: []plan.Assignment{{Pod: pod("a"), Node: "n1"}, {Pod: pod("b"), Node: "n1"}},
		Refusals:    []plan.Refusal{{Pod: pod("c"), Why: verdict.Of(verdict.NoPlace, "", "no room")}},
	}}
	b := a
	b.Plan.Assignments = []plan.Assignment{{Pod: pod("a"), Node: "n1"}}
	b.Plan.Launches = []plan.Launch{{Pool: "general", Pods: []cluster.PodRef{pod("b")}, Types: []string{"small", "large"}, PriceHourly: 0.5}}
	want := []string{
		"+ launch 0: from pool general: small (or 1 more types) at $0.5000 per hour; requests ; ",
		"+ pod default/b: to launch 0",
		"- pod default/b: to n1",
	}
	if diff := cmp.Diff(want, record.Differences(&a, &b)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if got := record.Differences(&a, &a); got != nil {
		t.Errorf("a plan differs from itself: %v", got)
	}
	c := a
	c.Plan.At = time.Unix(1, 0)
	if got := record.Differences(&a, &c); len(got) != 1 || !strings.Contains(got[0], "the written plans part at byte") {
		t.Errorf("plans that differ in their time alone: %v", got)
	}
}

// TestFieldsThatHadOtherNamesAreRead decodes a decision of a version before the glossary.
func TestFieldsThatHadOtherNamesAreRead(t *testing.T) {
	t.Parallel()
	older, err := os.ReadFile("testdata/older.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := record.Decode(older)
	if err != nil {
		t.Fatal(err)
	}
	n := d.Snapshot.Nodes[0]
	if !n.DisruptedTaint || n.DoNotDisrupt != "held" || !n.DoNotDisruptByPods || !n.Initialized || !n.Deleting || n.DisruptionReason != "Drifted" || n.DisruptedSince.IsZero() ||
		n.InFlight.Types[0] != "four" || n.LastPodEvent.IsZero() || !n.SoftTaint || n.Pods[0].Deleting != 1 {
		t.Errorf("the node is %+v", n)
	}
	if r := n.Reschedulable[0]; len(r.PDBs) != 1 || r.DoNotDisrupt != "held" || r.TargetNode != "m" || d.Snapshot.PDBs[0].Allowed != 1 {
		t.Errorf("its pod is %+v", r)
	}
	p := d.Disruption
	if len(p.Commands) != 1 || p.Commands[0].Joins[0].Command != 1 || p.SoftTaints[0] != "n" || p.SoftTaintsOver[0] != "m" || p.Undos[0].Command != "s" ||
		p.Blocked[0].Reason != verdict.ConsolidateAfterNotElapsed || d.Disrupt.Grace != 2*time.Second {
		t.Errorf("the plan is %+v, the options are %+v", p, d.Disrupt)
	}
}

// TestOlderRecordsDecideTheSame: what a controller had chosen to look at stood in the options
// before there was a Memory.
func TestOlderRecordsDecideTheSame(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse(`
type four cpu=4 memory=8Gi price=0.20
pool general
node a pool=general type=four last-pod-event=2h
running web on=a cpu=1
node b pool=general type=four last-pod-event=2h
running web on=b cpu=1
node c pool=general type=four drifted=NodePoolDrifted
running db on=c cpu=3500m
node d pool=general type=four empty last-pod-event=1h
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		options string
		want    []string // the first words of the plan's lines
	}{
		"nothing was remembered":             {``, []string{"command 0: Empty", "command 1: Drifted", "command 2: Underutilized"}},
		"only what had begun was looked at":  {`"UnderWayOnly":true`, nil},
		"consolidation was left out":         {`"SkipConsolidation":true`, []string{"command 0: Empty", "command 1: Drifted"}},
		"only drains were looked for":        {`"DrainOnly":true`, []string{"command 0: Empty", "command 1: Drifted", "command 2: Underutilized"}},
		"everything had been looked at":      {`"Settled":"2026-11-21T11:59:00Z"`, []string{"command 0: Empty", "command 1: Drifted"}},
		"but for a, which might not go then": {`"Settled":"2026-11-21T11:59:00Z","Unlooked":["a"]`, []string{"command 0: Empty", "command 1: Drifted", "command 2: Underutilized"}},
		"a node rested":                      {`"Resting":{"c":{"Reason":"NoReplacement","Subject":"c","Detail":"no room"}},"SkipConsolidation":true`, []string{"command 0: Empty"}},
		"a pool was paused":                  {`"Paused":{"general":"2026-11-21T12:01:00Z"},"SkipConsolidation":true`, []string{"command 0: Empty"}},
		"its pause was over":                 {`"Paused":{"general":"2026-11-21T11:59:59Z"},"SkipConsolidation":true`, []string{"command 0: Empty", "command 1: Drifted"}},
		"an order of nodes came first":       {`"Try":3`, []string{"command 0: Empty", "command 1: Drifted", "command 2: Underutilized"}},
	} {
		text, err := (&record.Decision{Loop: record.Disruption, Snapshot: snap, Disrupt: disrupt.Options{ProbesMax: 7}}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		sep := ""
		if tc.options != "" {
			sep = ","
		}
		old := strings.Replace(string(text), `"ProbesMax":7`, `"ProbesMax":7`+sep+tc.options, 1)
		old = strings.Replace(old, `"constraints":[`, `"shapes":[`, 1)
		old = strings.TrimSuffix(old, "}}") + `,"Plan":{"At":"2026-11-21T12:00:00Z","Settled":true,"Unlooked":["a"],"Try":3,"Eligible":[{"Reason":"Empty","Machines":1}],"Waits":{"general":0},"StepsAt":"2026-11-21T12:00:02Z"}}}`
		d, err := record.Decode([]byte(old))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e := d.Disruption.Eligible; len(e) != 1 || e[0].Nodes != 1 {
			t.Errorf("%s: eligible nodes %+v were read", name, e)
		}
		again := d.Redo()
		var got []string
		for _, line := range record.Lines(again) {
			if words, _, is := strings.Cut(line, ": saves"); is {
				got = append(got, words)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || again.Bug != "" {
			t.Errorf("%s: bug %q, steps (-want +got):\n%s", name, again.Bug, diff)
		}
	}
}

func TestTheCoreThatDiesIsAnAnswer(t *testing.T) {
	t.Parallel()
	d := &record.Decision{Loop: record.Provisioning, Snapshot: &cluster.Snapshot{Pending: []cluster.Pod{{}}}} // a pod without pod constraints
	if again := d.Redo(); again.Bug != "" || len(again.Plan.GivenUp) == 0 || len(again.Plan.Refusals) != 1 {
		t.Errorf("a pod without constraints: bug %q, given up for %q, %d refusals; want a refusal for a bug that was contained", again.Bug, again.Plan.GivenUp, len(again.Plan.Refusals))
	}
	d.Snapshot.Pending[0].Constraints = &cluster.Constraints{Terms: []label.Requirements{{}}}
	want := *d
	want.Plan = pack.Solve(d.Snapshot, d.Pack)
	if again := d.Redo(); again.Bug != "" || !record.SamePlan(again, &want) {
		t.Errorf("decided again: %v, bug %q; want %v", again.Plan, again.Bug, want.Plan)
	}
}

// TestNoReasonToStayIsNone: a decision that was kept has no list of those reasons, and made again it may have an empty one.
func TestNoReasonToStayIsNone(t *testing.T) {
	t.Parallel()
	kept, again := record.Decision{Loop: record.Disruption}, record.Decision{Loop: record.Disruption}
	again.Disruption.Blocked = []verdict.Verdict{}
	if !record.SamePlan(&kept, &again) {
		t.Error("an empty list of reasons is another plan than none")
	}
	if again.Disruption.Blocked = append(again.Disruption.Blocked, verdict.Of(verdict.NodeBlocked, "n1", "a test")); record.SamePlan(&kept, &again) {
		t.Error("a reason is the same plan as none")
	}
}
