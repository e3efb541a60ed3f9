package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// pinned is the version that the tutorials pin.
const pinned = "1.0.6"

// TestInstallIntoKubeSystem follows a tutorial of Karpenter's: the chart into kube-system with the role
// as an annotation, then its NodePool, then 50 pods. Only the two variables are filled in.
func TestInstallIntoKubeSystem(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.publish()
	s.addHosts()
	s.run(seed(t, "C1.sh", "demo"))
	r := installed(t, cluster, c, "kube-system")
	if got := r.account.Annotations["eks.amazonaws.com/role-arn"]; got != roleARN {
		t.Errorf("the ServiceAccount has role %q, want %q", got, roleARN)
	}
	_, env := account(t, cluster, c, awssim.Credentials{})
	p := r.start(env)
	s.apply(seed(t, "class.yaml", "demo"))
	s.apply(seed(t, "M1.yaml", "demo"))
	for _, manifest := range []string{"M6.yaml", "M11.yaml"} {
		s.apply(seed(t, manifest, "demo"))
	}
	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), c) })
	s.apply(seed(t, "M3.yaml", "demo"))
	testkit.Eventually(t, patience, func() error {
		events := s.run("kubectl get events -A")
		if want := "nodeClassRef was not set: it is now EC2NodeClass/default of group karpenter.k8s.aws"; !strings.Contains(events, want) {
			return fmt.Errorf("no event has %q:\n%s", want, events)
		}
		return nil
	})
	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), c) })
	s.run("kubectl delete nodepools short-lived old-policy")

	s.apply(seed(t, "my-app.yaml", "demo"))
	s.run(seed(t, "C4.sh", "demo"))
	awaitRunning(t, c, 50)
	nodes := s.run("kubectl get nodes")
	if line := regexp.MustCompile(`(?m)^ip-10-\d+-\d+-\d+\.ec2\.internal +Ready +<none> +\d+s`); !line.MatchString(nodes) {
		t.Errorf("kubectl get nodes has no line of the form \"ip-10-0-1-42.ec2.internal Ready <none> 32s\":\n%s", nodes)
	}
	if log := s.run("kubectl get pods -n kube-system -l app.kubernetes.io/name=karpenter -o jsonpath='{.items[*].spec.containers[*].name}'"); log != "controller"+" controller" {
		t.Errorf("the containers of the pods labelled as Karpenter's are %q", log)
	}
	blocksDisruption(t, c)
	r.endsWell(p)
}

// blocksDisruption wants no pod that carries the annotation of M9 to be a reason for nothing: a drifted
// node stays, and an event says why.
func blocksDisruption(t *testing.T, c client.Client) {
	t.Helper()
	var np karpenterv1.NodePool
	if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, &np); err != nil {
		t.Fatal(err)
	}
	np.Spec.Template.Labels = map[string]string{"example.com/drift": "true"}
	if err := c.Update(t.Context(), &np); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		var events corev1.EventList
		if err := c.List(t.Context(), &events); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "DisruptionBlocked" && strings.Contains(e.Message, "do-not-disrupt") {
				return nil
			}
		}
		return fmt.Errorf("none of %d events says that do-not-disrupt blocks a disruption", len(events.Items))
	})
}

// endsWell ends the release's process, which must have missed no right and logged no error.
func (r *release) endsWell(p *process) {
	r.t.Helper()
	for _, e := range p.errors() {
		r.t.Errorf("the log has the error %s: %s", e.Message, e.Error)
	}
	if status := p.stop(); status != 0 {
		r.t.Errorf("exit status %d:\n%s", status, p)
	}
}

