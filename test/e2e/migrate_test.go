package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// migratedPods is how many pods there are at the switch, each on a node of its own.
const migratedPods = 50

// TestMigration goes from published Karpenter to dovetail and back, on a cluster of 50 nodes that
// Karpenter launched: neither way is a node replaced, and in between dovetail lives with these nodes
// as with its own. make karpenter builds that.
func TestMigration(t *testing.T) {
	t.Parallel()
	karpenter := testkit.Binary(t, "karpenter")
	cluster := testkit.StartCluster(t)
	m := &migration{t: t, Client: connect(t, cluster), kubeconfig: cluster.Kubeconfig, karpenter: karpenter}
	installDefinitions(t, m)
	installPool(t, m, 2)
	process := m.startKarpenter()
	m.scale(migratedPods)
	process.stop()
	there := m.claims()
	if len(there) < migratedPods*4/5 {
		t.Errorf("Karpenter launched %d nodes for %d pods", len(there), migratedPods)
	}

	process = controller(t, cluster.Kubeconfig, "--cloud-provider", "kwok", "--batch-idle-duration", "300ms")
	m.scale(migratedPods + 5)
	m.scale(migratedPods) // the empty ones go
	m.awaitNoEmptyNode()
	m.keptAll(there, "dovetail took over")
	m.scale(migratedPods / 2)
	m.awaitNoEmptyNode()
	m.scale(migratedPods)
	m.replaceAll()
	if status := process.stop(); status != 0 {
		t.Errorf("dovetail ended with status %d:\n%s", status, process)
	}
	if p := start(t, "untaint", "--kubeconfig", cluster.Kubeconfig); p.awaitEnd() != 0 {
		t.Errorf("dovetail untaint failed:\n%s", p)
	}
	m.nothingOfOurs()

	there = m.claims()
	process = m.startKarpenter()
	m.scale(migratedPods + 2)
	m.scale(migratedPods)
	m.awaitNoEmptyNode()
	m.keptAll(there, "Karpenter took over again")
	process.stop()
	for _, line := range process.errorLines() {
		if strings.Contains(line, "panic") {
			t.Errorf("Karpenter: %s", line)
		}
	}
}

// migration is a cluster that changes hands.
type migration struct {
	client.Client
	t                     *testing.T
	kubeconfig, karpenter string
}

func (m *migration) startKarpenter() *process {
	m.t.Helper()
	return startKarpenter(m.t, m.karpenter, m.kubeconfig, "BATCH_IDLE_DURATION=300ms")
}

// startKarpenter starts published Karpenter with its kwok provider, and with settings as "NAME=value".
func startKarpenter(t testing.TB, karpenter, kubeconfig string, settings ...string) *process {
	t.Helper()
	cmd := exec.Command(karpenter)
	cmd.Env = append([]string{
		"HOME=" + t.TempDir(), "KUBECONFIG=" + kubeconfig, "KUBERNETES_MIN_VERSION=1.19.0-0", "SYSTEM_NAMESPACE=kube-system", "KARPENTER_SERVICE=karpenter",
		"DISABLE_LEADER_ELECTION=true", "METRICS_PORT=" + freePort(t), "HEALTH_PROBE_PORT=" + freePort(t), "FEATURE_GATES=NodeRepair=false",
	}, settings...)
	return follow(t, cmd)
}

// freePort returns a port that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it is only asked for its port
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// scale returns when so many pods run. On a busy computer published Karpenter takes minutes for 50 nodes.
func (m *migration) scale(pods int) {
	m.t.Helper()
	deploy(m.t, m, pods)
	awaitRunningWithin(m.t, 4*patience, m, pods)
}

func (m *migration) claims() map[types.UID]string {
	m.t.Helper()
	p := m.observe()
	out := map[types.UID]string{}
	for i := range p.claims {
		out[p.claims[i].UID] = p.claims[i].Name
	}
	return out
}

func (m *migration) observe() *picture {
	m.t.Helper()
	p, err := observe(m.t.Context(), m)
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// awaitNoEmptyNode returns when each node has a pod, and so whoever rules has looked at all of them.
func (m *migration) awaitNoEmptyNode() {
	m.t.Helper()
	testkit.Eventually(m.t, 2*patience, func() error {
		p := m.observe()
		used := map[string]bool{}
		for i := range p.pods {
			used[p.pods[i].Spec.NodeName] = true
		}
		launched := 0 // a release's own hosts are of no NodePool
		for i := range p.nodes {
			if p.nodes[i].Labels[karpenterv1.NodePoolLabelKey] != "" {
				launched++
			}
		}
		if len(p.claims) != len(used) || launched != len(used) {
			return fmt.Errorf("%d NodeClaims and %d nodes for %d used nodes", len(p.claims), launched, len(used))
		}
		return nil
	})
}

// keptAll wants every NodeClaim that has a pod to be one of those, and none to be drifted. Pods that
// scaling down has removed may have left some of them empty.
func (m *migration) keptAll(before map[types.UID]string, what string) {
	m.t.Helper()
	p := m.observe()
	fresh := 0
	for i := range p.claims {
		nc := &p.claims[i]
		if meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeDrifted) {
			m.t.Errorf("%s: NodeClaim %s is drifted", what, nc.Name)
		}
		if before[nc.UID] == "" {
			fresh++
		}
	}
	// Of those that came to be when the pods were more, some may have stayed in place of old ones.
	if fresh > 5 {
		m.t.Errorf("%s: %d of %d NodeClaims are new", what, fresh, len(p.claims))
	}
}

// replaceAll has all nodes differ from their NodePool, and returns when all have been replaced. A node that is launched just
// before the controller sees the change is not one of those that there were, and is replaced, too.
func (m *migration) replaceAll() {
	m.t.Helper()
	before := m.claims()
	drift(m.t, m)
	testkit.Eventually(m.t, 3*patience, func() error {
		p := m.observe()
		old := 0
		for i := range p.claims {
			nc := &p.claims[i]
			isDrifted := meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeDrifted)
			if before[nc.UID] != "" || isDrifted || nc.Annotations[translate.StepAnnotationKey] != "" {
				old++
			}
		}
		if old > 0 || p.running() != migratedPods {
			return fmt.Errorf("%d nodes are still to be replaced, %d pods run", old, p.running())
		}
		return nil
	})
	m.awaitNoEmptyNode()
}

// nothingOfOurs wants no taint, label or finalizer of ours on what Karpenter takes over, and no
// annotation but those that nothing else reads: which nodes a node was launched for, and by which decision.
func (m *migration) nothingOfOurs() {
	m.t.Helper()
	const ours = "dovetail.sh/"
	p := m.observe()
	left := map[string]int{}
	note := func(kind, key string) {
		if strings.Contains(key, ours) {
			left[kind+" "+key]++
		}
	}
	each := func(kind string, o client.Object) {
		for key := range o.GetAnnotations() {
			if key != ours+"replaces" && key != ours+"decision" {
				note(kind+" annotation", key)
			}
		}
		for key := range o.GetLabels() {
			note(kind+" label", key)
		}
		for _, key := range o.GetFinalizers() {
			note(kind+" finalizer", key)
		}
	}
	for i := range p.nodes {
		each("Node", &p.nodes[i])
		for _, taint := range p.nodes[i].Spec.Taints {
			note("Node taint", taint.Key)
		}
	}
	for i := range p.claims {
		each("NodeClaim", &p.claims[i])
	}
	if len(left) > 0 {
		m.t.Errorf("left behind: %v", left)
	}
}
