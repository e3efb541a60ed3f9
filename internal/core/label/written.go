package label

import (
	"encoding/json"
	"fmt"
	"math"
)

// written is a requirement as it stands in a file. One of In and NotIn is there.
type written struct {
	In        []string `json:"in,omitzero"`
	NotIn     []string `json:"notIn,omitzero"`
	Gte       *int64   `json:"gte,omitempty"`
	Lte       *int64   `json:"lte,omitempty"`
	Demanded  bool     `json:"demanded,omitempty"`
	MinValues int      `json:"minValues,omitempty"`
}

// MarshalJSON writes the requirement whole, so that UnmarshalJSON returns an equal one.
func (r Requirement) MarshalJSON() ([]byte, error) {
	w := written{Demanded: r.demanded, MinValues: r.MinValues}
	values := r.values
	if values == nil {
		values = []string{}
	}
	if !r.complement {
		w.In = values
		return json.Marshal(w)
	}
	w.NotIn = values
	if r.lower != math.MinInt64 {
		w.Gte = &r.lower
	}
	if r.upper != math.MaxInt64 {
		w.Lte = &r.upper
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Requirement) UnmarshalJSON(text []byte) error {
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if (w.In == nil) == (w.NotIn == nil) {
		return fmt.Errorf("requirement %s: want either in or notIn", text)
	}
	*r = In(w.In...)
	if w.NotIn != nil {
		*r = NotIn(w.NotIn...)
	}
	r.demanded, r.MinValues = w.Demanded, w.MinValues
	if w.Gte != nil {
		r.lower = *w.Gte
	}
	if w.Lte != nil {
		r.upper = *w.Lte
	}
	return nil
}
