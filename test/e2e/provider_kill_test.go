package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/rack"
)

const (
	theServer = "the provider's server"
	// rackAddress and rackKubeconfig, in the environment, make a process of this test binary a server of the provider rack.
	rackAddress, rackKubeconfig = "E2E_RACK_ADDRESS", "E2E_RACK_KUBECONFIG"
)

var providerKills = flag.Int("provider-kills", 4, "how often TestProviderIsKilled kills the controller or the provider's server")

// TestProviderIsKilled has 100 pods come and go on nodes of the provider remote, whose server is a process of its own: in Go, and the
// example in Node.js, whose launches are accepted at once and get their ID later. At random moments the server or the controller is
// killed. In the end NodeClaims, instances and Nodes are one to one. -crash-seed repeats a choice of moments, as far as
// that goes with real processes.
func TestProviderIsKilled(t *testing.T) {
	t.Parallel()
	servers := map[string]struct {
		class, instanceType string
		cpus                int // of a node that pods can have
		start               func(l *lives, cluster *testkit.Cluster, address string)
	}{
		"in Go":      {"default", "rack-4", 4, serveInGo},
		"in Node.js": {"accepts", "metal-4", 3, serveInNode},
	}
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("-provider-kills=%d -crash-seed=%d", *providerKills, *crashSeed)
			if name == "in Node.js" {
				exampleProvider(t) // to be skipped before anything is started
			}
			cluster := testkit.StartCluster(t)
			l := newLives(t, connect(t, cluster))
			installDefinitions(t, l.client)
			installRack(t, l.client)
			noError(t, l.client.Create(t.Context(), livesPool(karpenterv1.NodeClassReference{Group: rack.Group, Kind: rack.Kind, Name: s.class}, s.instanceType)))
			kubeconfig := asInstalled(t, cluster, l.client, "providers")
			allowClasses(t, l.client)
			address := "unix://" + filepath.Join(t.TempDir(), "p.sock")
			s.start(l, cluster, address)
			l.start = func() *process {
				return controller(t, kubeconfig, "--cloud-provider", "remote", "--provider-address", address, "--disable-leader-election=true", "--batch-idle-duration", "300ms")
			}
			l.controller = l.start()
			testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), l.client) })
			up := (*providerKills + 1) / 2
			l.grow(up)
			l.decidedOnce(s.cpus)
			l.shrink(*providerKills - up)
		})
	}
}

// alone runs a provider's server until it is killed, which lives may do.
func (l *lives) alone(address string, command func() *exec.Cmd) {
	l.t.Helper()
	start := func() *process {
		server := follow(l.t, command())
		testkit.Eventually(l.t, patience, func() error {
			if !strings.Contains(server.String(), "listening on "+address) {
				return fmt.Errorf("the server does not listen:\n%s", server)
			}
			return nil
		})
		return server
	}
	server := start()
	l.others[theServer] = func() {
		if !server.running() {
			l.t.Fatalf("the server ended by itself:\n%s", server)
		}
		server.kill()
		server = start()
	}
}

// serveInGo serves rack, whose instances are Nodes.
func serveInGo(l *lives, cluster *testkit.Cluster, address string) {
	l.alone(address, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0]) //nolint:noctx // it is killed
		cmd.Env = []string{rackAddress + "=" + address, rackKubeconfig + "=" + cluster.Kubeconfig}
		return cmd
	})
	l.instances = func() (map[string]string, error) {
		all, err := rack.New(l.client).List(l.t.Context())
		claims := map[string]string{}
		for i := range all {
			claims[all[i].ID] = all[i].Claim
		}
		return claims, err
	}
}

// lateAnswers is a rack that launches at once and answers later, as clouds do: a kill between the two is likely.
type lateAnswers struct{ *rack.Provider }

// Launch launches, and answers half a second later.
func (l lateAnswers) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := l.Provider.Launch(ctx, requests)
	timer := time.NewTimer(500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return results
}

