package record

import (
	"maps"
	"reflect"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// sameNode reports whether two nodes are equal. It may say no of equal ones behind different pointers: then they are
// written again, and give the same text. It is asked of every node of every decision, so it does without reflection.
func sameNode(a, b *cluster.Node) bool {
	return a.Name == b.Name && a.Claim == b.Claim && a.Pool == b.Pool && a.InFlight == b.InFlight &&
		a.Initialized == b.Initialized && a.Deleting == b.Deleting && a.Ready == b.Ready && a.Empty == b.Empty &&
		a.Created.Equal(b.Created) && a.Expires.Equal(b.Expires) && a.DueShare == b.DueShare && a.Reclaimed == b.Reclaimed && a.LastPodEvent.Equal(b.LastPodEvent) &&
		a.DoNotDisrupt == b.DoNotDisrupt && a.DisruptionReason == b.DisruptionReason && a.DisruptedSince.Equal(b.DisruptedSince) &&
		a.DisruptedTaint == b.DisruptedTaint && a.Planned == b.Planned && a.PlannedUntil.Equal(b.PlannedUntil) &&
		sameDisruption(&a.Disruption, &b.Disruption) &&
		sameList(a.Taints, b.Taints) && sameList(a.Ports, b.Ports) && sameList(a.Daemons, b.Daemons) && sameList(a.Pods, b.Pods) &&
		samePods(a.Reschedulable, b.Reschedulable) &&
		sameMap(a.Labels, b.Labels) && sameMap(a.Capacity, b.Capacity) && sameMap(a.Allocatable, b.Allocatable) &&
		sameMap(a.Used, b.Used) && sameMap(a.UsedByDaemons, b.UsedByDaemons)
}

func sameDisruption(a, b *cluster.Disruption) bool {
	return a.DoNotDisruptByPods == b.DoNotDisruptByPods && a.HasGrace == b.HasGrace && a.Grace == b.Grace &&
		a.Registered == b.Registered && a.DoNotRepair == b.DoNotRepair && a.Rebooting == b.Rebooting && sameList(a.Ailments, b.Ailments) &&
		a.Drifted == b.Drifted && a.DriftedSince.Equal(b.DriftedSince) && a.Deadline.Equal(b.Deadline) && a.Ending == b.Ending &&
		a.Step == b.Step && a.StepRemoves == b.StepRemoves && a.StepLaunches == b.StepLaunches && a.StepTerminatesFirst == b.StepTerminatesFirst &&
		a.Replaces == b.Replaces && a.SoftTaint == b.SoftTaint && a.DeletionCandidate == b.DeletionCandidate
}

// sameList compares lists, most of which are the same one.
func sameList[T comparable](a, b []T) bool {
	return (a == nil) == (b == nil) && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// samePods compares lists of which snapshots that follow one another share most.
func samePods(a, b []cluster.ReschedulablePod) bool {
	return (a == nil) == (b == nil) && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || comparePods(reflect.ValueOf(a), reflect.ValueOf(b)))
}

var comparePods = equalSlices(reflect.TypeFor[[]cluster.ReschedulablePod]()) //nolint:gochecknoglobals // a function

// sameMap compares maps, most of which are the same one.
func sameMap[M ~map[string]V, V comparable](a, b M) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() || (a == nil) == (b == nil) && maps.Equal(a, b)
}

// equal reports whether two values of one type are equal. It may say no of equal ones behind different
// pointers: then they are written again, and give the same text.
type equal func(a, b reflect.Value) bool

// equalOf returns the comparison of a type, which looks at nothing that both share.
func equalOf(t reflect.Type) equal {
	switch t.Kind() {
	case reflect.Struct:
		fields := make([]equal, t.NumField())
		for i := range fields {
			fields[i] = equalOf(t.Field(i).Type)
		}
		return func(a, b reflect.Value) bool {
			for i, same := range fields {
				if !same(a.Field(i), b.Field(i)) {
					return false
				}
			}
			return true
		}
	case reflect.Slice:
		return equalSlices(t)
	case reflect.Map:
		return equalMaps
	case reflect.Pointer:
		return func(a, b reflect.Value) bool { return a.Pointer() == b.Pointer() }
	default:
		return reflect.Value.Equal
	}
}

func equalSlices(t reflect.Type) equal {
	of := equalOf(t.Elem())
	return func(a, b reflect.Value) bool {
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		if a.Pointer() == b.Pointer() {
			return true
		}
		for i := range a.Len() {
			if !of(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
}

// equalMaps compares what a snapshot copies often; other maps must be the same one.
func equalMaps(a, b reflect.Value) bool {
	if a.Pointer() == b.Pointer() {
		return true
	}
	if a.IsNil() || b.IsNil() || a.Len() != b.Len() || !a.CanInterface() {
		return false
	}
	switch x := a.Interface().(type) {
	case quantity.List:
		return maps.Equal(x, b.Interface().(quantity.List)) //nolint:forcetypeassert // of the same type
	case map[string]string:
		return maps.Equal(x, b.Interface().(map[string]string)) //nolint:forcetypeassert // of the same type
	}
	return false
}
