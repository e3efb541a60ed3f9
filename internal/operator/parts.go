package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/cloud/multi"
	"github.com/dovetail-sh/dovetail/internal/controller/candidacy"
	"github.com/dovetail-sh/dovetail/internal/controller/capacitybuffer"
	"github.com/dovetail-sh/dovetail/internal/controller/catalog"
	"github.com/dovetail-sh/dovetail/internal/controller/conditions"
	"github.com/dovetail-sh/dovetail/internal/controller/consistency"
	"github.com/dovetail-sh/dovetail/internal/controller/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/controller/garbage"
	"github.com/dovetail-sh/dovetail/internal/controller/hydration"
	"github.com/dovetail-sh/dovetail/internal/controller/interruption"
	"github.com/dovetail-sh/dovetail/internal/controller/legacy"
	"github.com/dovetail-sh/dovetail/internal/controller/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/controller/nodepool"
	"github.com/dovetail-sh/dovetail/internal/controller/nomination"
	"github.com/dovetail-sh/dovetail/internal/controller/overlay"
	"github.com/dovetail-sh/dovetail/internal/controller/podevents"
	"github.com/dovetail-sh/dovetail/internal/controller/podmetrics"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/controller/reboot"
	"github.com/dovetail-sh/dovetail/internal/controller/repair"
	"github.com/dovetail-sh/dovetail/internal/controller/reservation"
	"github.com/dovetail-sh/dovetail/internal/controller/static"
	"github.com/dovetail-sh/dovetail/internal/controller/termination"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/whatif"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// registrant is one loop or controller that adds itself to the manager.
type registrant interface {
	Register(mgr manager.Manager) error
}

// Parts is what the loops of one term share. The exported fields are set once, before
// Assemble.
type Parts struct {
	Manager  manager.Manager
	Settings *Settings
	Cloud    cloud.Provider
	// Nominations writes the nominations on pods.
	Nominations client.Client
	// Launches creates NodeClaims for pending pods, and writes on NodeClaims what was launched; nil: the manager's client
	// does.
	Launches   client.Client
	Now        func() time.Time
	Events     *observe.Recorder
	Metrics    *observe.Metrics
	Conditions *observe.Conditions
	Log        *slog.Logger
	// Journal is given every decision; nil: nobody is.
	Journal *journal.Journal
	// Views is given every snapshot that was decided about; nil: nobody is.
	Views *live.Latest
	// Traces follows decisions; nil: nobody does.
	Traces *observe.Traces
	// PauseIn is the namespace of the ConfigMap that pauses disruption; empty: it is not looked for.
	PauseIn string
	// Later has something done after a pause; nil: by a goroutine of its own. Suffix returns the
	// ends of NodeClaims' names; nil: random ones. OneByOne: no two writes go at the same time.
	// All three are for who wants to repeat a run exactly.
	Later    func(pause time.Duration, do func())
	Suffix   func() string
	OneByOne bool

	vocabulary translate.Vocabulary
	mirror     *mirror.Store
	synced     func() bool
	// notices are the conditions of Nodes that are notices, by the name of their provider.
	notices map[string]*cloud.NodeNotices
}

// Assemble makes the mirror and the loops, and adds all of it to the manager.
func (p *Parts) Assemble(ctx context.Context) error {
	known := p.Cloud.Vocabulary()
	p.vocabulary = translate.NewVocabulary(known.WellKnown, known.RestrictedDomains)
	p.vocabulary.Devices = !p.Settings.IgnoreDRARequests
	if err := p.feed(ctx); err != nil {
		return err
	}
	if err := p.addProviders(); err != nil {
		return err
	}
	if err := p.addNotices(); err != nil {
		return err
	}
	p.Views.Begin(&viewed{p.mirror.Pools(), p.Manager.GetClient()})
	var loops []registrant
	if p.Settings.observes() {
		loops = p.observers()
	} else {
		loops = p.loops()
		for _, provider := range p.providers() {
			if r, ok := provider.(registrant); ok {
				loops = append(loops, r)
			}
		}
	}
	for _, loop := range append(loops, &conditions.Loop{Cache: p.Manager.GetCache(), Conditions: p.Conditions, Events: p.Events, Metrics: p.Metrics, Now: p.Now}) {
		if err := loop.Register(p.Manager); err != nil {
			return fmt.Errorf("register %T: %w", loop, err)
		}
	}
	return nil
}

