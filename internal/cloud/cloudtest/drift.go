package cloudtest

import (
	"errors"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

func driftOfMany(t T, h Harness) {
	p, can := h.Provider.(cloud.DriftBatcher)
	if !can || p.DriftBatch(h.Class) < 2 {
		t.Skip("the provider is asked about one instance at a time")
	}
	all := choices(t, h)
	var ids []string
	for n := range 2 {
		ids = append(ids, launch(t, h.Provider, request(t, h.Class, n, all)).ID)
	}
	none := ids[0] + "x"
	answers, err := p.DriftedOf(t.Context(), h.Class, []string{ids[1], none, ids[0]})
	if err != nil {
		t.Fatalf("DriftedOf(%s, %s, %s): %v", ids[1], none, ids[0], err)
	}
	for _, id := range append(ids, none) {
		answer, known := answers[id]
		if !known {
			t.Errorf("the answer does not have %s", id)
			continue
		}
		reason, err := p.Drifted(t.Context(), h.Class, id)
		if reason != answer.Reason || (err == nil) != (answer.Err == nil) {
			t.Errorf("%s is %q (%v) among many, and %q (%v) alone", id, answer.Reason, answer.Err, reason, err)
		}
	}
	if !errors.Is(answers[none].Err, cloud.ErrNotFound) {
		t.Errorf("%s, which does not exist: %+v, want ErrNotFound", none, answers[none])
	}
	if len(answers) > len(ids)+1 {
		t.Errorf("the answer has %d instances, of which nobody asked about some: %v", len(answers), answers)
	}
}
