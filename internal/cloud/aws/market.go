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

// market is what EC2 sells in the region, and for how much. It is replaced whole and never
// changed.
type market struct {
	infos    []types.InstanceTypeInfo
	offered  map[string][]string // zones by type
	onDemand map[string]float64
	spot     map[string]map[string]float64 // by type and zone
	// number tells one market from another.
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

// stall holds the market, and reads it anew when it is old. Prices are read by loops of
// their own (prices.go).
type stall struct {
	p *Provider

	reading        turnstile // types and zones
	onDemand, spot *quotes

	mu     sync.Mutex
	market *market
	readAt time.Time
}

func newStall(p *Provider) *stall {
	s := &stall{p: p, reading: newTurnstile()}
	s.onDemand = &quotes{capacityType: label.OnDemand, read: p.readOnDemand, reading: newTurnstile(), known: cataloguePrices(p.opts.Config.Region), readAt: catalogueDay}
	s.spot = &quotes{capacityType: label.Spot, read: p.readSpot, reading: newTurnstile(), readAt: catalogueDay}
	return s
}

// get returns the market, after reading it if there is none yet. An old one is good
// enough while a newer one is read by refresh.
func (s *stall) get(ctx context.Context) (*market, error) {
	if m, _ := s.held(); m != nil {
		return m, nil
	}
	if err := s.reading.enter(ctx); err != nil {
		return nil, fmt.Errorf("wait for what EC2 sells: %w", err)
	}
	defer s.reading.leave()
	if m, _ := s.held(); m != nil { // somebody else has read it meanwhile
		return m, nil
	}
	return s.read(ctx)
}

// refresh reads the market if it is old and returns when to look again.
func (s *stall) refresh(ctx context.Context) time.Duration {
	if s.reading.enter(ctx) != nil {
		return marketRetry
	}
	defer s.reading.leave()
	now := s.p.opts.Now()
	if m, at := s.held(); m != nil && now.Sub(at) < marketKept {
		return marketKept - now.Sub(at)
	}
	if _, err := s.read(ctx); err != nil {
		if ctx.Err() == nil {
			s.p.opts.Log.Error("what EC2 sells could not be read, will try again", "error", err)
		}
		return marketRetry
	}
	return marketKept
}

func (s *stall) held() (*market, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.market, s.readAt
}

// read reads the market: types and zones must be read. The first market waits for prices,
// but not for long.
func (s *stall) read(ctx context.Context) (*market, error) {
	m := &market{}
	group, typesCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { m.infos, err = s.p.readTypes(typesCtx); return err })
	group.Go(func() (err error) { m.offered, err = s.p.readOfferings(typesCtx); return err })
	for _, q := range []*quotes{s.onDemand, s.spot} {
		group.Go(func() error { s.firstQuotes(ctx, q); return nil })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAt = s.p.opts.Now()
	s.replace(m)
	return m, nil
}

// replace puts another market, of which types and zones are known, in the place of the one
// that is held. Called under the lock.
func (s *stall) replace(m *market) {
	if s.market != nil {
		m.number = s.market.number + 1
	}
	m.onDemand = map[string]float64{}
	for name, at := range s.onDemand.known {
		m.onDemand[name] = at[everywhere]
	}
	m.spot = s.spot.known
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
	s.market = m
}

func (p *Provider) readTypes(ctx context.Context) ([]types.InstanceTypeInfo, error) {
	var all []types.InstanceTypeInfo
	pages := ec2.NewDescribeInstanceTypesPaginator(p.clients.EC2, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(typesPage), Filters: []types.Filter{
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

func (p *Provider) readOfferings(ctx context.Context) (map[string][]string, error) {
	zones := map[string][]string{}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(p.clients.EC2, &ec2.DescribeInstanceTypeOfferingsInput{
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
