package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"golang.org/x/sync/errgroup"

	"github.com/dovetail-sh/dovetail/internal/ec2catalog"
)

const (
	// marketKept is how long what EC2 sells, where and at what price is taken to hold.
	marketKept = 12 * time.Hour
	// marketRetry is the pause after it could not be read.
	marketRetry = time.Minute
	// typesPage and spotPage are how many types and spot prices a page has.
	typesPage, spotPage, pricePage = 100, 2000, 100
)

// market is what EC2 sells in the region. It is replaced whole and never changed.
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

// stall holds the market, and reads it anew when it is old.
type stall struct {
	p *Provider

	reading turnstile
	mu      sync.Mutex
	market  *market
	readAt  time.Time
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

// read reads the market. Types must be read; prices that cannot be are those of before,
// or of the catalogue in the binary.
func (s *stall) read(ctx context.Context) (*market, error) {
	before, _ := s.held()
	m := &market{}
	if before != nil {
		m.number = before.number + 1
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { m.infos, err = s.p.readTypes(ctx); return err })
	group.Go(func() (err error) { m.offered, err = s.p.readOfferings(ctx); return err })
	group.Go(func() error { m.onDemand = s.onDemand(ctx, before); return nil })
	group.Go(func() error { m.spot = s.spot(ctx, before); return nil })
	if err := group.Wait(); err != nil {
		return nil, err
	}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.market, s.readAt = m, s.p.opts.Now()
	return m, nil
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

// onDemand returns the prices of the price list; for types that it lacks, those of before
// or of the catalogue.
func (s *stall) onDemand(ctx context.Context, before *market) map[string]float64 {
	prices := map[string]float64{}
	if before != nil {
		maps.Copy(prices, before.onDemand)
	} else {
		maps.Copy(prices, cataloguePrices())
	}
	if s.p.opts.IsolatedVPC || strings.HasPrefix(s.p.opts.Config.Region, "us-gov-") { // which have no price list
		return prices
	}
	for _, tenancy := range []struct{ name, family string }{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}} {
		read, err := s.p.readPrices(ctx, tenancy.name, tenancy.family)
		if err != nil && ctx.Err() == nil {
			s.p.opts.Log.Warn("price list could not be read; using older prices", "error", err)
		}
		maps.Copy(prices, read)
	}
	return prices
}

// cataloguePrices are those in the binary: of one region, and of its day.
func cataloguePrices() map[string]float64 {
	known, err := ec2catalog.Types()
	if err != nil {
		return nil
	}
	prices := map[string]float64{}
	for _, t := range known {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.CapacityType == "on-demand" && o.Priced {
				prices[t.Name] = o.PriceHourly
			}
		}
	}
	return prices
}

// priceList has the price list asked where it is served, which is in few regions.
func priceList(o *pricing.Options) { o.Region = pricesFrom(o.Region) }

// pricesFrom returns the region whose price list covers another.
func pricesFrom(region string) string {
	switch part, _, _ := strings.Cut(region, "-"); part {
	case "ap":
		return "ap-south-1"
	case "cn":
		return "cn-northwest-1"
	case "eu":
		return "eu-central-1"
	default:
		return "us-east-1"
	}
}

func (p *Provider) readPrices(ctx context.Context, tenancy, productFamily string) (map[string]float64, error) {
	match := func(field, value string) pricingtypes.Filter {
		return pricingtypes.Filter{Field: aws.String(field), Type: pricingtypes.FilterTypeTermMatch, Value: aws.String(value)}
	}
	prices := map[string]float64{}
	pages := pricing.NewGetProductsPaginator(p.clients.Pricing, &pricing.GetProductsInput{
		ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(pricePage),
		Filters: []pricingtypes.Filter{
			match("regionCode", p.opts.Config.Region), match("serviceCode", "AmazonEC2"), match("preInstalledSw", "NA"), match("operatingSystem", "Linux"),
			match("capacitystatus", "Used"), match("marketoption", "OnDemand"), match("tenancy", tenancy), match("productFamily", productFamily),
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return prices, fmt.Errorf("get products: %w", err)
		}
		for _, line := range page.PriceList {
			if name, price, err := parsePrice(line); err == nil && price > 0 {
				prices[name] = price
			}
		}
	}
	if len(prices) == 0 {
		return nil, errors.New("get products: the list of " + productFamily + " is empty")
	}
	return prices, nil
}

// parsePrice reads one line of the price list.
func parsePrice(line string) (instanceType string, price float64, err error) {
	var product struct {
		Product struct {
			Attributes struct {
				InstanceType string `json:"instanceType"`
			} `json:"attributes"`
		} `json:"product"`
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			} `json:"OnDemand"`
		} `json:"terms"`
	}
	if err := json.Unmarshal([]byte(line), &product); err != nil {
		return "", 0, fmt.Errorf("read a price: %w", err)
	}
	for _, term := range product.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			for _, currency := range []string{"USD", "CNY"} {
				if p, err := strconv.ParseFloat(dimension.PricePerUnit[currency], 64); err == nil && p > 0 {
					return product.Product.Attributes.InstanceType, p, nil
				}
			}
		}
	}
	return product.Product.Attributes.InstanceType, 0, nil
}

// spot returns the spot prices, with those of before where there is none now; nil: there
// never were any.
func (s *stall) spot(ctx context.Context, before *market) map[string]map[string]float64 {
	prices, err := s.p.readSpot(ctx)
	if err != nil && ctx.Err() == nil {
		s.p.opts.Log.Warn("spot prices could not be read; using older ones", "error", err)
	}
	if before == nil {
		return prices
	}
	if prices == nil {
		return before.spot
	}
	for name, zones := range before.spot {
		for zone, price := range zones {
			if prices[name] == nil {
				prices[name] = map[string]float64{}
			}
			if _, ok := prices[name][zone]; !ok {
				prices[name][zone] = price
			}
		}
	}
	return prices
}

func (p *Provider) readSpot(ctx context.Context) (map[string]map[string]float64, error) {
	prices := map[string]map[string]float64{}
	newest := map[string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(p.clients.EC2, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, StartTime: aws.Time(p.opts.Now()), MaxResults: aws.Int32(spotPage),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe spot price history: %w", err)
		}
		for _, h := range page.SpotPriceHistory {
			name, zone := string(h.InstanceType), aws.ToString(h.AvailabilityZone)
			price, err := strconv.ParseFloat(aws.ToString(h.SpotPrice), 64)
			if err != nil || h.Timestamp == nil || h.Timestamp.Before(newest[name+"/"+zone]) {
				continue
			}
			newest[name+"/"+zone] = *h.Timestamp
			if prices[name] == nil {
				prices[name] = map[string]float64{}
			}
			prices[name][zone] = price
		}
	}
	if len(prices) == 0 {
		return nil, errors.New("describe spot price history: there is none")
	}
	return prices, nil
}
