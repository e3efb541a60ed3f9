// Package multi makes one cloud.Provider of several. A call about a node class goes to the provider of the class's
// kind, and one about an instance to the provider that the instance's ID is of. A provider that cannot be asked
// does not make its instances seem gone, and does not keep the others from working.
//
// Read multi.go (calls about classes), then instances.go (calls about instances). types.go limits instance types.
package multi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// Provider is several providers, its members. Beside a cloud.Provider it is what is asked by class or by instance: a
// cloud.DriftBatcher, a cloud.Patient, a cloud.DeviceKnower, a cloud.DeviceAttacher and a cloud.Rebooter, each as far as
// the member is. What a provider does by itself (notices, changes of types), and its repair policies, are for
// the caller to take from Members.
type Provider struct {
	name       string
	members    []cloud.Provider
	kinds      []schema.GroupVersionKind
	byKind     map[schema.GroupKind]int
	vocabulary cloud.Vocabulary
	// owns are, by member, whether an ID is of its form; nil: its IDs have none.
	owns  []func(instanceID string) bool
	types *types
}

// New returns the provider that consists of the members. The kinds of the first come first, so its first kind is the
// default. The error says which members cannot be together.
func New(members ...cloud.Provider) (*Provider, error) {
	if len(members) == 0 {
		return nil, errors.New("no provider")
	}
	p := &Provider{members: members, byKind: map[schema.GroupKind]int{}, owns: make([]func(string) bool, len(members)), types: newTypes(members)}
	var names []string
	for i, member := range members {
		if slices.Contains(names, member.Name()) {
			return nil, fmt.Errorf("two providers have the name %s", member.Name())
		}
		names = append(names, member.Name())
		for _, kind := range member.ClassKinds() {
			if other, taken := p.byKind[kind.GroupKind()]; taken && other != i {
				return nil, fmt.Errorf("the providers %s and %s both have node classes of the kind %s: it is not clear which of them a NodePool means", names[other], names[i], kind.GroupKind())
			}
			p.byKind[kind.GroupKind()] = i
			p.kinds = append(p.kinds, kind)
		}
		if owner, is := member.(cloud.Owner); is {
			p.owns[i] = owner.Owns
		}
	}
	p.name = strings.Join(names, ",")
	var err error
	p.vocabulary, err = vocabulary(members)
	return p, err
}

// vocabulary returns the labels of all members.
func vocabulary(members []cloud.Provider) (all cloud.Vocabulary, err error) {
	reserves := ""
	for _, member := range members {
		v := member.Vocabulary()
		all.WellKnown = append(all.WellKnown, v.WellKnown...)
		all.RestrictedDomains = append(all.RestrictedDomains, v.RestrictedDomains...)
		if v.ReservationKey == "" {
			continue
		}
		if reserves != "" {
			return all, fmt.Errorf("the providers %s and %s both have reservations; one may", reserves, member.Name())
		}
		reserves, all.ReservationKey, all.ReservationKeys = member.Name(), v.ReservationKey, v.ReservationKeys
	}
	slices.Sort(all.WellKnown)
	slices.Sort(all.RestrictedDomains)
	all.WellKnown, all.RestrictedDomains = slices.Compact(all.WellKnown), slices.Compact(all.RestrictedDomains)
	return all, nil
}

// Members returns the providers.
func (p *Provider) Members() []cloud.Provider { return p.members }

// Map returns the same provider with each member replaced.
func (p *Provider) Map(replace func(cloud.Provider) cloud.Provider) cloud.Provider {
	mapped := *p
	mapped.members = make([]cloud.Provider, len(p.members))
	for i, member := range p.members {
		mapped.members[i] = replace(member)
	}
	return &mapped
}

// Name returns the names of the members.
func (p *Provider) Name() string { return p.name }

// ClassKinds returns the kinds of all members, those of the first first.
func (p *Provider) ClassKinds() []schema.GroupVersionKind { return p.kinds }

// Vocabulary returns the labels of all members.
func (p *Provider) Vocabulary() cloud.Vocabulary { return p.vocabulary }

// of returns the member of a class; false: its kind is none of theirs.
func (p *Provider) of(ref cloud.ClassRef) (member int, ok bool) {
	member, ok = p.byKind[schema.GroupKind{Group: ref.Group, Kind: ref.Kind}]
	return member, ok
}

