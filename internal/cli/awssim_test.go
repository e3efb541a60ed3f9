package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAWSSim: the account prints how to reach it, serves until it is stopped, and refuses a
// scenario that it cannot play.
func TestAWSSim(t *testing.T) {
	t.Parallel()
	scenario := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(scenario, []byte("faults: [{kind: short, at: 1m}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	status := make(chan int)
	go func() {
		got := Main(ctx, []string{"awssim", "--address", "127.0.0.1:0", "--scenario", scenario}, w, io.Discard)
		_ = w.Close()
		status <- got
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "export AWS_ENDPOINT_URL=http://127.0.0.1:") {
		t.Errorf("printed %q, %v", line, err)
	}
	stop()
	if got := <-status; got != 0 {
		t.Errorf("stopped with status %d", got)
	}
	if err := os.WriteFile(scenario, []byte("faults: [{kind: flood}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	var done strings.Builder
	if got := Main(t.Context(), []string{"awssim", "--scenario", scenario}, io.Discard, &done); got != 1 || !strings.Contains(done.String(), `"flood"`) {
		t.Errorf("a bad scenario: status %d, %s", got, done.String())
	}
}
