package aws

import (
	"context"
	"errors"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// reporter gets each notice.
type reporter = func(context.Context, cloud.Notice) error

// notifier reports notices about instances of this cluster.
type notifier struct {
	instances *instances
	report    reporter
}

// forward reports a notice if it is about an instance of ours.
func (n *notifier) forward(ctx context.Context, notice cloud.Notice) (ours bool, err error) {
	m, err := n.instances.noticed(ctx, notice.InstanceID)
	if errors.Is(err, cloud.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	notice.InstanceID = m.ProviderID()
	return true, n.report(ctx, notice)
}
