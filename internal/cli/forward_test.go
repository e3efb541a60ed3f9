package cli

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/operator"
)

func TestTheLeaseNamesTheDebugPort(t *testing.T) {
	t.Parallel()
	holder := "web-1_uid"
	for name, c := range map[string]struct {
		labels map[string]string
		port   int
		says   string
	}{
		"a leader that does not say, as of older versions": {nil, 8082, ""},
		"a port":                    {map[string]string{operator.LabelDebugPort: "38911"}, 38911, ""},
		"none":                      {map[string]string{operator.LabelDebugPort: ""}, 0, "web-1_uid has no debug port"},
		"what another has written":  {map[string]string{operator.LabelDebugPort: "example.com"}, 0, "not a port"},
		"a number that is none":     {map[string]string{operator.LabelDebugPort: "65536"}, 0, "not a port"},
		"the port that means 'any'": {map[string]string{operator.LabelDebugPort: "0"}, 0, "not a port"},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l", Labels: c.labels}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		port, err := debugPortOf(lease)
		if port != c.port || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d, %v, want %d and %q", name, port, err, c.port, c.says)
		}
	}
}
