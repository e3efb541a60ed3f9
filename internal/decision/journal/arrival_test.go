package journal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestWhereTheSecondsWent: a pod says how long it waited, and for what, once a decision follows. Of a pod about which
// nothing was decided nothing is said.
func TestWhereTheSecondsWent(t *testing.T) {
	t.Parallel()
	at := story.Now()
	later := func(seconds float64) time.Time { return at.Add(time.Duration(seconds * float64(time.Second))) }
	j, _ := keep(t, Options{}, launched(at, []string{"c"}, []string{"web"}))
	id := j.kept[0].head.ID
	for _, name := range []string{"web", "unknown"} {
		j.Arrived(&Arrival{
			Pod: podRef(name), Claim: "c", Decision: id, Created: later(-1), Seen: later(-0.2), Planned: later(-0.1), Decided: at,
			Launched: later(2), Registered: later(30), Initialized: later(31.5), Bound: later(31.9),
		})
	}
	j.takeNow(seen(later(35), nil, ready("c", "web")))
	answers := j.Explain(Subject{Kind: KindPod, Name: "web"})
	if len(answers) != 1 || len(answers[0].Says) != 2 {
		t.Fatalf("answers: %+v", answers)
	}
	want := Say{
		First: later(31.9), Last: later(31.9), Times: 1, Decision: id, Loop: "provisioning", What: "bound to the node of claim c 32.9s after its creation",
		Details: []string{"0.8s until kube-scheduler had found no place, 0.1s in the batch window, 0.1s for the plan, 2.0s for the instance, 28.0s until its Node registered, 1.5s until that was initialized, 0.4s until the pod was bound"},
	}
	if diff := cmp.Diff(want, answers[0].Says[0]); diff != "" {
		t.Errorf("what is said (-want +got):\n%s", diff)
	}
	if answers := j.Explain(Subject{Kind: KindPod, Name: "unknown"}); len(answers) != 0 {
		t.Errorf("of a pod that nothing was decided about: %+v", answers)
	}
}
