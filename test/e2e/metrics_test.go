package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// metricsRecording is a flag of TestMetrics.
var metricsRecording = flag.String("metrics-recording", "", "file that TestMetrics writes what it has scraped to; empty: none")

// steady is the name of a Deployment and of the NodePool that its pods ask for.
const steady = "steady"

// TestMetrics has a controller with a simulated account do what its metrics are about, and demands
// that each metric of Karpenter's be shown with the same labels, or docs/reference/metrics.md say why
// it is not. With -metrics-recording, what was scraped becomes the recording that dashboards and rules
// are tested with (make record-metrics).
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := startMetricsScript(t)
	s.grow()
	s.fail()
	s.replace()
	s.shrink()
	s.stop()
	compareMetrics(t, s.recording.labels())
	compareTypes(t, s.recording)
	compareLogs(t, s.process)
}

// metricsScript is a short life of a cluster in which much happens.
type metricsScript struct {
	*testing.T
	client    client.Client
	sim       *awssim.Sim
	process   *process
	recording *recording
	stop      func()
}

func startMetricsScript(t *testing.T) *metricsScript {
	cluster := testkit.StartCluster(t)
	s := &metricsScript{T: t, client: connect(t, cluster)}
	installDefinitions(t, s.client)
	sim, env := account(t, cluster, s.client, awssim.Credentials{})
	s.sim = sim
	s.process = startIn(t, env, "controller", "--kubeconfig", cluster.Kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0",
		"--leader-election-namespace=default", "--cloud-provider=aws", "--cluster-name=demo", "--interruption-queue=demo", "--batch-idle-duration=500ms", "--consolidation-rest=10s",
		"--feature-gates", "NodeRepair=true,StaticCapacity=true,CapacityBuffer=true,PodDeletionCostManagement=true,SpotToSpotConsolidation=true")
	testkit.Eventually(t, patience, func() error {
		if !strings.Contains(s.process.String(), `"started"`) {
			return errors.New("the controller has not started")
		}
		return nil
	})
	s.recording, s.stop = recordMetrics(t, s.process.address("metrics")+"/metrics")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", s.process)
		}
		if *metricsRecording != "" {
			noError(t, s.recording.write(*metricsRecording))
		}
	})
	for _, o := range []client.Object{awsClass(), s.pool("general", 64), s.pool(steady, 16), s.pool(staticName, 0)} {
		noError(t, s.client.Create(t.Context(), o))
	}
	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), s.client) })
	s.await("leader_election_master_status", `name="karpenter-leader-election"`)
	return s
}

// pool returns a pool of two families, so that the recording is small. The steady one has the policy
// Balanced, the static one has one node.
func (s *metricsScript) pool(name string, cpus int64) *karpenterv1.NodePool {
	np := awsPool()
	np.Name = name
	np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "50%"}}
	requirements := &np.Spec.Template.Spec.Requirements
	(*requirements)[1].Values = []string{karpenterv1.CapacityTypeSpot, karpenterv1.CapacityTypeOnDemand}
	*requirements = append(*requirements, karpenterv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceFamily, Operator: "In", Values: []string{"m5", "c6g"}})
	np.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}
	if name != "general" {
		np.Spec.Template.Labels = map[string]string{"pool": name}
		np.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "pool", Value: name, Effect: corev1.TaintEffectNoSchedule}}
		(*requirements)[1].Values = []string{karpenterv1.CapacityTypeOnDemand}
	}
	switch name {
	case "general":
		np.Spec.Template.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: time.Hour}
	case steady:
		*requirements = append(*requirements, karpenterv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceCPU, Operator: "In", Values: []string{"2"}})
		np.Spec.Disruption.ConsolidationPolicy = karpenterv1.ConsolidationPolicyBalanced
	case staticName:
		np.Spec.Replicas, np.Spec.Limits = new(int64(1)), nil
	}
	return np
}

