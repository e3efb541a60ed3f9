package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

const (
	providerName = "clusterapi"

	// launchPatience and registrationPatience are how long launches may take, unless the class says
	// otherwise. followEvery is how often a launch is asked about that may still fail: notices come
	// sooner, if they come.
	launchPatience, registrationPatience = 20 * time.Minute, 30 * time.Minute
	followEvery                          = 30 * time.Second
	// notReadyToleration is how long a Node may be not ready before its instance counts as broken:
	// metal takes its time to boot.
	notReadyToleration = 15 * time.Minute
	// listingFresh is for how long launches use what was read for the launches before.
	listingFresh = 5 * time.Second
	// classesMax bounds the classes of which something is kept.
	classesMax = 256
	// readMost is how long the read of a class from the manager's cache may take.
	readMost = time.Second
)

// Options are what a Provider needs beside a client.
type Options struct {
	// Management reads and writes the management cluster without a cache. Nil: the provider only
	// answers what never changes.
	Management client.WithWatch
	// Namespace is the one of the management cluster that has Cluster API's objects; empty: any.
	Namespace string
	// PricesFile has prices by name of instance type; empty: none.
	PricesFile string
	// Reader reads the cluster of the nodes without a cache.
	Reader client.Reader
	// Now is the clock. It must be set.
	Now func() time.Time
	// Log gets what happens in the background; nil: nowhere.
	Log *slog.Logger
}

// Provider is a cloud.Provider, a cloud.TypesChanger, a cloud.Patient, a cloud.Drifter, a cloud.Watcher and a cloud.Repairer.
type Provider struct {
	client client.Client
	reader client.Reader
	mgmt   *management
	// changes are of what types are made from.
	changes *changes

	now    func() time.Time
	log    *slog.Logger
	prices string

	// reading is held while a launch reads a listing, so that those at the same time take from one.
	reading sync.Mutex

	mu sync.Mutex
	// uid is the UID of the cluster; guarded by mu; empty: not read yet.
	uid string
	// patience and listings are by class; guarded by mu.
	patience map[string]lifecycle.Patience
	listings map[string]dated
}

// dated is a listing and when it was made.
type dated struct {
	*listing
	generation int64
	at         time.Time
}

// New returns a provider for the cluster that c talks to. The error says what is wrong with the options;
// nothing is asked of a server yet.
func New(c client.Client, opts Options) (*Provider, error) {
	if opts.Now == nil {
		return nil, errors.New("clusterapi provider: no clock")
	}
	if _, err := readPrices(opts.PricesFile); err != nil {
		return nil, err
	}
	p := &Provider{
		client: c, reader: opts.Reader, now: opts.Now, log: opts.Log, prices: opts.PricesFile,
		mgmt: &management{client: opts.Management, namespace: opts.Namespace}, patience: map[string]lifecycle.Patience{}, listings: map[string]dated{},
	}
	if p.reader == nil {
		p.reader = c
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.changes = newChanges(p.mgmt, p.log, func() []string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Collect(maps.Keys(p.patience)) // which has every class that was read
	})
	return p, nil
}

// Name returns "clusterapi".
func (p *Provider) Name() string { return providerName }

// ClassKinds returns ClusterAPINodeClass.
func (p *Provider) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{clusterapiv1alpha1.GroupVersion.WithKind(clusterapiv1alpha1.Kind)}
}

// Vocabulary returns the labels of instance types.
func (p *Provider) Vocabulary() cloud.Vocabulary {
	keys := []string{
		label.InstanceType, label.Zone, label.CapacityType, corev1.LabelArchStable, corev1.LabelOSStable,
		clusterapiv1alpha1.InstanceCPULabelKey, clusterapiv1alpha1.InstanceMemoryLabelKey, clusterapiv1alpha1.InstanceFamilyLabelKey,
		clusterapiv1alpha1.InstanceSizeLabelKey, clusterapiv1alpha1.CapacityCPULabelKey, clusterapiv1alpha1.CapacityMemoryLabelKey,
	}
	slices.Sort(keys)
	return cloud.Vocabulary{WellKnown: keys, RestrictedDomains: []string{clusterapiv1alpha1.Group}}
}

