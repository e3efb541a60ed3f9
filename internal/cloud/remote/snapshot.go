package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// snapshot is the instance types of one class at one revision. It is never changed: a change makes
// a new one, which shares the types that stayed as they were.
type snapshot struct {
	revision string
	// types are sorted by name, as entries are.
	types     []*catalog.Type
	entries   []*wire.Entry
	offerings int
	// supplies is what is left of each.
	supplies catalog.Supplies
	// patience is how long launches of the class may take.
	patience lifecycle.Patience
}

// find returns where the type of a name is, or belongs.
func (s *snapshot) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.types, name, func(t *catalog.Type, name string) int { return strings.Compare(t.Name, name) })
}

// reader puts the pages of one call together.
type reader struct {
	// current is the last whole snapshot; nil: there is none.
	current *snapshot
	// open collects the pages of a snapshot that is not whole yet; nil: there is none.
	open map[string]*wire.Entry
	rev  string
	// supplies are those of the open snapshot. Their names begin with the scope.
	supplies catalog.Supplies
	scope    string
	// longest is how long launches of any class may take, patience what the pages say of this one.
	longest, patience lifecycle.Patience
}

// read takes one page. whole reports whether there is a snapshot to use.
func (r *reader) read(page *providerv1.CatalogPage) (whole bool, err error) {
	if page.GetReset_() {
		r.open, r.rev, r.patience, r.supplies = map[string]*wire.Entry{}, page.GetRevision(), r.longest, catalog.Supplies{}
	}
	if r.open == nil {
		return r.change(page)
	}
	if page.GetRevision() != r.rev {
		return false, fmt.Errorf("revision %q in a snapshot of revision %q", wire.Text(page.GetRevision()), wire.Text(r.rev))
	}
	if len(page.GetGone()) > 0 || len(page.GetChanges()) > 0 {
		return false, fmt.Errorf("changes before the end of the snapshot")
	}
	if err := r.patient(page); err != nil {
		return false, err
	}
	if err := wire.ParseSupplies(page.GetSupplies(), r.scope, r.supplies, true); err != nil {
		return false, err
	}
	for _, t := range page.GetTypes() {
		entry, err := wire.ParseType(t, r.scope)
		if err != nil {
			return false, err
		}
		if r.open[t.GetName()] != nil {
			return false, fmt.Errorf("type %s is there twice", t.GetName())
		}
		if r.open[t.GetName()] = entry; len(r.open) > wire.TypesMax {
			return false, fmt.Errorf("more than %d types", wire.TypesMax)
		}
	}
	if !page.GetLast() {
		return false, nil
	}
	entries := make([]*wire.Entry, 0, len(r.open))
	for _, e := range r.open {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *wire.Entry) int { return strings.Compare(a.Type.Name, b.Type.Name) })
	next := &snapshot{revision: r.rev, entries: entries, patience: r.patience, supplies: r.supplies}
	for _, e := range entries {
		next.types, next.offerings = append(next.types, e.Type), next.offerings+len(e.Type.Offerings)
	}
	r.open = nil
	return true, r.use(next)
}

// change takes a page that follows a snapshot, or says that there is none to send.
func (r *reader) change(page *providerv1.CatalogPage) (whole bool, err error) {
	if r.current == nil {
		return false, fmt.Errorf("the first page is not the start of a snapshot (reset)")
	}
	if len(page.GetTypes())+len(page.GetGone())+len(page.GetChanges())+len(page.GetSupplies()) == 0 && page.GetPatience() == nil {
		if page.GetRevision() != r.current.revision {
			return false, fmt.Errorf("revision %q without a change, after revision %q", wire.Text(page.GetRevision()), wire.Text(r.current.revision))
		}
		return true, nil
	}
	r.patience = r.current.patience
	if err := r.patient(page); err != nil {
		return false, err
	}
	next := &snapshot{
		patience: r.patience, revision: page.GetRevision(), types: slices.Clone(r.current.types), entries: slices.Clone(r.current.entries), offerings: r.current.offerings,
		supplies: r.current.supplies,
	}
	if len(page.GetSupplies()) > 0 {
		next.supplies = maps.Clone(next.supplies)
		if err := wire.ParseSupplies(page.GetSupplies(), r.scope, next.supplies, false); err != nil {
			return false, err
		}
	}
	for _, name := range page.GetGone() {
		if at, found := next.find(name); found {
			next.offerings -= len(next.types[at].Offerings)
			next.types, next.entries = slices.Delete(next.types, at, at+1), slices.Delete(next.entries, at, at+1)
		}
	}
	for _, t := range page.GetTypes() {
		entry, err := wire.ParseType(t, r.scope)
		if err != nil {
			return false, err
		}
		next.put(entry)
	}
	for _, c := range page.GetChanges() {
		at, found := next.find(c.GetType())
		if !found {
			return false, fmt.Errorf("a change of an offering of type %q, which was not sent", wire.Text(c.GetType()))
		}
		entry, err := next.entries[at].With(c)
		if err != nil {
			return false, err
		}
		next.put(entry)
	}
	return true, r.use(next)
}

// patient takes what a page says of the class's patience, if it does.
func (r *reader) patient(page *providerv1.CatalogPage) (err error) {
	if page.GetPatience() != nil {
		r.patience, err = wire.ParseClassPatience(page.GetPatience(), r.longest)
	}
	return err
}

// put adds or replaces a type.
func (s *snapshot) put(e *wire.Entry) {
	at, found := s.find(e.Type.Name)
	if found {
		s.offerings += len(e.Type.Offerings) - len(s.types[at].Offerings)
		s.types[at], s.entries[at] = e.Type, e
		return
	}
	s.offerings += len(e.Type.Offerings)
	s.types, s.entries = slices.Insert(s.types, at, e.Type), slices.Insert(s.entries, at, e)
}

// use makes a snapshot the current one, if it is within bounds.
func (r *reader) use(next *snapshot) error {
	switch {
	case len(next.types) > wire.TypesMax:
		return fmt.Errorf("%d types; there may be %d", len(next.types), wire.TypesMax)
	case next.offerings > wire.OfferingsMax:
		return fmt.Errorf("%d offerings; there may be %d", next.offerings, wire.OfferingsMax)
	}
	for i, e := range next.entries {
		covered, err := e.Cover(next.supplies)
		if err != nil {
			return err
		}
		next.types[i], next.entries[i] = covered.Type, covered
	}
	r.current = next
	return nil
}
