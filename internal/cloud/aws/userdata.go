package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/userdata"
)

// dnsService is the Service of the cluster's DNS, in kube-system.
const dnsService = "kube-dns"

// userData returns what the machines of a shot run at their start.
func (p *Provider) userData(ctx context.Context, s *shot, image string, settings *kubelet.Settings) (string, error) {
	spec := &s.class.Spec
	n := &userdata.Node{
		Family: family.Of(spec), Labels: s.nodeLabels(), Taints: s.taints, Kubelet: *settings,
		StorePolicy: spec.InstanceStorePolicy, Custom: aws.ToString(spec.UserData), ImageVersion: imageVersion(s.class, image),
		Cluster: userdata.Cluster{Name: p.opts.ClusterName, Endpoint: p.opts.ClusterEndpoint, CA: p.opts.ClusterCABundle, DNS: s.dns},
	}
	if n.Family.Name == family.AL2023 || n.Cluster.Endpoint == "" {
		facts, err := p.cluster(ctx)
		if err != nil {
			return "", err
		}
		n.Cluster.CIDR, n.Cluster.Endpoint = facts.cidr, cmp.Or(n.Cluster.Endpoint, facts.endpoint)
	}
	return userdata.Make(n)
}

// imageVersion returns something that has the version of an image in it: the version of
// the alias or, if that is the latest, the image's name.
func imageVersion(class *awsv1.EC2NodeClass, image string) string {
	if _, version, ok := family.Alias(&class.Spec); ok && version != latest {
		return version
	}
	for _, a := range class.Status.AMIs {
		if a.ID == image {
			return a.Name
		}
	}
	return ""
}

// eksCluster is what EKS says of the cluster.
type eksCluster struct {
	arn, endpoint, version string
	// cidr is the range of the services.
	cidr string
}

// errNoServiceRange is EKS' answer that lacks what it should have.
var errNoServiceRange = errors.New("it does not say the range of its services")

// cluster asks EKS about the cluster. What matters here hardly ever changes: while EKS
// cannot be asked, what it said last holds.
func (p *Provider) cluster(ctx context.Context) (eksCluster, error) {
	facts, err := p.clusters.get(ctx, "", func(ctx context.Context) (eksCluster, error) {
		out, err := p.clients.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &p.opts.ClusterName})
		if err != nil {
			return eksCluster{}, fmt.Errorf("describe cluster %s: %w", p.opts.ClusterName, err)
		}
		facts := eksCluster{arn: aws.ToString(out.Cluster.Arn), endpoint: aws.ToString(out.Cluster.Endpoint), version: aws.ToString(out.Cluster.Version)}
		if network := out.Cluster.KubernetesNetworkConfig; network != nil {
			facts.cidr = cmp.Or(aws.ToString(network.ServiceIpv4Cidr), aws.ToString(network.ServiceIpv6Cidr))
		}
		if facts.cidr == "" {
			return facts, fmt.Errorf("describe cluster %s: %w", p.opts.ClusterName, errNoServiceRange)
		}
		return facts, nil
	})
	if last, ok := p.clusters.last(""); err != nil && ok && isInconclusive(err) {
		p.opts.Log.Warn("EKS could not be asked about the cluster; using what it said last", "error", err)
		return last, nil
	}
	return facts, err
}

// dns returns the address of the cluster's DNS; empty: there is no Service of that name.
func (p *Provider) dns(ctx context.Context) (string, error) {
	return p.resolvers.get(ctx, "", func(ctx context.Context) (string, error) {
		service := &corev1.Service{}
		err := p.opts.Reader.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: dnsService}, service)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("find the cluster's DNS: %w", err)
		}
		return service.Spec.ClusterIP, nil
	})
}
