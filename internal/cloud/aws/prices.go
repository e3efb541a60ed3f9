package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
)

const (
	// pricesKept is how long prices are taken to hold.
	pricesKept = 12 * time.Hour
	// priceRetry is the pause after prices could not be read; it doubles with each failure in
	// a row, up to priceRetryMost.
	priceRetry     = 15 * time.Second
	priceRetryMost = 10 * time.Minute
	// pricePatience is how long one reading of prices may take.
	pricePatience = 5 * time.Minute
	// firstPatience is how long the first market waits for its prices: a launch waits with it.
	firstPatience = 15 * time.Second
	// spotPage and pricePage are how many prices a page has.
	spotPage, pricePage = 2000, 100
	// unpricedTold bounds the instance types that a log line names.
	unpricedTold = 5
	// everywhere is the zone of a price that holds in all zones.
	everywhere = ""
	// yuanPerDollar makes the catalogue's prices comparable with those of China, until its
	// price list has been read. It is a round figure.
	yuanPerDollar = 7.0
)

// catalogueDay is how old the prices in the binary are.
var catalogueDay = time.Date(2025, 5, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant that Go cannot spell

// errNoPriceList says that there is no price list to ask, which is no failure.
var errNoPriceList = errors.New("there is no price list")

// quotes are the prices of one capacity type.
type quotes struct {
	capacityType string
	read         func(context.Context) (priced, error)
	reading      turnstile

	// Below is under the lock of the stall; known is replaced whole and never changed.
	known  priced
	readAt time.Time // catalogueDay: not yet
	// failures is how many readings in a row have failed; the next one is due at next, whose
	// zero value says that there was none.
	failures int
	next     time.Time
	unpriced []string // instance types that the last log line was about
}

// priced are dollars an hour by instance type and zone.
type priced map[string]map[string]float64

func (p priced) set(instanceType, zone string, price float64) {
	if p[instanceType] == nil {
		p[instanceType] = map[string]float64{}
	}
	p[instanceType][zone] = price
}

// refreshQuotes returns the loop that reads the prices of a capacity type when they are old,
// and sooner after a failure.
func (s *stall) refreshQuotes(q *quotes) func(context.Context) time.Duration {
	return func(ctx context.Context) time.Duration {
		if q.reading.enter(ctx) != nil {
			return priceRetry
		}
		defer q.reading.leave()
		if due := s.due(q); due > 0 {
			return due
		}
		s.readQuotes(ctx, q, pricePatience)
		return max(time.Second, s.due(q))
	}
}

// firstQuotes reads prices if nobody has tried to yet.
func (s *stall) firstQuotes(ctx context.Context, q *quotes) {
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	if q.reading.enter(ctx) != nil {
		return
	}
	defer q.reading.leave()
	s.mu.Lock()
	tried := !q.next.IsZero()
	s.mu.Unlock()
	if !tried {
		s.readQuotes(ctx, q, firstPatience)
	}
}

// due returns when prices are to be read, counted from now.
func (s *stall) due(q *quotes) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return q.next.Sub(s.p.opts.Now())
}

// readQuotes reads prices and puts them into the market; what could be read counts even if
// not all could. It is called by whoever is at the turnstile.
func (s *stall) readQuotes(ctx context.Context, q *quotes, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	read, err := q.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.p.opts.Now()
	known := maps.Clone(q.known)
	for name, zones := range read {
		if known == nil {
			known = priced{}
		}
		merged := maps.Clone(known[name])
		if merged == nil {
			merged = map[string]float64{}
		}
		maps.Copy(merged, zones)
		known[name] = merged
	}
	q.known = known
	switch {
	case err == nil:
		q.failures, q.readAt, q.next = 0, now, now.Add(pricesKept)
	case errors.Is(err, errNoPriceList):
		q.next = now.Add(pricesKept)
		s.p.opts.Log.Warn("there is no price list to ask; instance types count as those of us-east-1 in May 2025, and newer ones cannot be bought", "region", s.p.opts.Config.Region, "isolated_vpc", s.p.opts.IsolatedVPC)
	default:
		pause := min(priceRetry<<min(q.failures, 10), priceRetryMost)
		q.failures, q.next = q.failures+1, now.Add(pause)
		s.p.opts.Log.Warn("prices could not be read, will try again; older ones are used", "capacity_type", q.capacityType, "read_at", q.readAt, "in_a_row", q.failures, "again", pause, "error", err)
	}
	s.p.opts.Meter.PricesRead(q.capacityType, q.readAt)
	if s.market != nil && len(read) > 0 {
		s.replace(&market{infos: s.market.infos, offered: s.market.offered})
	}
	if err == nil && q == s.onDemand {
		s.tellUnpriced(q, read)
	}
}