// viewed is what views ask of the mirror and of the NodePools.
type viewed struct {
	*mirror.Pools
	client client.Reader
}

// BudgetSchedule returns the budgets of a NodePool over time; nil: it cannot be read.
func (v *viewed) BudgetSchedule(pool string) view.BudgetSchedule {
	var np karpenterv1.NodePool
	if err := v.client.Get(context.Background(), client.ObjectKey{Name: pool}, &np); err != nil { // from the cache
		return nil
	}
	return func(at time.Time) ([]cluster.Budget, time.Time) { return whatif.BudgetsAt(&np, at) }
}

// providers returns the provider, or those that it consists of.
func (p *Parts) providers() []cloud.Provider {
	if all, is := p.Cloud.(*multi.Provider); is {
		return all.Members()
	}
	return []cloud.Provider{p.Cloud}
}

// addProviders has the manager run the providers.
func (p *Parts) addProviders() error {
	for _, provider := range p.providers() {
		r, runs := provider.(manager.Runnable)
		if _, makesNodes := provider.(*kwok.Provider); !runs || makesNodes && p.Settings.observes() {
			continue
		}
		if err := p.Manager.Add(r); err != nil {
			return fmt.Errorf("add provider %s: %w", provider.Name(), err)
		}
	}
	return nil
}

// addNotices takes from the providers which conditions of Nodes are notices.
func (p *Parts) addNotices() (err error) {
	p.notices = map[string]*cloud.NodeNotices{}
	for _, provider := range p.providers() {
		if noticer, is := provider.(cloud.ConditionNoticer); is {
			if p.notices[provider.Name()], err = cloud.NewNodeNotices(noticer.ConditionNotices()); err != nil {
				return fmt.Errorf("provider %s: %w", provider.Name(), err)
			}
		}
	}
	return nil
}

// feed makes the mirror and subscribes it.
func (p *Parts) feed(ctx context.Context) error {
	kinds := p.Cloud.ClassKinds()
	defaults, err := translate.DefaultConstraints(p.Settings.SchedulerConfig)
	if err != nil {
		return &configError{err}
	}
	rules, err := p.repairRules()
	if err != nil {
		return err
	}
	var devices func(cloud.ClassRef, string) []resourceapi.ResourceSliceSpec
	if d, ok := p.Cloud.(cloud.DeviceKnower); ok {
		devices = d.Devices
	}
	var onRequest []string
	if d, ok := p.Cloud.(cloud.DeviceAttacher); ok {
		onRequest = d.DriversOnRequest()
	}
	p.mirror = mirror.NewStore(mirror.Options{
		Devices: devices, DriversOnRequest: onRequest, Repair: rules,
		Vocabulary: p.vocabulary, Now: p.Now, Started: p.Now(), BatchMax: p.Settings.BatchMaxDuration, Owners: p.Settings.BatchLaunchEarly,
		StaticCapacity: p.gate("StaticCapacity"), DeletionCosts: p.gate("PodDeletionCostManagement"), Unread: func(pod *corev1.Pod, why string) {
			p.Log.Warn("annotation of a pod could not be read", "pod", pod.Namespace+"/"+pod.Name, "reason", why)
		},
		Autoscaler: p.Settings.autoscaler(), Paused: p.Settings.paused(), Unchecked: p.Settings.observes(),
		DefaultConstraints: defaults, ReservationKey: p.Cloud.Vocabulary().ReservationKey,
		Manages: func(group, kind string) bool {
			return slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool {
				return k.Group == group && strings.EqualFold(k.Kind, kind)
			})
		},
	})
	p.mirror.OnOutcome(func(o mirror.Outcome) { p.Metrics.NominationOutcomes.WithLabelValues(string(o)).Inc() })
	if err := mirror.AddIndexes(ctx, p.Manager.GetFieldIndexer()); err != nil {
		return err
	}
	feeds := []func(context.Context, cache.Cache) (func() bool, error){p.mirror.Feed}
	if p.gate("NodeOverlay") {
		feeds = append(feeds, p.mirror.FeedOverlays)
	}
	if p.gate("CapacityBuffer") {
		feeds = append(feeds, p.mirror.FeedBuffers)
	}
	if p.vocabulary.Devices {
		feeds = append(feeds, p.mirror.FeedDevices)
	}
	if p.PauseIn != "" {
		feeds = append(feeds, func(ctx context.Context, c cache.Cache) (func() bool, error) {
			return p.mirror.FeedPause(ctx, c, pauseObject(p.PauseIn))
		})
	}
	var all []func() bool
	for _, feed := range feeds {
		synced, err := feed(ctx, p.Manager.GetCache())
		if err != nil {
			return err
		}
		all = append(all, synced)
	}
	p.synced = func() bool { return !slices.ContainsFunc(all, func(synced func() bool) bool { return !synced() }) }
	return nil
}

