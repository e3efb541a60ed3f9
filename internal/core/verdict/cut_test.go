package verdict_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 5, ""}, {"short", 5, "short"}, {"longer", 5, "lo..."}, {"größer", 7, "grö..."}, {"größer", 6, "gr..."}, {"größe", 7, "größe"},
	} {
		if got := verdict.Cut(c.text, c.most); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
