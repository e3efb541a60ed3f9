package candidacy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// herd is a cloud that is asked about many instances at once, three at most.
type herd struct {
	seer
	says  map[string]string // by instance; one that is not in it is not known
	fails error
	calls [][]string
}

func (*herd) DriftBatch(cloud.ClassRef) int { return 3 }

func (h *herd) DriftedOf(_ context.Context, _ cloud.ClassRef, ids []string) (map[string]cloud.Drift, error) {
	h.calls = append(h.calls, ids)
	all := map[string]cloud.Drift{}
	for _, id := range ids {
		if reason, known := h.says[id]; known {
			all[id] = cloud.Drift{Reason: reason}
		}
	}
	return all, h.fails
}

var herdClass = &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"}

// newHerd has seven claims of a class, one of them not launched, and one of another class.
func newHerd(t *testing.T, h *herd) (*Controller, *time.Time) {
	t.Helper()
	var objects []client.Object
	for n := range 9 {
		claim := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", n)}, Spec: karpenterv1.NodeClaimSpec{NodeClassRef: herdClass}}
		claim.Status.ProviderID = fmt.Sprint("i", n)
		if n == 7 {
			claim.Status.ProviderID = ""
		}
		if n == 8 {
			claim.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "other"}
		}
		objects = append(objects, claim)
	}
	now := noon
	c := &Controller{Client: fakeapi.New(t, objects...).Build(), Cloud: h, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	c.controller()
	return c, &now
}

var herdRef = cloud.ClassRef{Group: "g.test", Kind: "Class", Name: "default"}

// TestDriftIsAskedInBatches: of seven instances none is asked about twice within a minute, and no call has more than the
// cloud wants; each gets its own answer.
func TestDriftIsAskedInBatches(t *testing.T) {
	t.Parallel()
	h := &herd{says: map[string]string{}}
	for n := range 7 {
		h.says[fmt.Sprint("i", n)] = fmt.Sprint("Reason", n)
	}
	c, now := newHerd(t, h)
	round := func() {
		for n := range 7 {
			if reason, err := c.providerDrift(t.Context(), herdRef, fmt.Sprint("i", n)); err != nil || reason != fmt.Sprint("Reason", n) {
				t.Errorf("i%d: %q, %v", n, reason, err)
			}
		}
	}
	round()
	round()
	var asked []string
	for _, ids := range h.calls {
		if asked = append(asked, ids...); len(ids) > 3 {
			t.Errorf("one call is about %q, want three at most", ids)
		}
	}
	slices.Sort(asked)
	if diff := cmp.Diff([]string{"i0", "i1", "i2", "i3", "i4", "i5", "i6"}, asked); diff != "" || len(h.calls) != 3 {
		t.Errorf("%d calls, want 3; instances (-want +asked):\n%s", len(h.calls), diff)
	}
	*now = now.Add(driftKept)
	if round(); len(h.calls) != 6 {
		t.Errorf("%d calls after a minute, want 6", len(h.calls))
	}
	class := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}} // by its name only
	c.claimsOfClass(h.ClassKinds()[0])(t.Context(), class)
	if round(); len(h.calls) != 9 {
		t.Errorf("%d calls after a change of the class, want 9", len(h.calls))
	}
}

// TestWhatIsNotKnownIsNoDriftAndNoEndOfIt: an instance that is not in the answer, or a call that fails, is an error, so that
// the claim keeps its condition. It is asked about again after some seconds.
func TestWhatIsNotKnownIsNoDriftAndNoEndOfIt(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*herd{
		"an empty answer":   {},
		"a call that fails": {says: map[string]string{"i0": ""}, fails: errors.New("out of order")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, now := newHerd(t, h)
			for range 2 {
				if reason, err := c.providerDrift(t.Context(), herdRef, "i0"); err == nil {
					t.Errorf("drifted %q, want an error", reason)
				}
			}
			if len(h.calls) != 1 {
				t.Errorf("%d calls, want one", len(h.calls))
			}
			h.says, h.fails = map[string]string{"i0": "ImageDrifted"}, nil
			*now = now.Add(unknownKept)
			if reason, err := c.providerDrift(t.Context(), herdRef, "i0"); reason != "ImageDrifted" || err != nil {
				t.Errorf("later: %q, %v", reason, err)
			}
		})
	}
}
