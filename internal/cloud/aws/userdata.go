package aws

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/userdata"
)

// userData returns what the machines of a shot run at their start.
func (p *Provider) userData(ctx context.Context, s *shot, image string, settings *kubelet.Settings) (string, error) {
	spec := &s.class.Spec
	n := &userdata.Node{
		Family: family.Of(spec), Labels: s.nodeLabels(), Taints: s.taints, Kubelet: *settings,
		StorePolicy: spec.InstanceStorePolicy, Custom: aws.ToString(spec.UserData), ImageVersion: imageVersion(s.class, image),
		Cluster: userdata.Cluster{Name: p.opts.ClusterName, Endpoint: p.opts.ClusterEndpoint, CA: p.opts.ClusterCABundle, DNS: p.opts.ClusterDNS},
	}
	if n.Family.Name == family.AL2023 {
		var err error
		if n.Cluster.CIDR, err = p.serviceCIDR(ctx); err != nil {
			return "", err
		}
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

// serviceCIDR returns the range of the cluster's services. It never changes.
func (p *Provider) serviceCIDR(ctx context.Context) (string, error) {
	return p.cidr.get(ctx, "", func(ctx context.Context) (string, error) {
		out, err := p.clients.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &p.opts.ClusterName})
		if err != nil {
			return "", fmt.Errorf("describe cluster %s: %w", p.opts.ClusterName, err)
		}
		if network := out.Cluster.KubernetesNetworkConfig; network != nil {
			if network.ServiceIpv4Cidr != nil {
				return *network.ServiceIpv4Cidr, nil
			}
			if network.ServiceIpv6Cidr != nil {
				return *network.ServiceIpv6Cidr, nil
			}
		}
		return "", fmt.Errorf("describe cluster %s: it does not say the range of its services", p.opts.ClusterName)
	})
}
