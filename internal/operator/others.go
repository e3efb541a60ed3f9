package operator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// othersEvery is how often other controllers are looked for.
const othersEvery = time.Minute

// others looks for controllers of Karpenter's API that this one does not exclude: those whose lease of
// the same name is in another namespace. Both would launch nodes for the same pods, and each would
// remove the other's instances. It only reports them: which one should stop is not for us to say.
type others struct {
	api       client.Reader
	lease     string
	namespace string // of our own lease
	log       *slog.Logger
	said      string
}

// newOthers returns nil if there is no lease by which controllers exclude each other.
func newOthers(opts *Options) (*others, error) {
	if opts.Settings.DisableLeaderElection || opts.Settings.observes() { // whoever only observes may be beside others
		return nil, nil
	}
	// Not the manager's client, on which a refusal means that a right is missing: without this right
	// everything works, and Karpenter's own rules lack it.
	api, err := client.New(opts.Config, client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", opts.Config.Host, err)
	}
	return &others{api: api, lease: opts.Settings.LeaderElectionName, namespace: leaseNamespace(&opts.Settings), log: opts.Log}, nil
}

// NeedLeaderElection reports that replicas that wait look, too.
func (*others) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (o *others) Start(ctx context.Context) error {
	ticker := time.NewTicker(othersEvery)
	defer ticker.Stop()
	for {
		o.check(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// check writes one line about the other controllers when they are others than the last time.
func (o *others) check(ctx context.Context, now time.Time) {
	var leases coordinationv1.LeaseList
	err := o.api.List(ctx, &leases, client.MatchingFields{"metadata.name": o.lease})
	if err != nil {
		if apierrors.IsForbidden(err) && o.said == "" {
			o.said = "forbidden"
			o.log.Info("other controllers cannot be seen: the right to list leases of this name in all namespaces is missing", "lease", o.lease)
		}
		return // it is asked again
	}
	var holders []string
	for i := range leases.Items {
		l := &leases.Items[i]
		if l.Name == o.lease && l.Namespace != o.namespace && holds(l, now) {
			holders = append(holders, fmt.Sprintf("%s holds lease %s/%s", *l.Spec.HolderIdentity, l.Namespace, l.Name))
		}
	}
	slices.Sort(holders)
	found := strings.Join(holders, "; ")
	if found != o.said && found != "" {
		o.log.Error("another controller of Karpenter's API runs in this cluster: stop one of the two, or run both in one namespace",
			"own_lease", o.namespace+"/"+o.lease, "error", found)
	}
	o.said = found
}

// holds reports whether somebody has the lease.
func holds(l *coordinationv1.Lease, now time.Time) bool {
	s := &l.Spec
	return s.HolderIdentity != nil && *s.HolderIdentity != "" && s.RenewTime != nil && s.LeaseDurationSeconds != nil &&
		now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second))
}