// FeedPodGroups subscribes the mirror to PodGroups. It fails where the API server does not serve them.
func (p *Parts) FeedPodGroups(ctx context.Context) error {
	return p.mirror.FeedPodGroups(ctx, p.Manager.GetCache())
}

// loops returns everything that runs.
func (p *Parts) loops() []registrant {
	c, isStatic := p.Manager.GetClient(), p.gate("StaticCapacity")
	pools := &nodepool.Controllers{
		Client: c, Cloud: p.Cloud, Vocabulary: p.vocabulary, Types: p.mirror.Pools().TypesOf, NodeVersion: p.mirror.NodeVersion, Synced: p.synced, Now: p.Now, Events: p.Events, Metrics: p.Metrics,
		Log: p.log("nodepool.readiness"), StaticCapacity: isStatic,
	}
	types := p.catalog()
	launches := p.Launches
	if launches == nil {
		launches = c
	}
	claims := &lifecycle.Controller{Client: c, Launches: launches, Cloud: p.measured("nodeclaim.lifecycle"), Now: p.Now, Events: p.Events, Metrics: p.Metrics, Traces: p.Traces, Log: p.log("nodeclaim.lifecycle"), StaticCapacity: isStatic, Health: pools, Short: p.mirror.Pools().MarkUnavailable, Reserved: types.Changed, Planned: p.mirror.PlannedPods, Later: p.Later, Refused: p.Journal.LaunchFailed, Paused: p.mirror.Pools().Paused}
	poolLaunches, quarantine := &apply.PoolLaunches{}, &apply.Quarantine{}
	launcher := func() *apply.Launcher {
		return &apply.Launcher{Client: launches, Mirror: p.mirror, Vocabulary: p.vocabulary, OneByOne: p.OneByOne, Suffix: p.Suffix, PoolLaunches: poolLaunches}
	}
	packing := p.Settings.packing()
	begun := make(chan struct{})
	provisioner := p.provisioner(launcher(), packing, quarantine)
	provisioner.Begun = begun
	drains := &termination.Controller{Client: c, Cloud: p.measured("node.termination"), Now: p.Now, Events: p.Events, Metrics: p.Metrics, Log: p.log("node.termination")}
	loops := []registrant{
		pools, claims, types, provisioner,
		p.disrupter(launcher(), packing, quarantine),
		&candidacy.Controller{Client: c, Cloud: p.Cloud, Types: p.mirror.Pools().TypesOf, Now: p.Now, Log: p.log("nodeclaim.disruption")},
		drains,
		&reboot.Controller{Client: c, Cloud: p.measured("nodeclaim.reboot"), Now: p.Now, Events: p.Events, Metrics: p.Metrics, Log: p.log("nodeclaim.reboot"), Evict: drains.Evict},
	}
	for _, provider := range p.providers() { // so that one that cannot be asked does not keep the others' garbage
		loops = append(loops, &garbage.Loop{Client: c, Uncached: p.Manager.GetAPIReader(), Cloud: p.measuredOne(provider, "nodeclaim.garbagecollection"), Now: p.Now, Metrics: p.Metrics, Log: p.log("nodeclaim.garbagecollection"), Reclaimed: p.mirror.Pools().MarkReclaimed, After: begun, OneByOne: p.OneByOne})
	}
	loops = append(loops,
		&consistency.Controller{Client: c, Cloud: p.Cloud, Now: p.Now, Events: p.Events, Log: p.log("nodeclaim.consistency")},
		&podevents.Controller{Client: c, Cloud: p.Cloud, Now: p.Now},
		&hydration.Controllers{Client: c, Cloud: p.Cloud},
		p.podMetrics(),
	)
	loops = append(loops, p.optional(claims, types, provisioner, launcher)...)
	if p.Settings.NominatePods {
		nominator := &nomination.Loop{
			Mirror: p.mirror, Nominator: &apply.Nominator{Client: p.Nominations, Mirror: p.mirror, OneByOne: p.OneByOne}, Log: p.log("nomination"), Now: p.Now, Synced: p.synced,
			WaitMost: p.Settings.NominateWaitMax,
		}
		claims.Opener = nominator
		// First, because others ask it as soon as they are registered.
		loops = append([]registrant{nominator}, loops...)
	}
	return loops
}

