package clusterapi

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// shortages are parts of the reasons with which infrastructure providers say that there is no capacity,
// in lower case. Such a launch is given up: another offering may have some.
func shortages() []string {
	return []string{"insufficient", "nocapacity", "outofcapacity", "quotaexceeded", "noavailable", "nohost", "nohardware", "resourceexhausted"}
}

func isShortage(reason string) bool {
	reason = strings.ToLower(reason)
	for _, s := range shortages() {
		if strings.Contains(reason, s) {
			return true
		}
	}
	return false
}

// failed returns why a launch has failed for good; nil: it has not, as far as can be known. An
// infrastructure provider says so in the fields for terminal failures, in a condition of severity
// Error, or with a reason that speaks of missing capacity. Whatever else it says may pass.
func failed(objects ...fields) *cloud.Failure {
	for _, object := range objects {
		for _, at := range [][]string{{"status"}, {"status", "deprecated", "v1beta1"}} {
			s := object.at(at...)
			if reason := s.text("failureReason"); reason != "" {
				return newFailure(reason, s.text("failureMessage"))
			}
		}
		for _, c := range conditions(object) {
			if c.Status == "False" && (c.Severity == "Error" || isShortage(c.Reason)) {
				return newFailure(c.Reason, c.Message)
			}
		}
	}
	return nil
}

func newFailure(reason, message string) *cloud.Failure {
	f := &cloud.Failure{Kind: cloud.Rejected, Message: fmt.Sprintf("%s: %s", reason, cmp.Or(message, "the infrastructure provider gives no message"))}
	if isShortage(reason) {
		f.Kind = cloud.NoCapacity
	}
	return f
}

// failure returns why the launch of a Machine has failed; nil: it has not.
func (p *Provider) failure(ctx context.Context, object *unstructured.Unstructured) (*cloud.Failure, error) {
	f := fields(object.Object)
	if f.text("spec", "providerID") != "" {
		return nil, nil
	}
	all := []fields{f}
	if ref, ok := f.referenceAt("spec", "infrastructureRef"); ok {
		infrastructure, err := p.mgmt.getRef(ctx, ref, object.GetNamespace())
		if err == nil {
			all = append(all, infrastructure.Object)
		} else if !apierrors.IsNotFound(err) && !isRefused(err) {
			return nil, err
		}
	}
	return failed(all...), nil
}
