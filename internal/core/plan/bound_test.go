package plan

import "testing"

func TestFleetBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commands []Command
		want     float64
	}{
		"nothing goes":                     {nil, 3},
		"nodes go for their cost":          {[]Command{{Reason: Underutilized}}, 3},
		"a node goes for another reason":   {[]Command{{Reason: Underutilized}, {Reason: Drifted}}, 0},
		"an empty node goes, at its price": {[]Command{{Reason: Empty}}, 0},
	} {
		d := &Disruption{FleetBoundHourly: 3, Commands: c.commands}
		if got := d.FleetBound(); got != c.want {
			t.Errorf("%s: FleetBound() = %g, want %g", name, got, c.want)
		}
	}
}
