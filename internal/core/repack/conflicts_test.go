package repack

import (
	"maps"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestPodsInLabelConflictNeverShareANewNode: the pool leaves the label team open. A node
// that was launched for one team takes pods of it and of none, and none of the other's.
func TestPodsInLabelConflictNeverShareANewNode(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20 zones=a\npool general\nnode n pool=general type=four zone=a\n" +
		"running blue on=n cpu=1\nrunning green on=n cpu=1\nrunning plain on=n cpu=1\n")
	if err != nil {
		t.Fatal(err)
	}
	snap.Pools[0].Requirements = maps.Clone(snap.Pools[0].Requirements)
	if snap.Pools[0].Requirements == nil {
		snap.Pools[0].Requirements = label.Requirements{}
	}
	snap.Pools[0].Requirements["team"] = label.Exists()
	for i := range snap.Nodes[0].Reschedulable {
		if r := &snap.Nodes[0].Reschedulable[i]; i < 2 {
			r.Constraints.Terms = []label.Requirements{{"team": label.In([]string{"blue", "green"}[i])}}
		}
	}
	s := NewSession(snap, model.Options{}, 1, nil)
	class := func(i int) int32 { return s.Inventory.Class(snap.Nodes[0].Reschedulable[i].Constraints) }
	s.Nodes.Begin()
	s.Nodes.Remove(0)
	h, ok := s.Nodes.Open(0)
	if !ok {
		t.Fatal("no node can be launched")
	}
	for _, put := range []struct {
		pod  string
		i    int
		want int32
	}{{"blue", 0, 1}, {"green", 1, 0}, {"plain", 2, 1}} {
		if got := s.Rescheduler.Put(class(put.i), h, 1); got != put.want {
			t.Errorf("%d pods of %s are put on it, want %d", got, put.pod, put.want)
		}
	}
	l, _, ok := s.Launch(h, 1, 0)
	if team, only := l.Requirements["team"].Only(); !ok || !only || team != "blue" {
		t.Errorf("it is launched with team %s (%v), want blue", l.Requirements["team"], ok)
	}
}