// RepairPolicies says that a Node that has not been ready for fifteen minutes is broken.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	policy := cloud.RepairPolicy{
		ConditionType: string(corev1.NodeReady), ConditionStatus: string(corev1.ConditionFalse),
		Toleration: notReadyToleration, Action: cloud.ReplaceNode,
	}
	unknown := policy
	unknown.ConditionStatus, unknown.ReasonRegex = string(corev1.ConditionUnknown), ".*"
	return []cloud.RepairPolicy{policy, unknown}
}

// Patience returns how long launches of a class may take. A class that this process has not read yet, after a restart, is
// read from the manager's cache: the default would end launches that the class gives more time.
func (p *Provider) Patience(ref cloud.ClassRef) lifecycle.Patience {
	p.mu.Lock()
	patience, ok := p.patience[ref.Name]
	p.mu.Unlock()
	if ok {
		return patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), readMost)
	defer cancel()
	class, err := getClass(ctx, p.client, ref)
	if err != nil {
		return defaultPatience()
	}
	return notePatience(p, class)
}

func defaultPatience() lifecycle.Patience {
	return lifecycle.Patience{Launch: launchPatience, Registration: registrationPatience, Follow: followEvery}
}

// notePatience keeps what a class says of it, and returns that.
func notePatience(p *Provider, class *clusterapiv1alpha1.ClusterAPINodeClass) lifecycle.Patience {
	patience := defaultPatience()
	if own := class.Spec.Patience; own != nil {
		if own.Launch != nil && own.Launch.Duration > 0 {
			patience.Launch = own.Launch.Duration
		}
		if own.Registration != nil && own.Registration.Duration > 0 {
			patience.Registration = own.Registration.Duration
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.patience) >= classesMax {
		clear(p.patience)
	}
	p.patience[class.Name] = patience
	return patience
}

// getClass returns the class; cloud.ErrNotFound if there is none.
func getClass(ctx context.Context, r client.Reader, ref cloud.ClassRef) (*clusterapiv1alpha1.ClusterAPINodeClass, error) {
	if ref.Group != clusterapiv1alpha1.Group || ref.Kind != clusterapiv1alpha1.Kind {
		return nil, fmt.Errorf("get node class %s of group %s: %w", ref, ref.Group, cloud.ErrNotFound)
	}
	class := &clusterapiv1alpha1.ClusterAPINodeClass{}
	err := r.Get(ctx, client.ObjectKey{Name: ref.Name}, class)
	if apierrors.IsNotFound(err) {
		err = cloud.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get node class %s: %w", ref, err)
	}
	return class, nil
}

// Types returns an instance type for each name that the MachineDeployments of the class give their nodes.
func (p *Provider) Types(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	class, err := getClass(ctx, p.reader, ref)
	if err != nil {
		return nil, err
	}
	l, err := p.read(ctx, class)
	var unclear *unclearError
	if errors.As(err, &unclear) {
		return nil, nil // the class's status says it
	}
	if err != nil {
		return nil, err
	}
	return l.types, nil
}

// unclearError says that a class does not say what to launch.
type unclearError struct{ reason, message string }

func (e *unclearError) Error() string { return e.message }

// listing returns what a class can launch, as it was at most listingFresh ago.
func (p *Provider) listing(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass) (*listing, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.mu.Lock()
	kept, ok := p.listings[class.Name]
	p.mu.Unlock()
	if ok && kept.generation == class.Generation && p.now().Sub(kept.at) < listingFresh {
		return kept.listing, nil
	}
	return p.read(ctx, class)
}

// read reads what a class can launch.
func (p *Provider) read(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass) (*listing, error) {
	notePatience(p, class)
	at := p.now()
	f, err := p.find(ctx, class)
	if err != nil {
		return nil, err
	}
	l := newListing(f)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.listings) >= classesMax {
		clear(p.listings)
	}
	p.listings[class.Name] = dated{l, class.Generation, at}
	return l, nil
}

