package static

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// TestTheJournalHasWhatThePoolDid: a pool of two replicas launches two nodes, has what it needs, and
// with one replica removes one. The journal has the first and the last of that, and says so of the
// pool and of a NodeClaim.
func TestTheJournalHasWhatThePoolDid(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	ref := &karpenterv1.NodeClassReference{Group: "karpenter.test", Kind: "Class", Name: "default"}
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "fixed", UID: "np"}, Spec: karpenterv1.NodePoolSpec{Replicas: new(int64(2))}}
	np.Spec.Template.Spec.NodeClassRef = ref
	np.Status.Conditions = []metav1.Condition{{Type: karpenterv1.ConditionTypeReady, Status: metav1.ConditionTrue}}
	store := mirror.NewStore(mirror.Options{Now: func() time.Time { return now }, Manages: func(string, string) bool { return true }, StaticCapacity: true})
	store.Pools().SetTypes(cloud.ClassRef{Group: ref.Group, Kind: ref.Kind, Name: ref.Name}, []*catalog.Type{{
		Name: "small", Requirements: label.Requirements{label.InstanceType: label.In("small")}, Capacity: quantity.List{quantity.CPU: 4000},
		Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", PriceHourly: 0.1, Priced: true, Available: true}},
	}}, nil)
	observed := func(np *karpenterv1.NodePool) {
		if err := store.Observe(np); err != nil {
			t.Fatal(err)
		}
	}
	observed(np)
	kept, err := journal.Open(journal.Options{MemoryBytes: 1 << 20, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	c := &Controllers{
		Client: fakeapi.New(t, np).Build(), Synced: func() bool { return true }, Metrics: observe.NewMetrics(prometheus.NewRegistry()),
		Log: slog.New(slog.DiscardHandler), Journal: kept,
	}
	names := []string{"aaa", "bbb"}
	c.Launcher = &apply.Launcher{Client: c.Client, Mirror: store, OneByOne: true, PoolLaunches: &apply.PoolLaunches{}, Suffix: func() string {
		name := names[0]
		names = names[1:]
		return name
	}}
	for range 2 {
		if _, err := c.provision(t.Context(), np); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	np = np.DeepCopy()
	np.Generation, np.Spec.Replicas = 2, new(int64(1))
	np.Status.Conditions[0].ObservedGeneration = 2
	observed(np)
	if _, err := c.deprovision(t.Context(), np); err != nil {
		t.Fatal(err)
	}

	file := read(t, kept)
	if len(file.Decisions) != 2 || file.Decisions[0].Loop != record.Static || file.Decisions[0].Launches != 2 || file.Decisions[1].Removals != 1 {
		t.Fatalf("the journal has %+v", kept.Heads())
	}
	for i := range file.Decisions {
		d, err := file.Decisions[i].Decision()
		if err != nil {
			t.Fatal(err)
		}
		if again := d.Redo(); !record.SamePlan(d, again) {
			t.Errorf("decision %d decided again differs: %q", i, record.Differences(d, again))
		}
	}
	explains(t, file, journal.Subject{Kind: journal.KindPool, Name: "fixed"}, "1 node removed, more than its replicas", "2 nodes launched of 2 missing")
	explains(t, file, journal.Subject{Kind: journal.KindClaim, Name: "fixed-aaa"}, "launched as one of 2 replicas of static pool fixed")
}

// read returns what a journal has.
func read(t *testing.T, kept *journal.Journal) *journal.File {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	kept.Run(ended)
	var b strings.Builder
	if err := kept.WriteFile(&b, journal.ID{}); err != nil {
		t.Fatal(err)
	}
	file, err := journal.ReadFrom(strings.NewReader(b.String()), "journal")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// explains sees that the journal says all that of the subject.
func explains(t *testing.T, file *journal.File, subject journal.Subject, want ...string) {
	t.Helper()
	answers, err := file.Explain(subject)
	if err != nil || len(answers) != 1 {
		t.Fatalf("%v: %+v, error %v", subject, answers, err)
	}
	var said []string
	for _, s := range answers[0].Says {
		said = append(said, s.What)
	}
	for _, w := range want {
		if !slices.Contains(said, w) {
			t.Errorf("%v: it says %q, not %q", subject, said, w)
		}
	}
}
