package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestInstallUnderPolicies installs the chart where the API server enforces the profile "restricted" and what
// clusters with Kyverno or Gatekeeper usually ask for, and then breaks each rule: a rule that refuses nothing
// would not have been tried.
func TestInstallUnderPolicies(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.addHosts()
	s.apply(seed(t, "policies.yaml", ""))
	unlabelled := map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "karpenter"}
	testkit.Eventually(t, patience, func() error { // the API server takes policies in some time after they are created
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "none", Labels: unlabelled}}
		if says := refusal(t, c, account); !strings.Contains(says, "the object has no label team") {
			return fmt.Errorf("an object without the label is answered with %q", says)
		}
		return nil
	})
	install := documented(t, s, "security.md", "--set additionalLabels.team=")
	out, err := s.try(strings.Replace(install, "--set additionalLabels.team=platform", "", 1))
	if err == nil || !strings.Contains(out, "the object has no label team") {
		t.Errorf("without the label the chart is installed:\n%s", out)
	}
	s.run(install)
	r := installed(t, cluster, c, "karpenter")

	tried := map[string]bool{}
	attempt := func(want string, broken client.Object) {
		tried[want] = true
		if says := refusal(t, c, broken); !strings.Contains(says, want) {
			t.Errorf("%q is not refused: %s", want, says)
		}
	}
	template := &r.deployment.Spec.Template
	for want, change := range brokenPods {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = "karpenter", "again"
		change(pod, &pod.Spec.Containers[0])
		attempt(want, pod)
	}
	for want, broken := range brokenObjects(t, c) {
		attempt(want, broken)
	}
	for _, message := range messagesOf(t, c) {
		if !tried[message] {
			t.Errorf("nothing breaks the rule %q", message)
		}
	}
}

// documented returns the fence of a document that has a text, with the name of the cluster filled in. The shell then
// has the directory that it names.
func documented(t *testing.T, s *shell, page, with string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(s.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	for _, fence := range regexp.MustCompile("(?ms)^```\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(fence[1], with) {
			return strings.ReplaceAll(fence[1], "NAME", "demo")
		}
	}
	t.Fatalf("no fence of docs/%s has %q", page, with)
	return ""
}

// refusal returns what the API server says to an object that is to be created; empty: it would be.
func refusal(t *testing.T, c client.Client, o client.Object) string {
	t.Helper()
	o.SetResourceVersion("")
	if err := client.NewDryRunClient(c).Create(t.Context(), o); err != nil {
		return err.Error()
	}
	return ""
}

// brokenPods break a rule for pods each, or one of the profile, by what the API server then says.
var brokenPods = map[string]func(*corev1.Pod, *corev1.Container){
	"requests for cpu and memory are missing": func(_ *corev1.Pod, c *corev1.Container) { delete(c.Resources.Requests, corev1.ResourceCPU) },
	"a limit on memory is missing":            func(_ *corev1.Pod, c *corev1.Container) { c.Resources.Limits = nil },
	"the root file system can be written":     func(_ *corev1.Pod, c *corev1.Container) { c.SecurityContext.ReadOnlyRootFilesystem = nil },
	"capabilities are kept": func(_ *corev1.Pod, c *corev1.Container) {
		c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
	},
	"the user or group may be one of the node's": func(_ *corev1.Pod, c *corev1.Container) { c.SecurityContext.RunAsUser = new(int64(1000)) },
	"the image has no tag, or the tag latest":    func(_ *corev1.Pod, c *corev1.Container) { c.Image = "ghcr.io/dovetail-sh/dovetail:latest" },
	"the image is from another registry":         func(_ *corev1.Pod, c *corev1.Container) { c.Image = "docker.io/" + c.Image },
	"a probe is missing":                         func(_ *corev1.Pod, c *corev1.Container) { c.ReadinessProbe = nil },
	"a label is missing":                         func(p *corev1.Pod, _ *corev1.Container) { delete(p.Labels, "team") },
	`restricted volume types (volume "node" uses restricted volume type "hostPath")`: func(p *corev1.Pod, _ *corev1.Container) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "node", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
	},
	"an emptyDir has no limit": func(p *corev1.Pod, _ *corev1.Container) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	},
	"host namespaces (hostNetwork=true)": func(p *corev1.Pod, _ *corev1.Container) { p.Spec.HostNetwork = true },
	"the account is the namespace's":     func(p *corev1.Pod, _ *corev1.Container) { p.Spec.ServiceAccountName = "default" },
	"a secret is in the environment": func(_ *corev1.Pod, c *corev1.Container) {
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	},
	"nothing keeps the replicas apart":                                            func(p *corev1.Pod, _ *corev1.Container) { p.Spec.Affinity, p.Spec.TopologySpreadConstraints = nil, nil },
	"the priority class is missing":                                               func(p *corev1.Pod, _ *corev1.Container) { p.Spec.PriorityClassName = "" },
	`violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`: func(_ *corev1.Pod, c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = nil },
}

