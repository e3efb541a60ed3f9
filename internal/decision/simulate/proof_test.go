package simulate

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestProofGoesToTheLast has prices that arithmetic leaves just above nothing for what is
// not scarce: the tables that the proof looks into would be too large with that.
func TestProofGoesToTheLast(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	testkit.Unraced(t)
	const atLeast = 449.14
	c, err := Scenario(filepath.Join("testdata", "p1a-diverse-fake400-2000.json.gz"), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	p := pack.Solve(c.Snapshot, pack.Options{Prove: true})
	if price := p.PriceHourly(); p.BoundHourly < atLeast || p.BoundHourly > price {
		t.Errorf("a plan of %.2f $/h costs at least %.2f, want at least %v proven", price, p.BoundHourly, atLeast)
	}
}
