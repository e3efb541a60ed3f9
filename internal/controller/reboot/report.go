package reboot

import (
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// reportEnd reports a reboot after which the node stays.
func (p *reconciliation) reportEnd(view *core.RebootView, step *core.Step) {
	if step.Reason == core.RebootFailed {
		p.reportFailed(view, core.RebootResultInvalid, step.Why)
		return
	}
	p.count(view, core.RebootResultSucceeded)
	p.Metrics.NodesRebootRecovery.Observe(view.At.Sub(view.AwaitedSince()).Seconds())
	p.Log.Info("instance has rebooted", "claim", p.claim.Name, "node", view.Node.Name, "pool", p.pool(), "took", view.At.Sub(view.Claim.Requested).String())
}

// reportFailed reports a reboot that failed.
func (p *reconciliation) reportFailed(view *core.RebootView, result, why string) {
	p.count(view, result)
	p.Events.Event(p.claim, observe.RebootFailed(p.token(), why))
	p.Log.Error("reboot failed", "claim", p.claim.Name, "pool", p.pool(), "result", result, "error", why)
}

func (p *reconciliation) count(view *core.RebootView, result string) {
	p.Metrics.NodesReboots.WithLabelValues(result).Inc()
	p.Metrics.NodesRebootDuration.WithLabelValues(result).Observe(view.At.Sub(view.Claim.Requested).Seconds())
}
