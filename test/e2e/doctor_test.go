package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestDoctor asks before the definitions are installed, and after.
func TestDoctor(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	_, env := account(t, cluster, c, awssim.Credentials{})
	ask := func(status int, wants ...string) {
		t.Helper()
		p := startIn(t, env, "doctor", "--kubeconfig", cluster.Kubeconfig, "--cluster-name", "demo", "--interruption-queue", "demo")
		if got := p.awaitEnd(); got != status {
			t.Errorf("exit status %d, want %d", got, status)
		}
		t.Log(p)
		for _, want := range wants {
			if !slices.ContainsFunc(p.stdout, func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
				t.Errorf("it does not say %q", want)
			}
		}
	}
	const all = "CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool"
	ask(1, "definitions FAILED not installed: "+all, "-> dovetail crds | kubectl apply --server-side --force-conflicts -f -", "Of 15 checks 1 failed, 1 warned, 0 were skipped.")
	installDefinitions(t, c)
	if err := c.Create(t.Context(), awsClass()); err != nil {
		t.Fatal(err)
	}
	ask(0, "definitions ok "+all, "EC2NodeClass default warning nobody has judged it yet", "other autoscalers ok nobody holds a lease karpenter-leader-election")
}
