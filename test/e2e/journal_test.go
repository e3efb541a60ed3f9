package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestADecisionCanBeForeseenAskedAboutAndRepeated asks simulate about a cluster before the
// controller runs, by a dump and live; lets the controller launch and remove nodes; and
// asks its journal, by HTTP and, after it was killed, on disk.
func TestADecisionCanBeForeseenAskedAboutAndRepeated(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 16)
	const pods = 20
	deploy(t, c, pods)
	for _, o := range exampleObjects(t) {
		if o.GetName() == "nowhere" {
			if err := demo.Apply(t.Context(), c, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	testkit.Eventually(t, patience, func() error {
		now, err := observe(t.Context(), c)
		if err != nil {
			return err
		}
		if n := unschedulable(now.pods); n != pods+1 {
			return fmt.Errorf("kube-scheduler gave %d pods up, want %d", n, pods+1)
		}
		return nil
	})

	dump, redacted, dir := filepath.Join(t.TempDir(), "dump.json"), filepath.Join(t.TempDir(), "redacted.json"), filepath.Join(t.TempDir(), "journal")
	expect(t, 0, "snapshot", "--kubeconfig", cluster.Kubeconfig, "--file", dump)
	expect(t, 0, "snapshot", "--kubeconfig", cluster.Kubeconfig, "--redact", "--file", redacted)
	foreseen := foresee(t, "-f", dump)
	if others := foresee(t, "-f", redacted); !slices.Equal(others, foreseen) {
		t.Errorf("the redacted dump gives %v, the dump %v", others, foreseen)
	}
	if live := foresee(t, "--live", "--kubeconfig", cluster.Kubeconfig); !slices.Equal(live, foreseen) {
		t.Errorf("the live cluster gives %v, its dump %v", live, foreseen)
	}

	p := controller(t, cluster.Kubeconfig, "--journal-dir", dir)
	testkit.Eventually(t, patience, func() error {
		now, err := observe(t.Context(), c)
		if err == nil && now.running() != pods {
			err = fmt.Errorf("%d of %d pods run", now.running(), pods)
		}
		return err
	})
	address := p.address("debug")
	reported := expect(t, 0, "explain", "pod/nowhere", "--address", address)
	if want := "pool general: no instance type has topology.kubernetes.io/zone In [atlantis-1]"; !strings.Contains(reported, want) {
		t.Errorf("explain says\n%s\nwant %s", reported, want)
	}
	expect(t, 0, "replay", "--address", address, "--all")
	wantNamed(t, c, p, address)
	expect(t, 4, "explain", "pod/nobody", "--address", address)
	deploy(t, c, 0)
	testkit.Eventually(t, patience, func() error {
		now, err := observe(t.Context(), c)
		if err == nil && len(now.claims) > 0 {
			err = fmt.Errorf("%d claims are left", len(now.claims))
		}
		return err
	})
	p.kill() // what is on disk must be good after a crash

	file, err := journal.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := launching(t, file)
	if got := decided(d); !slices.Equal(got, foreseen) {
		t.Errorf("the controller decided %v, simulate foresaw %v", got, foreseen)
	}
	if out := expect(t, 0, "replay", dir, "--all"); !strings.Contains(out, "same plan") || strings.Contains(out, "another plan") {
		t.Errorf("replay says\n%s", out)
	}
	claim, pod := d.Claims[0], d.Plan.Launches[0].Pods[0]
	if out := expect(t, 0, "explain", "pod/"+pod.String(), "--journal", dir); !strings.Contains(out, "claim "+claim+" of pool general") {
		t.Errorf("explain %s says\n%s", pod, out)
	}
	if out := expect(t, 0, "explain", "nodeclaim/"+claim, "--journal", dir); !strings.Contains(out, "launched for ") || !strings.Contains(out, "(Empty)") {
		t.Errorf("explain %s says\n%s", claim, out)
	}
}

// wantNamed holds that what a decision does names it: NodeClaims, events and log lines have an ID that replay finds.
func wantNamed(t *testing.T, c client.Client, p *process, address string) {
	t.Helper()
	var claims karpenterv1.NodeClaimList
	if err := c.List(t.Context(), &claims); err != nil || len(claims.Items) == 0 {
		t.Fatalf("%d claims, %v", len(claims.Items), err)
	}
	for i := range claims.Items {
		id := claims.Items[i].Annotations["dovetail.sh/decision"]
		if out := expect(t, 0, "replay", "--address", address, "--id", id); !strings.Contains(out, id) || !strings.Contains(out, "same plan") {
			t.Errorf("replay of decision %q of claim %s says\n%s", id, claims.Items[i].Name, out)
		}
		if !regexp.MustCompile(`created nodeclaim.*` + regexp.QuoteMeta(`"decision":"`+id+`"`)).MatchString(p.String()) {
			t.Errorf("no line of the log says that decision %s created claim %s", id, claims.Items[i].Name)
		}
	}
	testkit.Eventually(t, patience, func() error { // events are written later
		var events corev1.EventList
		if err := c.List(t.Context(), &events); err != nil {
			return err
		}
		for i := range events.Items {
			e := &events.Items[i]
			if id := e.Annotations["dovetail.sh/decision"]; e.Reason == "FailedScheduling" && strings.HasSuffix(e.Message, " (decision "+id+")") && id != "" {
				expect(t, 0, "replay", "--address", address, "--id", id)
				return nil
			}
		}
		return errors.New("no event says why the pod cannot be placed, and by which decision")
	})
}

// TestAStandbySendsWhoAsksToTheLeader runs two replicas and asks both.
func TestAStandbySendsWhoAsksToTheLeader(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 16)
	replicas := []*process{controller(t, cluster.Kubeconfig), controller(t, cluster.Kubeconfig)}
	deploy(t, c, 5)
	testkit.Eventually(t, patience, func() error {
		now, err := observe(t.Context(), c)
		if err == nil && now.running() != 5 {
			err = fmt.Errorf("%d of 5 pods run", now.running())
		}
		return err
	})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]int{}
	for _, p := range replicas {
		asked := start(t, "replay", "--address", p.address("debug"))
		status, out := asked.awaitEnd(), asked.String()
		switch {
		case status == 0 && strings.Contains(out, "provisioning"):
			answers["decisions"]++
		case status == 5 && strings.Contains(out, "on standby and decides nothing; "+host+" leads: kubectl port-forward -n NAMESPACE pod/"+host+" 8082"):
			answers["leader"]++
		default:
			t.Errorf("status %d, it says\n%s", status, out)
		}
	}
	if answers["decisions"] != 1 || answers["leader"] != 1 {
		t.Errorf("of two replicas %d showed decisions and %d named the leader, want one each", answers["decisions"], answers["leader"])
	}
}