// grow gives both pools pods, and leaves one pod without a node.
func (s *metricsScript) grow() {
	s.Helper()
	s.createDaemons()
	deploy(s, s.client, 12)
	createWorkload(s.T, s.client, steady, 6, 700)
	noError(s.T, s.client.Patch(s.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: steady}},
		client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"template":{"spec":{"nodeSelector":{"pool":%q},"tolerations":[{"operator":"Exists"}]}}}}`, steady))))
	awaitRunning(s, s.client, 12+6)
	nowhere := podOf("nowhere")
	nowhere.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "nowhere"}
	noError(s.T, s.client.Create(s.Context(), nowhere))
	s.await("karpenter_scheduler_unschedulable_pods_count")
	noError(s.T, s.client.Delete(s.Context(), nowhere))
	noError(s.T, s.client.Create(s.Context(), &autoscalingv1beta1.CapacityBuffer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "spare"},
		Spec:       autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "none"}, Replicas: new(int32(1))},
	}))
	s.await("operator_capacitybuffer_status_condition_count")
}

// createDaemons gives each node a pod with requests and limits.
func (s *metricsScript) createDaemons() {
	s.Helper()
	labels := map[string]string{"app": "agent"}
	some := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	noError(s.T, s.client.Create(s.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers:  []corev1.Container{{Name: "agent", Image: "none", Resources: corev1.ResourceRequirements{Requests: some, Limits: some}}},
				},
			},
		},
	}))
}

// fail has the account without spot capacity for a while, and then without answers; and a class that
// finds no subnet, which goes again.
func (s *metricsScript) fail() {
	s.Helper()
	broken := awsClass()
	broken.Name, broken.Spec.SubnetSelectorTerms[0].Tags = "broken", map[string]string{"no": "subnet"}
	noError(s.T, s.client.Create(s.Context(), broken))
	s.await("operator_ec2nodeclass_status_condition_count", `name="broken"`, `status="False"`)
	noError(s.T, s.client.Delete(s.Context(), broken))
	inUse := s.instanceOf("general") // its pods keep it from being removed as empty
	noError(s.T, s.sim.Inject(
		awssim.Fault{Kind: awssim.FaultShort, CapacityType: karpenterv1.CapacityTypeSpot, For: metav1.Duration{Duration: 20 * time.Second}},
		// The SDK asks three times: of up to four calls at once, one fails for sure.
		awssim.Fault{Kind: awssim.FaultError, Operation: "ec2:TerminateInstances", Times: 9},
		awssim.Fault{Kind: awssim.FaultMaintenance, Count: 1, Target: inUse, Delay: metav1.Duration{Duration: time.Hour}},
	))
	deploy(s, s.client, 20)
	awaitRunningWithin(s, 2*patience, s.client, 20+6)
	s.explainFailed()
	s.await("karpenter_cloudprovider_instance_launch_failures_total")
	s.await("karpenter_interruption_instance_status_unhealthy_total", "event_status") // EC2 is asked every minute
}

// instanceOf returns an instance of a pool. It is not on its way out.
func (s *metricsScript) instanceOf(pool string) (id string) {
	s.Helper()
	testkit.Eventually(s, patience, func() error {
		var claims karpenterv1.NodeClaimList
		if err := s.client.List(s.Context(), &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: pool}); err != nil {
			return err
		}
		for i := range claims.Items {
			if nc := &claims.Items[i]; nc.DeletionTimestamp == nil && is(nc, karpenterv1.ConditionTypeInitialized) {
				id = path.Base(nc.Status.ProviderID)
				return nil
			}
		}
		return fmt.Errorf("pool %s has no node that is initialized: %d NodeClaims", pool, len(claims.Items))
	})
	return id
}

// explainFailed asks about a NodeClaim that got no instance and is gone. It says why, and what is done next.
func (s *metricsScript) explainFailed() {
	s.Helper()
	claim := regexp.MustCompile(`"message":"deleting nodeclaim".*"claim":"([^"]+)".*"reason":"insufficient_capacity"`).FindStringSubmatch(s.process.String())
	if claim == nil {
		s.Fatal("no NodeClaim was deleted for lack of capacity")
	}
	said := expect(s.T, 0, "explain", "nodeclaim", claim[1], "--address", s.process.address("debug"))
	for _, want := range []string{"launch failed (no capacity)", "InsufficientInstanceCapacity", "its pods are planned again", "launched for "} {
		if !strings.Contains(said, want) {
			s.Errorf("explain says\n%s\nwant %s", said, want)
		}
	}
}

