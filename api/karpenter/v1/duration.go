package v1

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// durationMax stands for every duration that is longer. It is in whole hours, so that what is
// written of it is what the API server takes.
const durationMax = 2562047 * time.Hour

// span is what the definitions take for a duration: any number of digits.
var span = regexp.MustCompile(`^([0-9]+(s|m|h))+$`)

// parse reads a duration. One that does not fit is the longest: an object that cannot be read
// would keep all others of its kind from being read.
func parse(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil && span.MatchString(text) {
		return durationMax, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read duration: %w", err)
	}
	return d, nil
}

// Duration is a duration in Go's form.
//
// +kubebuilder:validation:Type=string
type Duration struct {
	time.Duration
}

// UnmarshalJSON reads a Go duration.
func (d *Duration) UnmarshalJSON(b []byte) (err error) {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	d.Duration, err = parse(text)
	return err
}

// MarshalJSON writes the duration in Go's form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

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
	v, err := parse(*text)
	if err != nil {
		return err
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
	if v, err := parse(d.Raw); err == nil && v == *d.Duration {
		return d.Raw
	}
	return d.Duration.String()
}
