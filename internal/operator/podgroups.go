package operator

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// podGroupsEvery is how often the API server is asked whether it serves PodGroups by now.
const podGroupsEvery = time.Minute

// podGroups subscribes the mirror to PodGroups as soon as the API server serves them, which it need
// never do: until Kubernetes 1.37 at least that is off by default.
type podGroups struct {
	feed func(context.Context) error
	log  *slog.Logger
}

// NeedLeaderElection reports that it does not wait for the lease.
func (*podGroups) NeedLeaderElection() bool { return false }

// Start tries until it has subscribed or the context ends.
func (g *podGroups) Start(ctx context.Context) error {
	ticker := time.NewTicker(podGroupsEvery)
	defer ticker.Stop()
	for {
		err := g.feed(ctx)
		if err == nil {
			g.log.DebugContext(ctx, "PodGroups are watched")
			return nil
		}
		if !meta.IsNoMatchError(err) {
			g.log.DebugContext(ctx, "PodGroups are not watched yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
