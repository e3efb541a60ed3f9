// Command suites runs Karpenter's own end-to-end suites against dovetail, on a dev cluster with
// Karpenter's definitions of objects and stages of nodes. The suites are test binaries built from the
// published module, which `make suites` does.
//
// They expect a Deployment karpenter whose environment they change, and whose Pod they await. KWOK
// plays that Pod; this program runs dovetail with the environment of the one that runs. All of it is
// in a network of its own: the suites and their DRA driver name ports, which others may have, and
// want the Pod's metrics from the API server, which asks no loopback address.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	namespace = "kube-system"
	name      = "karpenter"
	// lease is that of the leader.
	lease = "karpenter-leader-election"
	// leadsWithin is how long dovetail has from the dev cluster's start to lead.
	leadsWithin = time.Minute
	// pollEvery is how often it is asked which Pod runs.
	pollEvery = 300 * time.Millisecond
	// address is that of every node, and of the Pod, in the network.
	address     = "10.199.0.1"
	kubeletPort = 10250
	// metricsPort is where the suites want the metrics.
	metricsPort = 8080
	// isolated is set in the environment of the process that has a network of its own.
	isolated = "SUITES_ISOLATED"
	// schedulerConfig is, in the module, kube-scheduler's configuration that some specs want. They
	// know it by the path that it has in the scheduler's Pod.
	schedulerConfig   = "test/suites/regression/testdata/kube-scheduler-config.yaml"
	schedulerMountArg = "--config=/etc/kubernetes/karpenter-scheduler-config/kube-scheduler-config.yaml"
)

// settings are what the command line says.
type settings struct {
	devcluster, dovetail, suite, module, gates, log, draDriver string
}

func main() {
	var s settings
	flag.StringVar(&s.devcluster, "devcluster", "bin/devcluster", "the dev cluster's program")
	flag.StringVar(&s.dovetail, "dovetail", "bin/dovetail", "the program under test")
	flag.StringVar(&s.suite, "suite", "", "the test binary of a suite")
	flag.StringVar(&s.module, "module", "", "directory of the module sigs.k8s.io/karpenter")
	flag.StringVar(&s.gates, "feature-gates", "NodeRepair=true,StaticCapacity=true,CapacityBuffer=true", "FEATURE_GATES of the Deployment")
	flag.StringVar(&s.log, "log", "", "file for the log of dovetail; empty: none")
	flag.StringVar(&s.draDriver, "dra-driver", "", "Karpenter's dra-kwok-driver, to run beside; empty: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func() error { return run(ctx, s, flag.Args()) }
	if os.Getenv(isolated) == "" {
		do = func() error { return isolate(ctx) }
	}
	if err := do(); err != nil {
		fmt.Fprintf(os.Stderr, "suites: %s\n", err)
		os.Exit(1) //nolint:gocritic // the context has ended
	}
}

// isolate runs this program in a network of its own.
func isolate(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	script := `ip link set lo up && ip address add ` + address + `/32 dev lo && exec "$@"`
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--net", "sh", "-c", script, "sh", self}, os.Args[1:]...)...) //nolint:gosec // it is this program
	cmd.Env = append(os.Environ(), isolated+"=true")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}

func run(ctx context.Context, s settings, args []string) error {
	dir, err := os.MkdirTemp("", "suites-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the temporary directory
	c, err := start(ctx, s, dir)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := prepare(ctx, c, s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.draDriver != "" {
		driver := exec.CommandContext(ctx, s.draDriver) //nolint:gosec // the user names the program
		driver.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		if err := driver.Start(); err != nil {
			return fmt.Errorf("start the DRA driver: %w", err)
		}
		defer func() { cancel(); _ = driver.Wait() }()
	}
	h := &host{Client: c, settings: s, kubeconfig: kubeconfig}
	ended := make(chan struct{})
	go func() { defer close(ended); h.run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := h.awaitLease(ctx); err != nil {
		return err
	}
	suite := exec.CommandContext(ctx, s.suite, args...)
	suite.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	suite.Stdout, suite.Stderr = os.Stdout, os.Stderr
	return suite.Run()
}

// start starts the dev cluster and returns a client of it.
func start(ctx context.Context, s settings, dir string) (client.Client, error) {
	cmd := exec.CommandContext(ctx, s.devcluster, "up", "--dir", dir, fmt.Sprintf("--with-parent=%d", os.Getpid()), //nolint:gosec // the user names the program
		"--stages", filepath.Join(s.module, "hack", "kwok", "stages"), "--scheduler-config", filepath.Join(s.module, schedulerConfig),
		"--node-ip", address, fmt.Sprintf("--kubelet-port=%d", kubeletPort), fmt.Sprintf("--pod-port=%d", metricsPort))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the dev cluster: %w", err)
	}
	if err := awaitReady(out); err != nil {
		return nil, err
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // it ends with the dev cluster
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{})
}

// awaitReady reads what the dev cluster prints until it is ready.
func awaitReady(out io.Reader) error {
	var said strings.Builder
	buffer := make([]byte, 1<<10)
	for !strings.Contains(said.String(), "\nready\n") {
		n, err := out.Read(buffer)
		said.Write(buffer[:n])
		if err != nil {
			return fmt.Errorf("the dev cluster ended: %w\n%s", err, said.String())
		}
	}
	return nil
}

// prepare installs Karpenter's definitions, the Node that its Pod is on, its Deployment, and a Pod
// from which the suites learn what kube-scheduler is configured with.
func prepare(ctx context.Context, c client.Client, s settings) error {
	var files []string
	for _, dir := range []string{"pkg/apis/crds", "kwok/apis/crds", "dra-kwok-driver/pkg/apis/crds"} {
		found, err := filepath.Glob(filepath.Join(s.module, dir, "*.yaml"))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no definitions: give -module the directory of sigs.k8s.io/karpenter", s.module)
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // the user names the directory
		if err != nil {
			return err
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := c.Create(ctx, &o); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, o := range []client.Object{system(), deployment(s.gates), scheduler()} {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// system is the Node for Karpenter itself: tainted, as the suites want every Node that is there before.
func system() *corev1.Node {
	room := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("50")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "system", Labels: map[string]string{"kwok.x-k8s.io/node": "fake", "system": "true", "kubernetes.io/os": "linux"}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "CriticalAddonsOnly", Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

func deployment(gates string) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/instance": name}
	container := corev1.Container{
		Name: "controller", Image: "dovetail", Env: []corev1.EnvVar{
			{Name: "FEATURE_GATES", Value: gates}, {Name: "LOG_LEVEL", Value: "debug"}, {Name: "DISABLE_LEADER_ELECTION", Value: "false"},
		},
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	d.Spec.Replicas = new(int32(1))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec = corev1.PodSpec{
		HostNetwork:  true, // the Pod has the node's address, where dovetail serves its metrics
		NodeSelector: map[string]string{"system": "true"}, Containers: []corev1.Container{container},
		Tolerations: []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}},
	}
	return d
}

// scheduler is the Pod that a kubelet would make for kube-scheduler.
func scheduler() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-scheduler-system", Labels: map[string]string{"component": "kube-scheduler"}},
		Spec: corev1.PodSpec{
			NodeName: "system", Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "kube-scheduler", Image: "kube-scheduler", Command: []string{"kube-scheduler", schedulerMountArg}}},
		},
	}
}

// host runs dovetail for the Deployment's Pod.
type host struct {
	client.Client
	settings
	kubeconfig string
	pod        types.UID
	process    *exec.Cmd
}

// run follows the Pods until the context ends.
func (h *host) run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := h.follow(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "suites: %s\n", err)
		}
		select {
		case <-ctx.Done():
			h.end()
			return
		case <-tick.C:
		}
	}
}