// tellUnpriced says of which instance types the price list has no price: they count as
// what they cost in another region at the day of the catalogue, or have none. Called under
// the lock.
func (s *stall) tellUnpriced(q *quotes, read priced) {
	var unpriced []string
	if s.market != nil {
		for i := range s.market.infos {
			if name := string(s.market.infos[i].InstanceType); read[name] == nil && len(s.market.offered[name]) > 0 {
				unpriced = append(unpriced, name)
			}
		}
	}
	if len(unpriced) > 0 && !slices.Equal(unpriced, q.unpriced) {
		s.p.opts.Log.Warn("the price list has no price of some instance types; they count as those of us-east-1 in May 2025, or cannot be bought",
			"count", len(unpriced), "instance_types", unpriced[:min(len(unpriced), unpricedTold)])
	}
	q.unpriced = unpriced
}

// cataloguePrices are those in the binary: of one region, and of its day.
func cataloguePrices(region string) priced {
	known, err := ec2catalog.Types()
	if err != nil {
		return nil
	}
	rate := 1.0
	if partitionOf(region) == partitionChina {
		rate = yuanPerDollar
	}
	prices := priced{}
	for _, t := range known {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.CapacityType == "on-demand" && o.Priced {
				prices.set(t.Name, everywhere, o.PriceHourly*rate)
			}
		}
	}
	return prices
}

// Partitions of AWS, which share neither accounts nor endpoints.
const (
	partitionAWS   = "aws"
	partitionChina = "aws-cn"
	// partitionOther is any that has no price list: GovCloud, the isolated ones, the
	// European Sovereign Cloud.
	partitionOther = "other"
)

// partitionOf returns the partition of a region.
func partitionOf(region string) string {
	first, rest, _ := strings.Cut(region, "-")
	switch {
	case first == "cn":
		return partitionChina
	case first == "eusc", strings.HasPrefix(rest, "gov-"), strings.HasPrefix(rest, "iso"):
		return partitionOther
	default:
		return partitionAWS
	}
}

// priceList has the price list asked where it is served, which is in few regions, and at its
// ordinary endpoint: it has no other, and what it says is public.
func priceList(o *pricing.Options) {
	o.Region = pricesFrom(o.Region)
	o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateDisabled
}

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

// readOnDemand reads the price list. What was read before an error counts, too.
func (p *Provider) readOnDemand(ctx context.Context) (priced, error) {
	if p.opts.IsolatedVPC || partitionOf(p.opts.Config.Region) == partitionOther {
		return nil, errNoPriceList
	}
	all := priced{}
	var errs []error
	for _, tenancy := range []struct{ name, family string }{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}} {
		errs = append(errs, p.readPrices(ctx, all, tenancy.name, tenancy.family))
	}
	return all, errors.Join(errs...)
}

func (p *Provider) readPrices(ctx context.Context, all priced, tenancy, productFamily string) error {
	match := func(field, value string) pricingtypes.Filter {
		return pricingtypes.Filter{Field: aws.String(field), Type: pricingtypes.FilterTypeTermMatch, Value: aws.String(value)}
	}
	count := 0
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
			return fmt.Errorf("get products: %w", err)
		}
		for _, line := range page.PriceList {
			if name, price, err := parsePrice(line); err == nil && price > 0 {
				all.set(name, everywhere, price)
				count++
			}
		}
	}
	if count == 0 {
		return errors.New("get products: the list of " + productFamily + " is empty")
	}
	return nil
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
				if p, ok := parseAmount(dimension.PricePerUnit[currency]); ok {
					return product.Product.Attributes.InstanceType, p, nil
				}
			}
		}
	}
	return product.Product.Attributes.InstanceType, 0, nil
}

// parseAmount reads an amount of money that is a price: more than nothing, and finite.
func parseAmount(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n > 0 && !math.IsInf(n, 1)
}

// readSpot reads what spot instances cost now: all of it or, with an error, nothing.
func (p *Provider) readSpot(ctx context.Context) (priced, error) {
	prices := priced{}
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
			price, ok := parseAmount(aws.ToString(h.SpotPrice))
			if !ok || h.Timestamp == nil || h.Timestamp.Before(newest[name+"/"+zone]) {
				continue
			}
			newest[name+"/"+zone] = *h.Timestamp
			prices.set(name, zone, price)
		}
	}
	if len(prices) == 0 {
		return nil, errors.New("describe spot price history: there is none")
	}
	return prices, nil
}
