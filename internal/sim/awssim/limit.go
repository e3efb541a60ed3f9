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

// admit does what comes before an operation: faults of the connection, the signature,
// token buckets, permissions.
func (s *Sim) admit(c *call, r *http.Request, body []byte) error {
	sig, err := parseSignature(r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.requestID = fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", s.rng.Uint32(), s.rng.Uint32N(1<<16), s.rng.Uint32N(1<<12), 0x8000|s.rng.Uint32N(1<<14), s.rng.Uint64N(1<<48))
	now := s.clock.Now()
	s.catchUp()
	// The SDK signs by the machine's clock, whatever clock the account lives in.
	if err := s.opts.Credentials.verify(r, body, sig, machineClock{}.Now()); err != nil {
		return err
	}
	name := c.service + ":" + c.operation
	switch {
	case s.strikes(FaultExpired, name, now):
		return expired(c.service)
	case s.strikes(FaultDenied, name, now):
		return denied(c, s.opts.AccountID)
	case s.strikes(FaultThrottle, name, now):
		return throttled(c.service)
	case s.strikes(FaultError, name, now):
		return &apiError{http.StatusInternalServerError, "InternalError", "An internal error has occurred"}
	}
	if f := s.striking(FaultRefused, name, now); f != nil {
		return fail(f.Target, "The request was refused")
	}
	if s.opts.Unlimited || c.service != "ec2" {
		return nil
	}
	class, rate, burst := limit(c.operation)
	b := s.buckets[class]
	if b == nil {
		b = &bucket{rate, burst, burst, now}
		s.buckets[class] = b
	}
	if !b.take(now) {
		return throttled(c.service)
	}
	return nil
}

func throttled(service string) error {
	switch service {
	case "ec2":
		return &apiError{http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded."}
	case "iam", "sts":
		return fail("Throttling", "Rate exceeded")
	default:
		return fail("ThrottlingException", "Rate exceeded")
	}
}

func expired(service string) error {
	switch service {
	case "ec2":
		return &apiError{http.StatusBadRequest, "RequestExpired", "Request has expired."}
	case "iam", "sts":
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
	case "iam", "sts":
		return &apiError{http.StatusForbidden, "AccessDenied", what}
	default:
		return fail("AccessDeniedException", "%s", what)
	}
}
