package quarantine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

func at(minute int) time.Time { return time.Unix(0, 0).Add(time.Duration(minute) * time.Minute) }

// pod returns a pod with so many tolerations. It weighs one more.
func pod(namespace, name string, weight int) cluster.Pod {
	return cluster.Pod{PodRef: cluster.PodRef{Namespace: namespace, Name: name}, Constraints: &cluster.Constraints{Tolerations: make([]cluster.Toleration, weight)}}
}

func refuse(reason verdict.Reason, pods ...cluster.Pod) *plan.Plan {
	p := &plan.Plan{}
	for _, pod := range pods {
		p.Refusals = append(p.Refusals, plan.Refusal{Pod: pod.PodRef, Why: verdict.Of(reason, "", "why")})
	}
	return p
}

// names returns which pods are in which part.
func names(p Parts) map[string][]string {
	out := map[string][]string{}
	for part, snap := range map[string]*cluster.Snapshot{"ordinary": p.Ordinary, "due": p.Due} {
		for i := range snap.Pending {
			out[part] = append(out[part], snap.Pending[i].String())
		}
	}
	for _, r := range p.Waiting {
		out["waiting"] = append(out["waiting"], r.Pod.String())
	}
	return out
}

func check(t *testing.T, when string, m *Memory, snap cluster.Snapshot, want map[string][]string) {
	t.Helper()
	if diff := cmp.Diff(want, names(m.Divide(&snap))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestPodsOfABugWaitLongerEachTime(t *testing.T) {
	t.Parallel()
	var m Memory
	fatal, other := pod("a", "fatal", 0), pod("a", "other", 0)
	pending := []cluster.Pod{fatal, other}
	check(t, "at first", &m, cluster.Snapshot{At: at(0), Pending: pending}, map[string][]string{"ordinary": {"a/fatal", "a/other"}})
	m.Learn(&cluster.Snapshot{At: at(0), Pending: pending}, refuse(verdict.DecisionFailed, fatal))
	check(t, "at once", &m, cluster.Snapshot{At: at(0), Pending: pending}, map[string][]string{"ordinary": {"a/other"}, "waiting": {"a/fatal"}})
	check(t, "after a minute", &m, cluster.Snapshot{At: at(1), Pending: pending}, map[string][]string{"ordinary": {"a/other"}, "due": {"a/fatal"}})
	m.Learn(&cluster.Snapshot{At: at(1), Pending: []cluster.Pod{fatal}}, refuse(verdict.DecisionFailed, fatal))
	check(t, "a minute after the second", &m, cluster.Snapshot{At: at(2), Pending: pending}, map[string][]string{"ordinary": {"a/other"}, "waiting": {"a/fatal"}})
	check(t, "two minutes after the second", &m, cluster.Snapshot{At: at(3), Pending: pending}, map[string][]string{"ordinary": {"a/other"}, "due": {"a/fatal"}})
	m.Learn(&cluster.Snapshot{At: at(3), Pending: []cluster.Pod{fatal}}, &plan.Plan{})
	check(t, "after a decision that coped", &m, cluster.Snapshot{At: at(3), Pending: pending}, map[string][]string{"ordinary": {"a/fatal", "a/other"}})
}

func TestTheWaitIsBounded(t *testing.T) {
	t.Parallel()
	var m Memory
	fatal := pod("a", "fatal", 0)
	snap := cluster.Snapshot{At: at(0), Pending: []cluster.Pod{fatal}}
	for range 100 {
		m.Learn(&snap, refuse(verdict.DecisionFailed, fatal))
	}
	snap.At = at(60)
	check(t, "an hour after the hundredth", &m, snap, map[string][]string{"due": {"a/fatal"}})
}

func TestPodsMadeAnewAreQuarantinedAsHeavyOnesOfTheirNamespace(t *testing.T) {
	t.Parallel()
	var m Memory
	heavy := pod("hostile", "one", 50)
	m.Learn(&cluster.Snapshot{At: at(0), Pending: []cluster.Pod{heavy, pod("hostile", "plain", 0)}}, refuse(verdict.TooMuchEffort, heavy))
	anew := []cluster.Pod{pod("hostile", "plain", 0), pod("hostile", "two", 60), pod("ordinary", "as-heavy", 60)}
	check(t, "pods of other names", &m, cluster.Snapshot{At: at(0), Pending: anew},
		map[string][]string{"ordinary": {"hostile/plain", "ordinary/as-heavy"}, "waiting": {"hostile/two"}})
	m.Learn(&cluster.Snapshot{At: at(1), Pending: anew[1:2]}, &plan.Plan{})
	check(t, "after a decision that coped", &m, cluster.Snapshot{At: at(1), Pending: anew},
		map[string][]string{"ordinary": {"hostile/plain", "hostile/two", "ordinary/as-heavy"}})
}

// TestPodsThatAreOnlyTooMuchWithOthers: a decision about them alone copes, and one about them
// and others does not, again and again. It is made less and less often all the same.
func TestPodsThatAreOnlyTooMuchWithOthers(t *testing.T) {
	t.Parallel()
	var m Memory
	heavy := pod("hostile", "one", 50)
	pending := []cluster.Pod{heavy, pod("ordinary", "plain", 0)}
	minute, given := 0, 0
	for ; minute < 180; minute++ {
		parts := m.Divide(&cluster.Snapshot{At: at(minute), Pending: pending})
		if p := (&plan.Plan{}); len(parts.Ordinary.Pending) == 2 {
			given++
			m.Learn(parts.Ordinary, refuse(verdict.TooMuchEffort, heavy))
		} else if len(parts.Due.Pending) > 0 {
			m.Learn(parts.Due, p)
		}
	}
	if given > 8 {
		t.Errorf("%d decisions in %d minutes were given up, want 8 at most", given, minute)
	}
	m.Learn(&cluster.Snapshot{At: at(minute), Pending: pending}, &plan.Plan{})
	m.Divide(&cluster.Snapshot{At: at(minute + 200), Pending: pending})
	if pods, namespaces := m.Len(); pods+namespaces != 0 {
		t.Errorf("%d pods and %d namespaces are remembered long after a decision that coped", pods, namespaces)
	}
}

func TestFewAreDueAtOnce(t *testing.T) {
	t.Parallel()
	var m Memory
	snap := cluster.Snapshot{At: at(0)}
	for i := range dueMax + 50 {
		snap.Pending = append(snap.Pending, pod("a", fmt.Sprintf("%03d", i), 9))
	}
	m.Learn(&snap, refuse(verdict.TooMuchEffort, snap.Pending...))
	snap.At = at(1)
	if p := m.Divide(&snap); len(p.Due.Pending) != dueMax || len(p.Waiting) != 50 {
		t.Errorf("%d due and %d waiting, want %d and 50", len(p.Due.Pending), len(p.Waiting), dueMax)
	}
}

// TestOthersLeaveOutWhoIsQuarantined: whether due or not, and though others of their namespace, and
// those that a plan has a place for, stay.
func TestOthersLeaveOutWhoIsQuarantined(t *testing.T) {
	t.Parallel()
	var m Memory
	fatal, heavy, planned, plain, other := pod("a", "fatal", 0), pod("b", "heavy", 50), pod("b", "planned", 60), pod("b", "plain", 0), pod("c", "as-heavy", 60)
	planned.Planned = "claim"
	pending := []cluster.Pod{fatal, heavy, planned, plain, other}
	snap := cluster.Snapshot{At: at(0), Pending: pending}
	if m.Without(&snap) != &snap {
		t.Error("a snapshot is copied though nothing is quarantined")
	}
	given := refuse(verdict.DecisionFailed, fatal)
	given.Refusals = append(given.Refusals, refuse(verdict.TooMuchEffort, heavy).Refusals...)
	m.Learn(&snap, given)
	for minute := range 3 {
		snap.At = at(minute)
		var names []string
		for _, p := range m.Without(&snap).Pending {
			names = append(names, p.String())
		}
		if diff := cmp.Diff([]string{"b/planned", "b/plain", "c/as-heavy"}, names); diff != "" {
			t.Errorf("left after %d minutes (-want +got):\n%s", minute, diff)
		}
	}
	if len(snap.Pending) != len(pending) {
		t.Error("the snapshot itself was changed")
	}
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	var m Memory
	fatal, heavy := pod("a", "fatal", 0), pod("b", "heavy", 9)
	snap := cluster.Snapshot{At: at(0), Pending: []cluster.Pod{fatal, heavy}}
	m.Learn(&snap, refuse(verdict.DecisionFailed, fatal))
	m.Learn(&snap, refuse(verdict.TooMuchEffort, heavy))
	m.Divide(&cluster.Snapshot{At: at(1)})
	if pods, namespaces := m.Len(); pods != 0 || namespaces != 1 {
		t.Errorf("%d pods and %d namespaces are remembered at first, want the namespace", pods, namespaces)
	}
	m.Divide(&cluster.Snapshot{At: at(3)})
	if pods, namespaces := m.Len(); pods+namespaces != 0 {
		t.Errorf("%d pods and %d namespaces are remembered, want none", pods, namespaces)
	}
}
