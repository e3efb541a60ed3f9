package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// dnsService is the Service of the cluster's DNS, in kube-system.
	dnsService = "kube-dns"

	versionKept = 5 * time.Minute
	clusterKept = 5 * time.Minute
)

// clusterInfo finds out what a node must know of the EKS cluster that it joins.
type clusterInfo struct {
	opts            *Options
	clients         *clients
	described       cache[eksCluster]
	dnsOf, versions cache[string]
}

func newClusterInfo(opts *Options, clients *clients) *clusterInfo {
	return &clusterInfo{
		opts: opts, clients: clients, described: cache[eksCluster]{now: opts.Now, ttl: clusterKept},
		dnsOf: cache[string]{now: opts.Now, ttl: versionKept}, versions: cache[string]{now: opts.Now, ttl: versionKept},
	}
}

// eksCluster is what EKS says of the cluster.
type eksCluster struct {
	arn, endpoint, version string
	// cidr is the range of the services.
	cidr string
}

// errNoServiceRange is EKS' answer that lacks what it should have.
var errNoServiceRange = errors.New("it does not say the range of its services")

// describe asks EKS about the cluster. What matters here hardly ever changes: while EKS
// cannot be asked, what it said last holds.
func (c *clusterInfo) describe(ctx context.Context) (eksCluster, error) {
	facts, err := c.described.get(ctx, "", func(ctx context.Context) (eksCluster, error) {
		out, err := c.clients.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &c.opts.ClusterName})
		if errorCode(err) == "ResourceNotFoundException" {
			return eksCluster{}, fmt.Errorf("EKS has no cluster %s in %s: set --cluster-name (settings.clusterName of the chart) to the name that aws eks list-clusters shows", c.opts.ClusterName, c.opts.Config.Region)
		}
		if err != nil {
			return eksCluster{}, fmt.Errorf("describe cluster %s: %w", c.opts.ClusterName, err)
		}
		facts := eksCluster{arn: aws.ToString(out.Cluster.Arn), endpoint: aws.ToString(out.Cluster.Endpoint), version: aws.ToString(out.Cluster.Version)}
		if network := out.Cluster.KubernetesNetworkConfig; network != nil {
			facts.cidr = cmp.Or(aws.ToString(network.ServiceIpv4Cidr), aws.ToString(network.ServiceIpv6Cidr))
		}
		if facts.cidr == "" {
			return facts, fmt.Errorf("describe cluster %s: %w", c.opts.ClusterName, errNoServiceRange)
		}
		return facts, nil
	})
	if last, ok := c.described.last(""); err != nil && ok && isInconclusive(err) {
		c.opts.Log.Warn("EKS could not be asked about the cluster; using what it said last", "error", err)
		return last, nil
	}
	return facts, err
}

// dns returns the address of the cluster's DNS; empty: there is no Service of that name.
func (c *clusterInfo) dns(ctx context.Context) (string, error) {
	return c.dnsOf.get(ctx, "", func(ctx context.Context) (string, error) {
		service := &corev1.Service{}
		err := c.opts.Reader.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: dnsService}, service)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("find the cluster's DNS: %w", err)
		}
		return service.Spec.ClusterIP, nil
	})
}

// version returns major.minor of the cluster's Kubernetes.
func (c *clusterInfo) version(ctx context.Context) (string, error) {
	return c.versions.get(ctx, "", func(ctx context.Context) (string, error) {
		ask := c.opts.KubernetesVersion
		if ask == nil {
			ask = c.eksVersion
		}
		version, err := ask(ctx)
		if err != nil {
			return "", fmt.Errorf("find the version of Kubernetes: %w", err)
		}
		return version, nil
	})
}

func (c *clusterInfo) eksVersion(ctx context.Context) (string, error) {
	facts, err := c.describe(ctx)
	return facts.version, err
}
