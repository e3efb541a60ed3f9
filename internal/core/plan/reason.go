package plan

// The reasons to disrupt a node. Empty, Drifted, Underutilized and Unhealthy are the API's, and
// budgets may name them. Expired and Interrupted are ours: only budgets for all reasons count for
// them.
const (
	Empty         = "Empty"
	Drifted       = "Drifted"
	Underutilized = "Underutilized"
	Unhealthy     = "Unhealthy"
	Expired       = "Expired"
	Interrupted   = "Interrupted"
)

// Why nodes are removed before anything is launched in their place.
const (
	// StaticAtLimit: the static pool has as many nodes as its limit allows.
	StaticAtLimit = "static-at-limit"
	// NoReservedCapacity: the node itself holds the place in the reservation that the next one needs.
	NoReservedCapacity = "no-reserved-capacity"
)