// TestANewLeaderExplainsWhatWasDecidedBefore kills the leader of two replicas that share a directory of the journal.
func TestANewLeaderExplainsWhatWasDecidedBefore(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 16)
	dir := filepath.Join(t.TempDir(), "journal")
	replicas := []*process{controller(t, cluster.Kubeconfig, "--journal-dir", dir), controller(t, cluster.Kubeconfig, "--journal-dir", dir)}
	deploy(t, c, 5)
	var pod string
	testkit.Eventually(t, patience, func() error {
		now, err := observe(t.Context(), c)
		if err == nil && now.running() != 5 {
			return fmt.Errorf("%d of 5 pods run", now.running())
		}
		if err == nil {
			pod = "pod/" + now.pods[0].Namespace + "/" + now.pods[0].Name
		}
		return err
	})
	explain := func(p *process) (string, error) {
		asked := start(t, "explain", pod, "--address", p.address("debug"))
		if status := asked.awaitEnd(); status != 0 {
			return "", fmt.Errorf("explain ends with %d:\n%s", status, asked)
		}
		if said := asked.String(); decisionID.MatchString(said) {
			return said, nil
		}
		return "", fmt.Errorf("no decision is named:\n%s", asked)
	}
	said, err := explain(replicas[0])
	if err != nil {
		slices.Reverse(replicas)
		if said, err = explain(replicas[0]); err != nil {
			t.Fatal(err)
		}
	}
	before := decisionID.FindString(said)
	lease := func() string {
		var l coordinationv1.Lease
		noError(t, c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "karpenter-leader-election"}, &l))
		return *l.Spec.HolderIdentity
	}
	killed := lease()
	replicas[0].kill()
	testkit.Eventually(t, patience, func() error {
		if lease() == killed {
			return errors.New("nobody else leads")
		}
		return nil
	})
	leads := time.Now()
	testkit.Eventually(t, patience, func() error {
		after, err := explain(replicas[1])
		if err == nil && !strings.Contains(after, before) {
			err = fmt.Errorf("decision %s is not said:\n%s", before, after)
		}
		return err
	})
	t.Logf("decision %s is explained %.1f s after the new lease", before, time.Since(leads).Seconds())
	expect(t, 0, "decision", before, "--address", replicas[1].address("debug"))
}

