package demo

import (
	"context"
	"errors"
	"fmt"
)

// interrupt has EC2 take the spot instance with most pods away, and waits until they run
// elsewhere and the node was let go.
func (s *stage) interrupt(ctx context.Context) error {
	s.act("EC2 takes a spot instance away in two minutes: it is replaced first, and then drained")
	var now *state
	err := s.await(ctx, "all nodes are ready", actPatience, func(seen *state) bool { // one that is not would be drained at once
		now = seen
		return now.allReady()
	})
	if err != nil {
		return err
	}
	victim, ok := now.busiestSpot()
	if !ok {
		return errors.New("there is no spot instance to take away")
	}
	if err := s.account.interrupt(victim.instance); err != nil {
		return fmt.Errorf("give %s its notice: %w", victim.instance, err)
	}
	began := s.narrator.elapsed()
	s.narrator.line("notice", "instance %s, which is %s with %s", victim.instance, victim.claim, count(int64(victim.pods), "pod"))
	w := &leave{victim: victim, had: map[string]bool{}}
	for _, m := range now.instances {
		w.had[m.claim] = true
	}
	err = s.await(ctx, fmt.Sprintf("the pods of %s run elsewhere and its instance is gone", victim.claim), actPatience, func(now *state) bool {
		if w.observe(now) {
			s.narrator.line("drain", "%s: its pods leave", victim.claim)
		}
		return w.drained && now.running == s.opts.Pods && now.pending+now.bound == 0 && !s.account.isLive(victim.instance)
	})
	if err != nil {
		return err
	}
	if w.early {
		return fmt.Errorf("%s was drained before its replacement was ready", victim.claim)
	}
	took := s.narrator.elapsed() - began
	s.narrator.line("done", "%d pods run %.1f s after the notice; the node was given back %.0f s before its end",
		s.opts.Pods, took.Seconds(), (noticeTime - took).Seconds())
	return nil
}

// busiestSpot returns the spot instance with most pods.
func (s *state) busiestSpot() (instance, bool) {
	var most instance
	for _, m := range s.instances {
		if m.capacityType == "spot" && (most.claim == "" || m.pods > most.pods) {
			most = m
		}
	}
	return most, most.claim != ""
}

// leave follows a node out.
type leave struct {
	victim instance
	// had are the claims that there were before.
	had map[string]bool
	// ready are the new nodes that were ready when its drain began.
	ready map[string]bool
	// drained: its drain has begun; early: there is a new node that was not ready then.
	drained, early bool
}

// observe returns true when the drain has begun since the last look.
func (l *leave) observe(now *state) bool {
	there, leaves := false, false
	ready := map[string]bool{}
	for _, m := range now.instances {
		switch {
		case m.claim == l.victim.claim:
			there, leaves = true, m.leaves
		case !l.had[m.claim]:
			ready[m.claim] = m.isReady
		}
	}
	begins := !l.drained && (!there || leaves)
	if begins {
		l.drained, l.ready = true, ready
	}
	for claim := range ready {
		l.early = l.early || l.drained && !l.ready[claim]
	}
	return begins
}
