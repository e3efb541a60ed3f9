package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// pageBytes is how large a page of the catalog may be.
const pageBytes = 1 << 20

// sold is what a class offers, as messages.
type sold struct {
	revision string
	// types and messages are in the provider's order; sums are over the bytes of the messages.
	types    []*catalog.Type
	messages []*providerv1.Type
	sums     [][sha256.Size]byte
	// patience is how long launches may take; nil: as Describe says.
	patience *providerv1.Patience
	// left is what is left of supplies.
	left catalog.Supplies
	// at is where a type is, by name.
	at map[string]int
}

// read asks the provider. Types that are those of the last time are not translated again.
func (s *Server) read(ctx context.Context, class *providerv1.Class, last *sold) (*sold, error) {
	types, err := s.provider.Types(ctx, classRef(class))
	if err != nil {
		return nil, failed(err)
	}
	next := &sold{
		types: types, messages: make([]*providerv1.Type, len(types)), sums: make([][sha256.Size]byte, len(types)), at: make(map[string]int, len(types)),
	}
	all := sha256.New()
	for i, t := range types {
		for k := range t.Offerings {
			next.left.Add(&t.Offerings[k])
		}
		if at, had := last.find(t.Name); had && wire.SameType(last.types[at], t) {
			next.messages[i], next.sums[i] = last.messages[at], last.sums[at]
		} else {
			next.messages[i] = wire.Type(t)
			content, err := proto.MarshalOptions{Deterministic: true}.Marshal(next.messages[i])
			if err != nil {
				return nil, fmt.Errorf("instance type %s: %w", t.Name, err)
			}
			next.sums[i] = sha256.Sum256(content)
		}
		next.at[t.Name] = i
		_, _ = all.Write(next.sums[i][:])
	}
	if patience, is := s.patience(classRef(class)); is {
		next.patience = wire.Patience(patience)
		_, _ = fmt.Fprint(all, patience)
	}
	if next.left != nil {
		_, _ = fmt.Fprint(all, next.left)
	}
	next.revision = hex.EncodeToString(all.Sum(nil)[:16])
	return next, nil
}

// find returns where the type of a name is.
func (s *sold) find(name string) (int, bool) {
	if s == nil {
		return 0, false
	}
	at, ok := s.at[name]
	return at, ok
}

// Catalog sends the instance types of a class, and what changes.
func (s *Server) Catalog(request *providerv1.CatalogRequest, stream grpc.ServerStreamingServer[providerv1.CatalogPage]) error {
	changed := s.follow(classRef(request.GetClass())) // before they are read, so that no change is missed
	defer s.unfollow(changed)
	now, err := s.read(stream.Context(), request.GetClass(), nil)
	if err != nil {
		return err
	}
	if request.GetHaveRevision() == now.revision {
		err = stream.Send(&providerv1.CatalogPage{Revision: now.revision, Last: true})
	} else {
		err = sendAll(stream, now)
	}
	if err != nil || !request.GetFollow() {
		return err
	}
	poll, alive := time.NewTicker(s.opts.Poll), time.NewTicker(s.opts.Alive)
	defer poll.Stop()
	defer alive.Stop()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-alive.C:
			if err := stream.Send(&providerv1.CatalogPage{Revision: now.revision}); err != nil {
				return err
			}
			continue
		case <-poll.C:
		case <-changed:
		}
		next, err := s.read(stream.Context(), request.GetClass(), now)
		if err != nil {
			return err // the controller keeps what it has, and asks again
		}
		if next.revision != now.revision {
			if err := sendChanges(stream, now, next); err != nil {
				return err
			}
		}
		now = next
	}
}

// follow returns a channel that has a value after the provider has said that the types of a class have changed.
func (s *Server) follow(class cloud.ClassRef) chan struct{} {
	changed := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[changed] = class.Object()
	return changed
}

func (s *Server) unfollow(changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, changed)
}

