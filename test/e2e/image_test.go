package e2e

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestTheImageRunsAsInAPod unpacks the image into a directory that becomes the process's root, gives it
// the user, the files and the environment of a pod of Karpenter's chart, and lets it give pods nodes.
// Nothing of this computer is there that is not in the image: no shell, no library, no certificate.
func TestTheImageRunsAsInAPod(t *testing.T) {
	t.Parallel()
	layout := testkit.Binary(t, "image")
	asRoot(t)
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 16)

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "karpenter", Namespace: metav1.NamespaceSystem}}
	token := &authenticationv1.TokenRequest{}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}},
	}
	if err := errors.Join(c.Create(t.Context(), account), c.Create(t.Context(), binding), c.SubResource("token").Create(t.Context(), account, token)); err != nil {
		t.Fatal(err)
	}
	cmd := inImage(t, layout, cluster, podFiles{namespace: metav1.NamespaceSystem, token: token.Status.Token}, []string{
		"KUBERNETES_MIN_VERSION=1.19.0-0", "KARPENTER_SERVICE=karpenter", "LOG_LEVEL=info", "LOG_OUTPUT_PATHS=stdout", "LOG_ERROR_OUTPUT_PATHS=stderr",
		"METRICS_PORT=0", "HEALTH_PROBE_PORT=0", "DEBUG_PORT=0", "SYSTEM_NAMESPACE=kube-system", "CPU_REQUESTS=1000", "MEMORY_LIMIT=1073741824",
		"FEATURE_GATES=ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=false",
		"BATCH_MAX_DURATION=10s", "BATCH_IDLE_DURATION=1s", "PREFERENCE_POLICY=Respect", "MIN_VALUES_POLICY=Strict",
		"CLUSTER_NAME=demo", "VM_MEMORY_OVERHEAD_PERCENT=0.075", "RESERVED_ENIS=0", "CLOUD_PROVIDER=kwok",
	})
	p := follow(t, cmd)
	const pods = 5
	deploy(t, c, pods)
	testkit.Eventually(t, patience, func() error {
		if !p.running() {
			t.Fatalf("it ended:\n%s", p)
		}
		now, err := observe(t.Context(), c)
		if err == nil && now.running() != pods {
			err = errors.New("not all pods run:\n" + p.String())
		}
		return err
	})
	get(t.Context(), t, p.address("health")+"/readyz")
	if status := p.stop(); status != 0 {
		t.Errorf("status %d after SIGTERM:\n%s", status, p)
	}
	checkModules(t, filepath.Join(cmd.SysProcAttr.Chroot, cmd.Path), filepath.Join(layout, "sbom-linux-"+runtime.GOARCH+".cdx.json"))
}

// TestInstallImage installs the chart and does what a kubelet does with its pod: the container of the image
// runs with the pod's arguments, environment, user, volumes and token, and with nothing else, until the
// probes of the pod are answered. Then it gives pods nodes.
func TestInstallImage(t *testing.T) {
	t.Parallel()
	layout := testkit.Binary(t, "image")
	asRoot(t)
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	s := newShell(t, cluster.Kubeconfig, "helm")
	s.publish()
	s.addHosts()
	s.run(strings.TrimSpace(seed(t, "C1.sh", "demo")) + " --set metrics.level=essential --set settings.debugPort=" + freePort(t) +
		" --set controller.metrics.port=" + freePort(t) + " --set controller.healthProbe.port=" + freePort(t))
	r := installed(t, cluster, c, "kube-system")
	_, env := account(t, cluster, c, awssim.Credentials{})
	container := r.container()
	files := podFiles{namespace: r.namespace, token: r.token()}
	for _, mount := range container.VolumeMounts {
		files.volumes = append(files.volumes, mount.MountPath)
	}
	cmd := inImage(t, layout, cluster, files, slices.Concat(r.environment(), env), container.Args...)
	context := container.SecurityContext
	if len(container.Command) > 0 || context == nil || context.RunAsUser == nil || *context.RunAsUser != imageUser || !*context.ReadOnlyRootFilesystem {
		t.Errorf("the container has command %v and security context %+v: the image's entrypoint runs as %d without writing", container.Command, context, imageUser)
	}
	p := follow(t, cmd)
	for probe, at := range map[*corev1.Probe]string{container.ReadinessProbe: "readiness", container.LivenessProbe: "liveness"} {
		port := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.String() })
		if port < 0 {
			t.Fatalf("the %s probe asks port %s, the container has %+v", at, probe.HTTPGet.Port.String(), container.Ports)
		}
		url := fmt.Sprintf("http://127.0.0.1:%d%s", container.Ports[port].ContainerPort, probe.HTTPGet.Path)
		testkit.Eventually(t, patience, func() error {
			if !p.running() {
				t.Fatalf("it ended:\n%s", p)
			}
			_, err := fetch(t.Context(), url)
			return err
		})
	}
	s.apply(seed(t, "class.yaml", "demo"))
	s.apply(seed(t, "M1.yaml", "demo"))
	s.apply(seed(t, "my-app.yaml", "demo"))
	s.run("kubectl scale deployment my-app --replicas=5")
	awaitRunning(t, c, 5)
	at := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == "http-metrics" })
	testkit.Eventually(t, patience, func() error { // a pod may run before its node counts as registered
		metrics := get(t.Context(), t, fmt.Sprintf("http://127.0.0.1:%d/metrics", container.Ports[at].ContainerPort))
		if !strings.Contains(metrics, "karpenter_nodes_created_total{") || strings.Contains(metrics, "karpenter_pods_state{") {
			return fmt.Errorf("with metrics.level=essential it serves\n%s", metrics)
		}
		return nil
	})
	r.endsWell(p)
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("only root may change the root directory of a process")
	}
}

