package journal

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// Ranking says for a launch why its instance type was the one: the types that hold its pods, and why each cheaper one
// was passed over.
type Ranking struct {
	Decision ID `json:"decision"`
	// Pods is how many pods the launch is for, Requests what they and the DaemonSet pods of the node ask for.
	Pods     int    `json:"pods"`
	Requests string `json:"requests"`
	// Types are those of its NodePool, the cheapest first. Of those that are dearer than the launch and do not hold its pods
	// there are none.
	Types []RankedType `json:"types"`
}

// RankedType is an instance type with the offering that counts as the cheapest of those that the launch could take.
type RankedType struct {
	Type         string `json:"type"`
	CapacityType string `json:"capacityType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// PriceHourly is in dollars; with NoPrice it is not known, and the type stands last. CountsHourly is what the offering counts as, because it was short or instances were taken
	// back lately; 0: as its price.
	PriceHourly  float64 `json:"priceHourly"`
	NoPrice      bool    `json:"noPrice,omitempty"`
	CountsHourly float64 `json:"countsHourly,omitempty"`
	// Rank is 1 for the type that counts as the cheapest of those that hold the pods; 0: it was passed over, and Why says why.
	Rank int    `json:"rank,omitempty"`
	Why  string `json:"why,omitempty"`
}

// launchedByCommand is what is said of a NodeClaim that a command launched: the number of the command, and its reason.
const launchedByCommand = "launched by command %d (%s)"

// LaunchedBy returns the decision that launched what the answer is about; ok: one did, and is known.
func (a *Answer) LaunchedBy() (id ID, ok bool) {
	s := a.launch()
	if s == nil {
		return ID{}, false
	}
	return s.Decision, true
}

// launch returns the oldest statement that something launched it; nil: there is none.
func (a *Answer) launch() *Say {
	if a.Kind != KindNode && a.Kind != KindClaim {
		return nil
	}
	for i := range slices.Backward(a.Says) {
		if s := &a.Says[i]; strings.HasPrefix(s.What, "launched ") && !s.Decision.IsZero() {
			return s
		}
	}
	return nil
}

// Rank adds the Ranking, by the decision of LaunchedBy, which needs its snapshot.
func (a *Answer) Rank(d *record.Decision) error {
	s := a.launch()
	if s == nil {
		return fmt.Errorf("no decision is known to have launched %s", a.Name)
	}
	l, err := a.launchIn(d, s)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(d.Snapshot.Pools, func(p cluster.Pool) bool { return p.Name == l.Pool })
	if at < 0 {
		return fmt.Errorf("the snapshot of decision %s has no pool %s", s.Decision, l.Pool)
	}
	a.Ranking = &Ranking{Decision: s.Decision, Pods: len(l.Pods), Requests: amounts(l.Requests), Types: rank(&d.Snapshot.Pools[at], l)}
	return nil
}

// launchIn returns the launch of a decision that the statement is about.
func (a *Answer) launchIn(d *record.Decision, s *Say) (*plan.Launch, error) {
	launches := d.Plan.Launches
	if d.Loop == record.Static {
		launches = d.Scaling.Launches
	}
	for i, claim := range d.Claims {
		if i < len(launches) && claim != "" && (claim == a.Claim || claim == a.Name) {
			return &launches[i], nil
		}
	}
	command, reason := 0, ""
	if n, _ := fmt.Sscanf(s.What, launchedByCommand, &command, &reason); n > 0 && command >= 1 && command <= len(d.Disruption.Commands) {
		switch c := &d.Disruption.Commands[command-1]; len(c.Launch) {
		case 0:
		case 1:
			return &c.Launch[0], nil
		default:
			return nil, fmt.Errorf("command %d of decision %s launched %d nodes, and it is not kept which of them %s is", command, s.Decision, len(c.Launch), a.Name)
		}
	}
	return nil, fmt.Errorf("decision %s does not have the launch of %s", s.Decision, a.Name)
}

// rank returns the types of a pool that hold the pods of a launch, and those that are cheaper.
func rank(pool *cluster.Pool, l *plan.Launch) []RankedType {
	// What the launch demands of the type itself is its choice; what the pool demands is not.
	want := label.Requirements{}
	maps.Copy(want, l.Requirements)
	delete(want, label.InstanceType)
	if r, ok := pool.Requirements[label.InstanceType]; ok {
		want[label.InstanceType] = r
	}
	var ranked []RankedType
	holds := map[string]bool{}
	for _, c := range catalog.Choices(pool.Types, want, l.Requests) {
		if !holds[c.Type.Name] {
			holds[c.Type.Name] = true
			ranked = append(ranked, ranking(c.Type, c.Offering))
			ranked[len(ranked)-1].Rank = len(ranked)
		}
	}
	for _, t := range pool.Types {
		if holds[t.Name] {
			continue
		}
		o, why := passedOver(t, want, l)
		if o != nil && o.HasPrice() && o.Price() < l.PriceHourly {
			r := ranking(t, o)
			r.Why = why
			ranked = append(ranked, r)
		}
	}
	slices.SortFunc(ranked, func(a, b RankedType) int {
		switch {
		case a.NoPrice && !b.NoPrice:
			return 1
		case b.NoPrice && !a.NoPrice:
			return -1
		}
		return cmp.Or(cmp.Compare(a.PriceHourly, b.PriceHourly), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Type, b.Type))
	})
	return ranked
}

func ranking(t *catalog.Type, o *catalog.Offering) RankedType {
	r := RankedType{Type: t.Name, CapacityType: o.CapacityType, Zone: o.Zone, NoPrice: !o.HasPrice()}
	if r.NoPrice {
		return r
	}
	if r.PriceHourly = o.Price(); o.Risk > 0 {
		r.CountsHourly = o.Cost()
	}
	return r
}

// passedOver says why a type does not hold the pods of a launch, and of which offering that is said: the cheapest that
// satisfies the requirements, or the cheapest of all if none does.
func passedOver(t *catalog.Type, want label.Requirements, l *plan.Launch) (o *catalog.Offering, why string) {
	one := []*catalog.Type{t}
	offered := catalog.Offered(one, want)
	if len(offered) == 0 {
		return least(catalog.Offered(one, nil)), conflict(t, want)
	}
	o = least(offered)
	free := t.Allocatable()
	var small []string
	for _, name := range l.Requests.Names() {
		if need := l.Requests[name]; need > free.Room(name) {
			small = append(small, fmt.Sprintf("%s of %s %s", fit.AtMost(name, free.Room(name)), fit.AtLeast(name, need), fit.Resource(name)))
		}
	}
	switch {
	case len(small) > 0:
		return o, "too small: it has " + strings.Join(small, ", ")
	case !slices.ContainsFunc(offered, (*catalog.Offering).Launchable):
		return o, "not available then"
	default:
		return o, "not among the types that were asked for"
	}
}

// least returns the offering that counts as the cheapest; nil: there is none.
func least(offered []*catalog.Offering) *catalog.Offering {
	if len(offered) == 0 {
		return nil
	}
	return slices.MinFunc(offered, func(a, b *catalog.Offering) int { return cmp.Compare(a.Cost(), b.Cost()) })
}

// conflict says which requirement no offering of a type satisfies.
func conflict(t *catalog.Type, want label.Requirements) string {
	for _, key := range want.Keys() {
		if len(catalog.Offered([]*catalog.Type{t}, label.Requirements{key: want[key]})) > 0 {
			continue
		}
		if has := t.Requirements[key].Values(); len(has) > 0 {
			return fmt.Sprintf("%s is %s, and must be %s", key, strings.Join(has, ", "), want[key])
		}
		return fmt.Sprintf("%s must be %s", key, want[key])
	}
	return "no offering has all of " + want.String()
}

// passedShown and heldShown are how many types that were passed over, and that hold the pods, a person is shown.
const passedShown, heldShown = 20, 10

// Caption says of which launch the ranking is.
func (r *Ranking) Caption() string {
	return fmt.Sprintf("Instance types, as decision %s had them, for %s that with DaemonSet pods ask for %s", r.Decision, times(r.Pods, "pod"), r.Requests)
}

// RankingTitles are those of the columns of Rows.
func RankingTitles() []string {
	return []string{"rank", "type", "$/h", "counts as", "capacity", "zone", "why not"}
}

// Rows returns what of the ranking a person is shown, of the types that were passed over the dearest, because they came
// closest; then how many others of each sort there are.
func (r *Ranking) Rows() (rows [][]string, passedMore, heldMore int) {
	passed, held := 0, 0
	for i := range r.Types {
		if r.Types[i].Rank == 0 {
			passed++
		} else {
			held++
		}
	}
	passedMore, heldMore = max(0, passed-passedShown), max(0, held-heldShown)
	skip := passedMore
	for i := range r.Types {
		e := &r.Types[i]
		switch {
		case e.Rank == 0 && skip > 0:
			skip--
			continue
		case e.Rank > heldShown:
			continue
		}
		rank, price, counts := "-", fmt.Sprintf("%.4f", e.PriceHourly), ""
		if e.NoPrice {
			price = "unknown"
		}
		if e.Rank > 0 {
			rank = fmt.Sprint(e.Rank)
		}
		if e.CountsHourly > 0 {
			counts = fmt.Sprintf("%.4f", e.CountsHourly)
		}
		rows = append(rows, []string{rank, e.Type, price, counts, e.CapacityType, e.Zone, e.Why})
	}
	return rows, passedMore, heldMore
}

// Print writes the ranking as text.
func (r *Ranking) Print(w io.Writer) error {
	rows, passedMore, heldMore := r.Rows()
	fmt.Fprintf(w, "\n  %s:\n", r.Caption())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  "+strings.ToUpper(strings.Join(RankingTitles(), "\t")))
	for _, row := range rows {
		fmt.Fprintln(t, "  "+strings.Join(row, "\t"))
	}
	err := t.Flush()
	if passedMore > 0 {
		_, err = fmt.Fprintf(w, "  %d cheaper ones were passed over, too: dovetail explain --types -o json has all\n", passedMore)
	}
	if heldMore > 0 {
		_, err = fmt.Fprintf(w, "  %d dearer ones hold the pods, too\n", heldMore)
	}
	return err
}