// replace has instances interrupted, terminated and drifted.
func (s *metricsScript) replace() {
	s.Helper()
	noError(s.T, s.sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Count: 1}))
	s.await("karpenter_interruption_received_messages_total", "spot_interrupted")
	s.await("karpenter_interruption_deleted_messages_total")
	noError(s.T, s.sim.Inject(awssim.Fault{Kind: awssim.FaultTerminate, Count: 1, Target: s.instanceOf(staticName)}))
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	noError(s.T, s.client.Patch(s.Context(), np, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"metadata":{"labels":{"generation":"2"}}}}}`))))
	s.await("karpenter_nodeclaims_disrupted_total", "drifted")
	s.await("karpenter_voluntary_disruption_decisions_total", "drifted")
	s.await("karpenter_cloudprovider_instance_termination_failures_total")
}

// shrink takes most pods away, then all.
func (s *metricsScript) shrink() {
	s.Helper()
	deploy(s, s.client, 3)
	scaleWorkload(s.T, s.client, steady, 3) // from three nodes with two each to three with one each
	s.await("karpenter_nodeclaims_disrupted_total", "empty")
	deploy(s, s.client, 0)
	scaleWorkload(s.T, s.client, steady, 0)
	testkit.Eventually(s, 3*time.Minute, func() error {
		p, err := observe(s.Context(), s.client)
		if err == nil && len(p.claims) > 1 {
			err = fmt.Errorf("%d NodeClaims are left, want the static one", len(p.claims))
		}
		return err
	})
	s.await("karpenter_nodes_lifetime_duration_seconds_count")
}

// await returns when the recording has such a series that is not 0.
func (s *metricsScript) await(name string, words ...string) {
	s.Helper()
	testkit.Eventually(s, 2*patience, func() error { return s.recording.has(name, words...) })
}

// compareMetrics compares what was shown with Karpenter's metrics. Docs name what the run did not show.
func compareMetrics(t *testing.T, shown map[string]map[string]bool) {
	t.Helper()
	doc := readFile(t, "../../docs/reference/metrics.md")
	_, excused, _ := strings.Cut(doc, "\n## Different from Karpenter\n")
	excused, _, _ = strings.Cut(excused, "\n## Controllers\n")
	for line := range strings.Lines(readFile(t, "../../internal/kube/observe/testdata/karpenter.txt")) {
		name, labels, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name == "#" {
			continue
		}
		excuse := regexp.MustCompile("`" + name + "`").MatchString(excused)
		got, is := shown[name]
		switch {
		case !is && !excuse:
			t.Errorf("%s was not shown, and docs/reference/metrics.md does not say why", name)
		case !is:
		case excuse:
			t.Logf("%s was shown: docs/reference/metrics.md says that it may not be", name)
		default:
			compareLabels(t, name, labels, got)
		}
	}
}

// compareLabels: the metrics of a Node may have more labels, those of the provider.
func compareLabels(t *testing.T, name, labels string, got map[string]bool) {
	t.Helper()
	var want []string
	if labels != "" {
		want = strings.Split(labels, ",")
	}
	for _, label := range want {
		if !got[label] {
			t.Errorf("%s lacks label %s", name, label)
		}
	}
	if more := slices.Sorted(maps.Keys(got)); len(more) > len(want) && !strings.HasPrefix(name, "karpenter_nodes_") {
		t.Errorf("%s has labels %v, want %v", name, more, want)
	}
}

// compareTypes: instance types that no NodePool allows are not shown.
func compareTypes(t *testing.T, r *recording) {
	t.Helper()
	for _, of := range r.values("karpenter_cloudprovider_instance_type_offering_available", "instance_type") {
		if !strings.HasPrefix(of, "m5.") && !strings.HasPrefix(of, "c6g.") {
			t.Errorf("the offerings of %s are shown, and no NodePool allows it", of)
		}
	}
}

// compareLogs demands each message that docs/migrate.md has for parsers of Karpenter's logs, with its keys,
// and the keys that each line has.
func compareLogs(t *testing.T, p *process) {
	t.Helper()
	lines := map[string]map[string]any{}
	p.mu.Lock()
	for _, text := range p.stdout {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, key := range []string{"level", "time", "logger", "message", "commit"} {
			if line[key] == nil {
				t.Errorf("a line has no %s: %s", key, text)
			}
		}
		lines[fmt.Sprint(line["message"])] = line
	}
	p.mu.Unlock()
	_, table, _ := strings.Cut(readFile(t, "../../docs/migrate.md"), "\n| message | keys |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "| "), " | ")
		line := lines[cells[0]]
		if line == nil {
			t.Errorf("nothing was logged as %q", cells[0])
		}
		for key := range strings.SplitSeq(cells[1], ", ") {
			if line != nil && line[key] == nil {
				t.Errorf("the line %q has no %s: %v", cells[0], key, line)
			}
		}
	}
}
