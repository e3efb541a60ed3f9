package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestTheJournalIsReadThroughTheAPIServer asks as people do, without a flag that says where: who may forward
// ports gets the answer of the leader, who may not gets the reason.
func TestTheJournalIsReadThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	debug, kubelet := freePort(t), freePort(t)
	cluster := testkit.StartCluster(t, "--node-ip", ownAddress(t), "--kubelet-port", kubelet, "--pod-port", debug)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 16)
	inPod := []string{"KUBERNETES_SERVICE_HOST=127.0.0.1"} // as the process that the pod below stands for
	controller := startIn(t, inPod, "controller", "--kubeconfig", cluster.Kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", debug,
		"--cloud-provider", "kwok", "--leader-election-namespace", metav1.NamespaceSystem)
	deploy(t, c, 5)
	var now *picture
	testkit.Eventually(t, patience, func() (err error) {
		if now, err = observe(t.Context(), c); err == nil && now.running() != 5 {
			err = fmt.Errorf("%d of 5 pods run:\n%s", now.running(), controller)
		}
		return err
	})
	// The pod that the leader would be, on a node whose kubelet forwards to the process.
	leader := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: host, Namespace: metav1.NamespaceSystem},
		Spec:       corev1.PodSpec{NodeName: now.pods[0].Spec.NodeName, Containers: []corev1.Container{{Name: "controller", Image: "dovetail"}}},
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "journal", Namespace: metav1.NamespaceSystem},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"}},
			{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}},
		},
	}
	viewer := role.DeepCopy()
	viewer.Name, viewer.Rules = "leases", viewer.Rules[:1]
	if err := errors.Join(c.Create(t.Context(), leader), c.Create(t.Context(), role), c.Create(t.Context(), viewer)); err != nil {
		t.Fatal(err)
	}
	for user, role := range map[string]string{"reader": "journal", "viewer": "leases"} {
		if err := c.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: metav1.NamespaceSystem}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, patience, func() error {
		var pod corev1.Pod
		err := c.Get(t.Context(), client.ObjectKeyFromObject(leader), &pod)
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = errors.New("the leader's pod does not run")
		}
		return err
	})
	for name, asked := range map[string]struct {
		user   string
		flags  []string
		status int
		says   string
	}{
		"an administrator names nothing":     {"", nil, 0, "provisioning"},
		"the Role of the documents does":     {"reader", []string{"--controller-namespace", "kube-system"}, 0, "provisioning"},
		"it may look in one namespace only":  {"reader", nil, 5, "with --controller-namespace it is looked for there alone"},
		"who may not forward ports does not": {"viewer", []string{"--controller-namespace", "kube-system"}, 5, "pods/portforward"},
		"a stranger may not see the lease":   {"stranger", []string{"--controller-namespace", "kube-system"}, 5, "look for the lease karpenter-leader-election"},
		"where nobody leads":                 {"", []string{"--controller-namespace", "default"}, 5, "nobody holds a lease karpenter-leader-election"},
	} {
		p := start(t, append([]string{"replay", "--kubeconfig", impersonating(t, cluster, asked.user)}, asked.flags...)...)
		if status := p.awaitEnd(); status != asked.status || !strings.Contains(p.String(), asked.says) {
			t.Errorf("%s: status %d, want %d and %q:\n%s", name, status, asked.status, asked.says, p)
		}
	}
	explainsAsPlugin(t, cluster, now.pods[0].Namespace+"/"+now.pods[0].Name)
	exposesMetricsAlone(t, controller)
	// A process outside the cluster is asked on this computer, whatever port it took.
	controller.stop()
	outside := start(t, "controller", "--kubeconfig", cluster.Kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0",
		"--cloud-provider", "kwok", "--leader-election-namespace", metav1.NamespaceSystem)
	testkit.Eventually(t, patience, func() error {
		p := start(t, "replay", "--kubeconfig", impersonating(t, cluster, "viewer"), "--controller-namespace", "kube-system")
		if status := p.awaitEnd(); status != 0 {
			return fmt.Errorf("replay ends with %d:\n%s\n%s", status, p, outside)
		}
		return nil
	})
}

// explainsAsPlugin asks about a pod as kubectl dovetail explain does, with no flag and a kubeconfig as kubectl finds it.
func explainsAsPlugin(t *testing.T, cluster *testkit.Cluster, pod string) {
	t.Helper()
	plugin := filepath.Join(t.TempDir(), "kubectl-dovetail")
	noError(t, os.Symlink(testkit.Binary(t, "dovetail"), plugin))
	cmd := exec.Command(plugin, "explain", "pod", pod)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + cluster.Kubeconfig}
	p := follow(t, cmd)
	if status := p.awaitEnd(); status != 0 || !strings.Contains(p.String(), "claim general-") {
		t.Errorf("kubectl dovetail explain pod %s: status %d, want 0 and the NodeClaim:\n%s", pod, status, p)
	}
}

// exposesMetricsAlone fails if another pod learns more than metrics and health by any port of a controller.
func exposesMetricsAlone(t *testing.T, controller *process) {
	t.Helper()
	ask := http.Client{Timeout: patience, Transport: &http.Transport{}} // of no proxy
	for _, port := range []string{"metrics", "health", "debug"} {
		_, number, _ := strings.Cut(strings.TrimPrefix(controller.address(port), "http://"), ":")
		for _, path := range []string{"/", "/metrics", "/healthz", "/readyz", "/debug/pprof/", "/debug/pprof/heap", "/debug/journal", "/debug/terms", "/debug/view/overview", "/debug/view/fleet", "/ui/", "/decisions"} {
			answer, err := ask.Get("http://" + net.JoinHostPort(ownAddress(t), number) + path)
			if err != nil {
				if port != "debug" || !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s port: GET %s: %v", port, path, err)
				}
				continue
			}
			noError(t, answer.Body.Close())
			isOpen := port == "metrics" && path == "/metrics" || port == "health" && (path == "/healthz" || path == "/readyz")
			if (answer.StatusCode == http.StatusOK) != isOpen {
				t.Errorf("%s port: GET %s has status %d, want 200 only for metrics and health", port, path, answer.StatusCode)
			}
		}
	}
}

// impersonating returns a kubeconfig of somebody; empty: of an administrator.
func impersonating(t *testing.T, cluster *testkit.Cluster, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range config.AuthInfos {
		u.Impersonate = user
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// ownAddress returns an address of this computer that is not loopback, as the API server asks of nodes.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, is := a.(*net.IPNet); is && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Skip("this computer has no address but loopback")
	return ""
}
