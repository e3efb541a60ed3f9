package observe

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// everyEvent is one of each kind with what is published about it: reason, type, and for
// how long it is not repeated (spec/core.md 7.5).
func everyEvent() map[string]Event {
	return map[string]Event{
		"Nominated Normal 2m0s":                               Nominated("c", "n"),
		"FailedScheduling Warning 5m0s":                       FailedScheduling("no room"),
		"NoCompatibleInstanceTypes Warning 1m0s":              NoCompatibleInstanceTypes("none"),
		"DisruptionBlocked Normal 2m0s":                       DisruptionBlocked("held"),
		"DisruptionBlocked Normal 1m0s":                       PoolDisruptionBlocked("held"),
		"DisruptionPaused Normal 30m0s":                       DisruptionPaused("incident"),
		"DisruptionResumed Normal 2m0s":                       DisruptionResumed(),
		"NodeClassAssumed Normal 2m0s":                        NodeClassAssumed("EC2NodeClass/default"),
		"OlderAnnotation Normal 15m0s":                        OlderAnnotation("karpenter.sh/do-not-evict"),
		"AnnotationIgnored Warning 15m0s":                     AnnotationIgnored("it is no number"),
		"DisruptionLaunching Normal 2m0s":                     DisruptionLaunching("Drifted"),
		"DisruptionWaitingReadiness Normal 2m0s":              DisruptionWaitingReadiness(),
		"Unconsolidatable Normal 15m0s":                       Unconsolidatable("no saving"),
		"ConsolidationCandidate Normal 2m0s":                  ConsolidationCandidate("one for none"),
		"ConsolidationApproved Normal 2m0s":                   ConsolidationApproved("score 0.70"),
		"ConsolidationRejected Normal 2m0s":                   ConsolidationRejected("pods came"),
		"DisruptionTerminating Normal 2m0s":                   DisruptionTerminating("Empty"),
		"TerminatingOnInterruption Warning 2m0s":              TerminatingOnInterruption("spot_interrupted"),
		"ZonalShiftActive Warning 2m0s":                       ZonalShift(cloud.Notice{Kind: cloud.ZoneShifted, Zone: "a"}),
		"ZonalShiftCleared Normal 2m0s":                       ZonalShift(cloud.Notice{Kind: cloud.ZoneRestored, Zone: "a"}),
		"SpotInterrupted Warning 2m0s":                        Interrupted("spot_interrupted", time.Unix(0, 0)),
		"CapacityReservationInstanceInterrupted Warning 2m0s": Interrupted("capacity_reservation_interrupted", time.Unix(0, 0)),
		"SpotRebalanceRecommendation Normal 2m0s":             Interrupted("rebalance_recommendation", time.Time{}),
		"InstanceStopping Warning 2m0s":                       Interrupted("instance_stopped", time.Time{}),
		"InstanceTerminating Warning 2m0s":                    Interrupted("instance_terminated", time.Time{}),
		"InstanceUnhealthy Warning 2m0s":                      Interrupted("system_status", time.Time{}),
		"Evicted Normal 2m0s":                                 Evicted("Empty"),
		"Disrupted Normal 2m0s":                               Disrupted("deadline"),
		"FailedDraining Warning 2m0s":                         FailedDraining("2 pods"),
		"TerminationGracePeriodExpiring Warning 2m0s":         TerminationGracePeriodExpiring(time.Unix(0, 0)),
		"Finalized Normal 2m0s":                               Finalized(),
		"FailedTermination Warning 2m0s":                      FailedTermination("instance"),
		"NodeRepairBlocked Warning 15m0s":                     NodeRepairBlocked("too many"),
		"RebootObserved Normal 30m0s":                         RebootObserved("1"),
		"RebootFailed Warning 30m0s":                          RebootFailed("1", "refused"),
		"AwaitingVolumeDetachment Normal 2m0s":                AwaitingVolumeDetachment([]string{"a"}),
		"FailedConsistencyCheck Warning 2m0s":                 FailedConsistencyCheck("small"),
		"InsufficientCapacityError Warning 2m0s":              InsufficientCapacityError("none left"),
		"InsufficientCapacityError Warning 2m0s on pods":      PodLaunchFailed("c", "none left"),
		"UnregisteredTaintMissing Warning 2m0s":               UnregisteredTaintMissing(),
		"NodeClassNotReady Warning 2m0s":                      NodeClassNotReady("not yet"),
		"InvalidDoNotDisruptAnnotation Warning 2m0s":          InvalidDoNotDisruptAnnotation("maybe"),
		"DoNotDisruptUntil Normal 2m0s":                       DoNotDisruptUntil(time.Unix(0, 0)),
		"DoNotDisruptGracePeriodElapsed Normal 2m0s":          DoNotDisruptGracePeriodElapsed(),
	}
}

func TestEventsAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	for want, e := range everyEvent() {
		if got := fmt.Sprintf("%s %s %s", e.Reason, e.Type, dedupeOf(e)); got != strings.TrimSuffix(want, " on pods") {
			t.Errorf("event is %q, want %q", got, want)
		}
		if e.Message == "" {
			t.Errorf("event %q has no message", want)
		}
	}
}

func TestDocsNameEveryEvent(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| (\\w+) \\|").FindAllStringSubmatch(string(doc), -1) {
		got = append(got, row[1]+" "+row[2])
	}
	for _, e := range everyEvent() {
		want = append(want, e.Reason+" "+e.Type)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("docs/reference/events.md (-want +got):\n%s", diff)
	}
}

func TestRecorderSaysNothingTwiceWithinDedupe(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	sink := record.NewFakeRecorder(100)
	r := NewRecorder(sink, func() time.Time { return now })
	for _, step := range []struct {
		after time.Duration
		pod   string
		event Event
		want  int
	}{
		{0, "a", FailedScheduling("x"), 1},
		{0, "a", FailedScheduling("other words"), 0},
		{0, "b", FailedScheduling("x"), 1},
		{0, "a", Evicted("x"), 1},
		{0, "a", InvalidDoNotDisruptAnnotation("x"), 1},
		{0, "a", InvalidDoNotDisruptAnnotation("y"), 1},
		{2 * time.Minute, "a", FailedScheduling("x"), 0},
		{0, "a", Evicted("x"), 1},
		{3 * time.Minute, "a", FailedScheduling("x"), 1},
	} {
		now = now.Add(step.after)
		r.Event(testPod(step.pod), step.event)
		if got := drain(sink); got != step.want {
			t.Errorf("at %s, event %s on %s: %d written, want %d", now.UTC(), step.event.Reason, step.pod, got, step.want)
		}
	}
}

func TestNominatedIsLimitedAndTriesAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	sink := record.NewFakeRecorder(100)
	r := NewRecorder(sink, func() time.Time { return now })
	for i := range 30 {
		r.Event(testPod(fmt.Sprint(i)), Nominated("claim", ""))
	}
	if got := drain(sink); got != 10 {
		t.Errorf("%d of 30 events at one instant were written, want 10", got)
	}
	now = now.Add(time.Second)
	for i := range 30 {
		r.Event(testPod(fmt.Sprint(i)), Nominated("claim", ""))
	}
	if got := drain(sink); got != 5 {
		t.Errorf("%d events were written a second later, want the 5 of those left out before", got)
	}
}

// TestABurstFitsTheQueueOfTheClient: what each of 5,000 nodes and 2,000 pods has to say at one instant leaves room for what
// is said once, and what is left out is said with the next decisions.
func TestABurstFitsTheQueueOfTheClient(t *testing.T) {
	t.Parallel()
	const queue, pods, nodes = 1000, 2_000, 5_000
	now := time.Unix(1000, 0)
	sink := record.NewFakeRecorder(pods + 2*nodes)
	r := NewRecorder(sink, func() time.Time { return now })
	sum := 0
	for range 60 {
		for i := range pods {
			r.Event(testPod(fmt.Sprint("p", i)), FailedScheduling("x"))
		}
		for i := range nodes {
			of := testPod(fmt.Sprint("n", i))
			if r.Event(of, Unconsolidatable("x")); i%5 == 0 {
				r.Event(of, DisruptionBlocked("x"))
			}
		}
		r.Event(testPod("once"+now.String()), Evicted("x"))
		got := drain(sink)
		if got > queue {
			t.Fatalf("%d events at one instant, of which the client drops what is beyond %d", got, queue)
		}
		sum += got
		now = now.Add(5 * time.Second)
	}
	if sum < pods {
		t.Errorf("%d events in five minutes, want %d at least", sum, pods)
	}
}

