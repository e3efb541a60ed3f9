package tui

import "slices"

// screen is one list: where its rows are from, and how they are drawn.
type screen struct {
	key, name string
	// path is that of the page in a browser; empty: the name.
	path string
	// part is what the rows are made from.
	part    string
	columns []column
	// sorts are the columns that the key for sorting goes through, in its order.
	sorts []int
	rows  func(m *Moment, p part) []row
	// none is said where there are no rows.
	none string
}

// part is what rows depend on besides a moment.
type part struct{ theme *theme }

// The screens, by their place in screens().
const (
	screenNodes = iota
	screenPending
	screenClaims
	screenPools
	screenDecisions
	screenBlockers
	screenNext
	screenCost
	screenOfferings
	screenHealth
	screenPrice
)

// screens returns all of them, in the order of the line of keys.
func screens() []screen {
	return []screen{
		{key: "n", name: "nodes", path: "/fleet", part: PartFleet, columns: nodeColumns(), sorts: []int{nodeWaste, nodePrice, nodeCPU, nodeMemory, nodeAge, nodeName, nodePool, nodeState}, rows: nodeRows, none: "There are no nodes."},
		{key: "p", name: "pending", part: partPending, columns: []column{
			{title: "PODS", right: true, descending: true},
			{title: "FOR", right: true, rank: 2, descending: true},
			{title: "REASON", rank: 1, most: 28},
			{title: "WORKLOAD", rank: 3, most: 30},
			{title: "WHY, AND WHAT WOULD HELP", rest: true},
		}, sorts: []int{0, 1, 2}, rows: pendingRows, none: "No pod asks for a node."},
		{key: "c", name: "claims", path: "/fleet", part: PartFleet, columns: claimColumns(), sorts: []int{1, 2, 7, 0, 3}, rows: claimRows, none: "There are no NodeClaims."},
		{key: "o", name: "pools", part: partPools, columns: []column{
			{title: "POOL", most: 30},
			{title: "NODES", right: true, rank: 1, descending: true},
			{title: "$/H", right: true, rank: 2, descending: true},
			{title: "SPOT", right: true, rank: 5, descending: true},
			{title: "CPU", rank: 6, bar: true, descending: true},
			{title: "MAY GO NOW", rank: 3, most: 44},
			{title: "DRIFTED", right: true, rank: 4, descending: true},
			{title: "LIMITS", rank: 3, rest: true},
			{title: "READY", rank: 7, most: 40},
		}, sorts: []int{2, 1, 6, 0}, rows: poolRows, none: "There is no NodePool: nothing can be launched."},
		{key: "d", name: "decisions", part: PartDecisions, columns: decisionColumns(), sorts: []int{0, 6, 7}, rows: decisionRows, none: "No decision is kept."},
		{key: "b", name: "blockers", part: partBlockers, columns: []column{
			{title: "$/H", right: true, descending: true},
			{title: "NODES", right: true, rank: 1, descending: true},
			{title: "DUE", right: true, rank: 5, descending: true},
			{title: "REASON", rank: 2, most: 28},
			{title: "BY", rank: 3, most: 40},
			{title: "ENDS", rank: 1, rest: true},
		}, sorts: []int{0, 1, 3}, rows: blockerRows, none: "Nothing keeps nodes: there are none, or they are on their way."},
		{key: "f", name: "next", part: partNext, columns: []column{
			{title: "WHEN"}, {title: "SUBJECT", rank: 1, most: 44}, {title: "WHAT", rank: 2, most: 60}, {title: "UNLESS", rank: 3, rest: true},
		}, sorts: []int{0, 1}, rows: nextRows, none: "Nothing is to be done until the cluster changes."},
		{key: "w", name: "cost", part: partCost, columns: []column{
			{title: "NAME", rest: true},
			{title: "$/H", right: true, rank: 1, descending: true},
			{title: "$/MONTH", right: true, rank: 3, descending: true},
			{title: "SHARE", rank: 2, bar: true, descending: true},
			{title: "PODS", right: true, rank: 4, descending: true},
			{title: "CPU", right: true, rank: 5, descending: true},
			{title: "MEMORY", right: true, rank: 6, descending: true},
		}, sorts: []int{1, 4, 5, 6, 0}, rows: costRows, none: "There are no nodes to pay for."},
		{key: "a", name: "offerings", part: partOfferings, columns: []column{
			{title: "TYPE", most: 24},
			{title: "ZONE", rank: 2},
			{title: "CAPACITY", rank: 3},
			{title: "STATE", rank: 1},
			{title: "UNTIL", rank: 4},
			{title: "$/H", right: true, rank: 5, descending: true},
			{title: "NODES", right: true, rank: 6, descending: true},
			{title: "LEARNED FROM", rank: 4, rest: true},
		}, sorts: []int{4, 5, 6, 0}, rows: offeringRows, none: "No offering is short."},
		{key: "h", name: "health", path: "/", part: partOverview, columns: []column{{title: "SUBJECT", most: 40}, {title: "WHAT", rank: 1, rest: true}}, sorts: []int{0}, rows: healthRows, none: "Nothing needs a person."},
		{key: "$", name: "price", path: "/decisions", part: PartDecisions, columns: []column{
			{title: "AT"},
			{title: "$/H", right: true, rank: 1, descending: true},
			{title: "CHANGE", right: true, rank: 2, descending: true},
			{title: "OF PEAK", rank: 4, bar: true, descending: true},
			{title: "DECISION", right: true, rank: 3, descending: true},
			{title: "WHAT", rank: 3, rest: true},
		}, sorts: []int{2, 1}, rows: priceRows, none: "No decision that is kept has seen a price."},
	}
}