// optional returns the loops that a setting or the provider asks for, and gives claims, types and provisioner
// what they need of them.
func (p *Parts) optional(claims *lifecycle.Controller, types *catalog.Loop, provisioner *provisioning.Loop, launcher func() *apply.Launcher) (loops []registrant) {
	c, isStatic := p.Manager.GetClient(), p.gate("StaticCapacity")
	if p.vocabulary.Devices {
		claims.Published = p.mirror.PublishedDrivers
	}
	if p.Settings.LegacyAPIs {
		loops = append(loops, &legacy.Loop{Client: c, Reader: p.Manager.GetAPIReader(), Class: p.Cloud.ClassKinds()[0], Now: p.Now, Metrics: p.Metrics, Log: p.log("legacy")})
	}
	if p.gate("NodeOverlay") {
		claims.Overlays = p.mirror.Overlays()
		loops = append(loops, &overlay.Controller{Client: c, Vocabulary: p.vocabulary, Conflict: p.mirror.Overlays().Conflict, Now: p.Now})
	}
	if p.gate("CapacityBuffer") {
		buffers := &capacitybuffer.Controller{Client: c, Mirror: p.mirror, Now: p.Now, Log: p.log("capacitybuffer")}
		provisioner.Buffers = buffers
		loops = append(loops, buffers)
	}
	if isStatic {
		loops = append(loops, &static.Controllers{Client: c, Launcher: launcher(), Synced: p.synced, Metrics: p.Metrics, Log: p.log("static"), Journal: p.Journal})
	}
	if p.gate("PodDeletionCostManagement") {
		loops = append(loops, &deletioncost.Controllers{Client: c, Mirror: p.mirror, Synced: p.synced, Metrics: p.Metrics})
	}
	if patient, ok := p.Cloud.(cloud.Patient); ok {
		claims.Patience, claims.Available = patient.Patience, p.mirror.Pools().Available
	}
	for _, provider := range p.providers() {
		loops = append(loops, p.loopsOf(provider, claims, types)...)
	}
	return loops
}

