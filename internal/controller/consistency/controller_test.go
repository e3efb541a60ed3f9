package consistency

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

func TestShortfall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		asked, promised, has quantity.List
		want                 string
	}{
		"exactly nine tenths is enough": {
			asked: quantity.List{"cpu": 1}, promised: quantity.List{"cpu": 4000}, has: quantity.List{"cpu": 3600},
		},
		"one less is not": {
			asked: quantity.List{"cpu": 1}, promised: quantity.List{"cpu": 4000}, has: quantity.List{"cpu": 3599},
			want: "node has 89% of the cpu that its instance type promises, less than 90%",
		},
		"small counts are not rounded away": {
			asked: quantity.List{"pods": 1}, promised: quantity.List{"pods": 58}, has: quantity.List{"pods": 20},
			want: "node has 34% of the pods that its instance type promises, less than 90%",
		},
		"what nobody asked for does not matter": {
			asked: quantity.List{"cpu": 1}, promised: quantity.List{"cpu": 4000, "gpu": 1}, has: quantity.List{"cpu": 4000},
		},
		"what was asked for and is missing does": {
			asked: quantity.List{"gpu": 1}, promised: quantity.List{"gpu": 8}, has: quantity.List{},
			want: "node has 0% of the gpu that its instance type promises, less than 90%",
		},
		"more than can be counted is not less than much": {
			asked: quantity.List{"memory": 1}, promised: quantity.List{"memory": 8 << 30}, has: quantity.List{"memory": quantity.Max},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := shortfall(tt.asked, tt.promised, tt.has); got != tt.want {
				t.Errorf("shortfall = %q, want %q", got, tt.want)
			}
		})
	}
}
