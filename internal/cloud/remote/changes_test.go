package remote_test

import (
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
)

// teller is a shop that says when its prices have changed.
type teller struct {
	*shop
	mu      sync.Mutex
	changed func(cloud.ClassRef)
}

func (s *teller) OnTypesChanged(changed func(cloud.ClassRef)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
}

func (s *teller) reprice(price float64) {
	s.shop.reprice(price)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed(shopClass)
}

// TestAChangeOfTypesIsReported: what a provider in another process says of its types is reported at once, though nobody would ask
// for an hour.
func TestAChangeOfTypesIsReported(t *testing.T) {
	t.Parallel()
	s := &teller{shop: large()}
	p := connect(t, listen(t, t, serve.New(s, serve.Options{Epoch: epoch(), Poll: time.Hour})), fakeCluster(t))
	for _, test := range cloudtest.Tests() {
		if test.Name == "a change of types is reported" {
			test.Run(t, cloudtest.Harness{Provider: p, Change: func(cloudtest.T) { s.reprice(7.5) }, Changing: shopClass})
			return
		}
	}
	t.Error("the suite lacks the test")
}