// decisionID matches the ID of a decision.
var decisionID = regexp.MustCompile(`\b[0-9]+\.[0-9a-z]{6}\b`)

// unschedulable counts the pods that kube-scheduler found no node for.
func unschedulable(pods []corev1.Pod) (n int) {
	for i := range pods {
		if slices.ContainsFunc(pods[i].Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable }) {
			n++
		}
	}
	return n
}

// expect runs dovetail to its end, wants the exit status, and returns what it printed.
func expect(t *testing.T, status int, args ...string) string {
	t.Helper()
	p := start(t, args...)
	if got := p.awaitEnd(); got != status {
		t.Fatalf("dovetail %s: exit status %d, want %d\n%s", strings.Join(args, " "), got, status, p)
	}
	t.Logf("dovetail %s\n%s", strings.Join(args, " "), p)
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.stdout, "\n")
}

// foresee returns what simulate says would be launched, a line for each node. One pod
// is refused.
func foresee(t *testing.T, args ...string) []string {
	t.Helper()
	var plan scenario.Plan
	if err := json.Unmarshal([]byte(expect(t, 3, append([]string{"simulate", "-o", "json"}, args...)...)), &plan); err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range plan.NewNodes {
		pods := 0
		for _, share := range n.Pods {
			pods += share.Count()
		}
		nodes = append(nodes, fmt.Sprintf("%s for %d pods", n.Type, pods))
	}
	slices.Sort(nodes)
	return nodes
}

// launching returns the first decision of a journal to launch something.
func launching(t *testing.T, file *journal.File) *record.Decision {
	t.Helper()
	for i := range file.Decisions {
		if e := &file.Decisions[i]; e.Loop == record.Provisioning && e.Launches > 0 {
			d, err := file.Decisions[i].Decision()
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatalf("nothing is launched in %d decisions", len(file.Decisions))
	return nil
}

// decided returns what a decision launched, as foresee says it.
func decided(d *record.Decision) []string {
	var nodes []string
	for _, l := range d.Plan.Launches {
		nodes = append(nodes, fmt.Sprintf("%s for %d pods", l.Types[0], len(l.Pods)))
	}
	slices.Sort(nodes)
	return nodes
}

// address returns where the controller answers with its metrics, its health or what is for debugging,
// which its log says.
func (p *process) address(what string) string {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.stdout {
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil || said["message"] != "started" {
			continue
		}
		if at, _ := said[what].(string); at != "" {
			return "http://localhost" + at[strings.LastIndex(at, ":"):]
		}
	}
	p.t.Fatalf("the log does not say where its %s is:\n%s", what, strings.Join(p.stdout, "\n"))
	return ""
}
