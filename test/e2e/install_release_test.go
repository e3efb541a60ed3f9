package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// release is an installed chart, whose pods KWOK only pretends to run.
type release struct {
	t          testing.TB
	cluster    *testkit.Cluster
	client     client.Client
	namespace  string
	deployment appsv1.Deployment
	account    corev1.ServiceAccount
}

// installed returns the release karpenter of a namespace. All its replicas must be available.
func installed(t testing.TB, cluster *testkit.Cluster, c client.Client, namespace string) *release {
	t.Helper()
	r := &release{t: t, cluster: cluster, client: c, namespace: namespace}
	testkit.Eventually(t, patience, func() error {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "karpenter"}, &r.deployment); err != nil {
			return err
		}
		if s := &r.deployment.Status; s.AvailableReplicas != 2 || s.UpdatedReplicas != 2 || s.Replicas != 2 || s.ObservedGeneration != r.deployment.Generation {
			return fmt.Errorf("the Deployment's status is %+v", s)
		}
		return nil
	})
	name := r.deployment.Spec.Template.Spec.ServiceAccountName
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &r.account); err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs dovetail as a kubelet would start the release's container: with the ServiceAccount's token
// and rights, and the environment and arguments of the pod. Its ports are free ones, since there are
// several on this computer; its namespace, which a kubelet mounts as a file, is a flag. Env is what the
// cloud adds.
func (r *release) start(env []string) *process {
	r.t.Helper()
	args := slices.Concat(r.container().Args, []string{
		"--metrics-port=0", "--health-probe-port=0", "--debug-port=0", "--kubeconfig=" + r.kubeconfig(), "--leader-election-namespace=" + r.namespace,
	})
	cmd := exec.Command(testkit.Binary(r.t, "dovetail"), args...)
	cmd.Env = slices.Concat(r.environment(), []string{"KUBERNETES_SERVICE_HOST=127.0.0.1", "HOME=" + r.t.TempDir()}, env)
	return follow(r.t, cmd)
}

// container returns the one that tools for Karpenter know by its name.
func (r *release) container() *corev1.Container {
	r.t.Helper()
	containers := r.deployment.Spec.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "controller" })
	if i < 0 {
		r.t.Fatalf("the Deployment has no container named controller: %+v", containers)
	}
	return &containers[i]
}

// environment returns the container's environment, with its references resolved.
func (r *release) environment() []string {
	r.t.Helper()
	container := r.container()
	if len(container.EnvFrom) > 0 {
		r.t.Fatalf("envFrom is not played here: %+v", container.EnvFrom)
	}
	var env []string
	for _, e := range container.Env {
		value := e.Value
		switch from := e.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil:
			value = r.field(from.FieldRef.FieldPath)
		case from.ResourceFieldRef != nil:
			value = r.amount(container, from.ResourceFieldRef)
		default:
			r.t.Fatalf("%s comes from %+v, which is not played here", e.Name, from)
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

func (r *release) field(path string) string {
	r.t.Helper()
	fields := map[string]string{"metadata.namespace": r.namespace, "metadata.name": "karpenter-0", "spec.nodeName": "host-0", "spec.serviceAccountName": r.account.Name}
	value, ok := fields[path]
	if !ok {
		r.t.Fatalf("the field %s is not played here", path)
	}
	return value
}

// amount returns an amount of resources as the kubelet resolves it: those of the node where the pod sets none.
func (r *release) amount(container *corev1.Container, ref *corev1.ResourceFieldSelector) string {
	r.t.Helper()
	amounts := map[string]corev1.ResourceList{"requests": container.Resources.Requests, "limits": container.Resources.Limits}
	node := corev1.ResourceList{}
	var host corev1.Node
	if err := r.client.Get(r.t.Context(), client.ObjectKey{Name: "host-0"}, &host); err == nil {
		node = host.Status.Allocatable
	}
	for prefix, list := range amounts {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if ref.Resource != prefix+"."+string(name) {
				continue
			}
			amount, set := list[name]
			if !set {
				amount = node[name]
			}
			divisor := ref.Divisor.MilliValue()
			if divisor == 0 {
				divisor = 1000
			}
			return strconv.FormatInt((amount.MilliValue()+divisor-1)/divisor, 10)
		}
	}
	r.t.Fatalf("the amount %s is not played here", ref.Resource)
	return ""
}

// token returns a token of the release's ServiceAccount.
func (r *release) token() string {
	r.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if err := r.client.SubResource("token").Create(r.t.Context(), &r.account, request); err != nil {
		r.t.Fatal(err)
	}
	return request.Status.Token
}

// kubeconfig writes one with a token of the release's ServiceAccount, and returns its path.
func (r *release) kubeconfig() string {
	r.t.Helper()
	token := r.token()
	config, err := clientcmd.LoadFromFile(r.cluster.Kubeconfig)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, user := range config.AuthInfos {
		*user = *user.DeepCopy()
		user.ClientCertificate, user.ClientCertificateData, user.ClientKey, user.ClientKeyData = "", nil, "", nil
		user.Token = token
		config.AuthInfos[name] = user
	}
	path := filepath.Join(r.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		r.t.Fatal(err)
	}
	return path
}
