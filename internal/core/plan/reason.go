package plan

// The reasons to disrupt a node. Empty, Drifted and Underutilized are the API's, and budgets
// may name them. Expired and Interrupted are ours: only budgets for all reasons count for
// them.
const (
	Empty         = "Empty"
	Drifted       = "Drifted"
	Underutilized = "Underutilized"
	Expired       = "Expired"
	Interrupted   = "Interrupted"
)
