package aws

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// hosts notes where requests go to, and answers none.
type hosts struct{ seen []string }

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.seen = append(h.seen, r.URL.Host)
	return nil, context.Canceled
}

func TestPriceListIsAskedWhereItIs(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{
		"us-east-1": "us-east-1.amazonaws.com", "us-west-2": "us-east-1.amazonaws.com", "ca-central-1": "us-east-1.amazonaws.com", "sa-east-1": "us-east-1.amazonaws.com",
		"eu-west-1": "eu-central-1.amazonaws.com", "ap-southeast-2": "ap-south-1.amazonaws.com", "cn-north-1": "cn-northwest-1.amazonaws.com.cn",
		// These have none.
		"us-gov-west-1": "", "us-gov-east-1": "", "us-iso-east-1": "", "us-isob-east-1": "", "us-isof-south-1": "", "eu-isoe-west-1": "", "eusc-de-east-1": "",
	} {
		for _, fips := range []aws.FIPSEndpointState{aws.FIPSEndpointStateDisabled, aws.FIPSEndpointStateEnabled} {
			name := region
			if fips == aws.FIPSEndpointStateEnabled {
				name += " with FIPS"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { askPrices(t, region, want, fips) })
			})
		}
	}
}

func askPrices(t *testing.T, region, want string, fips aws.FIPSEndpointState) {
	h := &hosts{}
	p, err := New(nil, Options{ClusterName: "demo", Now: time.Now, Log: slog.New(slog.DiscardHandler), Config: aws.Config{
		Region: region, HTTPClient: &http.Client{Transport: h}, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		ConfigSources: []any{config.EnvConfig{UseFIPSEndpoint: fips}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.market.onDemand.read(t.Context(), pricePatience)
	if len(p.market.onDemand.known) == 0 {
		t.Error("there are no prices, not even those in the binary")
	}
	if want == "" {
		if len(h.seen) > 0 {
			t.Errorf("asked %v, which has no price list", h.seen)
		}
		return
	}
	if len(h.seen) == 0 || h.seen[0] != "api.pricing."+want {
		t.Errorf("asked %v, want the price list of %s", h.seen, want)
	}
}

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// ages is a meter that keeps when prices were read.
type ages struct {
	noMeter
	mu sync.Mutex
	at map[string]time.Time
}

func (a *ages) PricesRead(capacityType string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[capacityType] = at
}

func (a *ages) take() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return map[string]time.Time{label.OnDemand: a.at[label.OnDemand], label.Spot: a.at[label.Spot]}
}

const pricesFailed = "prices could not be read"

// TestPricesAreReadAgain starts a provider while prices cannot be read, of one kind or both.
// Launches do not wait for them, each failure is logged, they are asked for again at longer
// and longer intervals, and are there soon after AWS answers.
func TestPricesAreReadAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault awssim.Fault
		fails []string // capacity types
	}{
		"the price list is away":    {awssim.Fault{Kind: awssim.FaultDown, Operation: "pricing:*"}, []string{label.OnDemand}},
		"spot prices are denied":    {awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:DescribeSpotPriceHistory"}, []string{label.Spot}},
		"spot prices are throttled": {awssim.Fault{Kind: awssim.FaultThrottle, Operation: "ec2:DescribeSpotPriceHistory"}, []string{label.Spot}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				if err := w.sim.Inject(c.fault); err != nil {
					t.Fatal(err)
				}
				p := w.provider(t)
				log, meter := &lines{}, &ages{at: map[string]time.Time{}}
				p.opts.Log, p.opts.Meter = slog.New(slog.NewTextHandler(log, nil)), meter
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				for _, loop := range []func(context.Context) time.Duration{p.market.refresh, p.market.onDemand.refresh, p.market.spot.refresh} {
					running.Go(func() { repeat(ctx, loop) })
				}
				begun := time.Now()
				if _, err := p.market.get(ctx); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > firstPatience {
					t.Errorf("the first market took %s", took)
				}
				time.Sleep(time.Hour)
				if n := log.count(pricesFailed); n < 10 || n > 15 {
					t.Errorf("%d failures are logged in an hour, want about a dozen", n)
				}
				want := map[string]time.Time{label.OnDemand: begun, label.Spot: begun}
				for _, capacityType := range c.fails {
					want[capacityType] = catalogDay
				}
				near := cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() <= priceRetryMost })
				if diff := cmp.Diff(want, meter.take(), near); diff != "" {
					t.Errorf("when prices were read, after an hour of failures (-want +got):\n%s", diff)
				}
				w.sim.Clear()
				healed := time.Now()
				time.Sleep(priceRetryMost + time.Minute)
				for _, capacityType := range c.fails {
					want[capacityType] = healed
				}
				if diff := cmp.Diff(want, meter.take(), near); diff != "" {
					t.Errorf("when prices were read, after all was well (-want +got):\n%s", diff)
				}
				stop()
				running.Wait()
				m, _ := p.market.current()
				if got, known := w.sim.SpotPrice("m5.large", "us-east-1a"); !known || m.spot["m5.large"]["us-east-1a"] == m.onDemand["m5.large"] {
					t.Errorf("spot costs %v, on demand %v; the market says %v", m.spot["m5.large"]["us-east-1a"], m.onDemand["m5.large"], got)
				}
			})
		})
	}
}

// TestPriceFailureOfCallerIsLogged: the first to ask for the market gives up; that prices
// were not read is logged all the same, and the next who asks has a market.
func TestPriceFailureOfCallerIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *awssim.Options) { o.Latency = time.Second })
		p := w.provider(t)
		log := &lines{}
		p.opts.Log = slog.New(slog.NewTextHandler(log, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := p.market.get(ctx); err == nil {
			t.Error("there is a market, though nobody waited for it")
		}
		if log.count(pricesFailed) == 0 {
			t.Error("nothing is logged")
		}
		if _, err := p.market.get(t.Context()); err != nil {
			t.Error(err)
		}
		if due := p.market.onDemand.due(); due > priceRetry {
			t.Errorf("prices are read again after %s, want %s", due, priceRetry)
		}
	})
}

// TestUnpricedTypesAreReported: types that the region's price list lacks count as what they cost
// elsewhere, and not in silence.
func TestUnpricedTypesAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *awssim.Options) { o.Families = nil })
		p := w.provider(t)
		log := &lines{}
		p.opts.Log = slog.New(slog.NewTextHandler(log, nil))
		if _, err := p.market.get(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := p.market.onDemand.source
		p.market.onDemand.source = func(ctx context.Context) (priced, error) {
			read, err := all(ctx)
			delete(read, "m5.large")
			return read, err
		}
		for range 2 {
			p.market.onDemand.read(t.Context(), pricePatience)
		}
		if log.count("has no price of some instance types") != 1 || log.count("m5.large") != 1 {
			t.Errorf("logged: %s", log.text.String())
		}
	})
}

// TestChinaCountsInYuan: before its price list is read, prices on demand are of the same
// money as spot prices there.
func TestChinaCountsInYuan(t *testing.T) {
	t.Parallel()
	here, there := catalogPrices("us-east-1"), catalogPrices("cn-north-1")
	if got := there["m5.large"][everywhere] / here["m5.large"][everywhere]; got < 6 || got > 8 {
		t.Errorf("a dollar is %v yuan", got)
	}
}
