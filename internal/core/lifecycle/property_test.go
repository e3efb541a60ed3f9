package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

var epoch = time.Unix(1_000_000, 0).UTC()

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// drawDrain draws a drain of up to eight pods, seconds after it began.
func drawDrain(t *rapid.T) lifecycle.DrainView {
	at := rapid.IntRange(0, 300).Draw(t, "at")
	v := lifecycle.DrainView{
		At:   epoch.Add(seconds(at)),
		Node: lifecycle.DrainNode{Name: "n1", Instance: "i-1", Ready: true, IsTainted: true, DeletedAt: epoch},
	}
	if rapid.Bool().Draw(t, "has claim") {
		v.Claim = &lifecycle.DrainClaim{IsDeleting: true}
		if rapid.Bool().Draw(t, "has deadline") {
			v.Claim.Deadline = epoch.Add(seconds(rapid.IntRange(0, 300).Draw(t, "deadline")))
		}
		if rapid.Bool().Draw(t, "began") {
			v.Claim.Drained = lifecycle.Condition{Status: lifecycle.Unknown, Since: epoch}
		}
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		p := lifecycle.DrainPod{
			PodRef:   cluster.PodRef{Namespace: "ns", Name: fmt.Sprintf("p%d", i)},
			IsDaemon: rapid.Bool().Draw(t, "daemon"), IsCritical: rapid.Bool().Draw(t, "critical"), IsHeld: rapid.Bool().Draw(t, "held"),
			Grace: seconds(rapid.IntRange(0, 120).Draw(t, "grace")),
		}
		if rapid.Bool().Draw(t, "deleted") {
			p.DeletedAt = epoch.Add(seconds(rapid.IntRange(0, 400).Draw(t, "ends")))
		}
		v.Pods = append(v.Pods, p)
	}
	return v
}

func tierOf(p lifecycle.DrainPod) int {
	switch {
	case p.IsCritical && p.IsDaemon:
		return 3
	case p.IsCritical:
		return 2
	case p.IsDaemon:
		return 1
	default:
		return 0
	}
}

// TestDrainAsksOnlyWhomItMay holds every possible look to what pods are promised.
func TestDrainAsksOnlyWhomItMay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := drawDrain(t)
		var deadline time.Time
		if v.Claim != nil {
			deadline = v.Claim.Deadline
		}
		step := lifecycle.Drain(v)
		asked := map[string]lifecycle.Eviction{}
		for _, e := range step.Evict {
			asked[e.Pod.Name] = e
		}
		for _, p := range v.Pods {
			e, isAsked := asked[p.Name]
			reported := !p.DeletedAt.IsZero()
			late := !deadline.IsZero() && v.At.Add(p.Grace).After(deadline)
			switch {
			case e.Force && deadline.IsZero():
				t.Fatalf("%s is forced without a deadline", p.Name)
			case e.Force && !reported && !late:
				t.Fatalf("%s is forced though it has %s before the deadline", p.Name, deadline.Sub(v.At)-p.Grace)
			case e.Force && reported && !p.DeletedAt.After(deadline):
				t.Fatalf("%s is forced though it ends in time", p.Name)
			case isAsked && !e.Force && (p.IsHeld || reported):
				t.Fatalf("%s is evicted (do-not-disrupt %v, deleted %v)", p.Name, p.IsHeld, reported)
			case !isAsked && !reported && !deadline.IsZero() && v.At.After(deadline):
				t.Fatalf("%s outlives the deadline", p.Name)
			}
			for _, other := range v.Pods {
				o := asked[other.Name]
				if isAsked && !e.Force && !o.Force && tierOf(other) < tierOf(p) {
					t.Fatalf("%s is evicted while %s of an earlier tier is there", p.Name, other.Name)
				}
			}
		}
		mustProgress(t, step, v.At)
	})
}

// mustProgress demands that a step does something, or waits for something that it says,
// until a time that comes.
func mustProgress(t *rapid.T, step lifecycle.Step, at time.Time) {
	if step.Act != lifecycle.Wait {
		return
	}
	if step.Why == "" || !step.Until.After(at) {
		t.Fatalf("waits for nothing, or for a time that is over: %s (until %s)", step, step.Until)
	}
}

// TestDrainEndsSoonAfterItsDeadline plays whole drains with pods that nothing moves.
func TestDrainEndsSoonAfterItsDeadline(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := drawDrain(t)
		v.At = epoch
		deadline := epoch.Add(seconds(rapid.IntRange(0, 300).Draw(t, "end")))
		v.Claim = &lifecycle.DrainClaim{IsDeleting: true, Deadline: deadline}
		for i := range v.Pods {
			v.Pods[i].DeletedAt = time.Time{}
		}
		for !v.At.After(deadline.Add(seconds(20))) {
			step := lifecycle.Drain(v)
			for _, note := range step.Notes {
				if note.Type == lifecycle.Drained && v.Claim.Drained.Status != note.Status {
					v.Claim.Drained = lifecycle.Condition{Status: note.Status, Since: v.At}
				}
			}
			for _, e := range step.Evict {
				if !e.Force {
					continue // a budget says no, always
				}
				i := slices.IndexFunc(v.Pods, func(p lifecycle.DrainPod) bool { return p.PodRef == e.Pod })
				v.Pods[i].DeletedAt = v.At.Add(max(time.Second, deadline.Sub(v.At)))
			}
			switch step.Act {
			case lifecycle.Terminate:
				return // all pods have left
			case lifecycle.Wait:
				mustProgress(t, step, v.At)
				v.At = step.Until
			default:
				t.Fatalf("unexpected %s", step)
			}
			v.Pods = slices.DeleteFunc(v.Pods, func(p lifecycle.DrainPod) bool { return !p.DeletedAt.IsZero() && !v.At.Before(p.DeletedAt) })
		}
		t.Fatalf("20s after the deadline pods are left: %v", v.Pods)
	})
}
