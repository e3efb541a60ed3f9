package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// put writes a file of testdata/install to where the shell runs its commands.
func (s *shell) put(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(seed(s.t, name, "demo")), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// fails is try for a command that must fail with an exit status (0: any but success), and say something.
func (s *shell) fails(command string, status int, says string) {
	s.t.Helper()
	out, err := s.try(command)
	var exit *exec.ExitError
	if e, is := err.(*exec.ExitError); is { //nolint:errorlint // try returns it as it is
		exit = e
	}
	switch {
	case exit == nil:
		s.t.Errorf("%s\n%s\nmust fail, and ended with %v", command, out, err)
	case status != 0 && exit.ExitCode() != status:
		s.t.Errorf("%s\n%s\nended with status %d, want %d", command, out, exit.ExitCode(), status)
	case !strings.Contains(out, says):
		s.t.Errorf("%s\n%s\ndoes not say %q", command, out, says)
	}
}

// TestInstallWordsOfTutorials types and applies what tutorials have that never was, or is no more:
// kubectl convert, a command karpenter, a manifest without its indentation, and fields that a NodePool
// does not have. Each is answered by what to do instead, and what is said there works.
func TestInstallWordsOfTutorials(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.run("dovetail crds | kubectl apply --server-side --force-conflicts -f -")
	for _, name := range []string{"M1.yaml", "M2.yaml", "M4.txt", "M7.yaml", "M8.yaml", "my-app.yaml"} {
		s.put(name)
	}

	s.fails("kubectl convert -f M2.yaml", 0, "unknown command")
	if out := s.run(seed(t, "C6.sh", "demo")); !strings.Contains(out, "nodepool.karpenter.sh/default created") || strings.Contains(out, "Warning") {
		t.Errorf("what was converted is applied with\n%s", out)
	}
	if out := s.run("dovetail convert -f M2.yaml 2>&1"); out != s.run("kubectl dovetail convert -f M2.yaml 2>&1") {
		t.Errorf("the plugin of kubectl writes something else than\n%s", out)
	}
	s.run("kubectl delete nodepool default")

	s.fails("kubectl apply -f M4.txt", 0, "did not find expected key")
	s.fails("dovetail convert -f M4.txt", 2, "the indentation is lost")

	for name, words := range map[string]map[string]string{
		"M7.yaml": {"capacityType": "write a requirement on karpenter.sh/capacity-type"},
		"M8.yaml": {
			"zoneSpread": "topologySpreadConstraints", "instanceOS": "bottlerocket@latest", "kmsKeyID": "blockDeviceMappings[].ebs.kmsKeyID",
		},
	} {
		notes := s.run("dovetail convert -f " + name + " 2>&1 >v1.yaml")
		for word, where := range words {
			s.fails("kubectl apply -f "+name, 0, `unknown field "spec.template.spec.`+word+`"`)
			if line := regexp.MustCompile(`(?m)^.*\.` + word + `: .*$`).FindString(notes); !strings.Contains(line, where) {
				t.Errorf("convert says of %s %q, want %q in it", word, line, where)
			}
		}
		s.run("kubectl apply -f v1.yaml")
	}
	s.run("kubectl delete nodepools --all")

	// karpenter and kubectl karpenter are names of dovetail. With its dry run, M1 launches for 50 pods.
	s.run("sed -i 's/replicas: 0/replicas: 50/' my-app.yaml")
	for _, karpenter := range []string{"karpenter", "kubectl karpenter"} {
		if out := s.run(karpenter + " simulate --catalog ec2 -f M1.yaml -f my-app.yaml"); !strings.Contains(out, "50 pods") {
			t.Errorf("%s simulate prints\n%s", karpenter, out)
		}
		s.fails(karpenter+" simulate --catalog ec2 -f my-app.yaml", 3, "")
		s.fails(karpenter+" simulate -f nothing.yaml", 2, "nothing.yaml")
	}
	s.run("kubectl apply -f M1.yaml -f my-app.yaml")
	testkit.Eventually(t, patience, func() error {
		if out, err := s.try("karpenter simulate --live"); !strings.Contains(out, "50 pods") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	if p := observed(t, c); len(p.claims) > 0 {
		t.Errorf("a dry run has created %d NodeClaims", len(p.claims))
	}
}

// TestInstallProvisioner applies M5, a Provisioner of v1alpha5, to a release with settings.legacyAPIs: the
// controller, which has no other rights than those of its ServiceAccount, makes a NodePool of it, and pods
// get nodes. Without that value it has no right to read Provisioners.
func TestInstallProvisioner(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.publish()
	s.addHosts()
	s.run(seed(t, "C1.sh", "demo"))
	const may = "kubectl auth can-i list provisioners.karpenter.sh --as system:serviceaccount:kube-system:karpenter 2>/dev/null || true"
	s.put("M5.yaml")
	s.fails("kubectl apply -f M5.yaml", 0, `no matches for kind "Provisioner" in version "karpenter.sh/v1alpha5"`)
	s.run("dovetail crds --legacy | kubectl apply --server-side -f -")
	if out := s.run(may); out != "no\n" {
		t.Errorf("without settings.legacyAPIs the controller may list Provisioners: %s", out)
	}
	s.run(strings.TrimSpace(seed(t, "C1.sh", "demo")) + " --set settings.legacyAPIs=true")
	if out := s.run(may); out != "yes\n" {
		t.Errorf("with settings.legacyAPIs the controller may not list Provisioners: %s", out)
	}
	r := installed(t, cluster, c, "kube-system")
	_, env := account(t, cluster, c, awssim.Credentials{})
	p := r.start(env)
	s.apply(seed(t, "class.yaml", "demo"))
	for _, name := range []string{"M5.yaml", "M5-misspelled.yaml"} {
		if out := s.apply(seed(t, name, "demo")); !strings.Contains(out, "created") || !strings.Contains(out, "Warning: karpenter.sh/v1alpha5 Provisioner is deprecated") {
			t.Errorf("%s is applied with\n%s\nwant a warning", name, out)
		}
	}
	var pool karpenterv1.NodePool
	testkit.Eventually(t, patience, func() error { return c.Get(t.Context(), client.ObjectKey{Name: "default"}, &pool) })
	if after := pool.Spec.Disruption.ConsolidateAfter.String(); after != "30s" || pool.Spec.Limits.Cpu().String() != "100" {
		t.Errorf("the NodePool has consolidateAfter %s and limits %v, want 30s and 100 cpu", after, pool.Spec.Limits)
	}
	if says := converted(t, c, "default"); !strings.Contains(says, "is NodePool default now") {
		t.Errorf("the Provisioner's condition says %q", says)
	}
	if says := converted(t, c, "misspelled"); !strings.Contains(says, "ttlSecondsAfterEmpty") {
		t.Errorf("the condition of the Provisioner with ttlAfterEmpty says %q", says)
	}
	s.run("kubectl delete provisioner misspelled")
	s.apply(seed(t, "my-app.yaml", "demo"))
	s.run("kubectl scale deployment my-app --replicas=5")
	awaitRunning(t, c, 5)
	r.endsWell(p)
}

// converted returns what the condition Converted of a Provisioner says once it is there.
func converted(t *testing.T, c client.Client, name string) string {
	t.Helper()
	message := ""
	testkit.Eventually(t, patience, func() error {
		p := &unstructured.Unstructured{}
		p.SetGroupVersionKind(schema.GroupVersionKind{Group: karpenterv1.Group, Version: "v1alpha5", Kind: "Provisioner"})
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(p.Object, "status", "conditions")
		for _, condition := range conditions {
			if m, is := condition.(map[string]any); is && m["type"] == "Converted" {
				message, _ = m["message"].(string)
				return nil
			}
		}
		return fmt.Errorf("Provisioner %s has conditions %v", name, conditions)
	})
	return message
}
