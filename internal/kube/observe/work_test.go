package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestWorkThatHangsIsSeen(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	w := newWork()
	if got := gathered(t, w); len(got) > 0 {
		t.Errorf("before the first decision it shows %v", got)
	}
	end := w.Begin("provisioner", func() time.Time { return now })
	now = now.Add(7 * time.Second)
	shown := func(seconds float64) {
		t.Helper()
		want := map[string]float64{"karpenter_scheduler_unfinished_work_seconds controller=provisioner scheduling_id=": seconds}
		if diff := cmp.Diff(want, gathered(t, w)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	shown(7)
	if got := w.LastEnded(); !got.IsZero() {
		t.Errorf("nothing has ended, but LastEnded is %s", got)
	}
	end()
	shown(0)
	if got := w.LastEnded(); !got.Equal(time.Unix(1000, 0)) {
		t.Errorf("LastEnded is %s", got)
	}
}

// gathered returns all metrics of a collector, with their labels in alphabetical order.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := family.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			got[key] = m.GetGauge().GetValue()
		}
	}
	return got
}