// find reads all that a listing is made from.
func (p *Provider) find(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass) (*found, error) {
	f := &found{class: class, ours: map[client.ObjectKey]int64{}}
	var err error
	if f.candidates, err = p.candidates(ctx, class); err != nil || len(f.candidates) == 0 {
		return f, err
	}
	if f.prices, err = readPrices(p.prices); err != nil {
		p.log.Warn("the file with prices could not be read: its prices count as unknown", "error", err)
	}
	first := &f.candidates[0]
	cluster, err := p.mgmt.getCore(ctx, kindCluster, client.ObjectKey{Namespace: first.key.Namespace, Name: first.cluster})
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err == nil {
		f.cluster = cluster.Object
	}
	owned, err := p.owned(ctx)
	if err != nil {
		return nil, err
	}
	for i := range owned {
		if r, err := readRecord(&owned[i]); err == nil && !r.Replica { // those count as replicas
			f.ours[client.ObjectKey{Namespace: owned[i].GetNamespace(), Name: r.Deployment}]++
		}
	}
	for i := range f.candidates {
		if err := p.addTemplates(ctx, &f.candidates[i]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// candidates returns the MachineDeployments that a class selects. They are all of one Cluster.
func (p *Provider) candidates(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass) ([]candidate, error) {
	selector := client.ListOption(client.HasLabels{MemberLabel})
	if class.Spec.ScalableResourceSelector != nil {
		s, err := metav1.LabelSelectorAsSelector(class.Spec.ScalableResourceSelector)
		if err != nil {
			return nil, &unclearError{"SelectorInvalid", fmt.Sprintf("spec.scalableResourceSelector: %s", err)}
		}
		selector = client.MatchingLabelsSelector{Selector: s}
	}
	all, err := p.mgmt.list(ctx, kindDeployment, selector)
	if err != nil {
		return nil, err
	}
	var out []candidate
	clusters := map[string]bool{}
	for i := range all {
		d, err := readDeployment(&all[i])
		if ref := class.Spec.ClusterRef; ref != nil && (ref.Namespace != d.key.Namespace || ref.Name != d.cluster) {
			continue
		}
		clusters[d.key.Namespace+"/"+d.cluster] = true
		c := candidate{deployment: d}
		if err != nil {
			c.fault = err.Error()
		}
		out = append(out, c)
	}
	if len(clusters) > 1 {
		return nil, &unclearError{"ClusterAmbiguous", fmt.Sprintf("the class selects %ss of the Clusters %s: set spec.clusterRef to that of this cluster", kindDeployment, strings.Join(sortedKeys(clusters), ", "))}
	}
	return out, nil
}

// addTemplates reads what a MachineDeployment refers to.
func (p *Provider) addTemplates(ctx context.Context, c *candidate) error {
	if c.fault != "" {
		return nil
	}
	p.changes.add(c.deployment.infrastructure, c.deployment.bootstrap)
	var err error
	if c.infrastructure, err = p.mgmt.getRef(ctx, c.deployment.infrastructure, c.key.Namespace); err == nil && c.deployment.bootstrap != (reference{}) {
		c.bootstrap, err = p.mgmt.getRef(ctx, c.deployment.bootstrap, c.key.Namespace)
	}
	if apierrors.IsNotFound(err) || isRefused(err) {
		c.fault, err = err.Error(), nil
	}
	return err
}

// clusterUID returns what no other cluster has.
func (p *Provider) clusterUID(ctx context.Context) (string, error) {
	p.mu.Lock()
	uid := p.uid
	p.mu.Unlock()
	if uid != "" {
		return uid, nil
	}
	system := &corev1.Namespace{}
	if err := p.reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return "", fmt.Errorf("read the UID of the cluster: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uid = string(system.UID)
	return p.uid, nil
}

// ownedBy selects the Machines of this cluster.
func (p *Provider) ownedBy(ctx context.Context) (labels.Selector, error) {
	uid, err := p.clusterUID(ctx)
	if err != nil {
		return nil, err
	}
	return labels.SelectorFromSet(labels.Set{ownerLabel: uid}), nil
}
