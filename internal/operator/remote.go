package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// link is the connection to a provider in another process, and what the provider said it is. It
// outlives terms.
type link struct {
	client *remote.Client
	is     *remote.Description
}

// provider returns the provider of one term. Without a reader it only answers what never changes.
func (l *link) provider(classes client.Reader, may func() error) cloud.Provider {
	if classes == nil {
		return remote.New(nil, l.is, nil, nil)
	}
	return remote.New(l.client, l.is, classes, may)
}

func (l *link) close() { _ = l.client.Close() }

// connect waits until the provider has said what it is, which all else depends on. Nil: the context
// has ended, or an error that only a person can mend. It says once what it waits for, and again when
// that changes.
func connect(ctx context.Context, opts *Options, m *observe.Metrics) (*link, error) {
	l := &link{}
	wait, said := retryFirst, ""
	for ctx.Err() == nil {
		err := l.attempt(ctx, opts, m)
		var wrong *configError
		switch {
		case err == nil:
			return l, nil
		case errors.As(err, &wrong):
			return nil, wrong.error
		case err.Error() != said && ctx.Err() == nil:
			opts.Log.Error("waiting for the provider", "address", opts.Settings.ProviderAddress, "error", err)
			said = err.Error()
		}
		pause(ctx, wait)
		wait = min(2*wait, retryMost)
	}
	if l.client != nil {
		l.close()
	}
	return nil, nil
}

// attempt asks the cluster its UID, once, and the provider what it is.
func (l *link) attempt(ctx context.Context, opts *Options, m *observe.Metrics) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*retryMost)
	defer cancel()
	if l.client == nil {
		uid, err := clusterUID(ctx, opts)
		if err != nil {
			return err
		}
		s := &opts.Settings
		l.client, err = remote.Open(remote.Options{
			Address: s.ProviderAddress, Files: s.files(), Plaintext: s.ProviderPlaintext, Version: opts.Version,
			Cluster: remote.Cluster{Name: s.ClusterName, UID: uid}, Now: time.Now, Log: opts.Log, Meter: remoteMeter{m},
		})
		if err != nil {
			return &configError{err}
		}
	}
	l.is, err = l.client.Describe(ctx)
	return err
}

// clusterUID returns what distinguishes this cluster from all others.
func clusterUID(ctx context.Context, opts *Options) (string, error) {
	set, err := kubernetes.NewForConfig(opts.Config)
	if err != nil {
		return "", &configError{err}
	}
	namespace, err := set.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for the UID of namespace %s, which names the cluster to the provider: %s", metav1.NamespaceSystem, plain(err))
	}
	return uidOf(namespace)
}

func uidOf(namespace *corev1.Namespace) (string, error) {
	if namespace.UID == "" {
		return "", fmt.Errorf("namespace %s has no UID", namespace.Name)
	}
	return string(namespace.UID), nil
}

// remoteMeter counts what happens between the controller and a provider.
type remoteMeter struct{ m *observe.Metrics }

func (c remoteMeter) Called(method, code string) {
	c.m.ProviderCalls.WithLabelValues(method, code).Inc()
}

func (c remoteMeter) Broken(rule remote.Rule, _ error) {
	c.m.ProviderRefused.WithLabelValues(string(rule)).Inc()
}

func (c remoteMeter) Connected(is bool) {
	c.m.ProviderConnected.WithLabelValues().Set(map[bool]float64{true: 1}[is])
}

func (c remoteMeter) Epoch() { c.m.ProviderStarts.WithLabelValues().Inc() }
