package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

const (
	// classesMax bounds the classes whose types are kept. The one that was asked for longest ago goes.
	classesMax = 256
	// classUnused is how long a class is kept that nobody asks for.
	classUnused = 15 * time.Minute
	// classBytesMax bounds the spec of a class object.
	classBytesMax = 1 << 20
	// parallelUsual and parallelMost bound the Launch calls at the same time.
	parallelUsual, parallelMost = 4, 64
	// acceptedMax bounds the launches that were accepted whose tokens are kept; beyond it they are not compared.
	acceptedMax = 10_000
	// describeEvery is how often the provider is asked whether it is still the same.
	describeEvery = 30 * time.Second
)

// Description is what a provider says it is.
type Description = wire.Description

// Provider asks another process for everything. It is a cloud.Provider, a cloud.TypesChanger, a cloud.Patient, a cloud.Drifter,
// a cloud.Watcher, a cloud.ConditionNoticer and a cloud.Repairer. Whether the other process has these capabilities is asked each
// time: without them nothing drifts, and there are no notices.
type Provider struct {
	client *Client
	known  *Description
	reader client.Reader
	may    func() error
	now    func() time.Time

	// typesChanged is called with a class whose types have changed; nil: nobody wants to know.
	typesChanged func(cloud.ClassRef)

	// launching has room for as many Launch calls as may be under way.
	launching chan struct{}

	mu    sync.Mutex
	feeds map[cloud.ClassRef]*feed
	// pausedUntil is when the provider may be asked for launches again, after it said that it was
	// asked too often.
	pausedUntil time.Time
	// firstSeen is when instances were first listed that do not say when they were created.
	firstSeen map[string]time.Time
	// accepted are the tokens of instances that have no ID yet, by their provisional ones.
	accepted map[string]string
}

// New returns the provider behind a client, as d describes it. Class objects are read from reader.
// may is asked before anything is launched, ended or restarted, and its error is the answer; nil: it
// is not asked. Without a client the provider only answers what never changes.
func New(c *Client, d *Description, reader client.Reader, may func() error) cloud.Provider {
	parallel := d.Limits.Parallel
	if parallel == 0 {
		parallel = parallelUsual
	}
	if may == nil {
		may = func() error { return nil }
	}
	p := &Provider{client: c, known: d, reader: reader, may: may, launching: make(chan struct{}, min(parallel, parallelMost)), feeds: map[cloud.ClassRef]*feed{}, accepted: map[string]string{}}
	if c != nil {
		p.now = c.opts.Now
	}
	switch reboots := d.Capabilities[providerv1.Capability_CAPABILITY_REBOOT]; {
	case reboots && d.IDPrefix != "":
		return struct {
			rebooting
			owner
		}{rebooting{p}, owner(d.IDPrefix)}
	case reboots:
		return rebooting{p}
	case d.IDPrefix != "":
		return struct {
			*Provider
			owner
		}{p, owner(d.IDPrefix)}
	}
	return p
}

// owner is a cloud.Owner by the prefix of IDs.
type owner string

// Owns reports whether an ID has the prefix.
func (o owner) Owns(instanceID string) bool { return strings.HasPrefix(instanceID, string(o)) }

// Name returns the name that the provider gave itself.
func (p *Provider) Name() string { return p.known.Name }

// ClassKinds returns the kinds that the provider answers for.
func (p *Provider) ClassKinds() []schema.GroupVersionKind { return p.known.ClassKinds }

// Vocabulary returns the provider's labels.
func (p *Provider) Vocabulary() cloud.Vocabulary { return p.known.Vocabulary }

// OnTypesChanged has changed called when the provider has sent other types for a class. Without the capability to follow
// it sends none by itself.
func (p *Provider) OnTypesChanged(changed func(cloud.ClassRef)) { p.typesChanged = changed }

// RepairPolicies returns the provider's repair policies.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy { return p.known.Repair }

