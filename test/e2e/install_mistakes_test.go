package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestInstallMistakes makes the mistakes that people make. Each is one clear line: of helm or of dovetail
// doctor before anything runs, and of the log after.
func TestInstallMistakes(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	_, env := account(t, cluster, c, awssim.Credentials{})
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.publish()
	s.addHosts()
	s.env = append(s.env, env...)
	doctor := func(flags string, wants ...string) {
		t.Helper()
		out, err := s.try("dovetail doctor " + flags)
		if err == nil {
			t.Errorf("dovetail doctor %s finds nothing:\n%s", flags, out)
		}
		lines := strings.Split(out, "\n")
		for _, want := range wants {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(strings.Join(strings.Fields(line), " "), want) }) {
				t.Errorf("dovetail doctor %s does not say %q:\n%s", flags, want, out)
			}
		}
	}
	doctor("--cluster-name demo --interruption-queue demo", "definitions FAILED not installed: CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool")
	doctor("--cluster-name demmo", "EKS cluster FAILED", "subnets FAILED no subnets found: none carries tag karpenter.sh/discovery=demmo")
	doctor("--cluster-name demo --node-role Nobody", "role of instances FAILED there is no role Nobody")

	install := "helm upgrade --install karpenter oci://" + publicRegistry + "/karpenter/karpenter --version " + pinned + " --namespace kube-system"
	for name, mistake := range map[string]struct{ flags, says string }{
		"a value that there is not": {"--set settings.clusterName=demo --set settings.spotInterruptionQueue=demo", "there is no value settings.spotInterruptionQueue; did you mean settings.interruptionQueue?"},
		"no cluster":                {"", "settings.clusterName"},
		"a word for a number":       {"--set settings.clusterName=demo --set replicas=two", "replicas"},
	} {
		out, err := s.try(install + " " + mistake.flags)
		if err == nil || !strings.Contains(out, mistake.says) {
			t.Errorf("%s: helm says\n%s\nwant %q", name, out, mistake.says)
		}
	}

	s.run(install + " --set settings.clusterName=demmo")
	r := installed(t, cluster, c, "kube-system")
	s.run("kubectl delete crd nodepools.karpenter.sh")
	p := r.start(env)
	p.awaitLine("the cluster does not know NodePool.karpenter.sh/v1; install the definitions: dovetail crds | kubectl apply")
	s.run("dovetail crds | kubectl apply --server-side --force-conflicts -f -")
	s.apply(seed(t, "class.yaml", "demo"))
	s.apply(seed(t, "M1.yaml", "demo"))
	p.awaitLine("EKS has no cluster demmo in us-east-1: set --cluster-name (settings.clusterName of the chart)")
	p.stop()

	s.run(install + " --set settings.clusterName=demo")
	p = installed(t, cluster, c, "kube-system").start(env)
	s.run(`kubectl patch ec2nodeclass default --type merge -p '{"spec": {"role": "Nobody"}}'`)
	p.awaitLine("InstanceProfileReady (RoleNotFound): IAM has no role Nobody, which spec.role names")
	p.stop()

	holder, now, seconds := "karpenter-1", metav1.NowMicro(), int32(600)
	other := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "karpenter-leader-election"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: &seconds},
	}
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	p = installed(t, cluster, c, "kube-system").start(env)
	p.awaitLine("karpenter-1 holds lease default/karpenter-leader-election")
	testkit.Eventually(t, patience, func() error {
		if leader(t, c) == "" {
			return fmt.Errorf("nobody leads in kube-system")
		}
		return nil
	})
	doctor("--cluster-name demo --interruption-queue demo", "other autoscalers FAILED")
	for _, e := range p.errors() {
		if strings.Contains(e.Message, "right is missing") {
			t.Errorf("%s: %s", e.Message, e.Error)
		}
	}
}

// awaitLine returns when exactly one line of the log has a text.
func (p *process) awaitLine(text string) {
	p.t.Helper()
	var lines []string
	testkit.Eventually(p.t, patience, func() error {
		lines = nil
		for _, line := range p.since(0) {
			if strings.Contains(line, text) {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			return fmt.Errorf("no line of the log has %q:\n%s", text, p)
		}
		return nil
	})
	if len(lines) > 1 {
		p.t.Errorf("%d lines of the log have %q:\n%s", len(lines), text, strings.Join(lines, "\n"))
	}
	p.t.Logf("%s", lines[0])
}