// serveRackAlone is a process of its own that serves the provider rack.
func serveRackAlone(address, kubeconfig string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return err
	}
	system := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return err
	}
	listener, err := serve.Listen(ctx, address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	serve.New(lateAnswers{rack.New(c)}, serve.Options{Epoch: fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()), ClusterUID: string(system.UID)}).Register(server)
	context.AfterFunc(ctx, server.Stop)
	fmt.Printf("listening on %s\n", address)
	return server.Serve(listener)
}

// exampleProvider returns how the example in Node.js is run. Where it cannot be, the test is skipped.
func exampleProvider(t *testing.T) (node, dir string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: the example provider is not tested")
	}
	dir = filepath.Join("..", "..", "examples", "provider-node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@grpc", "grpc-js")); err != nil {
		t.Skip("the example provider's packages are not installed: npm --prefix examples/provider-node ci")
	}
	return node, dir
}

// serveInNode serves the example, whose instances are the entries of a file. Each becomes a Node.
func serveInNode(l *lives, _ *testkit.Cluster, address string) {
	node, dir := exampleProvider(l.t)
	state := filepath.Join(l.t.TempDir(), "state.json")
	l.alone(address, func() *exec.Cmd {
		cmd := exec.Command(node, "provider.js", address, state) //nolint:noctx // it is killed
		cmd.Dir = dir
		return cmd
	})
	l.instances = func() (map[string]string, error) {
		all, err := readExample(state)
		claims := map[string]string{}
		for i := range all {
			claims[all[i].ID] = all[i].Claim
		}
		if err == nil && len(claims) != len(all) {
			err = fmt.Errorf("%d instances have %d IDs", len(all), len(claims))
		}
		return claims, err
	}
	runExampleKubelets(l, state)
}

// exampleInstance is an entry of the file of the example provider.
type exampleInstance struct {
	ID          string            `json:"id"`
	Token       string            `json:"token"`
	Claim       string            `json:"claim"`
	Labels      map[string]string `json:"labels"`
	Allocatable map[string]int64  `json:"allocatable"`
}

func readExample(state string) (all []exampleInstance, _ error) {
	text, err := os.ReadFile(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // until the first launch
	}
	return all, errors.Join(err, json.Unmarshal(text, &all))
}

// runExampleKubelets has each instance of the example join as a Node once, until the test ends.
func runExampleKubelets(l *lives, state string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	done := make(chan struct{})
	joined := map[string]bool{}
	go func() {
		defer close(done)
		tick := time.NewTicker(joinEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			all, err := readExample(state)
			for i := range all {
				if in := &all[i]; err == nil && in.ID != "" && !joined[in.ID] {
					joined[in.ID] = join(ctx, l.client, in, state)
				}
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	l.t.Cleanup(func() { cancel(); <-done })
}

// join reports whether the Node of an instance was created. An instance that has ended in the meantime has none.
func join(ctx context.Context, c client.Client, in *exampleInstance, state string) bool {
	name := "node-" + path.Base(in.ID)
	labels := map[string]string{"kwok.x-k8s.io/node": "fake", corev1.LabelHostname: name}
	maps.Copy(labels, in.Labels)
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(in.Allocatable["cpu"], resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(in.Allocatable["memory"], resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(in.Allocatable["pods"], resource.DecimalSI),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec:       corev1.NodeSpec{ProviderID: in.ID, Taints: []corev1.Taint{karpenterv1.UnregisteredTaint()}},
		Status:     corev1.NodeStatus{Capacity: amounts, Allocatable: amounts},
	}
	if err := c.Create(ctx, node); err != nil {
		return false // the next round will do
	}
	if all, err := readExample(state); err == nil && !slices.ContainsFunc(all, func(o exampleInstance) bool { return o.ID == in.ID }) {
		_ = c.Delete(ctx, node) // who ended the instance has not seen it
	}
	return true
}
