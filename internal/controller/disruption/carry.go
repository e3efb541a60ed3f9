package disruption

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
)

// stepsAtOnce is how many steps are written in parallel.
const stepsAtOnce = 8

// takeBack opens nodes again, and drops what was launched for steps that failed.
func (l *Loop) takeBack(ctx context.Context, p *plan.Disruption) error {
	var errs []error
	for i := range p.Undos {
		err := l.Disrupter.Undo(ctx, &p.Undos[i])
		errs = append(errs, harmless(err))
		l.reportUndo(&p.Undos[i])
	}
	for _, r := range p.Unmarks {
		errs = append(errs, harmless(l.Disrupter.Unmark(ctx, r)))
	}
	return errors.Join(errs...)
}

// finish closes what has lost its taint, and deletes the claims of nodes that may go.
func (l *Loop) finish(ctx context.Context, snap *cluster.Snapshot, p *plan.Disruption) error {
	var errs []error
	for _, r := range p.Marks {
		errs = append(errs, harmless(l.Disrupter.Close(ctx, r)))
	}
	for _, r := range p.Removals {
		nc, err := l.Disrupter.Remove(ctx, r)
		errs = append(errs, harmless(err))
		if nc != nil {
			l.reportRemoval(snap, r, nc)
		}
	}
	return errors.Join(errs...)
}

// taintSoftly keeps pods away from nodes that go later, before anything is evicted for the
// steps that begin now.
func (l *Loop) taintSoftly(ctx context.Context, p *plan.Disruption) error {
	return errors.Join(harmless(l.Disrupter.AddSoftTaint(ctx, p.SoftTaints)), harmless(l.Disrupter.RemoveSoftTaint(ctx, p.SoftTaintsOver)))
}

// reboot requests the reboots of nodes.
func (l *Loop) reboot(ctx context.Context, snap *cluster.Snapshot, p *plan.Disruption) error {
	var errs []error
	for i := range p.Reboots {
		err := l.Reboots.Request(ctx, &p.Reboots[i])
		errs = append(errs, harmless(err))
		if err == nil {
			l.reportReboot(snap, &p.Reboots[i])
		}
	}
	return errors.Join(errs...)
}

// begin begins new steps. One that fails halfway is found incomplete by a later look.
func (l *Loop) begin(ctx context.Context, p *plan.Disruption) error {
	errs := make([]error, len(p.Commands))
	var g errgroup.Group
	g.SetLimit(stepsAtOnce)
	if l.Disrupter.OneByOne {
		g.SetLimit(1)
	}
	for i := range p.Commands {
		g.Go(func() error {
			launched, err := l.Disrupter.Begin(ctx, &p.Commands[i], l.decision)
			l.reportBegun(&p.Commands[i], launched, err)
			errs[i] = harmless(err)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// harmless drops the error of having looked at an old state: the next look is soon.
func harmless(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, apply.ErrOvertaken) {
		return nil
	}
	return err
}