// Columns of nodes that others refer to.
const (
	nodeName = iota
	nodePool
	nodeType
	nodeCapacity
	nodePrice
	nodeCPU
	nodeMemory
	nodePods
	nodeWaste
	nodeAge
	nodeZone
	nodeClaim
	nodeState
)

// nodeLabelRank is how soon columns of labels are left out: they were asked for.
const nodeLabelRank = 4

func nodeColumns() []column {
	c := slices.Repeat([]column{{}}, nodeState+1)
	c[nodeName] = column{title: "NAME", most: 44}
	c[nodePool] = column{title: "POOL", rank: 6, most: 24}
	c[nodeType] = column{title: "TYPE", rank: 5, most: 24}
	c[nodeCapacity] = column{title: "CAPACITY", rank: 10}
	c[nodePrice] = column{title: "$/H", rank: 1, right: true, descending: true}
	c[nodeCPU] = column{title: "CPU", rank: 2, bar: true, descending: true}
	c[nodeMemory] = column{title: "MEMORY", rank: 7, bar: true, descending: true}
	c[nodePods] = column{title: "PODS", rank: 3, right: true, descending: true}
	c[nodeWaste] = column{title: "WASTE", rank: 11, right: true, descending: true}
	c[nodeAge] = column{title: "AGE", rank: 8, right: true, descending: true}
	c[nodeZone] = column{title: "ZONE", rank: 9}
	c[nodeClaim] = column{title: "CLAIM", rank: 12, most: 40}
	c[nodeState] = column{title: "STATE", rank: 4, rest: true}
	return c
}

func claimColumns() []column {
	return []column{
		{title: "CLAIM", most: 40},
		{title: "PHASE", rank: 1},
		{title: "AGE", right: true, rank: 2},
		{title: "POOL", rank: 4, most: 24},
		{title: "TYPE", rank: 3, most: 24},
		{title: "CAPACITY", rank: 7},
		{title: "ZONE", rank: 6},
		{title: "$/H", right: true, rank: 5, descending: true},
		{title: "NODE", rank: 9, most: 40},
		{title: "STATE", rank: 1, rest: true},
	}
}

func decisionColumns() []column {
	return []column{
		{title: "ID", right: true, descending: true},
		{title: "AGO", right: true},
		{title: "LOOP", rank: 2},
		{title: "NODES", rank: 1},
		{title: "PODS", rank: 4},
		{title: "$/H", rank: 3},
		{title: "TOOK", right: true, rank: 6, descending: true},
		{title: "AGAIN", right: true, rank: 5, descending: true},
		{title: "WHAT", rank: 1, rest: true},
	}
}
