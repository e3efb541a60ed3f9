package condition

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

var (
	born  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first = born.Add(time.Minute)
	later = born.Add(time.Hour)
)

const (
	launched    = karpenterv1.ConditionTypeLaunched
	registered  = karpenterv1.ConditionTypeRegistered
	initialized = karpenterv1.ConditionTypeInitialized
	ready       = karpenterv1.ConditionTypeReady
	drained     = karpenterv1.ConditionTypeDrained
)

// line is a condition as a test writes it.
type line struct {
	Type, Status, Reason, Message string
	At                            time.Time
	Generation                    int64
}

func lines(nc *karpenterv1.NodeClaim) []line {
	var out []line
	for _, c := range nc.Status.Conditions {
		out = append(out, line{c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime.UTC(), c.ObservedGeneration})
	}
	return out
}

func newClaim() *karpenterv1.NodeClaim {
	return &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 1, CreationTimestamp: metav1.NewTime(born)}}
}

func waiting(conditionType string) line {
	return line{conditionType, "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation", born, 1}
}

func TestSet(t *testing.T) {
	t.Parallel()
	allTrue := func(nc *karpenterv1.NodeClaim) {
		for _, c := range []string{launched, registered, initialized} {
			ForNodeClaim(nc).SetTrue(c, first)
		}
	}
	tests := map[string]struct {
		do   func(nc *karpenterv1.NodeClaim)
		want []line
	}{
		"the missing ones are Unknown since the creation of the object": {
			do:   func(nc *karpenterv1.NodeClaim) { ForNodeClaim(nc).Init(first) },
			want: []line{waiting(initialized), waiting(launched), waiting(registered), waiting(ready)},
		},
		"an object without a creation time counts as created now": {
			do: func(nc *karpenterv1.NodeClaim) {
				nc.CreationTimestamp = metav1.Time{}
				nc.Status.Conditions = []metav1.Condition{{Type: launched}, {Type: registered}, {Type: initialized}}
				ForNodeClaim(nc).Init(first)
			},
			want: []line{
				{Type: initialized},
				{Type: launched},
				{Type: registered},
				{ready, "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation", first, 1},
			},
		},
		"the root waits for the dependents that are not judged": {
			do: func(nc *karpenterv1.NodeClaim) { ForNodeClaim(nc).SetTrue(launched, first) },
			want: []line{
				waiting(initialized), waiting(registered),
				{launched, "True", launched, "", first, 1},
				{ready, "Unknown", "ReconcilingDependents", "Registered=Unknown, Initialized=Unknown", born, 1},
			},
		},
		"the root is True when every dependent is": {
			do: allTrue,
			want: []line{
				{initialized, "True", initialized, "", first, 1},
				{launched, "True", launched, "", first, 1},
				{registered, "True", registered, "", first, 1},
				{ready, "True", ready, "", first, 1},
			},
		},
		"one False dependent makes the root False, and Unknown ones beside it do not soften that": {
			do: func(nc *karpenterv1.NodeClaim) {
				ForNodeClaim(nc).SetFalse(registered, "MultipleNodesFound", "two", first)
			},
			want: []line{
				waiting(initialized), waiting(launched),
				{registered, "False", "MultipleNodesFound", "two", first, 1},
				{ready, "False", "UnhealthyDependents", "Launched=Unknown, Registered=False, Initialized=Unknown", first, 1},
			},
		},
		"a judgement of an older generation does not count": {
			do: func(nc *karpenterv1.NodeClaim) {
				allTrue(nc)
				nc.Generation = 2
				ForNodeClaim(nc).SetTrue(launched, later)
			},
			want: []line{
				{initialized, "True", initialized, "", first, 1},
				{launched, "True", launched, "", first, 2},
				{registered, "True", registered, "", first, 1},
				{ready, "Unknown", "ReconcilingDependents", "Registered=Unknown, Initialized=Unknown", later, 2},
			},
		},
		"a deleting object takes every judgement as current": {
			do: func(nc *karpenterv1.NodeClaim) {
				allTrue(nc)
				nc.Generation, nc.DeletionTimestamp = 2, &metav1.Time{Time: later}
				ForNodeClaim(nc).SetUnknown(drained, "Draining", "", later)
			},
			want: []line{
				{initialized, "True", initialized, "", first, 2},
				{launched, "True", launched, "", first, 2},
				{registered, "True", registered, "", first, 2},
				{drained, "Unknown", "Draining", "", later, 2},
				{ready, "True", ready, "", first, 2},
			},
		},
		"a new reason alone keeps the transition time": {
			do: func(nc *karpenterv1.NodeClaim) {
				allTrue(nc)
				ForNodeClaim(nc).SetUnknown(drained, "Draining", "3 pods", first)
				ForNodeClaim(nc).SetUnknown(drained, "Draining", "2 pods", later)
			},
			want: []line{
				{drained, "Unknown", "Draining", "2 pods", first, 1},
				{initialized, "True", initialized, "", first, 1},
				{launched, "True", launched, "", first, 1},
				{registered, "True", registered, "", first, 1},
				{ready, "True", ready, "", first, 1},
			},
		},
		"the root cannot be set": {
			do: func(nc *karpenterv1.NodeClaim) {
				allTrue(nc)
				ForNodeClaim(nc).SetFalse(ready, "Because", "I say so", later)
			},
			want: []line{
				{initialized, "True", initialized, "", first, 1},
				{launched, "True", launched, "", first, 1},
				{registered, "True", registered, "", first, 1},
				{ready, "True", ready, "", first, 1},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := newClaim()
			tt.do(nc)
			if diff := cmp.Diff(tt.want, lines(nc)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetReportsWhetherAnythingChanged(t *testing.T) {
	t.Parallel()
	nc := newClaim()
	set := ForNodeClaim(nc)
	steps := []struct {
		name string
		do   func() bool
		want bool
	}{
		{"the first Init writes", func() bool { return set.Init(first) }, true},
		{"the second Init does not", func() bool { return set.Init(later) }, false},
		{"a first judgement writes", func() bool { return set.SetTrue(launched, first) }, true},
		{"the same judgement later does not", func() bool { return set.SetTrue(launched, later) }, false},
		{"another message writes", func() bool { return set.SetFalse(launched, "LaunchFailed", "a", later) }, true},
		{"a condition of its own writes", func() bool { return set.SetTrue(drained, later) }, true},
		{"clearing it writes", func() bool { return set.Clear(drained) }, true},
		{"clearing it again does not", func() bool { return set.Clear(drained) }, false},
		{"a dependent cannot be cleared", func() bool { return set.Clear(launched) }, false},
		{"the root cannot be cleared", func() bool { return set.Clear(ready) }, false},
		{"a new generation writes", func() bool { nc.Generation++; return set.SetFalse(launched, "LaunchFailed", "a", later) }, true},
	}
	for _, step := range steps {
		if got := step.do(); got != step.want {
			t.Errorf("%s: changed = %v, want %v", step.name, got, step.want)
		}
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Generation: 3, CreationTimestamp: metav1.NewTime(born)}}
	set := ForNodePool(np)
	for _, dependent := range []string{ready, karpenterv1.ConditionTypeValidationSucceeded, karpenterv1.ConditionTypeNodeClassReady} {
		if c := set.Get(dependent); c.Status != metav1.ConditionUnknown || c.Reason != ReasonAwaiting || !c.LastTransitionTime.Time.Equal(born) {
			t.Errorf("Get(%s) = %v, want Unknown since %v, awaiting reconciliation", dependent, c, born)
		}
	}
	if c := set.Get(karpenterv1.ConditionTypeNodeRegistrationHealthy); c.Status != "" {
		t.Errorf("Get of an absent condition has status %q, want none", c.Status)
	}
	if len(np.Status.Conditions) != 0 {
		t.Errorf("Get wrote %v", np.Status.Conditions)
	}
	set.SetTrue(karpenterv1.ConditionTypeValidationSucceeded, first)
	if set.IsTrue(karpenterv1.ConditionTypeValidationSucceeded, karpenterv1.ConditionTypeNodeClassReady) {
		t.Error("IsTrue of a True and an Unknown condition is true, want false")
	}
	set.SetTrue(karpenterv1.ConditionTypeNodeClassReady, first)
	if !set.IsTrue(ready, karpenterv1.ConditionTypeValidationSucceeded, karpenterv1.ConditionTypeNodeClassReady) {
		t.Errorf("not every condition is True: %v", np.Status.Conditions)
	}
}
