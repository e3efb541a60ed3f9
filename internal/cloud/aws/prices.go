package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
)

const (
	// spotPage and pricePage are how many prices a page has.
	spotPage, pricePage = 2000, 100
	// everywhere is the zone of a price that holds in all zones.
	everywhere = ""
	// yuanPerDollar makes the catalog's prices comparable with those of China, until its
	// price list has been read. It is a round figure.
	yuanPerDollar = 7.0
)

// catalogDay is how old the prices in the binary are.
var catalogDay = time.Date(2025, 5, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant that Go cannot spell

// errNoPriceList says that there is no price list to ask, which is no failure.
var errNoPriceList = errors.New("there is no price list")

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

// priced are dollars an hour by instance type and zone.
type priced map[string]map[string]float64

func (p priced) set(instanceType, zone string, price float64) {
	if p[instanceType] == nil {
		p[instanceType] = map[string]float64{}
	}
	p[instanceType][zone] = price
}

// catalogPrices are those in the binary: of one region, and of its day. They are shared, and
// never changed.
func catalogPrices(region string) priced {
	if partitionOf(region) == partitionChina {
		return yuanPrices()
	}
	return dollarPrices()
}

//nolint:gochecknoglobals // the catalog is read once in a process, and never changes
var dollarPrices, yuanPrices = sync.OnceValue(func() priced { return readCatalogPrices(1) }), sync.OnceValue(func() priced { return readCatalogPrices(yuanPerDollar) })

func readCatalogPrices(rate float64) priced {
	known, err := ec2catalog.Types()
	if err != nil {
		return nil
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

// priceReader reads prices from AWS.
type priceReader struct {
	opts    *Options
	clients *clients
}

// onDemand reads the price list. What was read before an error counts, too.
func (r *priceReader) onDemand(ctx context.Context) (priced, error) {
	if r.opts.IsolatedVPC || partitionOf(r.opts.Config.Region) == partitionOther {
		return nil, errNoPriceList
	}
	all := priced{}
	var errs []error
	for _, tenancy := range []struct{ name, family string }{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}} {
		errs = append(errs, r.products(ctx, all, tenancy.name, tenancy.family))
	}
	return all, errors.Join(errs...)
}

func (r *priceReader) products(ctx context.Context, all priced, tenancy, productFamily string) error {
	match := func(field, value string) pricingtypes.Filter {
		return pricingtypes.Filter{Field: aws.String(field), Type: pricingtypes.FilterTypeTermMatch, Value: aws.String(value)}
	}
	count := 0
	pages := pricing.NewGetProductsPaginator(r.clients.Pricing, &pricing.GetProductsInput{
		ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(pricePage),
		Filters: []pricingtypes.Filter{
			match("regionCode", r.opts.Config.Region), match("serviceCode", "AmazonEC2"), match("preInstalledSw", "NA"), match("operatingSystem", "Linux"),
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

// spot reads what spot instances cost now: all of it or, with an error, nothing.
func (r *priceReader) spot(ctx context.Context) (priced, error) {
	prices := priced{}
	newest := map[string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(r.clients.EC2, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, StartTime: aws.Time(r.opts.Now()), MaxResults: aws.Int32(spotPage),
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