// loopsOf returns the loops that each provider has of its own, so that one that cannot be asked does not keep those of
// the others from working.
func (p *Parts) loopsOf(provider cloud.Provider, claims *lifecycle.Controller, types *catalog.Loop) (loops []registrant) {
	c, words := p.Manager.GetClient(), provider.Vocabulary()
	if policies := p.legacyPolicies(provider); len(policies) > 0 {
		loops = append(loops, &repair.Controller{Client: c, Cloud: provider, Policies: policies, Now: p.Now, Events: p.Events, Metrics: p.Metrics, Log: p.log("node.health"), StaticCapacity: p.gate("StaticCapacity"), Paused: p.mirror.Pools().Paused})
	}
	if len(words.ReservationKeys) > 0 {
		loops = append(loops, &reservation.Loop{Client: c, Cloud: p.measuredOne(provider, "capacityreservation.capacitytype"), Metrics: p.Metrics, Now: p.Now, Log: p.log("capacityreservation.capacitytype"), OneByOne: p.OneByOne})
	}
	p.listen(provider, types)
	watcher, watches := provider.(cloud.Watcher)
	interruptions := &interruption.Loop{Client: c, Watcher: watcher, Launches: claims, Kinds: provider.ClassKinds(), Now: p.Now, Events: p.Events, Metrics: p.Metrics, Log: p.log("interruption"), Short: p.mirror.Pools().MarkUnavailable, ReservationKey: words.ReservationKey, ReplaceOnRebalance: p.Settings.ReplaceOnRebalance, Queue: p.Settings.InterruptionQueue}
	if watches {
		loops = append(loops, interruptions)
	}
	if notices := p.notices[provider.Name()]; notices != nil {
		loops = append(loops, &interruption.Conditions{Loop: interruptions, Notices: notices})
	}
	return loops
}

// listen has a provider that knows when its types change say so to the loop that reads them.
func (p *Parts) listen(provider cloud.Provider, types *catalog.Loop) {
	if changer, ok := provider.(cloud.TypesChanger); ok {
		changer.OnTypesChanged(types.Changed)
	}
}

// log returns the log of one controller, under its name.
func (p *Parts) log(controller string) *slog.Logger { return p.Log.With("controller", controller) }

// provisioner returns the loop that gives pending pods nodes.
func (p *Parts) provisioner(launcher *apply.Launcher, packing pack.Options, quarantine *apply.Quarantine) *provisioning.Loop {
	var early *provisioning.Early
	if p.Settings.BatchLaunchEarly && !p.Settings.observes() {
		early = provisioning.NewEarly(p.mirror)
	}
	return &provisioning.Loop{
		Early: early, Mirror: p.mirror, Launcher: launcher, Pack: packing, Quarantine: quarantine,
		Events: p.Events, Metrics: p.Metrics, Log: p.log("provisioner"), Now: p.Now, Synced: p.synced,
		BatchIdle: p.Settings.BatchIdleDuration, BatchMax: p.Settings.BatchMaxDuration, Journal: p.Journal, Views: p.Views, Traces: p.Traces,
		Observe: p.Settings.observes(),
	}
}

// disrupter returns the loop that removes and replaces nodes by choice.
func (p *Parts) disrupter(launcher *apply.Launcher, packing pack.Options, quarantine *apply.Quarantine) *disruption.Loop {
	return &disruption.Loop{
		Observe: p.Settings.observes(), Mirror: p.mirror, Disrupter: &apply.Disrupter{Client: p.Manager.GetClient(), Launcher: launcher, Now: p.Now, OneByOne: p.OneByOne},
		Pack: packing, Terms: p.Settings.terms(), Quarantine: quarantine,
		Events: p.Events, Metrics: p.Metrics, Log: p.log("disruption"), Now: p.Now, Synced: p.synced, Journal: p.Journal, Views: p.Views,
		Repair: p.repairs(), Reboots: p.reboots(), TerminateFirst: disrupt.TerminateFirst{Drifted: p.gate("TerminateFirstDrift"), Unhealthy: p.gate("TerminateFirstRepair")},
	}
}

// podMetrics returns the loop that measures pods.
func (p *Parts) podMetrics() *podmetrics.Loop {
	return &podmetrics.Loop{Cache: p.Manager.GetCache(), Metrics: p.Metrics, Traces: p.Traces, Now: p.Now, Single: p.singles()}
}

// catalog returns the loop that reads instance types.
func (p *Parts) catalog() *catalog.Loop {
	return &catalog.Loop{Cloud: p.measured("catalog"), Mirror: p.mirror, Now: p.Now, Log: p.log("catalog"), Shown: p.singles(), ShowAll: p.Settings.MetricsLevel == observe.LevelAll, Reserved: p.reserves()}
}

