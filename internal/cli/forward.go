package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"

	"github.com/dovetail-sh/dovetail/internal/operator"
)

const (
	// leaseName is the lease that the leader holds, unless --leader-election-name says otherwise.
	leaseName = "karpenter-leader-election"
	// debugPort is where a leader answers whose lease does not say.
	debugPort = 8082
)

// controllerFlags say which controller is asked.
type controllerFlags struct{ address, kubeconfig, namespace string }

func (f *controllerFlags) addController(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "address", "", "the debug port of a controller; empty: "+addressForwarded+" if something answers there and no cluster is named, else that of the replica that leads, through the API server")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG or ~/.kube/config")
	cmd.Flags().StringVar(&f.namespace, "controller-namespace", "", "namespace of the controller; empty: wherever the lease is")
}

// locate returns the address of a controller's debug port: the one given, that of a controller or a
// forwarded port on this computer, or else one that is forwarded until the context ends.
func (f *controllerFlags) locate(ctx context.Context) (string, error) {
	if f.address != "" {
		return withScheme(f.address), nil
	}
	if f.kubeconfig == "" && f.namespace == "" { // else a cluster is named
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(addressForwarded, "http://"))
		if err == nil {
			_ = conn.Close()
			return addressForwarded, nil
		}
	}
	address, err := f.forward(ctx)
	if err != nil {
		return "", &statusError{error: err, status: statusUnreachable}
	}
	return address, nil
}

func withScheme(address string) string {
	if address = strings.TrimSuffix(address, "/"); !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return address
}

// forward finds the replica that leads and forwards a local port to its debug port, until the context
// ends. It returns the address of the local port.
func (f *controllerFlags) forward(ctx context.Context) (string, error) {
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return "", err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	lease, err := answeringLease(ctx, clients, f.namespace)
	if errors.As(err, &noLeaderError{}) {
		return "", fmt.Errorf("%w; give --address, or --journal", err)
	}
	if err != nil {
		return "", err
	}
	port, err := debugPortOf(lease)
	if err != nil {
		return "", err
	}
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	if lease.Labels[operator.LabelRunsIn] == operator.RunsOnHost {
		if here, err := os.Hostname(); err != nil || here != host {
			return "", fmt.Errorf("the leader runs outside the cluster, on %s, and answers there alone, on 127.0.0.1:%d; ask there, or give --journal", host, port)
		}
		return fmt.Sprintf("http://127.0.0.1:%d", port), nil
	}
	address, err := forwardTo(ctx, config, types.NamespacedName{Namespace: lease.Namespace, Name: host}, port)
	if err != nil {
		return "", fmt.Errorf("forward a port to the leader, pod %s/%s: %w", lease.Namespace, host, err)
	}
	return address, nil
}

// debugPortOf returns the debug port of the replica that holds a lease.
func debugPortOf(lease *coordinationv1.Lease) (int, error) {
	said, is := lease.Labels[operator.LabelDebugPort]
	switch port, err := strconv.ParseUint(said, 10, 16); {
	case !is:
		return debugPort, nil
	case said == "":
		return 0, fmt.Errorf("the leader %s has no debug port: --journal-memory-bytes is 0", *lease.Spec.HolderIdentity)
	case err != nil || port == 0:
		return 0, fmt.Errorf("label %s of lease %s/%s is %q, not a port: give --address", operator.LabelDebugPort, lease.Namespace, lease.Name, said)
	default:
		return int(port), nil
	}
}

// answeringLease returns the lease of a controller that can be asked: that of the leader or, if none leads or the
// leader is not Dovetail, that of a controller that only observes.
func answeringLease(ctx context.Context, clients kubernetes.Interface, namespace string) (*coordinationv1.Lease, error) {
	leads, err := heldLease(ctx, clients, namespace)
	if err != nil && !errors.As(err, &noLeaderError{}) || err == nil && leads.Labels[operator.LabelRunsIn] != "" && !lapsed(leads) {
		return leads, err
	}
	observes, failed := heldLeaseOf(ctx, clients, namespace, leaseName+operator.ObserverLeaseSuffix)
	if errors.As(failed, &noLeaderError{}) {
		return leads, err
	}
	return observes, failed
}

// lapsed reports whether a lease was not renewed in time: its holder is gone, and did not give it back.
func lapsed(lease *coordinationv1.Lease) bool {
	s := &lease.Spec
	return s.RenewTime != nil && s.LeaseDurationSeconds != nil && time.Since(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second
}

// heldLease returns the lease that the leader holds. Without a namespace it is looked for in all of them.
func heldLease(ctx context.Context, clients kubernetes.Interface, namespace string) (*coordinationv1.Lease, error) {
	return heldLeaseOf(ctx, clients, namespace, leaseName)
}

// heldLeaseOf returns the lease of a name that somebody holds.
func heldLeaseOf(ctx context.Context, clients kubernetes.Interface, namespace, name string) (*coordinationv1.Lease, error) {
	leases, err := clients.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return nil, fmt.Errorf("look for the lease %s: %w; with --controller-namespace it is looked for there alone", name, err)
	}
	var held []coordinationv1.Lease
	for _, l := range leases.Items {
		if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
			held = append(held, l)
		}
	}
	switch len(held) {
	case 0:
		return nil, noLeaderError{namespace}
	case 1:
		return &held[0], nil
	}
	return nil, fmt.Errorf("leases %s are held in the namespaces %s and %s: name one with --controller-namespace", name, held[0].Namespace, held[1].Namespace)
}

// noLeaderError: nobody holds a lease in the namespace; empty: in any.
type noLeaderError struct{ namespace string }

func (e noLeaderError) Error() string {
	if e.namespace == "" {
		return fmt.Sprintf("nobody holds a lease %s: no controller runs", leaseName)
	}
	return fmt.Sprintf("nobody holds a lease %s in namespace %s: no controller runs there", leaseName, e.namespace)
}

// forwardTo forwards a free local port to a pod's debug port.
func forwardTo(ctx context.Context, config *rest.Config, pod types.NamespacedName, port int) (string, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return "", err
	}
	target := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	ready := make(chan struct{})
	ctx = klog.NewContext(ctx, logr.Discard()) // what goes wrong is in the errors
	forwarder, err := portforward.NewOnAddressesWithContext(ctx, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, ready, io.Discard, io.Discard)
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("the connection was closed")
		}
		return "", err
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0].Local), nil
}
