package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// measured is a provider whose calls are timed and whose errors are counted.
type measured struct {
	cloud.Provider
	controller string
	metrics    *Metrics
	now        func() time.Time
	// pool is the NodePool that calls are made for; empty: none in particular.
	pool string
}

// several is a provider that consists of others, whose calls are counted under their names.
type several interface {
	Map(replace func(cloud.Provider) cloud.Provider) cloud.Provider
}

// Measured returns the provider as one controller calls it, with its calls timed and
// their errors counted. It is a cloud.Rebooter, which refuses if p is none. Other abilities that are
// found by type assertion must be looked for in p itself.
func Measured(p cloud.Provider, controller string, m *Metrics, now func() time.Time) cloud.Provider {
	if all, is := p.(several); is {
		return all.Map(func(one cloud.Provider) cloud.Provider { return Measured(one, controller, m, now) })
	}
	return &measured{Provider: p, controller: controller, metrics: m, now: now}
}

// Types calls the provider.
func (p *measured) Types(ctx context.Context, class cloud.ClassRef) ([]*catalog.Type, error) {
	started := p.now()
	types, err := p.Provider.Types(ctx, class)
	p.report("GetInstanceTypes", started)
	p.reportError("GetInstanceTypes", p.pool, err)
	return types, err
}

// Launch calls the provider. A batch is one call, of which each request may be an error.
func (p *measured) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	started := p.now()
	results := p.Provider.Launch(ctx, requests)
	p.report("Create", started)
	for i := range results {
		pool := ""
		if i < len(requests) {
			pool = requests[i].Labels[karpenterv1.NodePoolLabelKey]
		}
		p.reportError("Create", pool, results[i].Err)
	}
	return results
}

// Terminate calls the provider.
func (p *measured) Terminate(ctx context.Context, instanceID string) error {
	started := p.now()
	err := p.Provider.Terminate(ctx, instanceID)
	p.report("Delete", started)
	p.reportError("Delete", p.pool, err)
	return err
}

// Get calls the provider.
func (p *measured) Get(ctx context.Context, instanceID string) (cloud.Instance, error) {
	started := p.now()
	instance, err := p.Provider.Get(ctx, instanceID)
	p.report("Get", started)
	p.reportError("Get", p.pool, err)
	return instance, err
}

// List calls the provider.
func (p *measured) List(ctx context.Context) ([]cloud.Instance, error) {
	started := p.now()
	instances, err := p.Provider.List(ctx)
	p.report("List", started)
	p.reportError("List", "", err)
	return instances, err
}

// Reboot calls the provider, if it can reboot instances.
func (p *measured) Reboot(ctx context.Context, request cloud.RebootRequest) error {
	rebooter, able := p.Provider.(cloud.Rebooter)
	if !able {
		return fmt.Errorf("provider %s reboots no instances: %w", p.Name(), cloud.ErrRebootRefused)
	}
	started := p.now()
	err := rebooter.Reboot(ctx, request)
	p.report("Reboot", started)
	p.reportError("Reboot", p.pool, err)
	return err
}

func (p *measured) report(method string, started time.Time) {
	p.metrics.CloudProviderDurationSeconds.WithLabelValues(p.controller, method, p.Name()).Observe(p.now().Sub(started).Seconds())
}

// reportError counts an error; nil: there was none.
func (p *measured) reportError(method, pool string, err error) {
	if err != nil {
		p.metrics.CloudProviderErrors.WithLabelValues(p.controller, method, pool, p.Name(), errorLabel(err)).Inc()
	}
}

// ForPool returns a provider that is Measured with its errors counted for a NodePool; any other
// provider as it is.
func ForPool(p cloud.Provider, pool string) cloud.Provider {
	if all, is := p.(several); is {
		return all.Map(func(one cloud.Provider) cloud.Provider { return ForPool(one, pool) })
	}
	m, is := p.(*measured)
	if !is {
		return p
	}
	forPool := *m
	forPool.pool = pool
	return &forPool
}

// errorLabel returns the published name of the kind of error.
func errorLabel(err error) string {
	var failure *cloud.Failure
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return ErrorNotFound
	case !errors.As(err, &failure):
		return errorOther
	case failure.Kind == cloud.NoCapacity:
		return ErrorInsufficientCapacity
	case failure.Kind == cloud.ClassNotReady:
		return ErrorClassNotReady
	default:
		return errorOther
	}
}
