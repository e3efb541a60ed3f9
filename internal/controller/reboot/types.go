// Package reboot is the loop that reboots instances in place: it reads the NodeClaim, its Node and the
// pods there, lets the core decide the next step of the reboot, has it performed, and reports it. Which
// nodes are rebooted is decided elsewhere; a reboot that has begun is finished whatever the settings.
package reboot

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client  client.Client
	Cloud   cloud.Provider
	Now     func() time.Time
	Events  *observe.Recorder
	Metrics *observe.Metrics
	Log     *slog.Logger
	// Evict asks for the eviction of a pod.
	Evict func(apply.Eviction)

	mu    sync.Mutex
	asked map[string]*asked // by NodeClaim; guarded by mu
}

// asked is what this process knows of a reboot that it asked for.
type asked struct {
	token  string
	since  time.Time
	answer core.RebootAnswer
}

// reconciliation is one reconcile of one NodeClaim. Its objects include the reconciliation's own
// writes, which the cache may not have seen yet.
type reconciliation struct {
	*Controller
	claim *karpenterv1.NodeClaim
	node  *corev1.Node // nil: none
}

// token identifies the reboot that the NodeClaim asks for.
func (p *reconciliation) token() string {
	return fmt.Sprintf("%s-%d", p.claim.UID, translate.RebootClaim(p.claim).Requested.UnixNano())
}

func (p *reconciliation) pool() string { return p.claim.Labels[karpenterv1.NodePoolLabelKey] }

// forget drops what is known of a reboot that is over.
func (c *Controller) forget(claim string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, claim)
}

// known returns what this process knows of a reboot that it asked for.
func (c *Controller) known(claim, token string) asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.asked[claim]; a != nil && a.token == token {
		return *a
	}
	return asked{token: token}
}

// remember keeps what the cloud answered.
func (c *Controller) remember(claim string, a *asked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]*asked{}
	}
	c.asked[claim] = a
}
