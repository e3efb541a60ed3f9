package aws

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/userdata"
)

// userDataMaker writes what instances run at their start.
type userDataMaker struct {
	opts    *Options
	cluster *clusterInfo
}

// make returns the user data for the instances of a fleetSpec.
func (m *userDataMaker) make(ctx context.Context, s *fleetSpec, image string, settings *kubelet.Settings) (string, error) {
	spec := &s.class.Spec
	n := &userdata.Node{
		Family: family.Of(spec), Labels: s.nodeLabels(), Taints: s.taints, Kubelet: *settings,
		StorePolicy: spec.InstanceStorePolicy, Custom: aws.ToString(spec.UserData), ImageVersion: imageVersion(s.class, image),
		Cluster: userdata.Cluster{Name: m.opts.ClusterName, Endpoint: m.opts.ClusterEndpoint, CA: m.opts.ClusterCABundle, DNS: s.dns},
	}
	if n.Family.Name == family.AL2023 || n.Cluster.Endpoint == "" {
		facts, err := m.cluster.describe(ctx)
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
