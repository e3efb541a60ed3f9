package awssim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

func ssmOperations() map[string]operation { return map[string]operation{"GetParameter": getParameter} }

func getParameter(s *Sim, c *call) (any, error) {
	name, _ := c.doc["Name"].(string)
	value, ok := s.parameters[name]
	if !ok {
		return nil, fail("ParameterNotFound", "The parameter %s does not exist.", name)
	}
	return map[string]any{"Parameter": map[string]any{
		"Name": name, "Type": "String", "Value": value, "Version": 1, "DataType": "text",
		"ARN": s.arn("ssm", "parameter"+name),
	}}, nil
}

// SetParameter gives the account an SSM parameter.
func (s *Sim) SetParameter(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parameters[name] = value
}

// Parameter returns an SSM parameter; empty: there is none.
func (s *Sim) Parameter(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parameters[name]
}

func eksOperations() map[string]operation {
	return map[string]operation{"DescribeCluster": describeCluster}
}

func describeCluster(s *Sim, c *call) (any, error) {
	k := s.opts.Cluster
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
		"resourcesVpcConfig":      map[string]any{"vpcId": vpcID, "clusterSecurityGroupId": s.groups[0].id},
	}}, nil
}

func (s *Sim) clusterARN() string { return s.arn("eks", "cluster/"+s.opts.Cluster.Name) }

func shiftOperations() map[string]operation {
	return map[string]operation{"GetManagedResource": getManagedResource}
}

// ZonalShift moves traffic away from a zone.
type ZonalShift struct {
	// AwayFrom is the zone's id.
	AwayFrom string
	Expires  time.Time
}

// Shift begins zonal shifts of the cluster, and ends all others.
func (s *Sim) Shift(shifts ...ZonalShift) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shifts = shifts
}

func getManagedResource(s *Sim, c *call) (any, error) {
	if c.path != s.clusterARN() {
		return nil, &apiError{http.StatusNotFound, "ResourceNotFoundException", "There is no managed resource " + c.path}
	}
	active := []map[string]any{}
	for i, z := range s.shifts {
		if z.Expires.After(c.now) {
			active = append(active, map[string]any{
				"zonalShiftId": fmt.Sprintf("shift-%d", i), "awayFrom": z.AwayFrom, "appliedStatus": "APPLIED", "comment": "by hand",
				"resourceIdentifier": c.path, "startTime": c.now.Unix(), "expiryTime": z.Expires.Unix(),
			})
		}
	}
	return map[string]any{
		"arn": c.path, "name": s.opts.Cluster.Name, "appliedWeights": map[string]any{}, "zonalShifts": active, "autoshifts": []any{},
	}, nil
}

func stsOperations() map[string]operation {
	return map[string]operation{"GetCallerIdentity": func(s *Sim, _ *call) (any, error) {
		return fields{{"Arn", s.arn("iam", "user/dovetail")}, {"UserId", "AIDA0000000000000001"}, {"Account", s.opts.AccountID}}, nil
	}}
}

// serveMetadata is the instance metadata service, version 2: a token first.
func (s *Sim) serveMetadata(w http.ResponseWriter, r *http.Request) {
	const token = "awssim-metadata-token"
	documents := map[string]string{
		"/latest/meta-data/placement/region":            s.opts.Region,
		"/latest/meta-data/placement/availability-zone": s.zones[0].Name,
		"/latest/dynamic/instance-identity/document": fmt.Sprintf(
			`{"region":%q,"accountId":%q,"availabilityZone":%q,"instanceId":"i-00000000000000000"}`, s.opts.Region, s.opts.AccountID, s.zones[0].Name),
	}
	switch {
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
		fmt.Fprint(w, token)
	case r.Header.Get("X-Aws-Ec2-Metadata-Token") != token:
		http.Error(w, "a token is needed", http.StatusUnauthorized)
	case documents[r.URL.Path] != "":
		fmt.Fprint(w, documents[r.URL.Path])
	default:
		http.NotFound(w, r)
	}
}

// Zones returns the account's zones, names and ids.
func (s *Sim) Zones() []Zone { return slices.Clone(s.zones) }
