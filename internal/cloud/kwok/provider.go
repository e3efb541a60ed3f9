package kwok

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

const (
	providerName = "kwok"
	classKind    = "KWOKNodeClass"

	// notReadyToleration is how long a Node may be not ready before its instance counts as broken,
	// and faultToleration how long it may have one of the conditions that are KWOK's alone.
	notReadyToleration = 10 * time.Minute
	faultToleration    = 30 * time.Second
)

// Options are what a Provider needs beside a client.
type Options struct {
	// InstanceTypesFile is a JSON file with the instance types; empty: the default ones.
	InstanceTypesFile string
	// Reader reads what must not be stale: instances, and the class at launch. A manager's
	// GetAPIReader is right. Nil: the client, which must then not read from a cache.
	Reader client.Reader
	// Now is the clock. It must be set.
	Now func() time.Time
	// Log gets what happens in the background; nil: nowhere.
	Log *slog.Logger
}

// Provider is a cloud.Provider, a cloud.Repairer and a cloud.Rebooter. It also is a manager.Runnable: who
// owns the process runs Start beside it, on the leader only.
type Provider struct {
	client client.Client
	reader client.Reader
	now    func() time.Time
	log    *slog.Logger

	types []*catalog.Type
	// devices are those of instance types, by name.
	devices map[string][]resourceapi.ResourceSliceSpec
	// facts are the labels that say what an instance is; sorted.
	facts []string
	// recorded wakes Start when an instance was launched that joins later.
	recorded chan struct{}
}

// New returns a provider over the API server that c talks to. The error says what is
// wrong with the options; nothing is asked of the server yet.
func New(c client.Client, opts Options) (*Provider, error) {
	if opts.Now == nil {
		return nil, errors.New("kwok provider: no clock")
	}
	p := &Provider{
		client: c, reader: opts.Reader, now: opts.Now, log: opts.Log,
		types: DefaultTypes(), recorded: make(chan struct{}, 1),
	}
	if p.reader == nil {
		p.reader = c
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if opts.InstanceTypesFile != "" {
		types, err := loadTypes(opts.InstanceTypesFile)
		if err != nil {
			return nil, err
		}
		p.types = types
		if p.devices, err = loadDevices(opts.InstanceTypesFile); err != nil {
			return nil, err
		}
	}
	p.facts = decidedKeys(p.types)
	return p, nil
}

// Name returns "kwok".
func (p *Provider) Name() string { return providerName }

// ClassKinds returns KWOKNodeClass.
func (p *Provider) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kwokv1alpha1.GroupVersion.WithKind(classKind)}
}

// Vocabulary returns the labels of the instance types, those of a types file included.
func (p *Provider) Vocabulary() cloud.Vocabulary {
	keys := append(offeredKeys(p.types),
		kwokv1alpha1.InstanceCPULabelKey, kwokv1alpha1.InstanceMemoryLabelKey,
		kwokv1alpha1.InstanceFamilyLabelKey, kwokv1alpha1.InstanceSizeLabelKey)
	slices.Sort(keys)
	return cloud.Vocabulary{WellKnown: slices.Compact(keys), RestrictedDomains: []string{kwokv1alpha1.Group}}
}

// Types returns the instance types, which are the same for every class.
func (p *Provider) Types(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	if _, err := getClass(ctx, p.client, ref); err != nil {
		return nil, err
	}
	return p.types, nil
}

// Devices returns the devices of an instance type, as the file with the instance types has them.
func (p *Provider) Devices(_ cloud.ClassRef, instanceType string) []resourceapi.ResourceSliceSpec {
	return p.devices[instanceType]
}

// RepairPolicies says that a Node that has not been ready for ten minutes is broken, and that two
// conditions, which tests set, mean that it has to be replaced or rebooted.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	return []cloud.RepairPolicy{
		{
			ConditionType: string(corev1.NodeReady), ConditionStatus: string(corev1.ConditionFalse),
			Toleration: notReadyToleration, TerminationGracePeriod: new(time.Duration(0)), Action: cloud.ReplaceNode,
		},
		{
			ConditionType: string(corev1.NodeReady), ConditionStatus: string(corev1.ConditionUnknown), ReasonRegex: ".*",
			Toleration: notReadyToleration, TerminationGracePeriod: new(time.Duration(0)), Action: cloud.ReplaceNode,
		},
		{
			ConditionType: "KWOKUnhealthy", ConditionStatus: string(corev1.ConditionTrue), ReasonRegex: ".*",
			Toleration: faultToleration, TerminationGracePeriod: new(45 * time.Second), Action: cloud.ReplaceNode,
		},
		{
			ConditionType: "KWOKRebootRequired", ConditionStatus: string(corev1.ConditionTrue), ReasonRegex: ".*",
			Toleration: faultToleration, TerminationGracePeriod: new(time.Minute), Action: cloud.RebootNode,
		},
	}
}

// getClass returns the class; cloud.ErrNotFound if there is none.
func getClass(ctx context.Context, r client.Reader, ref cloud.ClassRef) (*kwokv1alpha1.KWOKNodeClass, error) {
	if ref.Group != kwokv1alpha1.Group || ref.Kind != classKind {
		return nil, fmt.Errorf("get node class %s of group %s: %w", ref, ref.Group, cloud.ErrNotFound)
	}
	class := &kwokv1alpha1.KWOKNodeClass{}
	err := r.Get(ctx, client.ObjectKey{Name: ref.Name}, class)
	if apierrors.IsNotFound(err) {
		err = cloud.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get node class %s: %w", ref, err)
	}
	return class, nil
}

// usable returns the failure to answer a launch with, if the class cannot be used.
func usable(class *kwokv1alpha1.KWOKNodeClass) error {
	ready := meta.FindStatusCondition(class.Status.Conditions, "Ready")
	if ready != nil && ready.Status == metav1.ConditionFalse {
		return &cloud.Failure{
			Kind: cloud.ClassNotReady, Reason: ready.Reason,
			Message: fmt.Sprintf("node class %s is not ready: %s", class.Name, ready.Message),
		}
	}
	return nil
}