// ConditionNotices returns which conditions of Nodes are notices.
func (p *Provider) ConditionNotices() []cloud.ConditionNotice { return p.known.Conditions }

// Patience returns how long launches of a class may take: what its instance types came with, or, as long as there are none, the
// longest of any class.
func (p *Provider) Patience(ref cloud.ClassRef) lifecycle.Patience {
	p.mu.Lock()
	f := p.feeds[ref]
	p.mu.Unlock()
	if f == nil {
		return p.known.Patience
	}
	if _, types := f.have(); types != nil {
		return types.patience
	}
	return p.known.Patience
}

// Ready returns why the provider cannot be asked now; nil: it can.
func (p *Provider) Ready() error { return p.client.Ready() }

// NeedLeaderElection reports that Start runs in every replica.
func (p *Provider) NeedLeaderElection() bool { return false }

// Start asks the provider every half minute whether it is still the same, until the context ends.
// It returns an error if the provider is no longer what the process was set up for.
func (p *Provider) Start(ctx context.Context) error {
	defer p.Close()
	tick := time.NewTicker(describeEvery)
	defer tick.Stop()
	for {
		_, err := p.client.Describe(ctx)
		var changed *ChangedError
		if errors.As(err, &changed) {
			return changed
		}
		p.forget()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Close ends what goes on in the background. The client stays open.
func (p *Provider) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref, f := range p.feeds {
		f.end()
		delete(p.feeds, ref)
	}
}

// forget ends the feeds of classes that nobody asks for.
func (p *Provider) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref, f := range p.feeds {
		if p.now().Sub(f.lastUsed()) > classUnused {
			f.end()
			delete(p.feeds, ref)
		}
	}
}

func (f *feed) lastUsed() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// Types returns the provider's instance types for a class.
func (p *Provider) Types(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	class, err := p.Class(ctx, ref)
	if err != nil {
		return nil, err
	}
	types, err := p.feed(ref).get(ctx, class)
	if err != nil {
		return nil, err
	}
	return types.types, nil
}

// feed returns what keeps the types of a class.
func (p *Provider) feed(ref cloud.ClassRef) *feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, ok := p.feeds[ref]; ok {
		return f
	}
	if len(p.feeds) >= classesMax {
		var oldest cloud.ClassRef
		var at time.Time
		for ref, f := range p.feeds {
			if used := f.lastUsed(); at.IsZero() || used.Before(at) {
				oldest, at = ref, used
			}
		}
		p.feeds[oldest].end()
		delete(p.feeds, oldest)
	}
	f := &feed{client: p.client, longest: p.known.Patience, scope: p.known.Name, now: p.now, used: p.now(), changed: make(chan struct{})}
	if p.typesChanged != nil {
		f.report = func() { p.typesChanged(ref) }
	}
	p.feeds[ref] = f
	return f
}

// Class reads a class object and returns the message for it. ErrNotFound: there is none.
func (p *Provider) Class(ctx context.Context, ref cloud.ClassRef) (*providerv1.Class, error) {
	for _, kind := range p.known.ClassKinds {
		if kind.Group != ref.Group || kind.Kind != ref.Kind {
			continue
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		err := p.reader.Get(ctx, client.ObjectKey{Name: ref.Name}, object)
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("get node class %s: %w", ref, err)
		}
		spec, err := json.Marshal(object.Object["spec"])
		if err != nil {
			return nil, fmt.Errorf("node class %s: %w", ref, err)
		}
		if len(spec) > classBytesMax {
			return nil, fmt.Errorf("node class %s: its spec has %d bytes as JSON; it may have %d", ref, len(spec), classBytesMax)
		}
		return &providerv1.Class{
			Group: ref.Group, Kind: ref.Kind, Name: ref.Name, Uid: string(object.GetUID()), Generation: object.GetGeneration(),
			SpecJson: spec, KubeletJson: []byte(ref.Kubelet),
		}, nil
	}
	return nil, fmt.Errorf("get node class %s of group %s: %w", ref, ref.Group, cloud.ErrNotFound)
}
