package label_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// TestWrittenAndReadAgain holds that a requirement that was written is read as it was.
func TestWrittenAndReadAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyRequirement(t, "a").WithMinValues(rapid.IntRange(0, 2).Draw(t, "minValues"))
		if rapid.Bool().Draw(t, "met") {
			want = want.Intersect(anyRequirement(t, "b"))
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got label.Requirement
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !got.Equal(want) || got.AllowsAbsence() != want.AllowsAbsence() {
			t.Fatalf("%s was written as %s and read as %s", want, text, got)
		}
	})
}

func TestOnlyARequirementIsRead(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"neither a list nor an exclusion": `{"gte":1}`,
		"both":                            `{"in":["a"],"notIn":["b"]}`,
		"something else":                  `["a"]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r label.Requirement
			if err := json.Unmarshal([]byte(text), &r); err == nil {
				t.Errorf("%s was read as %s", text, r)
			}
		})
	}
}