// TestInstallBesideEksctl follows the other tutorial, with Helm 3: eksctl has made the ServiceAccount in
// a namespace of its own, the chart comes with --wait.
func TestInstallBesideEksctl(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	s := newShell(t, cluster.Kubeconfig, "helm3")
	s.publish()
	s.addHosts()
	s.apply(seed(t, "C2.yaml", "my-cluster"))
	for range 2 { // the second is an upgrade
		s.run(seed(t, "C3.sh", "my-cluster"))
	}
	r := installed(t, cluster, c, "karpenter")
	if got := r.account.Labels["app.kubernetes.io/managed-by"]; got != "eksctl" {
		t.Errorf("the ServiceAccount is managed by %q, want eksctl as before", got)
	}
	if got := r.container().Resources.Requests.Cpu().String(); got != "1" {
		t.Errorf("the container requests %s cpu, want 1", got)
	}
	_, env := accountOf(t, cluster, c, awssim.Options{Cluster: awssim.Cluster{Name: "my-cluster"}, Queue: "my-cluster-queue"})
	p := r.start(env)
	s.apply(seed(t, "class.yaml", "my-cluster"))
	if out := s.apply(seed(t, "M2.yaml", "my-cluster")); !strings.Contains(out, "nodepool.karpenter.sh/default created") || !strings.Contains(out, "Warning") {
		t.Errorf("the NodePool of an old version is applied with\n%s\nwant a warning", out)
	}
	s.apply(seed(t, "my-app.yaml", "my-cluster"))
	s.run("kubectl scale deployment my-app --replicas=5")
	awaitRunning(t, c, 5)
	r.endsWell(p)
	s.run("helm uninstall karpenter --namespace karpenter --wait")
	if out := s.run("kubectl get serviceaccount karpenter -n karpenter -o name"); !strings.Contains(out, "karpenter") {
		t.Errorf("the uninstallation has deleted eksctl's ServiceAccount: %s", out)
	}
	if p := observed(t, c); len(p.claims) == 0 {
		t.Error("the uninstallation has deleted the NodeClaims")
	}
}

func observed(t testing.TB, c client.Client) *picture {
	t.Helper()
	p, err := observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestInstallWithoutSubnets: whoever forgot to tag the subnets finds the words of the tutorials in the
// condition, the event and the log.
func TestInstallWithoutSubnets(t *testing.T) {
	t.Parallel()
	const words = "no subnets found"
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.publish()
	s.addHosts()
	s.run(seed(t, "C1.sh", "demo"))
	_, env := account(t, cluster, c, awssim.Credentials{})
	p := installed(t, cluster, c, "kube-system").start(env)
	s.apply(strings.Replace(seed(t, "class.yaml", "demo"), `[{tags: {karpenter.sh/discovery: "demo"}}]`, `[{tags: {karpenter.sh/discovery: "forgotten"}}]`, 1))
	s.apply(seed(t, "M1.yaml", "demo"))
	testkit.Eventually(t, patience, func() error {
		var class awsv1.EC2NodeClass
		if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, &class); err != nil {
			return err
		}
		if text := fmt.Sprint(class.Status.Conditions); !strings.Contains(text, words) {
			return fmt.Errorf("the conditions are %s", text)
		}
		return nil
	})
	testkit.Eventually(t, patience, func() error {
		events := s.run("kubectl get events -A")
		if !strings.Contains(events, words) {
			return fmt.Errorf("the events are\n%s", events)
		}
		return nil
	})
	testkit.Eventually(t, patience, func() error {
		n := 0
		for _, line := range p.since(0) {
			if strings.Contains(line, words) {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d lines of the log have %q", n, words)
		}
		return nil
	})
	t.Logf("%s", strings.Join(p.since(0), "\n"))
}

// TestInstallAgainChangesNothing applies what helm template prints, twice: nothing may change the second
// time, or whoever keeps a cluster as a repository says would apply it for ever.
func TestInstallAgainChangesNothing(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.publish()
	s.addHosts()
	template := "helm template karpenter oci://" + publicRegistry + "/karpenter/karpenter --version " + pinned + " --include-crds --namespace kube-system --set settings.clusterName=demo"
	apply := template + " | kubectl apply --server-side -f -"
	s.run(apply)
	installed(t, cluster, c, "kube-system")
	versions := "kubectl get -f <(" + template + ` | sed -n '/./p') -o jsonpath='{range .items[*]}{.kind}{" "}{.metadata.name}{" "}{.metadata.generation}{" "}{.metadata.managedFields[*].operation}{"\n"}{end}'`
	before := s.run(versions)
	s.run(apply)
	if after := s.run(versions); after != before {
		t.Errorf("the second time has changed\n%s\ninto\n%s", before, after)
	}
	if out, err := s.try(template + " | kubectl diff --server-side -f -"); err != nil {
		t.Errorf("kubectl diff finds differences: %v\n%s", err, out)
	}
	var sets appsv1.ReplicaSetList
	if err := c.List(t.Context(), &sets, client.InNamespace("kube-system")); err != nil || len(sets.Items) != 1 {
		t.Errorf("there are %d ReplicaSets, want the one (%v)", len(sets.Items), err)
	}
}