// sendAll sends a whole snapshot, in pages.
func sendAll(stream grpc.ServerStreamingServer[providerv1.CatalogPage], now *sold) error {
	page, bytes := &providerv1.CatalogPage{Revision: now.revision, Reset_: true, Patience: now.patience, Supplies: wire.Supplies(now.left)}, 0
	for _, s := range page.Supplies {
		bytes += proto.Size(s)
	}
	for _, t := range now.messages {
		size := proto.Size(t)
		if len(page.Types) > 0 && bytes+size > pageBytes {
			if err := stream.Send(page); err != nil {
				return err
			}
			page, bytes = &providerv1.CatalogPage{Revision: now.revision}, 0
		}
		page.Types, bytes = append(page.Types, t), bytes+size
	}
	page.Last = true
	return stream.Send(page)
}

// sendChanges sends how a snapshot differs from the last, in pages.
func sendChanges(stream grpc.ServerStreamingServer[providerv1.CatalogPage], last, next *sold) error {
	page, bytes := &providerv1.CatalogPage{Revision: next.revision}, 0
	add := func(size int, put func()) error {
		if bytes > 0 && bytes+size > pageBytes {
			if err := stream.Send(page); err != nil {
				return err
			}
			page, bytes = &providerv1.CatalogPage{Revision: next.revision}, 0
		}
		put()
		bytes += size
		return nil
	}
	if !proto.Equal(last.patience, next.patience) {
		page.Patience = next.patience
	}
	changed, gone := supplyChanges(last.left, next.left)
	for _, s := range changed { // before what draws on them, and those that are gone after it
		if err := add(proto.Size(s), func() { page.Supplies = append(page.Supplies, s) }); err != nil {
			return err
		}
	}
	for _, t := range last.types {
		if _, still := next.find(t.Name); still {
			continue
		}
		if err := add(len(t.Name), func() { page.Gone = append(page.Gone, t.Name) }); err != nil {
			return err
		}
	}
	for i, t := range next.messages {
		at, had := last.find(t.GetName())
		if had && last.sums[at] == next.sums[i] {
			continue
		}
		var changes []*providerv1.OfferingChange
		few := false
		if had {
			changes, few = offeringChanges(last.types[at], next.types[i])
		}
		if !few {
			if err := add(proto.Size(t), func() { page.Types = append(page.Types, t) }); err != nil {
				return err
			}
			continue
		}
		for _, c := range changes {
			if err := add(proto.Size(c), func() { page.Changes = append(page.Changes, c) }); err != nil {
				return err
			}
		}
	}
	for _, s := range gone {
		if err := add(proto.Size(s), func() { page.Supplies = append(page.Supplies, s) }); err != nil {
			return err
		}
	}
	return stream.Send(page)
}

// supplyChanges returns the supplies that are new or have changed, and those that are gone.
func supplyChanges(last, next catalog.Supplies) (changed, gone []*providerv1.Supply) {
	other := maps.Clone(next)
	maps.DeleteFunc(other, func(name string, left int) bool {
		had, is := last[name]
		return is && had == left
	})
	for _, name := range slices.Sorted(maps.Keys(last)) {
		if _, still := next[name]; !still {
			gone = append(gone, &providerv1.Supply{Name: name, Gone: true})
		}
	}
	return wire.Supplies(other), gone
}

// offeringChanges returns how the offerings of a type have changed; few is false if something else
// has, or most of them.
func offeringChanges(last, next *catalog.Type) (changes []*providerv1.OfferingChange, few bool) {
	without := func(t *catalog.Type) *providerv1.Type {
		bare := *t
		bare.Offerings = nil
		return wire.Type(&bare)
	}
	if !proto.Equal(without(last), without(next)) || len(last.Offerings) != len(next.Offerings) {
		return nil, false
	}
	for i := range next.Offerings {
		if wire.OfferingKey(&last.Offerings[i]) != wire.OfferingKey(&next.Offerings[i]) {
			return nil, false
		}
		if o := wire.Offering(&next.Offerings[i]); !proto.Equal(wire.Offering(&last.Offerings[i]), o) {
			changes = append(changes, &providerv1.OfferingChange{Type: next.Name, Offering: o})
		}
	}
	return changes, len(changes)*2 <= len(next.Offerings)
}
