package v1

import (
	"encoding/json"
	"fmt"
	"time"
)

// Never is how a NillableDuration without a duration is written.
const Never = "Never"

// NillableDuration is a duration or "Never". The zero value is "Never". A value
// that was read is written back letter for letter ("10m" does not become
// "10m0s"), so that tools that compare manifests see no difference.
type NillableDuration struct {
	// Duration is nil for "Never".
	*time.Duration

	// Raw is the text that was read. It is ignored when it does not mean Duration, and
	// stays empty for "Never", so that "Never" is the zero value and leaves no trace in
	// the NodePool's hash.
	Raw string `json:"-" hash:"ignore"`
}

// UnmarshalJSON reads a Go duration or "Never"; null reads as "Never".
func (d *NillableDuration) UnmarshalJSON(b []byte) error {
	var text *string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	if text == nil || *text == Never {
		*d = NillableDuration{}
		return nil
	}
	v, err := time.ParseDuration(*text)
	if err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	*d = NillableDuration{Duration: &v, Raw: *text}
	return nil
}

// MarshalJSON writes the text that was read, or else the duration in Go's form.
func (d NillableDuration) MarshalJSON() ([]byte, error) {
	return json.Marshal(d.String())
}

// String returns the text that was read, or else the duration in Go's form, or
// "Never".
func (d NillableDuration) String() string {
	if d.Duration == nil {
		return Never
	}
	if v, err := time.ParseDuration(d.Raw); err == nil && v == *d.Duration {
		return d.Raw
	}
	return d.Duration.String()
}
