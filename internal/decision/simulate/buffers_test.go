package simulate

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestBuffersComeNearTheBound: 5,000 pods and 50 buffers of 20 chunks cost at most 1.02 of the lower
// bound of all of them together, proven to the end, and no more than pods and buffers apart. Where 4,000 of
// the pods have rules, a proof that is not carried to the end is 4 % lower.
func TestBuffersComeNearTheBound(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	const most = 1.02
	names := []string{"p1b-plain-aws-5000", "p1a-diverse-aws-5000"}
	if testkit.Raced { // the second takes five minutes then, and one decision has one goroutine
		names = names[:1]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Scenario(filepath.Join("testdata", name+".json.gz"), time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			alone := pack.Decide(c.Snapshot, pack.Options{})
			c.Snapshot.Buffers = someBuffers(50, 20)
			all := pack.Decide(c.Snapshot, pack.Options{Prove: true})
			buffers := *c.Snapshot
			buffers.Pending = nil
			apart := pack.Decide(&buffers, pack.Options{})
			t.Logf("pods and buffers: %.2f $/h (x %.4f of the bound, %.2f); apart %.2f + %.2f", all.PriceHourly(), all.PriceHourly()/all.BoundHourly, all.BoundHourly, alone.PriceHourly(), apart.PriceHourly())
			if all.PriceHourly() > most*all.BoundHourly {
				t.Errorf("%.2f $/h are more than %.2f of the bound, %.2f", all.PriceHourly(), most, all.BoundHourly)
			}
			if all.PriceHourly() > alone.PriceHourly()+apart.PriceHourly() {
				t.Errorf("%.2f $/h are more than pods and buffers apart, %.2f", all.PriceHourly(), alone.PriceHourly()+apart.PriceHourly())
			}
			if len(all.Refusals) > len(alone.Refusals) {
				t.Errorf("%d pods are refused, and %d without buffers", len(all.Refusals), len(alone.Refusals))
			}
			for _, b := range all.Buffers {
				if b.Launched != b.Chunks {
					t.Errorf("buffer %s has room for %d of %d: %s", b.Name, b.Launched, b.Chunks, b.Why)
				}
			}
		})
	}
}

// someBuffers returns buffers of so many chunks each, of sizes from web servers to caches.
func someBuffers(n, chunks int) (buffers []cluster.Buffer) {
	for i := range n {
		name := fmt.Sprintf("buffer-%02d", i)
		buffers = append(buffers, cluster.Buffer{Namespace: "default", Name: name, UID: name, Chunks: chunks, Constraints: &cluster.Constraints{
			Requests: quantity.List{quantity.CPU: 250 + int64(i*i*7%3750), quantity.Memory: (256 + int64(i*i*i*13%7936)) << 20, quantity.Pods: 1},
			Terms:    []label.Requirements{{}},
		}})
	}
	return buffers
}