// brokenObjects are objects of the release with another name, each of which breaks a rule.
func brokenObjects(t *testing.T, c client.Client) map[string]client.Object {
	t.Helper()
	key := client.ObjectKey{Namespace: "karpenter", Name: "karpenter"}
	role := func(rule rbacv1.PolicyRule) client.Object {
		o := fetched(t, c, client.ObjectKey{Name: "karpenter"}, &rbacv1.ClusterRole{})
		o.Rules = append(o.Rules, rule)
		return renamed(o)
	}
	unlabelled := fetched(t, c, client.ObjectKey{Name: "karpenter"}, &rbacv1.ClusterRole{})
	delete(unlabelled.Labels, "team")
	binding := fetched(t, c, client.ObjectKey{Name: "karpenter"}, &rbacv1.ClusterRoleBinding{})
	binding.RoleRef.Name = "cluster-admin"
	service := fetched(t, c, key, &corev1.Service{})
	service.Spec.Type, service.Spec.ClusterIP, service.Spec.ClusterIPs = corev1.ServiceTypeNodePort, "", nil
	account := fetched(t, c, key, &corev1.ServiceAccount{})
	account.AutomountServiceAccountToken = nil
	deployment := fetched(t, c, key, &appsv1.Deployment{})
	deployment.Spec.Replicas = new(int32(1))
	return map[string]client.Object{
		"the object has no label team":                    renamed(unlabelled),
		"a role allows everything of a kind":              role(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"}}),
		"a role allows secrets":                           role(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}),
		"a role allows to run commands or to take tokens": role(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/proxy"}, Verbs: []string{"get"}}),
		"a role allows to get further rights":             role(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}}),
		"a binding is for everybody, or to everything":    renamed(binding),
		"the Service can be reached from outside":         renamed(service),
		"the account's token is in every pod":             renamed(account),
		"there is one replica":                            renamed(deployment),
	}
}

func fetched[T client.Object](t *testing.T, c client.Client, key client.ObjectKey, into T) T {
	t.Helper()
	if err := c.Get(t.Context(), key, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func renamed(o client.Object) client.Object {
	o.SetName("another")
	o.SetUID("")
	return o
}

// messagesOf returns the messages of all rules of the policies.
func messagesOf(t *testing.T, c client.Client) (messages []string) {
	t.Helper()
	var list unstructured.UnstructuredList
	list.SetAPIVersion("admissionregistration.k8s.io/v1")
	list.SetKind("ValidatingAdmissionPolicyList")
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		rules, _, err := unstructured.NestedSlice(list.Items[i].Object, "spec", "validations")
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range rules {
			messages = append(messages, fmt.Sprint(rule.(map[string]any)["message"])) //nolint:forcetypeassert // a wrong type fails the test
		}
	}
	if len(messages) < 20 {
		t.Fatalf("there are %d rules", len(messages))
	}
	return messages
}
