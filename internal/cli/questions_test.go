package cli

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// asked is a cluster that people have questions about: pod huge fits no instance type, node old-1 has drifted and is held by a
// PodDisruptionBudget, and NodeClaim general-1 got no instance.
const asked = `
type small cpu=2 memory=8Gi price=0.10 spot=0.04 zones=a,b short=a/spot
type eight cpu=8 memory=16Gi price=0.40 zones=a,b
pool general limit.cpu=16 after=30s
pool batch after=Never budget=0
pdb db allowed=0
node old-1 pool=general type=eight drifted=NodePoolDrifted expires=5h
running db on=old-1 cpu=1 memory=1Gi app=db pdb=db
node b pool=batch type=small capacity=spot zone=b
running web on=b cpu=1 memory=1Gi app=web
pod w cpu=8 app=w
pod huge cpu=100 app=huge
`

// questionable serves that cluster as the debug port of a controller does, and writes its journal to a file.
func questionable(t *testing.T) (address, file string) {
	t.Helper()
	snap, err := story.Parse(asked)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(journal.Options{MemoryBytes: 1 << 20, Now: story.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	p := pack.Decide(snap, pack.Options{})
	d, memory := disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{})
	before, err := story.Parse(strings.NewReplacer("pdb db allowed=0", "pdb db allowed=1", "pod w cpu=8 app=w\npod huge cpu=100 app=huge\n", "").Replace(asked))
	if err != nil {
		t.Fatal(err)
	}
	before.At = snap.At.Add(-30 * time.Minute)
	begun, _ := disrupt.Propose(before, disrupt.Memory{}, disrupt.Options{})
	for _, decision := range []*record.Decision{
		{Loop: record.Disruption, Snapshot: before, Disruption: begun},
		{Loop: record.Provisioning, Snapshot: snap, Plan: p, Claims: []string{"general-1"}},
		{Loop: record.Disruption, Snapshot: snap, Disruption: d},
	} {
		j.Add(decision, j.Identify(decision))
	}
	for i := range 3 {
		at := snap.At.Add(time.Duration(i) * time.Second)
		j.LaunchFailed("general-1", at, lifecycle.Answer{State: lifecycle.AnswerFailed, Reason: "RequestLimitExceeded", Message: "too many requests", RetryAt: at.Add(time.Second)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Run(ctx)
	latest := &live.Latest{}
	latest.Provisioned(snap, p.Refusals, nil)
	latest.Disrupted(snap, &d, &memory, nil)
	mux := http.NewServeMux()
	mux.Handle(journal.Path, j.Handler())
	mux.Handle(journal.Path+"/", j.Handler())
	mux.Handle(live.Path+"/", (&live.Views{Latest: latest, Now: story.Now}).Handler())
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	var b bytes.Buffer
	if err := j.WriteFile(&b, journal.ID{}); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "kept.dovetail-journal")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return srv.URL, file
}

// TestTwentyQuestions answers what people ask most, each with one command.
func TestTwentyQuestions(t *testing.T) {
	t.Parallel()
	address, file := questionable(t)
	dir := t.TempDir()
	pool, err := os.ReadFile("../../examples/kwok/1-nodepool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster, changed, shared := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "changed.yaml"), filepath.Join(dir, "shared.txt")
	for path, text := range map[string]string{cluster: string(pool), changed: strings.Replace(string(pool), "cpu: 1000", "cpu: 10", 1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := " --address=" + address
	for _, q := range []struct{ question, command, says string }{
		{"1 why is my pod pending, and what would help", "explain pod huge" + at, "a larger instance type"},
		{"2 why hasn't that node gone", "explain node old-1" + at, "PodDisruptionBudget db"},
		{"3 is the autoscaler healthy", "status" + at, "needs a look"},
		{"4 what happened in the last hour", "history --since 2026-11-21" + at, "general-1"},
		{"5 why this type", "explain claim general-1" + at, "eight at $0.4000 per hour"},
		{"5 why not a cheaper type", "explain claim general-1 --types" + at, "too small: it has 2 of 8 cpu"},
		{"5 why this zone, spot", "explain type small" + at, "spot in a at $0.0400 per hour, not available now"},
		{"6 what do we pay, and how far from the least", "status" + at, "/h"},
		{"7 what will it do next, and when", "next" + at, "old-1"},
		{"8 what did last night's drift do", "history --reason drift --since 2026-11-21" + at, "old-1"},
		{"9 why was my pod evicted", "explain pod db-old-1-1" + at, "old-1 is removed, which saves"},
		{"10 what blocks consolidation, in dollars", "blockers" + at, "PodDisruptionBudget db"},
		{"11 what would it cost with more spot", "whatif --spot 80% --snapshot " + cluster, "80 %"},
		{"12 what would my change do", "diff -f " + changed + " --snapshot " + cluster, "spec.limits.cpu: 1k → 10"},
		{"13 which pool is near its limit, which budget is closed", "pools" + at, "8/16"},
		{"14 why did the bill jump", "history --price --since 2026-11-21" + at, "$"},
		{"15 which offerings are short", "offerings" + at, "1 of "},
		{"16 who uses the money", "cost --by namespace" + at, "default"},
		{"17 why did a launch fail, how often, what is tried next", "explain claim general-1" + at, "launch failed (RequestLimitExceeded)"},
		{"18 where are the holes", "nodes --holes" + at, "FREE $/H"},
		{"19 is it reproducible", "replay --id 2" + at, "same plan"},
		{"19 can I send it to someone", "share 2 --redact -o " + shared + at, shared},
		{"20 what is different since the upgrade", "replay --all " + file, "same plan"},
	} {
		if says := called(t, 0, q.command); !strings.Contains(says, q.says) {
			t.Errorf("%s: dovetail %s does not say %q:\n%s", q.question, q.command, q.says, says)
		}
	}
	if says := called(t, 0, "explain claim general-1"+at); !strings.Contains(says, "the launch is tried again at ") || !strings.Contains(says, "  3  ") {
		t.Errorf("of the launch that failed three times it says\n%s", says)
	}
	if says := called(t, 0, "nodes --holes"+at); strings.Index(says, "old-1") > strings.Index(says, "\nb ") {
		t.Errorf("the node with the dearest free room does not come first:\n%s", says)
	}
	for _, wrong := range []string{"nodes b --holes", "nodes --holes -o json"} {
		called(t, 2, wrong+at)
	}
}
