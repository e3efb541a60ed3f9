package verdict_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// TestEveryNoHasAnEnd goes through the constants of the package.
func TestEveryNoHasAnEnd(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("verdict.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Reason\s+= "(\w+)"`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 30 {
		t.Fatalf("only %d reasons found", len(found))
	}
	for _, m := range found {
		if end := verdict.Reason(m[1]).Ends(); end == "" || strings.HasPrefix(end, "when ") {
			t.Errorf("%s ends %q", m[1], end)
		}
	}
	t.Logf("%d reasons have an end", len(found))
	if end := verdict.OK.Ends(); end != "" {
		t.Errorf("yes ends %q", end)
	}
}
