package repack

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestOnDemandRoomIsLeftToPodsThatNeedIt: the pod takes what is left of the on-demand node
// most evenly, so it goes there unless another may be nowhere else.
func TestOnDemandRoomIsLeftToPodsThatNeedIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ pod, other, want string }{
		"every pod may be on spot":      {"", "", "firm"},
		"another may not":               {"", "select=capacity:on-demand", "flexible"},
		"another may be on its node":    {"", "select=host:firm", "firm"},
		"the pod itself may not either": {"select=capacity:on-demand", "select=capacity:on-demand", "firm"},
		"spot has no room for the pod":  {"select=zone:a", "select=capacity:on-demand", "firm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap, err := story.Parse(`
type four cpu=4 memory=8Gi price=0.20 spot=0.06 zones=a,b
pool general
node firm pool=general type=four zone=a cpu=3 memory=4Gi
running db on=firm cpu=1 ` + test.other + `
node flexible pool=general type=four zone=b capacity=spot cpu=2 memory=8Gi
node old pool=general type=four zone=a capacity=spot
running web on=old cpu=1 memory=2Gi ` + test.pod)
			if err != nil {
				t.Fatal(err)
			}
			s := NewSession(snap, model.Options{}, 1, nil)
			mark, first := s.Nodes.Begin(), s.Nodes.Hosts()
			s.Nodes.Remove(2)
			s.Rescheduler.Reschedule()
			moved := s.Nodes.Moved(mark, first)
			if len(moved) != 1 || s.Nodes.Node(int(moved[0].Host)).Name != test.want {
				t.Errorf("it went as %v says, want it on %s", moved, test.want)
			}
		})
	}
}
