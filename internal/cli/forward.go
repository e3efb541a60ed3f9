package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
)

const (
	// leaseName is the lease that the leader holds, unless --leader-election-name says otherwise.
	leaseName = "karpenter-leader-election"
	// debugPort is where the leader answers, unless --debug-port says otherwise.
	debugPort = 8082
)

// forward finds the replica that leads and forwards a local port to its debug port, until the context
// ends. It returns the address of the local port.
func (f *journalFlags) forward(ctx context.Context) (string, error) {
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return "", err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	namespace, pod, err := leader(ctx, clients, f.namespace)
	if err != nil {
		return "", err
	}
	address, err := forwardTo(ctx, config, clients, namespace, pod)
	if err != nil {
		return "", fmt.Errorf("forward a port to the leader, pod %s/%s: %w", namespace, pod, err)
	}
	return address, nil
}

// leader returns the pod that leads, by the lease that it holds. Without a namespace the lease is looked
// for in all of them.
func leader(ctx context.Context, clients kubernetes.Interface, namespace string) (in, pod string, err error) {
	leases, err := clients.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + leaseName})
	if err != nil {
		return "", "", fmt.Errorf("look for the lease %s: %w; with --controller-namespace it is looked for there alone", leaseName, err)
	}
	var held []coordinationv1.Lease
	for _, l := range leases.Items {
		if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
			held = append(held, l)
		}
	}
	switch len(held) {
	case 0:
		return "", "", fmt.Errorf("nobody holds a lease %s: no controller runs, or it is in another namespace than --controller-namespace %s; give --address, or --journal", leaseName, namespace)
	case 1:
		pod, _, _ = strings.Cut(*held[0].Spec.HolderIdentity, "_")
		return held[0].Namespace, pod, nil
	}
	return "", "", fmt.Errorf("leases %s are held in the namespaces %s and %s: name one with --controller-namespace", leaseName, held[0].Namespace, held[1].Namespace)
}

// forwardTo forwards a free local port to a pod's debug port.
func forwardTo(ctx context.Context, config *rest.Config, clients kubernetes.Interface, namespace, pod string) (string, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return "", err
	}
	target := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	ready := make(chan struct{})
	ctx = klog.NewContext(ctx, logr.Discard()) // what goes wrong is in the errors
	forwarder, err := portforward.NewOnAddressesWithContext(ctx, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", debugPort)}, ready, io.Discard, io.Discard)
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
