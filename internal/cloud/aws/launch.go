package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// typesMost and overridesMost keep a fleet below EC2's limits on its request; the best
	// offers stay.
	typesMost     = 60
	overridesMost = 300
	// templateTries is how often a launch is tried whose launch templates somebody deletes.
	templateTries = 3
)

// Launch buys the requests that want the same together. It waits for EC2's answer, not
// for boots.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	left := make([]int, len(requests))
	for i := range left {
		left[i] = i
	}
	for try := 1; len(left) > 0; try++ {
		left = p.launch(ctx, requests, left, results)
		if try == templateTries {
			break
		}
	}
	for i := range results {
		if errors.Is(results[i].Err, errTemplateGone) {
			results[i].Err = &cloud.Failure{Kind: cloud.Rejected, Reason: "LaunchTemplateNotFound", Message: "somebody deletes the launch templates as soon as they are made"}
		}
	}
	return results
}

// launch answers the requests at these places and returns those to be tried again.
func (p *Provider) launch(ctx context.Context, requests []cloud.LaunchRequest, at []int, results []cloud.LaunchResult) (again []int) {
	batches := make([]*batch, len(requests))
	drafts := map[string]*draft{}
	for _, i := range at {
		b, err := p.place(ctx, &requests[i], drafts)
		if err != nil {
			results[i] = cloud.LaunchResult{Err: err}
			continue
		}
		batches[i] = b
	}
	rounds := map[*batch]<-chan struct{}{}
	for _, b := range batches { // when all have joined
		if b != nil && rounds[b] == nil {
			rounds[b] = p.ledger.begin(ctx, b)
		}
	}
	told := map[*batch]bool{}
	for _, i := range at {
		if batches[i] == nil {
			continue
		}
		m, err := p.ledger.answer(ctx, batches[i], rounds[batches[i]], requests[i].Token)
		if !told[batches[i]] { // once is enough
			short, keep := p.ledger.shortOf(batches[i])
			results[i].Short, results[i].Keep = append(results[i].Short, short...), max(results[i].Keep, keep)
			told[batches[i]] = true
		}
		if errors.Is(err, errTemplateGone) {
			p.templates.forget(batches[i])
			again = append(again, i)
		}
		if results[i].Err = err; err == nil {
			results[i].Instance = instanceOf(&m, p.typesFor(ctx, &m))
		}
	}
	return again
}

// place returns the batch that answers for a request: the one that did before, or the
// one that it joins now.
func (p *Provider) place(ctx context.Context, r *cloud.LaunchRequest, drafts map[string]*draft) (*batch, error) {
	if err := p.ledger.ready(ctx); err != nil {
		return nil, fmt.Errorf("launch %s: %w", r.Claim, err)
	}
	if b := p.ledger.holding(r.Token); b != nil {
		return b, nil
	}
	class, err := p.usable(ctx, r.Class)
	if err != nil {
		return nil, err
	}
	s, err := newShot(class, r)
	if err != nil {
		return nil, err
	}
	key := s.key()
	if drafts[key] == nil {
		if drafts[key], err = p.draft(ctx, s); err != nil {
			return nil, fmt.Errorf("launch %s: %w", r.Claim, err)
		}
	}
	return p.ledger.join(key, member{r.Token, r.Claim}, drafts[key].order), nil
}

// usable returns the class of a launch, or the failure to answer it with.
func (p *Provider) usable(ctx context.Context, ref cloud.ClassRef) (*awsv1.EC2NodeClass, error) {
	class, err := p.class(ctx, ref)
	if errors.Is(err, cloud.ErrNotFound) || (err == nil && class.DeletionTimestamp != nil) {
		return nil, &cloud.Failure{Kind: cloud.NoCapacity, Message: fmt.Sprintf("there is no node class %s", ref)}
	}
	if err != nil {
		return nil, err
	}
	ready := meta.FindStatusCondition(class.Status.Conditions, "Ready")
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: "NodeClassReadinessUnknown", Message: fmt.Sprintf("it is not known yet whether node class %s can be used", class.Name)}
	case ready.Status == metav1.ConditionFalse:
		return nil, &cloud.Failure{Kind: cloud.ClassNotReady, Reason: ready.Reason, Message: fmt.Sprintf("node class %s is not ready: %s", class.Name, cmp.Or(ready.Message, ready.Reason))}
	case ready.ObservedGeneration != class.Generation:
		return nil, &cloud.Failure{Kind: cloud.ClassNotReady, Message: fmt.Sprintf("node class %s was changed and has not been looked at since", class.Name)}
	}
	return class, nil
}

// shot is what a request comes down to: all that decides its fleet, and nothing that is
// the claim's own.
type shot struct {
	class        *awsv1.EC2NodeClass
	capacityType string
	tenancy      string
	labels       map[string]string
	taints       []cluster.Taint
	efa, enclave bool
	// dns is the address of the cluster's DNS; empty: not known.
	dns string
	// partition of the placement group; empty: it has none.
	partition string
	// offers are of one capacity type, best first.
	offers []catalog.Offer
	// rules of minValues, which the offers keep, and needed the types that they cannot do without.
	rules  minValues
	needed map[string]bool
}

