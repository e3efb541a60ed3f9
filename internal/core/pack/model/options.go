package model

// Options are what the operator may set. The zero value is the default.
type Options struct {
	// MinValuesBestEffort lowers a minValues rule to what there is, where it would
	// otherwise make a launch impossible.
	MinValuesBestEffort bool
	// TypesMax caps how many instance types a launch names; 0: 600.
	TypesMax int
	// PriceCap is how many times the price of its cheapest type a launch's other types may
	// cost; 0: 1.5. Where that leaves spot few places to be found in, dearer types are
	// named, too.
	PriceCap float64
	// IgnorePreferences gives every preference up from the start, those of taints aside.
	IgnorePreferences bool
	// BuyableBinds keeps spreads to domains in which nodes could be launched even where
	// none can be after all. kube-scheduler does not know of such domains, so by default
	// they bind nobody in the end.
	BuyableBinds bool
	// Prove works the bound out to the last where that can be done, which can take a minute.
	Prove bool
	// Effort bounds the work of one decision, in units of package effort; 0: what a decision
	// about that many pods and nodes may need (see effortFor).
	Effort int64
	// FirstFitOnly gives the answer of first-fit-decreasing alone, to compare with.
	FirstFitOnly bool
}

// Defaults of Options: how many instance types a launch names at most, and up to which multiple of
// the cheapest one's price.
const (
	TypesMaxDefault = 600
	PriceCapDefault = 1.5
)
