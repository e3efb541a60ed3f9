package cli

import (
	"strings"
	"testing"
)

// TestVersion: the command and the flag say the same.
func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		var out, wrong strings.Builder
		if status := Main(t.Context(), []string{arg}, &out, &wrong); status != 0 || wrong.Len() > 0 {
			t.Errorf("dovetail %s: status %d, %s", arg, status, wrong.String())
		}
		if text := out.String(); !strings.HasPrefix(text, "dovetail "+version+" (") || !strings.Contains(text, "karpenter.sh/v1,") || !strings.Contains(text, "karpenter.k8s.aws/v1,") {
			t.Errorf("dovetail %s says %q", arg, text)
		}
	}
}
