package world

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// newClient returns the API server as a process sees it: it reads what its informers have seen, or
// what another reader has, and writes through faults and mutants.
func (p *process) newClient(r cluster.Reader) *cluster.Client {
	hooks := cluster.ClientHooks{Write: p.write, Delete: p.w.checks.productDeletes}
	if m := p.w.opts.Mutant; m != nil {
		if m.Create != nil {
			hooks.Create = func(o client.Object) { m.Create(p.w, o) }
		}
		if m.Patch != nil {
			hooks.Patch = func(o client.Object, data []byte, status bool) []byte { return m.Patch(p.w, o, data, status) }
		}
		if m.Evict != nil {
			hooks.Evict = func(pod *corev1.Pod) bool { return m.Evict(p.w, pod) }
		}
	}
	return cluster.NewClient(p.w.api, r, p.scheme, &hooks)
}

// write performs a write of the product with the faults of the day.
func (p *process) write(_ context.Context, verb string, obj client.Object, effect func() error) error {
	w := p.w
	if err := p.mayAct(); err != nil {
		return err
	}
	kind := cluster.KindOf(obj)
	fault := w.chaos.onWrite()
	if err := fault.before(w, kind, obj.GetName()); err != nil {
		return err
	}
	if fault == CrashBefore {
		p.crash()
		return errGone
	}
	w.note("product %s %s %s", verb, kind, obj.GetName())
	w.checks.acts(p, verb+" "+kind)
	w.checks.productWrites(verb, kind, obj)
	w.checks.byProduct = true
	err := effect()
	w.checks.byProduct = false
	if err != nil {
		w.note("refused %s", apierrors.ReasonForError(err))
	}
	switch fault {
	case CrashAfter:
		p.crash()
		return errGone
	case AnswerSlow:
		w.elapse(w.between(0, slowest))
		if p.dead {
			return errGone
		}
		return err
	case AnswerLost:
		return apierrors.NewTimeoutError("world: the answer was lost", 1)
	default:
		return err
	}
}
