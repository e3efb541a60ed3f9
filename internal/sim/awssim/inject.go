package awssim

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// actions lists what happens once, by kind.
func actions() map[string]func(s *Sim, f *Fault, now time.Time) {
	return map[string]func(s *Sim, f *Fault, now time.Time){
		FaultDeleteTemplates: func(s *Sim, f *Fault, now time.Time) { s.templates.deleteTemplates(f, now) },
		FaultTerminate:       each((*instances).lose),
		FaultDeprecate:       func(s *Sim, f *Fault, now time.Time) { s.images.deprecate(f, now) },
		FaultInterrupt:       each((*instances).interrupt),
		FaultRebalance:       each((*instances).rebalance),
		FaultImpair:          each((*instances).impair),
		FaultMaintenance:     each((*instances).maintain),
		FaultReclaim:         each((*instances).reclaim),
	}
}

// each does something to the instances that a fault means, in the order of their ids.
func each(do func(s *instances, f *Fault, in *instance, now time.Time)) func(*Sim, *Fault, time.Time) {
	return func(s *Sim, f *Fault, now time.Time) {
		n := 0
		for _, id := range slices.Sorted(maps.Keys(s.instances.byID)) {
			in := s.instances.byID[id]
			if (f.Count > 0 && n >= f.Count) || !f.means(in) {
				continue
			}
			n++
			do(s.instances, f, in, now)
		}
	}
}

// means reports whether an instance is one that the fault is about.
func (f *Fault) means(in *instance) bool {
	if !in.live() || !matches(f.InstanceType, in.typ.name) || !matches(f.Zone, in.subnet.Zone) || !matches(f.Target, in.id) {
		return false
	}
	switch f.Kind {
	case FaultInterrupt, FaultRebalance:
		return in.capacityType == capacitySpot && in.interrupted.IsZero()
	case FaultReclaim:
		return in.reservation != nil && in.reservation.Interruptible && in.interrupted.IsZero()
	default:
		return matches(f.CapacityType, in.capacityType)
	}
}

// Inject makes a fault happen, now or at its time.
func (s *Sim) Inject(faults ...Fault) error {
	for i := range faults {
		if err := faults[i].check(); err != nil {
			return fmt.Errorf("awssim: faults[%d]: %w", i, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base.catchUp()
	now := s.base.clock.Now()
	for _, f := range faults {
		begin := func(now time.Time) {
			if do := actions()[f.Kind]; do != nil {
				do(s, &f, now)
				return
			}
			if f.For.Duration > 0 {
				f.until = now.Add(f.For.Duration)
			}
			s.base.faults = append(s.base.faults, &f)
			if f.Kind == FaultZone {
				each((*instances).lose)(s, &f, now)
			}
		}
		if f.At.Duration > 0 {
			s.base.at(now.Add(f.At.Duration), begin)
			continue
		}
		begin(now)
	}
	return nil
}

// Clear ends all conditions; what is planned comes nevertheless.
func (s *Sim) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base.faults = nil
}
