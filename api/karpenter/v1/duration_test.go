package v1

import (
	"encoding/json"
	"testing"
	"time"
)

func TestNillableDurationIsWrittenAsItWasRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in, out string
		want    time.Duration
		never   bool
	}{
		"minutes keep their unit":        {in: `"10m"`, out: `"10m"`, want: 10 * time.Minute},
		"zero":                           {in: `"0s"`, out: `"0s"`},
		"an unusual spelling":            {in: `"90m30s"`, out: `"90m30s"`, want: 90*time.Minute + 30*time.Second},
		"Never is no duration":           {in: `"Never"`, out: `"Never"`, never: true},
		"null is Never":                  {in: `null`, out: `"Never"`, never: true},
		"longer than it can be":          {in: `"99999999999999h"`, out: `"99999999999999h"`, want: 2562047 * time.Hour},
		"one hour longer than it can be": {in: `"2562048h"`, out: `"2562048h"`, want: 2562047 * time.Hour},
		"a month in hours stays in them": {in: `"720h"`, out: `"720h"`, want: 720 * time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d NillableDuration
			if err := json.Unmarshal([]byte(tt.in), &d); err != nil {
				t.Fatal(err)
			}
			if never := d.Duration == nil; never != tt.never || (!never && *d.Duration != tt.want) {
				t.Errorf("%s reads as %v, want %v, never %v", tt.in, d, tt.want, tt.never)
			}
			if out, err := json.Marshal(d); err != nil || string(out) != tt.out {
				t.Errorf("%s is written as %s, %v, want %s", tt.in, out, err, tt.out)
			}
		})
	}
}

func TestNillableDurationThatWasChanged(t *testing.T) {
	t.Parallel()
	d := NillableDuration{Raw: "10m"}
	if got := d.String(); got != "Never" {
		t.Errorf("without a duration it prints %q, want Never", got)
	}
	hour := time.Hour
	d.Duration = &hour
	if got := d.String(); got != "1h0m0s" {
		t.Errorf("with another duration than the text it prints %q, want 1h0m0s", got)
	}
	for _, bad := range []string{`"soon"`, `"never"`, `10`, `{}`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s was read as %v, want an error", bad, d)
		}
	}
}

// TestDurationIsReadWhateverItsLength checks that nothing that the definitions take keeps objects
// from being read, and that what is written is taken again.
func TestDurationIsReadWhateverItsLength(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"1h"`: `"1h0m0s"`, `"90m30s"`: `"1h30m30s"`, `"0s"`: `"0s"`, `"99999999999999999999999h"`: `"2562047h0m0s"`, `"2562047h59m"`: `"2562047h0m0s"`, `"9h9h9223372036854775807s"`: `"2562047h0m0s"`,
	} {
		var d Duration
		if err := json.Unmarshal([]byte(in), &d); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if out, err := json.Marshal(d); err != nil || string(out) != want || !span.MatchString(d.String()) {
			t.Errorf("%s is written as %s, %v, want %s", in, out, err, want)
		}
	}
	for _, bad := range []string{`"soon"`, `""`, `"Never"`, `10`, `{}`, `"1"`} {
		if err := json.Unmarshal([]byte(bad), &Duration{}); err == nil {
			t.Errorf("%s was read, want an error", bad)
		}
	}
}
