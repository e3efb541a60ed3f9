package awssim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// bucket is a token bucket: it fills at rate tokens a second up to burst.
type bucket struct {
	rate, burst, level float64
	at                 time.Time
}

// take takes one token, if there is one.
func (b *bucket) take(now time.Time) bool {
	if d := now.Sub(b.at); d > 0 {
		b.level, b.at = min(b.burst, b.level+d.Seconds()*b.rate), now
	}
	if b.level < 1 {
		return false
	}
	b.level--
	return true
}

// limit names the bucket of an EC2 operation: what describes shares one, what changes
// another, and three have their own. Dry runs take tokens, too.
func limit(operation string) (name string, rate, burst float64) {
	switch {
	case operation == "RunInstances":
		return operation, 2, 5
	case operation == "TerminateInstances":
		return operation, 5, 100
	case operation == "CreateTags":
		return operation, 10, 100
	case strings.HasPrefix(operation, "Describe"):
		return "non-mutating", 20, 100
	default:
		return "mutating", 5, 50
	}
}

func throttled(service string) error {
	switch service {
	case "ec2":
		return &apiError{http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded."}
	case "iam", "sts", "autoscaling":
		return fail("Throttling", "Rate exceeded")
	default:
		return fail("ThrottlingException", "Rate exceeded")
	}
}

func expired(service string) error {
	switch service {
	case "ec2":
		return &apiError{http.StatusBadRequest, "RequestExpired", "Request has expired."}
	case "iam", "sts", "autoscaling":
		return &apiError{http.StatusForbidden, "ExpiredToken", "The security token included in the request is expired"}
	default:
		return fail("ExpiredTokenException", "The security token included in the request is expired")
	}
}

func denied(c *call, account string) error {
	what := fmt.Sprintf("User: arn:aws:iam::%s:user/dovetail is not authorized to perform: %s:%s", account, c.service, c.operation)
	switch c.service {
	case "ec2":
		return &apiError{http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation. " + what + " because no identity-based policy allows the " + c.service + ":" + c.operation + " action"}
	case "iam", "sts", "autoscaling":
		return &apiError{http.StatusForbidden, "AccessDenied", what}
	default:
		return fail("AccessDeniedException", "%s", what)
	}
}