// Launch has each member launch what is of its classes, all members at the same time.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	of := make([][]int, len(p.members))
	for i := range requests {
		member, ok := p.of(requests[i].Class)
		if !ok {
			results[i].Err = &cloud.Failure{Kind: cloud.NoCapacity, Message: fmt.Sprintf("no provider has node classes of the kind %s of group %s", requests[i].Class.Kind, requests[i].Class.Group)}
			continue
		}
		of[member] = append(of[member], i)
	}
	var launching sync.WaitGroup
	for member, indexes := range of {
		if len(indexes) > 0 {
			launching.Go(func() { p.launch(ctx, member, indexes, requests, results) })
		}
	}
	launching.Wait()
	return results
}

// launch has one member launch the requests with these indexes.
func (p *Provider) launch(ctx context.Context, member int, indexes []int, requests []cloud.LaunchRequest, results []cloud.LaunchResult) {
	batch := make([]cloud.LaunchRequest, len(indexes))
	for n, i := range indexes {
		batch[n] = requests[i]
	}
	answers := p.members[member].Launch(ctx, batch)
	for n, i := range indexes {
		if n >= len(answers) {
			results[i].Err = fmt.Errorf("provider %s did not answer the request for %s", p.members[member].Name(), requests[i].Claim)
			continue
		}
		results[i] = answers[n]
		if err := p.foreign(member, answers[n].Instance.ID); results[i].Err == nil && err != nil {
			results[i] = cloud.LaunchResult{Err: err}
		}
	}
}

// foreign returns an error for an ID from a member that has the form of another's: calls about the instance would go
// to that one, and the instance would seem to be gone.
func (p *Provider) foreign(member int, instanceID string) error {
	for i, owns := range p.owns {
		if i != member && owns != nil && owns(instanceID) {
			return fmt.Errorf("provider %s has an instance %s, whose ID has the form of those of provider %s", p.members[member].Name(), instanceID, p.members[i].Name())
		}
	}
	return nil
}

// Types returns the types of the member of the class.
func (p *Provider) Types(ctx context.Context, class cloud.ClassRef) ([]*catalog.Type, error) {
	member, ok := p.of(class)
	if !ok {
		return nil, fmt.Errorf("node class %s of group %s: %w", class, class.Group, cloud.ErrNotFound)
	}
	own, err := p.members[member].Types(ctx, class)
	if err != nil || len(p.types.lacks[member]) == 0 {
		return own, err
	}
	return p.types.limit(class, own, p.types.lacks[member]), nil
}

// Drifted asks the member of the class.
func (p *Provider) Drifted(ctx context.Context, class cloud.ClassRef, instanceID string) (reason string, err error) {
	member, ok := p.of(class)
	if !ok {
		return "", fmt.Errorf("drift of %s: node class %s: %w", instanceID, class, cloud.ErrNotFound)
	}
	if drifter, able := p.members[member].(cloud.Drifter); able {
		return drifter.Drifted(ctx, class, instanceID)
	}
	return "", nil
}

// DriftBatch asks the member of the class.
func (p *Provider) DriftBatch(class cloud.ClassRef) int {
	if member, ok := p.of(class); ok {
		if batcher, able := p.members[member].(cloud.DriftBatcher); able {
			return batcher.DriftBatch(class)
		}
	}
	return 0
}

// DriftedOf asks the member of the class.
func (p *Provider) DriftedOf(ctx context.Context, class cloud.ClassRef, instanceIDs []string) (map[string]cloud.Drift, error) {
	if member, ok := p.of(class); ok {
		if batcher, able := p.members[member].(cloud.DriftBatcher); able {
			return batcher.DriftedOf(ctx, class, instanceIDs)
		}
	}
	return nil, fmt.Errorf("drift of nodes of class %s: no provider of it can be asked about many at once", class)
}

// Patience asks the member of the class.
func (p *Provider) Patience(class cloud.ClassRef) lifecycle.Patience {
	if member, ok := p.of(class); ok {
		if patient, is := p.members[member].(cloud.Patient); is {
			return patient.Patience(class)
		}
	}
	return lifecycle.Patience{}
}

// Devices asks the member of the class.
func (p *Provider) Devices(class cloud.ClassRef, instanceType string) []resourceapi.ResourceSliceSpec {
	if member, ok := p.of(class); ok {
		if knower, is := p.members[member].(cloud.DeviceKnower); is {
			return knower.Devices(class, instanceType)
		}
	}
	return nil
}

// DriversOnRequest returns those of all members.
func (p *Provider) DriversOnRequest() []string {
	var all []string
	for _, member := range p.members {
		if attacher, is := member.(cloud.DeviceAttacher); is {
			all = append(all, attacher.DriversOnRequest()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
