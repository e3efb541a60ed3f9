package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
)

// TestNoAnswerIsAlwaysTheSameText, wherever the time ran out, so that it is logged once.
func TestNoAnswerIsAlwaysTheSameText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no answer":             {&url.Error{Op: "Get", URL: "https://a", Err: context.DeadlineExceeded}, "no answer within 5s"},
		"half of an answer":     {fmt.Errorf("read the body: %w", context.DeadlineExceeded), "no answer within 5s"},
		"nobody is there":       {&url.Error{Op: "Get", URL: "https://a", Err: errors.New("connection refused")}, "connection refused"},
		"an answer that is odd": {errors.New("unknown version"), "unknown version"},
	} {
		if got := plain(c.err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
