package model

// Options are what the operator may set. The zero value is the default.
type Options struct {
	// MinValuesBestEffort lowers a minValues rule to what there is, where it would
	// otherwise make a launch impossible.
	MinValuesBestEffort bool
	// TypesMax caps how many instance types a launch names; 0: 600.
	TypesMax int
	// PriceCap is how many times the price of its cheapest type a launch's other types may
	// cost; 0: 1.5. Where that leaves few spot offerings, dearer types are named, too.
	PriceCap float64
	// IgnorePreferences gives up all preferences from the start, except PreferNoSchedule taints.
	IgnorePreferences bool
	// BuyableBinds lets domains constrain topology spread in which nodes could be launched and none
	// are. kube-scheduler does not know of such domains, so by default they do not in the end.
	BuyableBinds bool
	// Prove proves the best lower bound that can be proven, which can take a minute.
	Prove bool
	// ProofRounds bounds how long that takes, in rounds of the proof (see ProofRoundsShort); 0: as many as help.
	ProofRounds int
	// Effort bounds the work of one decision, in units of package effort; 0: what a decision about
	// so many pods and nodes may need (see effortFor in package pack).
	Effort int64
	// ResiliencePremium is how much more a plan may cost so that fewer pods of a workload can be lost at
	// once, as a share of the price of the cheapest plan; 0: the cheapest plan is taken.
	ResiliencePremium float64
	// FirstFitOnly returns the plan of first-fit-decreasing alone, to compare with.
	FirstFitOnly bool
}

// The defaults of Options.TypesMax and Options.PriceCap.
const (
	TypesMaxDefault = 600
	PriceCapDefault = 1.5
)
