package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/spf13/cobra"
)

// TestAnInterruptEndsAComputation checks that a command does not wait for a computation, which
// knows nothing of contexts, once the user has interrupted it.
func TestAnInterruptEndsAComputation(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetErr(&bytes.Buffer{})
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	_, err := compute(cmd, "deciding about 2 pods", func() (int, error) {
		interrupt()
		<-forever
		return 0, nil
	})
	if err == nil || err.Error() != "interrupted while deciding about 2 pods" {
		t.Errorf("error %v", err)
	}
}
