package record

import (
	"cmp"
	"reflect"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// older takes in the fields of records that older versions wrote and this one has elsewhere,
// or nowhere.
type older struct {
	options    olderOptions
	hasOptions bool
	plan       olderPlan
	// disruption has the fields that were in the one type of plans.
	disruption plan.Disruption
}

// olderOptions were fields of disrupt.Options: what a controller had remembered and chosen
// before a Memory was recorded.
type olderOptions struct {
	Paused                                     map[string]time.Time
	Resting                                    map[string]verdict.Verdict
	UnderWayOnly, SkipConsolidation, DrainOnly bool
	Settled                                    time.Time
	Unlooked                                   []string
	Try                                        int
}

// olderPlan were fields of plans: what the controller was to remember.
type olderPlan struct {
	Settled  bool
	Unlooked []string
	Try      int
	Waits    map[string]int
	StepsAt  time.Time
}

// renamed has the names that fields of a type have now, by those that they had.
//
//nolint:gochecknoglobals // a constant
var renamed = map[reflect.Type]map[string]string{
	reflect.TypeFor[cluster.Snapshot]():    {"Guards": "PDBs"},
	reflect.TypeFor[cluster.Daemon]():      {"Shape": "Constraints"},
	reflect.TypeFor[cluster.Pod]():         {"Shape": "Constraints"},
	reflect.TypeFor[cluster.PodCount]():    {"Shape": "Constraints", "Leaving": "Deleting"},
	reflect.TypeFor[cluster.Constraints](): {"Wishes": "Preferences"},
	reflect.TypeFor[cluster.Disruption]():  {"HeldByPods": "DoNotDisruptByPods", "Shunned": "SoftTaint"},
	reflect.TypeFor[cluster.Node](): {
		"Closed": "DisruptedTaint", "Held": "DoNotDisrupt", "Initialised": "Initialized", "Leaving": "Deleting",
		"Marked": "DisruptionReason", "MarkedSince": "DisruptedSince", "Open": "InFlight", "QuietSince": "LastPodEvent",
		"Residents": "Reschedulable",
	},
	reflect.TypeFor[cluster.ReschedulablePod](): {"Guards": "PDBs", "Held": "DoNotDisrupt", "Home": "TargetNode", "Shape": "Constraints"},
	reflect.TypeFor[consolidate.Terms]():        {"SpotPools": "OfferingsMin"},
	reflect.TypeFor[disrupt.Options]():          {"Settle": "Grace"},
	reflect.TypeFor[plan.Disruption]():          {"Shuns": "SoftTaints", "Steps": "Commands", "Unshuns": "SoftTaintsOver"},
	reflect.TypeFor[plan.Eligible]():            {"Machines": "Nodes"},
	reflect.TypeFor[plan.Join]():                {"Step": "Command"},
	reflect.TypeFor[plan.Plan]():                {"Placements": "Assignments"},
	reflect.TypeFor[plan.Undo]():                {"Step": "Command"},
}

// renamedTables has the names that tables have now, by those that they had.
//
//nolint:gochecknoglobals // a constant
var renamedTables = map[string]string{"shapes": "constraints"}

// renamedReasons has the reasons of verdicts that had other names.
//
//nolint:gochecknoglobals // a constant
var renamedReasons = map[string]verdict.Reason{"NotYetQuiet": verdict.ConsolidateAfterNotElapsed}

// field returns where a field of a type is read to that this version's type has not.
func (o *older) field(t reflect.Type, name string) (reflect.Value, bool) {
	var to reflect.Value
	switch t {
	case reflect.TypeFor[disrupt.Options]():
		to = reflect.ValueOf(&o.options).Elem().FieldByName(name)
		o.hasOptions = o.hasOptions || to.IsValid()
	case reflect.TypeFor[plan.Plan]():
		if to = reflect.ValueOf(&o.plan).Elem().FieldByName(name); !to.IsValid() {
			to = reflect.ValueOf(&o.disruption).Elem().FieldByName(cmp.Or(renamed[reflect.TypeFor[plan.Disruption]()][name], name))
		}
	}
	return to, to.IsValid()
}

// upgrade makes a decision that was read one of this version.
func (o *older) upgrade(d *Decision) {
	if o.hasOptions {
		d.Memory = o.options.memory(d.At())
	}
	if d.Loop == Disruption && d.Disruption.At.IsZero() && !d.Plan.At.IsZero() {
		d.Disruption = o.disruption
		d.Disruption.At, d.Disruption.GivenUp, d.Plan = d.Plan.At, d.Plan.GivenUp, plan.Plan{}
	}
}

// beyond is how long after the decision what its memory says ends; any time will do.
const beyond = time.Second

// memory returns a Memory with which a decision at an instant looks at what the options
// said: the same searches, without the same nodes and pools.
func (o *olderOptions) memory(at time.Time) disrupt.Memory {
	m := disrupt.Memory{PoolCooldowns: map[string]disrupt.Cooldown{}, NodeCooldowns: map[string]disrupt.Cooldown{}, BestTry: o.Try, AllTriesAt: at}
	for pool, until := range o.Paused {
		if until.After(at) {
			m.PoolCooldowns[pool] = disrupt.Cooldown{Until: until}
		}
	}
	for node, why := range o.Resting {
		m.NodeCooldowns[node] = disrupt.Cooldown{Until: at.Add(beyond), Why: why}
	}
	if o.UnderWayOnly {
		m.Busy, m.DecidedAt = true, at
	}
	if o.SkipConsolidation {
		m.SearchAt = at.Add(beyond)
	}
	if o.DrainOnly {
		m.FullSearchAt = at.Add(beyond)
	}
	if !o.Settled.IsZero() {
		m.ConclusiveAt, m.ConclusiveFor = at, beyond
		m.CheckedAt, m.Excluded = o.Settled, o.Unlooked
	}
	return m
}
