package e2e

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim/kubelets"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestAWS runs the whole product against a simulated account: pods get EC2 instances, all
// that take a spot instance back are replaced in time, and in the end nothing is left.
func TestAWS(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	sim, env := account(t, cluster, c, awssim.Credentials{})
	for _, o := range []client.Object{awsClass(), awsPool()} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	p := startIn(t, env, "controller", "--kubeconfig", cluster.Kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0",
		"--cloud-provider=aws", "--cluster-name=demo", "--interruption-queue=demo", "--batch-idle-duration=500ms")
	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), c) })

	const pods = 20
	deploy(t, c, pods)
	awaitRunning(t, c, pods)
	first := running(sim)
	if err := agree(t, c, sim); err != nil {
		t.Error(err)
	}

	if err := sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Count: len(first)}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 4*time.Minute, func() error {
		for id := range running(sim) {
			if first[id] {
				return fmt.Errorf("instance %s still runs", id)
			}
		}
		return nil
	})
	awaitRunning(t, c, pods)
	testkit.Eventually(t, patience, func() error { return agree(t, c, sim) })

	deploy(t, c, 0)
	testkit.Eventually(t, 3*time.Minute, func() error {
		if left := running(sim); len(left) > 0 {
			return fmt.Errorf("%d instances are left", len(left))
		}
		return nil
	})
	if unknown := sim.Unknown(); len(unknown) > 0 {
		t.Errorf("operations beyond those that are known: %v", unknown)
	}
	for key, n := range sim.Refused() {
		if strings.Contains(key, "RequestLimitExceeded") {
			t.Errorf("EC2 throttled %s %d times", key, n)
		}
	}
	t.Logf("calls: %v", sim.Calls())
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d\n%s", status, p)
	}
}

// account starts an account whose instances join the cluster, and returns the environment by
// which it is reached.
func account(t *testing.T, cluster *testkit.Cluster, c client.Client, keys awssim.Credentials) (*awssim.Sim, []string) {
	t.Helper()
	return accountOf(t, cluster, c, awssim.Options{Cluster: awssim.Cluster{Name: "demo"}, Credentials: keys})
}

// accountOf is account with a cluster's name, and whatever else the options say.
func accountOf(t *testing.T, cluster *testkit.Cluster, c client.Client, opts awssim.Options) (*awssim.Sim, []string) {
	t.Helper()
	asked, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := asked.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	nodes := kubelets.New(c, slog.New(slog.DiscardHandler))
	go nodes.Run(t.Context())
	opts.Seed, opts.Registrar, opts.MinBoot, opts.MaxBoot, opts.MinEnd, opts.MaxEnd = 1, nodes, time.Second, 3*time.Second, time.Second, 5*time.Second
	opts.Cluster.Version, opts.Cluster.Endpoint = version.Major+"."+version.Minor, cluster.Config.Host
	sim, err := awssim.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	url, err := sim.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	keys := sim.Options().Credentials
	return sim, []string{
		"AWS_ENDPOINT_URL=" + url, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=" + keys.AccessKey, "AWS_SECRET_ACCESS_KEY=" + keys.SecretKey,
		"AWS_SESSION_TOKEN=" + keys.SessionToken, "AWS_EC2_METADATA_DISABLED=true",
	}
}

func awsClass() *awsv1.EC2NodeClass {
	tags := map[string]string{"karpenter.sh/discovery": "demo"}
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: awsv1.EC2NodeClassSpec{
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: tags}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: tags}},
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			Role:                       "KarpenterNodeRole-demo",
		},
	}
}

func awsPool() *karpenterv1.NodePool {
	in := func(key string, values ...string) karpenterv1.NodeSelectorRequirementWithMinValues {
		return karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: "In", Values: values}
	}
	after := 5 * time.Second
	return &karpenterv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "general"},
		Spec: karpenterv1.NodePoolSpec{
			Disruption: karpenterv1.Disruption{ConsolidateAfter: karpenterv1.NillableDuration{Duration: &after}},
			Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
				NodeClassRef: &karpenterv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
				Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{
					in("kubernetes.io/os", "linux"), in("karpenter.sh/capacity-type", "spot"), in(awsv1.LabelInstanceCategory, "c", "m", "r"),
				},
			}},
		},
	}
}

// running returns the ids of the instances that are, or are about to be.
func running(sim *awssim.Sim) map[string]bool {
	ids := map[string]bool{}
	for _, i := range sim.Instances() {
		if i.State == "running" || i.State == "pending" {
			ids[i.ID] = true
		}
	}
	return ids
}

// agree returns an error unless claims and instances belong together one to one.
func agree(t *testing.T, c client.Client, sim *awssim.Sim) error {
	t.Helper()
	p, err := observe(t.Context(), c)
	if err != nil {
		return err
	}
	left := running(sim)
	for i := range p.claims {
		id := p.claims[i].Status.ProviderID
		id = id[strings.LastIndex(id, "/")+1:]
		if p.claims[i].DeletionTimestamp == nil && !left[id] {
			return fmt.Errorf("claim %s has instance %q, which does not run", p.claims[i].Name, id)
		}
		delete(left, id)
	}
	if len(left) > 0 {
		return fmt.Errorf("%d instances belong to no claim: %v", len(left), left)
	}
	return nil
}