// singles returns where metrics of single pods and instance types are served; nil: they are not wanted.
func (p *Parts) singles() prometheus.Registerer {
	if p.Settings.DisableClusterStateObservability || p.Settings.MetricsLevel == observe.LevelEssential {
		return nil
	}
	return metrics.Registry
}

// gate reports whether a feature gate is on.
func (p *Parts) gate(name string) bool {
	gates, err := p.Settings.Gates()
	return err == nil && gates[name]
}

// reserves reports whether instances may be in capacity reservations.
func (p *Parts) reserves() bool {
	return p.gate("ReservedCapacity") && len(p.Cloud.Vocabulary().ReservationKeys) > 0
}

// repairs reports whether unhealthy nodes are repaired as other nodes are disrupted.
func (p *Parts) repairs() bool { return p.gate("NodeRepair") && !p.Settings.LegacyNodeRepair }

// reboots returns what requests reboots; nil: the provider reboots no instances.
func (p *Parts) reboots() disruption.Reboots {
	if !slices.ContainsFunc(p.providers(), func(provider cloud.Provider) bool { _, able := provider.(cloud.Rebooter); return able }) {
		return nil
	}
	return &apply.Reboots{Client: p.Manager.GetClient(), Now: p.Now}
}

// repairRules returns which conditions of a Node its provider considers unhealthy; nil: nothing is repaired.
func (p *Parts) repairRules() (func(*corev1.Node) *cloud.RepairRules, error) {
	if !p.repairs() {
		return nil, nil
	}
	providers := p.providers()
	var known []*cloud.RepairRules // by provider; nil: it has none
	some := false
	for _, provider := range providers {
		rules, err := rulesOf(provider)
		if err != nil {
			return nil, &configError{fmt.Errorf("the gate NodeRepair is on, and the repair policies of provider %s are not valid: %w", provider.Name(), err)}
		}
		known, some = append(known, rules), some || rules != nil
	}
	if !some {
		return nil, &configError{errors.New("the gate NodeRepair is on, and the provider has no repair policies")}
	}
	return func(node *corev1.Node) *cloud.RepairRules {
		for i, provider := range providers {
			if len(providers) == 1 || mirror.ManagesNode(provider.ClassKinds(), node) {
				return known[i]
			}
		}
		return nil
	}, nil
}

// rulesOf returns the repair rules of a provider; nil: it has none.
func rulesOf(provider cloud.Provider) (*cloud.RepairRules, error) {
	repairer, able := provider.(cloud.Repairer)
	if !able {
		return nil, nil
	}
	policies := repairer.RepairPolicies()
	if len(policies) == 0 {
		return nil, nil
	}
	return cloud.NewRepairRules(policies)
}

// legacyPolicies returns which node conditions make repair remove a node of a provider as Karpenter 1.14 did; none:
// that is not wanted.
func (p *Parts) legacyPolicies(provider cloud.Provider) []cloud.RepairPolicy {
	if !p.gate("NodeRepair") || p.repairs() {
		return nil
	}
	if legacy, able := provider.(cloud.LegacyRepairer); able {
		return legacy.LegacyRepairPolicies()
	}
	if repairer, able := provider.(cloud.Repairer); able {
		return repairer.RepairPolicies()
	}
	return nil
}

// measured returns the provider with its calls counted under a controller's name.
func (p *Parts) measured(controller string) cloud.Provider { return p.measuredOne(p.Cloud, controller) }

func (p *Parts) measuredOne(provider cloud.Provider, controller string) cloud.Provider {
	return observe.Measured(provider, controller, p.Metrics, p.Now)
}

// Ready returns what keeps the process from deciding; nil: nothing does.
func (p *Parts) Ready() error {
	if !p.synced() {
		return errors.New("caches not synced")
	}
	var errs []error
	for _, provider := range p.providers() {
		if r, ok := provider.(interface{ Ready() error }); ok {
			errs = append(errs, r.Ready())
		}
	}
	return errors.Join(errs...)
}