// newShot returns what a request comes down to. The best offer decides the capacity type:
// a fleet has one.
func newShot(class *awsv1.EC2NodeClass, r *cloud.LaunchRequest) (*shot, error) {
	if len(r.Offers) == 0 {
		return nil, &cloud.Failure{Kind: cloud.NoCapacity, Message: "no offers to choose from"}
	}
	s := &shot{
		class: class, rules: minValuesOf(r.Requirements), tenancy: awsv1.TenancyDefault,
		labels: r.Labels, taints: r.Taints, partition: partitionFor(r),
		efa: r.Requests[awsv1.ResourceEFA] > 0, enclave: r.Requests[awsv1.ResourceNitroSandbox] > 0,
	}
	if only, ok := r.Requirements[awsv1.LabelInstanceTenancy]; ok && only.Allows(awsv1.TenancyDedicated) && !only.Allows(awsv1.TenancyDefault) {
		s.tenancy = awsv1.TenancyDedicated
	}
	offers := slices.DeleteFunc(slices.Clone(r.Offers), func(o catalog.Offer) bool {
		return o.Offering.Labels[awsv1.LabelPlacementGroupPartition] != s.partition
	})
	why := s.choose(offers)
	if why != "" {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: reasonMinValues, Message: why}
	}
	s.capacityType = s.offers[0].Offering.CapacityType
	return s, nil
}

// choose takes the offers of the best capacity type whose types keep the rules of minValues,
// or says why none does.
func (s *shot) choose(offers []catalog.Offer) (why string) {
	tried := map[string]bool{}
	for i := range offers {
		kind := offers[i].Offering.CapacityType
		if tried[kind] {
			continue
		}
		tried[kind] = true
		same := alike(offers[i:])
		s.needed = s.rules.needed(same)
		s.offers = trim(same, s.needed)
		unmet := s.rules.unmet(s.offers)
		if unmet == "" {
			return ""
		}
		why = cmp.Or(why, fmt.Sprintf("of the instance types to be had as %s, %s", kind, unmet))
	}
	return why
}

// partitionFor returns the partition of the placement group that a machine goes into, one of
// those on offer: the token chooses, which spreads machines evenly. EC2 would choose as well,
// but not say which before the machine runs, and its Node joins with the label.
func partitionFor(r *cloud.LaunchRequest) string {
	var among []string
	for _, o := range r.Offers {
		if n := o.Offering.Labels[awsv1.LabelPlacementGroupPartition]; n != "" && !slices.Contains(among, n) {
			among = append(among, n)
		}
	}
	if len(among) == 0 {
		return ""
	}
	slices.Sort(among)
	sum := sha256.Sum256([]byte(r.Token))
	return among[int(sum[0])%len(among)]
}

// alike returns the offers that may go into one fleet with the first: those of its capacity
// type and, of reserved ones, those that are bought in the same way; one for each place.
func alike(offers []catalog.Offer) []catalog.Offer {
	best := offers[0].Offering
	kind := reservedKind(best)
	places := map[catalog.Place]bool{}
	var out []catalog.Offer
	for _, o := range offers {
		at := catalog.Place{Type: o.Type.Name, Zone: o.Offering.Zone}
		if o.Offering.CapacityType != best.CapacityType || reservedKind(o.Offering) != kind || places[at] {
			continue
		}
		if kind == awsv1.CapacityReservationTypeCapacityBlock && o.Offering.Reservation != best.Reservation {
			continue // a fleet takes one block
		}
		places[at] = true
		out = append(out, o)
	}
	return out
}

// trim returns the best offers, as many as go into one fleet. The needed types are among them,
// each with its best offer at least.
func trim(offers []catalog.Offer, needed map[string]bool) []catalog.Offer {
	types := maps.Clone(needed)
	first := map[string]bool{} // types whose best offer was seen
	kept := make([]bool, len(offers))
	left := overridesMost
	for i, o := range offers {
		if needed[o.Type.Name] && !first[o.Type.Name] && left > 0 {
			kept[i], first[o.Type.Name] = true, true
			left--
		}
	}
	for i, o := range offers {
		if left == 0 {
			break
		}
		if kept[i] || !types[o.Type.Name] && len(types) >= typesMost {
			continue
		}
		kept[i], types[o.Type.Name] = true, true
		left--
	}
	var out []catalog.Offer
	for i, o := range offers {
		if kept[i] {
			out = append(out, o)
		}
	}
	return out
}

// reservedKind returns how a reserved offering is bought; empty: it is not reserved.
func reservedKind(o *catalog.Offering) string {
	if o.CapacityType != label.Reserved {
		return ""
	}
	if o.Labels[awsv1.LabelCapacityReservationInterruptible] == "true" {
		return "interruptible"
	}
	return cmp.Or(o.Labels[awsv1.LabelCapacityReservationType], awsv1.CapacityReservationTypeDefault)
}

// key is the same for shots that make the same fleet.
func (s *shot) key() string {
	type place struct{ Type, Zone, Reservation string }
	places := make([]place, 0, len(s.offers))
	for _, o := range s.offers {
		places = append(places, place{o.Type.Name, o.Offering.Zone, o.Offering.Reservation})
	}
	h := sha256.New()
	encoder := json.NewEncoder(h)
	for _, part := range []any{
		s.class.UID, s.class.Name, s.class.Spec, s.class.Annotations[awsv1.AnnotationHash], statusUsed(&s.class.Status),
		s.capacityType, s.tenancy, s.labels, s.taints, s.efa, s.enclave, s.partition, places,
	} {
		if err := encoder.Encode(part); err != nil {
			panic("a launch cannot be written as JSON: " + err.Error())
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// statusUsed is the part of a class's status that decides a launch.
func statusUsed(s *awsv1.EC2NodeClassStatus) any {
	used := *s
	used.Conditions = nil
	return used
}

// nodeLabels returns the labels that a Node joins with: the claim's, and what the fleet
// leaves no choice about.
func (s *shot) nodeLabels() map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, s.labels)
	labels[label.CapacityType] = s.capacityType
	return labels
}
