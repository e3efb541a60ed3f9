package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestInstallOverKarpenter upgrades a release that looks as Karpenter's chart leaves it, with 50 nodes
// that published Karpenter has launched, and rolls it back. The release was installed with Helm 3 and is
// upgraded with Helm 4. Both controllers have the same lease: while one leads the other waits. No node
// and no pod is replaced, neither on the way nor on the way back. make karpenter builds Karpenter.
func TestInstallOverKarpenter(t *testing.T) {
	t.Parallel()
	karpenter := testkit.Binary(t, "karpenter")
	cluster := testkit.StartCluster(t)
	m := &migration{t: t, Client: connect(t, cluster), kubeconfig: cluster.Kubeconfig, karpenter: karpenter}
	three := newShell(t, cluster.Kubeconfig, "helm3")
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.publish()
	s.addHosts()
	installDefinitions(t, m)
	chart, err := filepath.Abs(filepath.Join("testdata", "install", "former"))
	if err != nil {
		t.Fatal(err)
	}
	three.run("helm install karpenter " + chart + " --namespace kube-system --set settings.batchIdleDuration=300ms")
	installPool(t, m, 2)
	theirs := m.leadKarpenter()
	former := leader(t, m)
	m.scale(migratedPods)
	before := m.both()
	if len(before.claims) < migratedPods*4/5 {
		t.Errorf("Karpenter launched %d nodes for %d pods", len(before.claims), migratedPods)
	}

	s.run("helm upgrade karpenter oci://" + publicRegistry + "/karpenter/karpenter --version " + pinned +
		" --namespace kube-system --server-side=true --reset-then-reuse-values --set provider=kwok --wait")
	ours := installed(t, cluster, m, "kube-system").start(nil)
	awaitReady(t, ours, http.StatusOK, "ok")
	if holder := leader(t, m); holder != former {
		t.Errorf("while Karpenter runs, %s holds the lease", holder)
	}
	theirs.stop()
	m.awaitLeader(former)
	m.keptByNext("dovetail took over", before)
	if status := ours.stop(); status != 0 {
		t.Errorf("dovetail ended with status %d:\n%s", status, ours)
	}

	s.run("dovetail untaint --kubeconfig " + cluster.Kubeconfig)
	s.run("helm rollback karpenter 1 --namespace kube-system --server-side=true --force-conflicts --wait")
	m.nothingOfOurs()
	theirs = m.leadKarpenter()
	m.keptByNext("Karpenter took over again", before)
	theirs.stop()
}

// leadKarpenter starts published Karpenter as its own chart has it: with a lease in kube-system.
func (m *migration) leadKarpenter() *process {
	m.t.Helper()
	cmd := exec.Command(m.karpenter)
	cmd.Env = []string{
		"HOME=" + m.t.TempDir(), "KUBECONFIG=" + m.kubeconfig, "KUBERNETES_MIN_VERSION=1.19.0-0", "SYSTEM_NAMESPACE=kube-system", "KARPENTER_SERVICE=karpenter",
		"LEADER_ELECTION_NAMESPACE=kube-system", "METRICS_PORT=" + freePort(m.t), "HEALTH_PROBE_PORT=" + freePort(m.t),
		"FEATURE_GATES=NodeRepair=false", "BATCH_IDLE_DURATION=300ms",
	}
	last := leader(m.t, m)
	p := follow(m.t, cmd)
	m.awaitLeader(last)
	return p
}

// awaitLeader returns when somebody else leads than the last one.
func (m *migration) awaitLeader(last string) {
	m.t.Helper()
	testkit.Eventually(m.t, patience, func() error {
		if holder := leader(m.t, m); holder == "" || holder == last {
			return fmt.Errorf("the lease is %q's", holder)
		}
		return nil
	})
}

// leader returns who holds the lease of kube-system that all controllers of this API have; empty: nobody.
func leader(t testing.TB, c client.Client) string {
	t.Helper()
	var lease coordinationv1.Lease
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "karpenter-leader-election"}, &lease)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if holder := lease.Spec.HolderIdentity; err == nil && holder != nil {
		return *holder
	}
	return ""
}

// roster is the NodeClaims and pods of a cluster.
type roster struct{ claims, pods map[types.UID]string }

func (m *migration) both() roster {
	m.t.Helper()
	r := roster{claims: m.claims(), pods: map[types.UID]string{}}
	p := m.observe()
	for i := range p.pods {
		r.pods[p.pods[i].UID] = p.pods[i].Spec.NodeName
	}
	return r
}

// keptByNext has whoever leads add nodes and remove them again, so that it has looked at all of them, and
// then wants the NodeClaims and pods of before, the pods on the nodes where they were.
func (m *migration) keptByNext(what string, before roster) {
	m.t.Helper()
	m.extra(2)
	m.extra(0)
	m.awaitNoEmptyNode()
	m.keptAll(before.claims, what)
	after := m.both()
	for uid, name := range before.claims {
		if after.claims[uid] == "" {
			m.t.Errorf("%s: NodeClaim %s is gone", what, name)
		}
	}
	for uid, node := range before.pods {
		if after.pods[uid] != node {
			m.t.Errorf("%s: a pod of node %s is on %q", what, node, after.pods[uid])
		}
	}
}

// extra returns when so many pods of another Deployment run, each of which needs a node of its own.
func (m *migration) extra(pods int) {
	m.t.Helper()
	for _, o := range exampleObjects(m.t) {
		if o.GetKind() != "Deployment" {
			continue
		}
		o.SetName("extra")
		set(m.t, o, int64(pods), "spec", "replicas")
		set(m.t, o, map[string]any{"app": "extra"}, "spec", "selector", "matchLabels")
		set(m.t, o, map[string]any{"app": "extra"}, "spec", "template", "metadata", "labels")
		if err := demo.Apply(m.t.Context(), m, o); err != nil {
			m.t.Fatal(err)
		}
	}
	awaitRunning(m.t, m, migratedPods+pods)
}