// TestPodsOfFailedLaunchesAreLimitedApart: by a limit of their own, which events on NodeClaims do not
// count against.
func TestPodsOfFailedLaunchesAreLimitedApart(t *testing.T) {
	t.Parallel()
	sink := record.NewFakeRecorder(100)
	r := NewRecorder(sink, func() time.Time { return time.Unix(1000, 0) })
	for i := range 30 {
		r.Event(testPod(fmt.Sprint(i)), Nominated("claim", ""))
		r.Event(testPod(fmt.Sprint(i)), PodLaunchFailed("claim", "none left"))
		r.Event(testPod("claim-"+fmt.Sprint(i)), InsufficientCapacityError("none left"))
	}
	if got := drain(sink); got != 50 {
		t.Errorf("%d events were written, want 10 of each that is limited and 30 of the third", got)
	}
}

// TestMessagesAreCut: a cloud's error can be of any length.
func TestMessagesAreCut(t *testing.T) {
	t.Parallel()
	sink := record.NewFakeRecorder(1)
	NewRecorder(sink, time.Now).Event(testPod("a"), PodLaunchFailed("claim", strings.Repeat("x", 2000)))
	message := strings.TrimPrefix(<-sink.Events, "Warning InsufficientCapacityError ")
	if len(message) != 1024 || !strings.HasPrefix(message, "NodeClaim claim nominated for this pod failed to launch: xxx") || !strings.HasSuffix(message, "x...") {
		t.Errorf("the message has %d bytes: %s", len(message), message)
	}
}

// TestAnEventNamesItsDecision: the same event of a later decision is still the same, and a long message leaves
// room for the name.
func TestAnEventNamesItsDecision(t *testing.T) {
	t.Parallel()
	sink := record.NewFakeRecorder(3)
	r := NewRecorder(sink, time.Now)
	of := func(e Event, decision string) Event {
		e.Decision = decision
		return e
	}
	r.Event(testPod("a"), of(Nominated("c", "n"), "17.6f3k9a"))
	r.Event(testPod("a"), of(Nominated("c", "n"), "18.6f3k9a"))
	r.Event(testPod("a"), of(FailedScheduling(strings.Repeat("%x", 1000)), "19.6f3k9a"))
	close(sink.Events)
	if got := <-sink.Events; got != "Normal Nominated Pod should schedule on: nodeclaim/c, node/n (decision 17.6f3k9a) map[dovetail.sh/decision:17.6f3k9a]" {
		t.Errorf("the first event is %q", got)
	}
	got, _, _ := strings.Cut(strings.TrimPrefix(<-sink.Events, "Warning FailedScheduling "), " map[")
	if len(got) != messageMost || !strings.HasPrefix(got, "%x%x") || !strings.HasSuffix(got, "... (decision 19.6f3k9a)") {
		t.Errorf("the long message has %d bytes: %s", len(got), got)
	}
}

func TestRecorderForgetsInsteadOfGrowing(t *testing.T) {
	t.Parallel()
	r := NewRecorder(&record.FakeRecorder{}, func() time.Time { return time.Unix(1000, 0) })
	for i := range rememberedMost + 10 {
		r.Event(testPod(fmt.Sprint(i)), Evicted("x"))
	}
	if len(r.said) > rememberedMost {
		t.Errorf("remembers %d events, want at most %d", len(r.said), rememberedMost)
	}
}

func dedupeOf(e Event) time.Duration {
	if e.Dedupe == 0 {
		return defaultDedupe
	}
	return e.Dedupe
}

func testPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
}

func drain(sink *record.FakeRecorder) int {
	n := len(sink.Events)
	for range n {
		<-sink.Events
	}
	return n
}