// follow starts dovetail for a Pod that has come to run, and ends it when that is gone.
func (h *host) follow(ctx context.Context) error {
	var pods corev1.PodList
	if err := h.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/instance": name}); err != nil {
		return err
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning })
	if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.UID == h.pod }) {
		return nil
	}
	h.end()
	if len(pods.Items) == 0 {
		return nil
	}
	return h.begin(&pods.Items[0])
}

// begin runs dovetail under the Pod's name, by which the suites know who leads.
func (h *host) begin(p *corev1.Pod) error {
	args := []string{"--uts", "sh", "-c", `hostname "$0" && exec "$@"`, p.Name, h.dovetail, "controller", "--kubeconfig", h.kubeconfig, "--cloud-provider", "kwok", "--health-probe-port", "0", "--metrics-port", strconv.Itoa(metricsPort), "--debug-port", "0"}
	cmd := exec.Command("unshare", args...) //nolint:gosec // the user names the program
	cmd.Env = append(os.Environ(), "SYSTEM_NAMESPACE="+namespace)
	for _, e := range p.Spec.Containers[0].Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	if h.log != "" {
		f, err := os.OpenFile(h.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // the process has it
		cmd.Stdout, cmd.Stderr = f, f
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start dovetail: %w", err)
	}
	h.pod, h.process = p.UID, cmd
	return nil
}

// awaitLease waits until dovetail leads, by which the suites find its Pod.
func (h *host) awaitLease(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, pollEvery, leadsWithin, true, func(ctx context.Context) (bool, error) {
		var l coordinationv1.Lease
		err := h.Get(ctx, client.ObjectKey{Namespace: namespace, Name: lease}, &l)
		return err == nil && l.Spec.HolderIdentity != nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("wait for dovetail to hold lease %s: %w", lease, err)
	}
	return nil
}

// end ends dovetail as a kubelet does.
func (h *host) end() {
	if h.process == nil {
		return
	}
	if err := h.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintf(os.Stderr, "suites: end dovetail: %s\n", err)
	}
	_ = h.process.Wait()
	h.pod, h.process = "", nil
}
