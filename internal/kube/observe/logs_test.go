package observe_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// TestAmountsAreLoggedByName: two lines about the same resources can be compared.
func TestAmountsAreLoggedByName(t *testing.T) {
	t.Parallel()
	const want = `requests.cpu=850m requests.example.com/gpu=1 requests.memory=128Mi requests.pods=4`
	for range 20 { // the order of a map is another one each time
		var out strings.Builder
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", observe.Amounts("requests", quantity.List{
			"pods": 4, "cpu": 850, "example.com/gpu": 1, "memory": 128 << 20,
		}))
		if !strings.Contains(out.String(), want) {
			t.Fatalf("got %swant %s", out.String(), want)
		}
	}
}
