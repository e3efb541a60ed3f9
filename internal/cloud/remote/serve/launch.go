package serve

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// itemsMax bounds one Launch.
const itemsMax = 1000

// Launch has the provider launch an instance for each item.
func (s *Server) Launch(ctx context.Context, request *providerv1.LaunchRequest) (*providerv1.LaunchResponse, error) {
	if len(request.GetItems()) > itemsMax {
		return nil, status.Errorf(codes.InvalidArgument, "%d items; there may be %d", len(request.GetItems()), itemsMax)
	}
	if err := s.serves(request.GetCluster()); err != nil {
		return nil, err
	}
	response := &providerv1.LaunchResponse{}
	offered := map[cloud.ClassRef]classOfferings{}
	var requests []cloud.LaunchRequest
	for _, item := range request.GetItems() {
		r, err := s.request(ctx, item, offered)
		if err != nil {
			response.Results = append(response.Results, s.refuse(ctx, item, request.GetCluster(), err))
			continue
		}
		requests = append(requests, r)
	}
	if len(requests) == 0 {
		return response, nil
	}
	for i, result := range s.provider.Launch(ctx, requests) {
		out := &providerv1.LaunchResult{Token: requests[i].Token, Short: wire.Places(result.Short), KeepMs: result.Keep.Milliseconds()}
		if result.Err != nil {
			out.Answer = &providerv1.LaunchResult_Failure{Failure: failure(result.Err)}
		} else {
			out.Answer = &providerv1.LaunchResult_Instance{Instance: wire.Instance(&result.Instance, request.GetCluster().GetUid())}
		}
		response.Results = append(response.Results, out)
	}
	return response, nil
}

// refuse answers an item that the provider cannot be asked for, because its class or all its offerings
// are gone. An instance that it got before is its answer all the same.
func (s *Server) refuse(ctx context.Context, item *providerv1.LaunchItem, cluster *providerv1.Cluster, err error) *providerv1.LaunchResult {
	out := &providerv1.LaunchResult{Token: item.GetToken()}
	instances, listed := s.provider.List(ctx)
	if listed != nil {
		err = listed
	}
	for i := range instances {
		if instances[i].Token == item.GetToken() && !instances[i].Terminating {
			out.Answer = &providerv1.LaunchResult_Instance{Instance: wire.Instance(&instances[i], cluster.GetUid())}
			return out
		}
	}
	out.Answer = &providerv1.LaunchResult_Failure{Failure: failure(err)}
	return out
}

// classOfferings are what a class can launch now, by type. err: why that is not known.
type classOfferings struct {
	types map[string]*catalog.Type
	err   error
}

// find returns the offering that a launch names.
func (c *classOfferings) find(ref *providerv1.OfferingRef) (catalog.Choice, bool) {
	t := c.types[ref.GetType()]
	if t == nil {
		return catalog.Choice{}, false
	}
	key := wire.RefKey(ref)
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == ref.GetZone() && wire.OfferingKey(o) == key {
			return catalog.Choice{Type: t, Offering: o}, true
		}
	}
	return catalog.Choice{}, false
}

// request reads an item. The error says why the provider cannot be asked.
func (s *Server) request(ctx context.Context, item *providerv1.LaunchItem, offered map[cloud.ClassRef]classOfferings) (cloud.LaunchRequest, error) {
	r, err := wire.ParseItem(item)
	if err != nil {
		return r, &cloud.Failure{Kind: cloud.Rejected, Message: err.Error()}
	}
	r.Class = classRef(item.GetClass())
	known, ok := offered[r.Class]
	if !ok {
		known = s.offered(ctx, r.Class)
		offered[r.Class] = known
	}
	if known.err != nil {
		return r, known.err
	}
	for _, ref := range item.GetOfferings() {
		if c, ok := known.find(ref); ok {
			r.Choices = append(r.Choices, c)
		}
	}
	if len(r.Choices) == 0 {
		places, err := wire.ParsePlaces(item.GetOfferings())
		if err != nil {
			return r, &cloud.Failure{Kind: cloud.Rejected, Message: err.Error()}
		}
		return r, &cloud.Failure{Kind: cloud.NoCapacity, Message: "none of the offerings exists any more", Short: places}
	}
	return r, nil
}

func (s *Server) offered(ctx context.Context, class cloud.ClassRef) classOfferings {
	types, err := s.provider.Types(ctx, class)
	if errors.Is(err, cloud.ErrNotFound) {
		return classOfferings{err: &cloud.Failure{Kind: cloud.NoCapacity, Message: err.Error()}}
	}
	if err != nil {
		return classOfferings{err: fmt.Errorf("instance types of %s: %w", class, err)}
	}
	known := classOfferings{types: make(map[string]*catalog.Type, len(types))}
	for _, t := range types {
		known.types[t.Name] = t
	}
	return known
}
