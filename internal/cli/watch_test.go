package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// TestWatchShowsWhatHasChanged asks five times, of which the third answer is another one, and ends with the
// context, or with the first error.
func TestWatchShowsWhatHasChanged(t *testing.T) {
	t.Parallel()
	for output, between := range map[string]string{formTable: "\n\n", formYAML: "\n---\n", formJSON: "}\n{"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
			defer cancel()
			f := &viewFlags{output: output}
			f.address = "http://127.0.0.1:1"
			asked := 0
			var out strings.Builder
			err := f.follow(ctx, &out, func() (any, error) {
				asked++
				return &view.NodeView{Node: view.Node{Name: fmt.Sprintf("node-%d", asked/3)}}, nil
			})
			text := out.String()
			if err != nil || asked != 5 || strings.Count(text, "node-0") != 1 || strings.Count(text, "node-1") != 1 || !strings.Contains(text, between) {
				t.Errorf("-o %s: asked %d times, error %v, shown:\n%s", output, asked, err, text)
			}
		})
	}
	gone := errors.New("gone")
	f := &viewFlags{output: formTable}
	f.address = "http://127.0.0.1:1"
	if err := f.follow(t.Context(), &strings.Builder{}, func() (any, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("without an answer: %v", err)
	}
}
