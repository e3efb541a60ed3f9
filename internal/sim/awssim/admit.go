package awssim

import (
	"fmt"
	"net/http"
)

// admit does what comes before an operation: faults of the connection, the signature,
// token buckets, permissions.
func (s *Sim) admit(c *call, r *http.Request, body []byte) error {
	sig, err := parseSignature(r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.requestID = fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", s.base.rng.Uint32(), s.base.rng.Uint32N(1<<16), s.base.rng.Uint32N(1<<12), 0x8000|s.base.rng.Uint32N(1<<14), s.base.rng.Uint64N(1<<48))
	now := s.base.clock.Now()
	s.base.catchUp()
	// The SDK signs by the system's clock, whatever clock the account lives in.
	if err := s.base.opts.Credentials.verify(r, body, sig, systemClock{}.Now()); err != nil {
		return err
	}
	name := c.service + ":" + c.operation
	switch {
	case s.base.strikes(FaultExpired, name, now):
		return expired(c.service)
	case s.base.strikes(FaultDenied, name, now):
		return denied(c, s.base.opts.AccountID)
	case s.base.strikes(FaultThrottle, name, now):
		return throttled(c.service)
	case s.base.strikes(FaultError, name, now):
		return &apiError{http.StatusInternalServerError, "InternalError", "An internal error has occurred"}
	}
	if f := s.base.striking(FaultRefused, name, now); f != nil {
		return fail(f.Target, "The request was refused")
	}
	if s.base.opts.Unlimited || c.service != "ec2" {
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

// breaks reports whether a condition ends this call's connection without an answer, and
// counts that: the request was not read (FaultDown), or it was carried out (FaultCut).
func (s *Sim) breaks(kind string, c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.service + ":" + c.operation
	if !s.base.strikes(kind, name, s.base.clock.Now()) {
		return false
	}
	s.base.refused[name+" "+kind]++
	return true
}
