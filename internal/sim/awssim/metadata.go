package awssim

import (
	"fmt"
	"net/http"
)

// serveMetadata is the instance metadata service, version 2: a token first.
func (s *network) serveMetadata(w http.ResponseWriter, r *http.Request) {
	const token = "awssim-metadata-token"
	documents := map[string]string{
		"/latest/meta-data/placement/region":            s.base.opts.Region,
		"/latest/meta-data/placement/availability-zone": s.zones[0].Name,
		"/latest/dynamic/instance-identity/document": fmt.Sprintf(
			`{"region":%q,"accountId":%q,"availabilityZone":%q,"instanceId":"i-00000000000000000"}`, s.base.opts.Region, s.base.opts.AccountID, s.zones[0].Name),
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
