package quantity_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestWhatIsNotMentioned: of volumes to attach there is no limit, of all else there is
// nothing.
func TestWhatIsNotMentioned(t *testing.T) {
	t.Parallel()
	const volumes = quantity.AttachPrefix + "ebs"
	for name, tc := range map[string]struct {
		need, have quantity.List
		fits       bool
	}{
		"enough":                        {quantity.List{"cpu": 1}, quantity.List{"cpu": 1}, true},
		"too little":                    {quantity.List{"cpu": 2}, quantity.List{"cpu": 1}, false},
		"a resource that is not there":  {quantity.List{"gpu": 1}, quantity.List{"cpu": 1}, false},
		"volumes within the limit":      {quantity.List{volumes: 2}, quantity.List{volumes: 2}, true},
		"volumes beyond the limit":      {quantity.List{volumes: 3}, quantity.List{volumes: 2}, false},
		"a limit of none":               {quantity.List{volumes: 1}, quantity.List{volumes: 0}, false},
		"volumes without a limit":       {quantity.List{volumes: 99}, quantity.List{}, true},
		"a limit of another driver's":   {quantity.List{volumes: 99}, quantity.List{quantity.AttachPrefix + "efs": 1}, true},
		"nothing asked, nothing stated": {quantity.List{}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.need.Fits(tc.have); got != tc.fits {
				t.Errorf("%s fits %s: %v, want %v", tc.need, tc.have, got, tc.fits)
			}
			space := quantity.SpaceOf(tc.need, tc.have)
			if got := space.Vector(tc.need).Fits(space.Room(tc.have)); got != tc.fits {
				t.Errorf("as vectors, %s fits %s: %v, want %v", tc.need, tc.have, got, tc.fits)
			}
		})
	}
}

func TestHowOftenSomethingFits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		free, used, need quantity.Vector
		want             int64
	}{
		"by what is scarcest":                {quantity.Vector{10, 4}, quantity.Vector{1, 0}, quantity.Vector{3, 2}, 2},
		"no more often than asked":           {quantity.Vector{100, 100}, quantity.Vector{0, 0}, quantity.Vector{1, 1}, 7},
		"not at all":                         {quantity.Vector{10, 4}, quantity.Vector{8, 0}, quantity.Vector{3, 2}, 0},
		"short of it already":                {quantity.Vector{10, -1}, quantity.Vector{0, 0}, quantity.Vector{1, 2}, 0},
		"short already of what nobody wants": {quantity.Vector{10, -1}, quantity.Vector{0, 0}, quantity.Vector{5, 0}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := quantity.Times(tc.free, tc.used, tc.need, 7); got != tc.want {
				t.Errorf("%v fits into %v on top of %v %d times, want %d", tc.need, tc.free, tc.used, got, tc.want)
			}
		})
	}
}
