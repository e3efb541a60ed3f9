package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestPause pauses disruption of a pool whose nodes then drift: none goes, also after a restart, and everything
// says why. When disruption is resumed, all are replaced. The controller has the rights of deploy/kubernetes.
func TestPause(t *testing.T) {
	t.Parallel()
	const pods = 6
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 2)
	changePool(t, c, func(np *karpenterv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{}
		np.Spec.Disruption.Budgets = nil
	})
	kubeconfig := asInstalled(t, cluster, c, "providers")
	run := func() *process { return controller(t, kubeconfig, "--batch-idle-duration", "300ms") }
	s := &pauseScript{t, c, cluster.Kubeconfig, run(), nil}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", s.process)
		}
	})
	deploy(t, c, pods)
	awaitRunning(t, c, pods)

	const says = "ConfigMap kube-system/dovetail-pause: incident 42"
	s.say("disruption of all NodePools is paused; dovetail resume resumes it", "pause", "--reason", "incident 42")
	s.await("paused", 1, "disruption is paused: "+says)
	s.drift("two")
	s.await("drifted", 1, "disruption of pool general is paused: "+says)
	said(t, c, "general", "DisruptionPaused", says)
	if found := expect(t, 0, "doctor", "--kubeconfig", cluster.Kubeconfig, "--cloud-provider", "kwok"); !strings.Contains(found, "paused by "+says) {
		t.Errorf("doctor does not say that disruption is paused:\n%s", found)
	}
	s.process.kill()
	s.process = run()
	testkit.Eventually(t, patience, func() error {
		if !strings.Contains(s.process.String(), `"message":"started"`) {
			return errors.New("the controller has not started")
		}
		return nil
	})
	s.await("drifted", 1, "disruption of pool general is paused: "+says)
	s.unchanged()
	s.say("disruption of all NodePools is resumed", "resume")
	s.replaced(pods)
	s.say("disruption was not paused: there is no ConfigMap kube-system/dovetail-pause", "resume")

	const annotation = "annotation dovetail.sh/pause-disruption"
	s.say("disruption of NodePool general is paused; dovetail resume general resumes it", "pause", "general")
	s.await("paused", 1, "disruption is paused: "+annotation)
	s.drift("three")
	s.await("drifted", 1, "disruption of pool general is paused: "+annotation)
	s.unchanged()
	s.say("disruption was not paused: there is no ConfigMap kube-system/dovetail-pause\nstill paused: NodePool general, by "+annotation+"; dovetail resume general resumes it", "resume")
	s.say("disruption of all NodePools is paused; dovetail resume resumes it", "pause")
	s.say("disruption of NodePool general is resumed\nstill paused: all NodePools, by ConfigMap kube-system/dovetail-pause; dovetail resume resumes them", "resume", "general")
	s.say("disruption of all NodePools is resumed", "resume")
	s.replaced(pods)
	s.await("resumed", 0, "")
	said(t, c, "general", "DisruptionResumed", "by choice again")
}

// pauseScript is a cluster whose disruption is paused and resumed.
type pauseScript struct {
	*testing.T
	client     client.Client
	kubeconfig string
	process    *process
	claims     map[types.UID]bool // those that drift
}

// say runs a command that must print this.
func (s *pauseScript) say(want string, args ...string) {
	s.Helper()
	if got := expect(s.T, 0, append(args, "--kubeconfig", s.kubeconfig)...); got != want {
		s.Fatalf("dovetail %s prints %q, want %q", strings.Join(args, " "), got, want)
	}
}

// await returns when the metric has the value and views say the words: of the cluster, or of each node that has
// drifted.
func (s *pauseScript) await(what string, metric int, words string) {
	s.Helper()
	view := []string{"status"}
	if what == "drifted" {
		view = []string{"nodes", "-o", "wide"}
	}
	testkit.Eventually(s, patience, func() error {
		if want := fmt.Sprintf("dovetail_disruption_paused{nodepool=\"general\"} %d\n", metric); !strings.Contains(s.metrics(), want) {
			return fmt.Errorf("%s: no metric %s", what, want)
		}
		shown := expect(s.T, 0, append(view, "--address", s.process.address("debug"))...)
		for line := range strings.Lines(shown) {
			if what == "drifted" && strings.Contains(line, "general-") && !strings.Contains(line, "drifted (NodePoolDrifted); "+words) {
				return fmt.Errorf("the node's reason is another: %s", line)
			}
		}
		if !strings.Contains(shown, words) || words == "" && strings.Contains(shown, "paused") {
			return fmt.Errorf("%s: dovetail %s does not say %q:\n%s", what, view[0], words, shown)
		}
		return nil
	})
}

func (s *pauseScript) metrics() string {
	s.Helper()
	answer, err := http.Get(s.process.address("metrics") + "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// drift returns when all NodeClaims have drifted.
func (s *pauseScript) drift(generation string) {
	s.Helper()
	s.claims = claimNames(s.T, s.client)
	changePool(s.T, s.client, func(np *karpenterv1.NodePool) {
		np.Spec.Template.Labels = map[string]string{"generation": generation}
	})
	testkit.Eventually(s, patience, func() error {
		p, err := observe(s.Context(), s.client)
		if err != nil {
			return err
		}
		for i := range p.claims {
			if !meta.IsStatusConditionTrue(p.claims[i].Status.Conditions, karpenterv1.ConditionTypeDrifted) {
				return fmt.Errorf("NodeClaim %s has not drifted", p.claims[i].Name)
			}
		}
		return nil
	})
}

// unchanged fails unless the NodeClaims are those that have drifted, and none is on its way.
func (s *pauseScript) unchanged() {
	s.Helper()
	p, err := observe(s.Context(), s.client)
	noError(s.T, err)
	for i := range p.claims {
		nc := &p.claims[i]
		if !s.claims[nc.UID] || nc.DeletionTimestamp != nil || meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeDisruptionReason) {
			s.Errorf("NodeClaim %s is new, or on its way, though disruption is paused", nc.Name)
		}
	}
	if len(p.claims) != len(s.claims) {
		s.Errorf("%d NodeClaims are left of %d", len(p.claims), len(s.claims))
	}
}

// replaced returns when none of the NodeClaims that have drifted is left, and all pods run.
func (s *pauseScript) replaced(pods int) {
	s.Helper()
	testkit.Eventually(s, 2*patience, func() error {
		p, err := observe(s.Context(), s.client)
		if err != nil {
			return err
		}
		for i := range p.claims {
			if s.claims[p.claims[i].UID] {
				return fmt.Errorf("NodeClaim %s is still there", p.claims[i].Name)
			}
		}
		return nil
	})
	awaitRunning(s, s.client, pods)
}
