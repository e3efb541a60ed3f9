package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// marketKept is how long what EC2 sells, and where, is taken to hold.
	marketKept = 12 * time.Hour
	// marketRetry is the pause after it could not be read.
	marketRetry = time.Minute
	// typesPage is how many types a page has.
	typesPage = 100
)

// unpricedShown bounds the instance types that a log line names.
const unpricedShown = 5

// market is what EC2 sells in the region, and for how much. It is replaced whole and never
// changed.
type market struct {
	infos    []types.InstanceTypeInfo
	offered  map[string][]string // zones by type
	onDemand map[string]float64
	spot     map[string]map[string]float64 // by type and zone
	// number distinguishes one market from another.
	number int
}

// info returns what EC2 says of a type; nil: it does not sell it.
func (m *market) info(name string) *types.InstanceTypeInfo {
	at, ok := slices.BinarySearchFunc(m.infos, name, func(i types.InstanceTypeInfo, name string) int { return strings.Compare(string(i.InstanceType), name) })
	if !ok {
		return nil
	}
	return &m.infos[at]
}

// marketSource holds the market, and reads it anew when it is old. Prices are read by loops
// of their own (quotes.go).
type marketSource struct {
	opts    *Options
	clients *clients

	reading        turnstile // types and zones
	onDemand, spot *quotes

	mu       sync.Mutex
	latest   *market // nil: not read yet
	readAt   time.Time
	unpriced []string // instance types that the last log line was about
}

func newMarketSource(opts *Options, clients *clients) *marketSource {
	s := &marketSource{opts: opts, clients: clients, reading: newTurnstile()}
	prices := &priceReader{opts, clients}
	s.onDemand = &quotes{opts: opts, capacityType: label.OnDemand, source: prices.onDemand, reading: newTurnstile(), known: catalogPrices(opts.Config.Region), readAt: catalogDay}
	s.spot = &quotes{opts: opts, capacityType: label.Spot, source: prices.spot, reading: newTurnstile(), readAt: catalogDay}
	s.onDemand.changed = func(read priced, err error) { s.reprice(read, err == nil) }
	s.spot.changed = func(read priced, _ error) { s.reprice(read, false) }
	return s
}

// reprice puts prices that were read into the market. If they are the whole price list, it
// reports what the list lacks.
func (s *marketSource) reprice(read priced, isWholeList bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != nil && len(read) > 0 {
		s.replace(&market{infos: s.latest.infos, offered: s.latest.offered})
	}
	if isWholeList {
		s.reportUnpriced(read)
	}
}

// reportUnpriced logs of which instance types the price list has no price: they count as
// what they cost in another region at the day of the catalog, or have none. Called under
// the lock.
func (s *marketSource) reportUnpriced(read priced) {
	var unpriced []string
	if s.latest != nil {
		for i := range s.latest.infos {
			if name := string(s.latest.infos[i].InstanceType); read[name] == nil && len(s.latest.offered[name]) > 0 {
				unpriced = append(unpriced, name)
			}
		}
	}
	if len(unpriced) > 0 && !slices.Equal(unpriced, s.unpriced) {
		s.opts.Log.Warn("the price list has no price of some instance types; they count as those of us-east-1 in May 2025, or cannot be launched",
			"count", len(unpriced), "instance_types", unpriced[:min(len(unpriced), unpricedShown)])
	}
	s.unpriced = unpriced
}

// get returns the market, after reading it if there is none yet. An old one is good
// enough while a newer one is read by refresh.
func (s *marketSource) get(ctx context.Context) (*market, error) {
	if m, _ := s.current(); m != nil {
		return m, nil
	}
	if err := s.reading.enter(ctx); err != nil {
		return nil, fmt.Errorf("wait for what EC2 sells: %w", err)
	}
	defer s.reading.leave()
	if m, _ := s.current(); m != nil { // somebody else has read it meanwhile
		return m, nil
	}
	return s.read(ctx)
}

// refresh reads the market if it is old and returns when to look again.
func (s *marketSource) refresh(ctx context.Context) time.Duration {
	if s.reading.enter(ctx) != nil {
		return marketRetry
	}
	defer s.reading.leave()
	now := s.opts.Now()
	if m, at := s.current(); m != nil && now.Sub(at) < marketKept {
		return marketKept - now.Sub(at)
	}
	if _, err := s.read(ctx); err != nil {
		if ctx.Err() == nil {
			s.opts.Log.Error("what EC2 sells could not be read, will try again", "error", err)
		}
		return marketRetry
	}
	return marketKept
}

func (s *marketSource) current() (*market, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest, s.readAt
}

// read reads the market: types and zones must be read. The first market waits for prices,
// but not for long.
func (s *marketSource) read(ctx context.Context) (*market, error) {
	m := &market{}
	group, typesCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { m.infos, err = s.readTypes(typesCtx); return err })
	group.Go(func() (err error) { m.offered, err = s.readOfferings(typesCtx); return err })
	for _, q := range []*quotes{s.onDemand, s.spot} {
		group.Go(func() error { q.first(ctx); return nil })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAt = s.opts.Now()
	s.replace(m)
	return m, nil
}

// replace puts another market, of which types and zones are known, in the place of the one
// that is held. Called under the lock.
func (s *marketSource) replace(m *market) {
	if s.latest != nil {
		m.number = s.latest.number + 1
	}
	m.onDemand = map[string]float64{}
	for name, at := range s.onDemand.prices() {
		m.onDemand[name] = at[everywhere]
	}
	m.spot = s.spot.prices()
	if m.spot == nil { // until there are spot prices, those on demand are the most they can be
		m.spot = map[string]map[string]float64{}
		for name, zones := range m.offered {
			m.spot[name] = map[string]float64{}
			for _, zone := range zones {
				if price, ok := m.onDemand[name]; ok {
					m.spot[name][zone] = price
				}
			}
		}
	}
	s.latest = m
}

func (s *marketSource) readTypes(ctx context.Context) ([]types.InstanceTypeInfo, error) {
	var all []types.InstanceTypeInfo
	pages := ec2.NewDescribeInstanceTypesPaginator(s.clients.EC2, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(typesPage), Filters: []types.Filter{
		filter("supported-virtualization-type", "hvm"), filter("processor-info.supported-architecture", "x86_64", "arm64"),
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe instance types: %w", err)
		}
		all = append(all, page.InstanceTypes...)
	}
	slices.SortFunc(all, func(a, b types.InstanceTypeInfo) int {
		return strings.Compare(string(a.InstanceType), string(b.InstanceType))
	})
	return all, nil
}

func (s *marketSource) readOfferings(ctx context.Context) (map[string][]string, error) {
	zones := map[string][]string{}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(s.clients.EC2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone, MaxResults: aws.Int32(pageMost),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe instance type offerings: %w", err)
		}
		for _, o := range page.InstanceTypeOfferings {
			zones[string(o.InstanceType)] = append(zones[string(o.InstanceType)], aws.ToString(o.Location))
		}
	}
	for _, list := range zones {
		slices.Sort(list)
	}
	return zones, nil
}
