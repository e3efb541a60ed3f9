package awssim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// eks has the cluster, and its zonal shifts.
type eks struct {
	base    *base
	network *network

	active []ZonalShift
}

func (s *eks) describeCluster(c *call) (any, error) {
	k := s.base.opts.Cluster
	if c.path != k.Name {
		return nil, &apiError{http.StatusNotFound, "ResourceNotFoundException", "No cluster found for name: " + c.path + "."}
	}
	network := map[string]any{"serviceIpv4Cidr": k.ServiceCIDR, "ipFamily": "ipv4"}
	if strings.Contains(k.ServiceCIDR, ":") {
		network = map[string]any{"serviceIpv6Cidr": k.ServiceCIDR, "ipFamily": "ipv6"}
	}
	return map[string]any{"cluster": map[string]any{
		"name": k.Name, "arn": s.clusterARN(), "version": k.Version, "endpoint": k.Endpoint, "status": "ACTIVE",
		"certificateAuthority":    map[string]any{"data": k.CertificateAuthority},
		"kubernetesNetworkConfig": network,
		"resourcesVpcConfig":      map[string]any{"vpcId": vpcID, "clusterSecurityGroupId": s.network.groups[0].id},
	}}, nil
}

func (s *eks) clusterARN() string { return s.base.arn("eks", "cluster/"+s.base.opts.Cluster.Name) }

// ZonalShift moves traffic away from a zone.
type ZonalShift struct {
	// AwayFrom is the zone's id.
	AwayFrom string
	Expires  time.Time
}

func (s *eks) getManagedResource(c *call) (any, error) {
	if c.path != s.clusterARN() {
		return nil, &apiError{http.StatusNotFound, "ResourceNotFoundException", "There is no managed resource " + c.path}
	}
	active := []map[string]any{}
	for i, z := range s.active {
		if z.Expires.After(c.now) {
			active = append(active, map[string]any{
				"zonalShiftId": fmt.Sprintf("shift-%d", i), "awayFrom": z.AwayFrom, "appliedStatus": "APPLIED", "comment": "by hand",
				"resourceIdentifier": c.path, "startTime": c.now.Unix(), "expiryTime": z.Expires.Unix(),
			})
		}
	}
	return map[string]any{
		"arn": c.path, "name": s.base.opts.Cluster.Name, "appliedWeights": map[string]any{}, "zonalShifts": active, "autoshifts": []any{},
	}, nil
}
