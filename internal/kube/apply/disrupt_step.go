package apply

import (
	"context"
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Begin keeps new pods away from the nodes of a command, says on their claims which command they
// are part of and why, and launches what the command launches. Each node's claim is
// written before its Node, so that a taint is never without its reason. If Begin fails halfway,
// the next decision finds the command incomplete and cancels it. The target nodes of the pods
// are kept in memory only; after a restart others are computed. What is launched names the decision by its ID.
func (d *Disrupter) Begin(ctx context.Context, s *plan.Command, decision string) ([]Launched, error) {
	if len(s.Launch) > 0 && d.Launcher.Overtaken(s.Launch) { // checked before anything is written
		return nil, fmt.Errorf("begin step %s: %w", s.ID, ErrOvertaken)
	}
	text := translate.StepAnnotation(s)
	errs := each(len(s.Remove), d.OneByOne, func(i int) error {
		r := s.Remove[i]
		if err := d.mark(ctx, r, text); err != nil {
			return err
		}
		return d.setTaint(ctx, r, true)
	})
	if errs != nil {
		return nil, errs
	}
	for _, m := range s.Moves {
		d.Launcher.Mirror.AssignFor(s.ID, []cluster.PodRef{m.Pod}, m.Node)
	}
	if len(s.Launch) == 0 {
		return nil, nil
	}
	done, err := d.Launcher.Launch(ctx, &plan.Plan{Launches: s.Launch}, decision)
	for i := range done {
		d.Launcher.Mirror.AssignFor(s.ID, done[i].Launch.Pods, done[i].Claim.Name)
	}
	if err == nil && len(done) < len(s.Launch) {
		err = fmt.Errorf("begin step %s: %d of %d launches have no pool any more", s.ID, len(s.Launch)-len(done), len(s.Launch))
	}
	return done, err
}

// Undo cancels a command: first it removes the nodes that were launched for it, then it opens the
// nodes that were to go. After a crash in between, the command is seen to be incomplete.
func (d *Disrupter) Undo(ctx context.Context, u *plan.Undo) error {
	errs := each(len(u.Drop), d.OneByOne, func(i int) error {
		_, err := d.Remove(ctx, u.Drop[i])
		return err
	})
	if errs != nil {
		return errs
	}
	return each(len(u.Open), d.OneByOne, func(i int) error { return d.Unmark(ctx, u.Open[i]) })
}
