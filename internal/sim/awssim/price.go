package awssim

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// spotPeriod is how long a pool's price stands.
const spotPeriod = 10 * time.Minute

// spotSwing is by how much a price leaves its mean, at most.
const spotSwing = 0.15

// prices has the spot market and the price list.
type prices struct {
	base    *base
	network *network

	spot spotMarket
}

// spotMarket makes spot prices: each pool's swings about its mean, by the seed alone, so
// that no state is kept and any moment can be asked for.
type spotMarket struct{ start time.Time }

func newSpotMarket(start time.Time) spotMarket { return spotMarket{start} }

// price returns a pool's price and since when it stands; false: there is no such pool.
func (m spotMarket) price(seed uint64, t *ec2Type, zoneID string, now time.Time) (float64, time.Time, bool) {
	mean, ok := t.spot[zoneID]
	if !ok {
		return 0, time.Time{}, false
	}
	h := fnv.New64a()
	fmt.Fprint(h, seed, t.name, zoneID)
	phase := h.Sum64()
	step := int64(now.Sub(m.start) / spotPeriod)
	// Two waves with periods of hours that no pool shares with all others.
	a, b := float64(phase%997)/997, float64(phase/997%991)/991
	wave := (math.Sin(2*math.Pi*(a+float64(step)/(17+20*b))) + math.Sin(2*math.Pi*(b+float64(step)/(41+60*a)))) / 2
	price := min(mean*(1+spotSwing*wave), t.onDemand)
	return math.Round(price*1e6) / 1e6, m.start.Add(time.Duration(step) * spotPeriod), true
}

// quote is one line of the price history.
type quote struct {
	typ, zone, zoneID string
	price             float64
	at                time.Time
}

func (s *prices) describeSpotPrices(c *call) (any, error) {
	products := c.form.texts("ProductDescription")
	var all []quote
	if len(products) == 0 || slices.Contains(products, "Linux/UNIX") || slices.Contains(products, "Linux/UNIX (Amazon VPC)") {
		wanted := c.form.texts("InstanceType")
		for _, name := range s.base.types.names {
			for _, z := range s.network.zones {
				if len(wanted) > 0 && !slices.Contains(wanted, name) {
					continue
				}
				if p, at, ok := s.spot.price(s.base.opts.Seed, s.base.types.byName[name], z.ID, c.now); ok {
					all = append(all, quote{name, z.Name, z.ID, p, at})
				}
			}
		}
	}
	if c.form.number(0, "MaxResults") > 1000 {
		c.form.children["MaxResults"] = &form{value: "1000"}
	}
	return describeAll(c, "spotPriceHistorySet", 1000, all, described[quote]{
		key: func(q quote) string { return q.typ + " " + q.zone }, tags: noTags[quote],
		property: func(q quote, filter string) ([]string, bool) {
			switch filter {
			case "instance-type":
				return only(q.typ)
			case "availability-zone":
				return only(q.zone)
			case "availability-zone-id":
				return only(q.zoneID)
			case "product-description":
				return only("Linux/UNIX")
			default:
				return nil, false
			}
		},
		write: func(q quote) fields {
			return fields{
				{"instanceType", q.typ},
				{"productDescription", "Linux/UNIX"},
				{"spotPrice", fmt.Sprintf("%.6f", q.price)},
				{"timestamp", q.at},
				{"availabilityZone", q.zone},
				{"availabilityZoneId", q.zoneID},
			}
		},
	})
}

// getProducts sells the Linux instances on demand: shared ones as "Compute Instance",
// whole ones as "Compute Instance (bare metal)".
func (s *prices) getProducts(c *call) (any, error) {
	if code := c.doc["ServiceCode"]; code != "AmazonEC2" {
		return nil, fail("InvalidParameterException", "The service code '%v' is not valid", code)
	}
	wanted := map[string]string{}
	filters, _ := c.doc["Filters"].([]any)
	for _, f := range filters {
		f, _ := f.(map[string]any)
		name, _ := f["Field"].(string)
		value, _ := f["Value"].(string)
		wanted[name] = value
	}
	var found []string
	for _, name := range s.base.types.names {
		if s.sells(s.base.types.byName[name], wanted) {
			found = append(found, name)
		}
	}
	asked, _ := c.doc["MaxResults"].(float64)
	found, next, err := page(c, found, func(n string) string { return n }, int(asked), 100)
	if err != nil {
		return nil, fail("InvalidParameterException", "%v", err)
	}
	list := []string{}
	for _, name := range found {
		text, err := json.Marshal(s.product(s.base.types.byName[name], wanted["tenancy"]))
		if err != nil {
			return nil, err
		}
		list = append(list, string(text))
	}
	out := map[string]any{"FormatVersion": "aws_v1", "PriceList": list}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}

// attributes are what products can be chosen by.
func (s *prices) attributes(m *ec2Type, tenancy string) map[string]string {
	family := "Compute Instance"
	if m.metal {
		family = "Compute Instance (bare metal)"
	}
	return map[string]string{
		"instanceType": m.name, "regionCode": s.base.opts.Region, "servicecode": "AmazonEC2", "serviceCode": "AmazonEC2", "preInstalledSw": "NA",
		"operatingSystem": "Linux", "capacitystatus": "Used", "marketoption": "OnDemand", "tenancy": tenancy, "productFamily": family,
	}
}

func (s *prices) sells(m *ec2Type, wanted map[string]string) bool {
	tenancy := wanted["tenancy"]
	if tenancy == "" {
		tenancy = "Shared"
	}
	// Whole instances are sold as dedicated ones.
	if m.metal != (tenancy == "Dedicated") {
		return false
	}
	has := s.attributes(m, tenancy)
	for field, value := range wanted {
		if has[field] != value {
			return false
		}
	}
	return true
}

func (s *prices) product(m *ec2Type, tenancy string) map[string]any {
	sku := fmt.Sprintf("%X", hashHex([]byte(m.name))[:8])
	attributes := s.attributes(m, tenancy)
	family := attributes["productFamily"]
	return map[string]any{
		"product":     map[string]any{"productFamily": family, "attributes": attributes, "sku": sku},
		"serviceCode": "AmazonEC2",
		"terms": map[string]any{"OnDemand": map[string]any{sku + ".JRTCKXETXF": map[string]any{
			"priceDimensions": map[string]any{sku + ".JRTCKXETXF.6YS6EN2CT7": map[string]any{
				"unit": "Hrs", "pricePerUnit": map[string]string{"USD": fmt.Sprintf("%.10f", m.onDemand)},
			}},
		}}},
	}
}