// imageUser is the user and the group of the image.
const imageUser = 65532

// podFiles are what a kubelet puts into a container besides its image.
type podFiles struct {
	namespace, token string
	// volumes are the directories that the container may write to.
	volumes []string
}

// inImage returns a command that runs the image's entrypoint with arguments: a directory with the image
// unpacked is its root, and its environment is that of the image and env.
func inImage(t *testing.T, layout string, cluster *testkit.Cluster, files podFiles, env []string, args ...string) *exec.Cmd {
	t.Helper()
	root := t.TempDir()
	config := unpackImage(t, layout, root)
	server, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	ca := cluster.Config.CAData
	if len(ca) == 0 {
		ca = []byte(readFile(t, cluster.Config.CAFile))
	}
	for name, text := range map[string]string{"token": files.token, "ca.crt": string(ca), "namespace": files.namespace} {
		path := filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, volume := range files.volumes {
		path := filepath.Join(root, volume)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chown(path, imageUser, imageUser)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(config.Config.Entrypoint[0], slices.Concat(config.Config.Entrypoint[1:], args)...)
	inRoot(cmd, root, imageUser)
	cmd.Dir = config.Config.WorkingDir
	cmd.Env = slices.Concat(config.Config.Env, env, []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()})
	return cmd
}

// imageConfig is what an image says of how it is run.
type imageConfig struct {
	Config struct {
		User, WorkingDir string
		Entrypoint, Env  []string
	}
}

// descriptor is how a layout refers to a blob.
type descriptor struct {
	Digest   string
	Platform struct{ Architecture string }
}

// unpackImage unpacks the image of an OCI layout for this computer.
func unpackImage(t *testing.T, layout, root string) (config imageConfig) {
	t.Helper()
	blob := func(d descriptor) string {
		return filepath.Join(layout, "blobs", strings.Replace(d.Digest, ":", "/", 1))
	}
	read := func(path string, into any) {
		if err := json.Unmarshal([]byte(readFile(t, path)), into); err != nil {
			t.Fatal(err)
		}
	}
	var index struct{ Manifests []descriptor }
	read(filepath.Join(layout, "index.json"), &index)
	read(blob(index.Manifests[0]), &index)
	at := slices.IndexFunc(index.Manifests, func(d descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	if at < 0 {
		t.Fatalf("%s has no image for %s", layout, runtime.GOARCH)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(blob(index.Manifests[at]), &manifest)
	read(blob(manifest.Config), &config)
	if config.Config.User != "65532:65532" {
		t.Errorf("the image's user is %q", config.Config.User)
	}
	for _, l := range manifest.Layers {
		unpackLayer(t, blob(l), root)
	}
	return config
}

func unpackLayer(t *testing.T, path, root string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		to := filepath.Join(root, header.Name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, os.FileMode(header.Mode))); err != nil {
			t.Fatal(err)
		}
	}
}

// checkModules compares the list of modules beside an image with what its program says of itself.
func checkModules(t *testing.T, program, list string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	var sbom struct{ Components []struct{ Purl string } }
	if err := json.Unmarshal([]byte(readFile(t, list)), &sbom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range sbom.Components {
		got = append(got, c.Purl)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) < 50 {
		t.Errorf("the list has %d modules, the program %d:\n%v\n%v", len(got), len(want), got, want)
	}
}
