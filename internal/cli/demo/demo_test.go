package demo

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/examples"
)

func TestDecisionsAreReportedWithTheirReasons(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		log  func(*slog.Logger)
		want string
	}{
		"a plan says where the pods go": {
			log: func(l *slog.Logger) {
				l.Info("computed new nodeclaim(s) to fit pod(s)", "pods", 20, "placed", 4, "nodeclaims", 1, "refused", 1, "price_hourly", 0.304, "took", 1234567*time.Nanosecond)
			},
			want: "   2.0s  plan     20 pods: 15 to 1 new node for $0.30 per hour, 4 to existing nodes, 1 refused; decided in 1.2ms\n",
		},
		"a launch is reported with the node that it became": {
			log: func(l *slog.Logger) {
				l.With("commit", "abc").Info("created nodeclaim", "claim", "general-a", "pool", "general", "pods", 1, "instance_types_total", 3, "price_hourly", 0.5)
			},
			want: "   2.0s  launch   general-a: c-16x, spot, zone-a, $0.304 per hour: the cheapest of 3 types of pool general that hold 1 pod\n",
		},
		"a launch without a node waits": {
			log:  func(l *slog.Logger) { l.Info("created nodeclaim", "claim", "general-b") },
			want: "",
		},
		"a refusal": {
			log:  func(l *slog.Logger) { l.Info("refused pods", "pods", 2, "reason", "pool general: too small") },
			want: "   2.0s  refuse   2 pods: pool general: too small\n",
		},
		"a removal": {
			log: func(l *slog.Logger) {
				l.Info("removed node", "node", "n1", "reason", "Empty", "quiet_for", 5*time.Second)
			},
			want: "   2.0s  remove   n1: Empty, no pod event for 5s\n",
		},
		"a removal of a node that had a pod event just now": {
			log: func(l *slog.Logger) {
				l.Info("removed node", "node", "n1", "reason", "Expired", "quiet_for", time.Duration(0))
			},
			want: "   2.0s  remove   n1: Expired\n",
		},
		"a notice from the cloud": {
			log: func(l *slog.Logger) {
				l.Info("replacing claim before its interruption", "claim", "general-a", "by", time.Date(2026, 11, 22, 8, 30, 0, 0, time.Local))
			},
			want: "   2.0s  notice   general-a will be taken away: it is to be replaced, and drained from 08:30:00 on at the latest\n",
		},
		"a replacement is reported with the node that it became": {
			log: func(l *slog.Logger) {
				l.Info("disrupting node(s)", "nodes", []string{"n1", "n2"}, "replacement-nodes", []string{"general-a"}, "reason", "expired") //nolint:sloglint // Karpenter's keys
			},
			want: "   2.0s  replace  n1, n2 (expired) by 1 new node\n" +
				"   2.0s  launch   general-a: c-16x, spot, zone-a, $0.304 per hour: in place of n1, n2\n",
		},
		"a command that only removes is reported by its removals": {
			log: func(l *slog.Logger) {
				l.Info("disrupting node(s)", "nodes", []string{"n1"}, "replacement-nodes", []string(nil), "reason", "Empty") //nolint:sloglint // Karpenter's keys
			},
		},
		"an error": {
			log:  func(l *slog.Logger) { l.Error("carrying out the plan", "error", errors.New("no")) },
			want: "   2.0s  error    carrying out the plan: no\n",
		},
		"small talk stays in the log": {
			log:  func(l *slog.Logger) { l.Info("claim is gone", "claim", "general-a"); l.Warn("lag") },
			want: "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			now := &state{instances: []instance{{claim: "general-a", instanceType: "c-16x", zone: "zone-a", capacityType: "spot", priceHourly: 0.304}}}
			s := &stage{
				narrator: &narrator{out: &out, now: func() time.Time { return time.Unix(2, 0) }, began: time.Unix(0, 0)},
				events:   newFeed(slog.DiscardHandler),
			}
			s.status = now.line()
			test.log(slog.New(s.events))
			s.report(now, true)
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheStatusIsReportedWhenItChangedAndNotTooOften(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	at := time.Unix(0, 0)
	s := &stage{
		narrator: &narrator{out: &out, now: func() time.Time { return at }, began: at},
		events:   newFeed(slog.DiscardHandler),
	}
	at = at.Add(time.Second)
	s.report(&state{pending: 1}, false)
	s.report(&state{pending: 1}, true)
	at = at.Add(statusEvery - 1)
	s.report(&state{pending: 2}, false)
	s.report(&state{pending: 3}, true)
	want := `   1.0s  status   pods:   1 pending,   0 bound,   0 running | nodes:  0 claimed,  0 registered,  0 ready | $0.00 per hour
   1.5s  status   pods:   3 pending,   0 bound,   0 running | nodes:  0 claimed,  0 registered,  0 ready | $0.00 per hour
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestSummariseCountsPodsOnceAndNodesByHowFarTheyAre(t *testing.T) {
	t.Parallel()
	pod := func(namespace, node string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	node := func(name, pool, price string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpenterv1.NodePoolLabelKey: pool, priceLabel: price}}}
	}
	claim := func(name, node string, holds ...string) karpenterv1.NodeClaim {
		nc := karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		nc.Status.NodeName, nc.Status.ProviderID = node, "cloud:///zone/i-"+name
		for _, c := range holds {
			nc.Status.Conditions = append(nc.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
		}
		return nc
	}
	got := summarise(
		[]corev1.Pod{
			pod("default", "", corev1.PodPending), pod("default", "n1", corev1.PodPending), pod("default", "n1", corev1.PodRunning),
			pod("default", "other", corev1.PodRunning), pod("kube-system", "n1", corev1.PodRunning),
		},
		[]corev1.Node{node("n1", "general", "0.25"), node("n2", "general", "0.5"), node("other", "", "9")},
		[]karpenterv1.NodeClaim{claim("c3", ""), claim("c2", "n2", "Launched", "Registered"), claim("c1", "n1", "Launched", "Registered", "Initialized")},
		nil,
	)
	want := &state{
		pending: 1, bound: 1, running: 2, elsewhere: 1, claimed: 3, registered: 2, ready: 1, nodes: 2, priceHourly: 0.75,
		instances: []instance{
			{claim: "c1", instance: "i-c1", node: "n1", priceHourly: 0.25, pods: 3, isReady: true},
			{claim: "c2", instance: "i-c2", node: "n2", priceHourly: 0.5},
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(state{}, instance{})); diff != "" {
		t.Errorf("summarise (-want +got):\n%s", diff)
	}
}

func TestRunRefusesWhatCannotWorkBeforeStartingAnything(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		opts Options
		want string
	}{
		"no pods":       {Options{Provider: "aws", Pods: 0}, "--pods is 0"},
		"no such cloud": {Options{Provider: "gcp", Pods: 1}, `--cloud-provider is "gcp"; it may be aws or kwok`},
		"no devcluster": {Options{Provider: "aws", Pods: 1, Devcluster: filepath.Join(t.TempDir(), "none")}, "--devcluster"},
		"not built":     {Options{Provider: "kwok", Pods: 1}, "run make build"}, // a test binary has no devcluster beside it
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			test.opts.Out = &out
			err := Run(t.Context(), test.opts)
			if err == nil || !strings.Contains(err.Error(), test.want) || out.Len() > 0 {
				t.Errorf("Run() = %v after %q, want an error with %q and no output", err, &out, test.want)
			}
		})
	}
}

func TestManifests(t *testing.T) {
	t.Parallel()
	definitions, err := Manifests(crd.Files())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := kinds(definitions), "CapacityBuffer, ClusterAPINodeClass, EC2NodeClass, KWOKNodeClass, NodeClaim, NodeOverlay, NodePool"; got != want {
		t.Errorf("definitions are of %s, want %s", got, want)
	}
	for _, tc := range []struct {
		files fs.FS
		want  []string
	}{
		{examples.AWS(), []string{"EC2NodeClass default", "NodePool general", "Deployment web", "Deployment legacy", "Deployment ledger", "Pod " + refused}},
		{examples.KWOK(), []string{"KWOKNodeClass default", "NodePool general", "Deployment web", "Pod " + refused}},
	} {
		objects, err := Manifests(tc.files)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range objects {
			got = append(got, o.GetKind()+" "+o.GetName())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("examples (-want +got):\n%s", diff)
		}
	}
	_, err = Manifests(fstest.MapFS{"bad.yaml": {Data: []byte("a: [")}})
	if err == nil || !strings.Contains(err.Error(), "bad.yaml") {
		t.Errorf("Manifests() = %v, want an error with the file's name", err)
	}
}

func TestDeploymentsShareThePods(t *testing.T) {
	t.Parallel()
	s := &stage{story: awsStory()}
	objects, err := s.examples(deployment)
	if err != nil {
		t.Fatal(err)
	}
	for pods, want := range map[int][]int64{50: {30, 10, 10}, 1: {1, 0, 0}, 103: {63, 20, 20}} {
		if diff := cmp.Diff(want, replicas(objects, pods)); diff != "" {
			t.Errorf("%d pods (-want +got):\n%s", pods, diff)
		}
	}
}

// TestAllNodesAreReadyWhenNoneIsToCome: an instance gets its notice only then, since a node that is not ready is drained at once.
func TestAllNodesAreReadyWhenNoneIsToCome(t *testing.T) {
	t.Parallel()
	if s := (&state{claimed: 8, registered: 8, ready: 7}); s.allReady() {
		t.Error("a node that is registered only counts as ready")
	}
	if s := (&state{claimed: 8, registered: 8, ready: 8}); !s.allReady() {
		t.Error("not all of 8 nodes are ready when 8 are")
	}
}

func TestALeaveIsEarlyWhenItsReplacementIsNotReady(t *testing.T) {
	t.Parallel()
	victim := instance{claim: "old"}
	tests := map[string]struct {
		searches [][]instance
		want     leave
	}{
		"it stays": {searches: [][]instance{{victim}}},
		"after its replacement is ready": {
			searches: [][]instance{{victim, {claim: "new"}}, {{claim: "old", leaves: true}, {claim: "new", isReady: true}}},
			want:     leave{drained: true, ready: map[string]bool{"new": true}},
		},
		"before": {
			searches: [][]instance{{{claim: "old", leaves: true}, {claim: "new"}}, {{claim: "new", isReady: true}}},
			want:     leave{drained: true, ready: map[string]bool{"new": false}, early: true},
		},
		"before anybody has thought of one": {
			searches: [][]instance{{{claim: "old", leaves: true}}, {{claim: "late"}}},
			want:     leave{drained: true, ready: map[string]bool{}, early: true},
		},
		"without one, since there was room": {
			searches: [][]instance{{{claim: "other", isReady: true}}},
			want:     leave{drained: true, ready: map[string]bool{}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &leave{victim: victim, had: map[string]bool{"old": true, "other": true}}
			begun := 0
			for _, instances := range test.searches {
				if l.observe(&state{instances: instances}) {
					begun++
				}
			}
			test.want.victim, test.want.had = l.victim, l.had
			if diff := cmp.Diff(test.want, *l, cmp.AllowUnexported(leave{}, instance{})); diff != "" || l.drained != (begun == 1) {
				t.Errorf("%d drains; leave (-want +got):\n%s", begun, diff)
			}
		})
	}
}
