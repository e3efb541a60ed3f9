package consolidate

import (
	"time"
)

// The constants that tune the search, each with its unit, its meaning and why it has this
// value. Those of what disruption remembers are in the same form in internal/core/disrupt.
// The scenarios named below are those of internal/decision/simulate and `make bench`.
const (
	// Defaults of Terms.

	// shareMinDefault is the share of its price that a command must save: less is noise of
	// prices, and like would replace like.
	shareMinDefault = 0.02
	// gapMaxDefault is the share by which the nodes may cost more than the bound without a
	// search. Below it the scenarios gain less than their evictions cost.
	gapMaxDefault = 0.02
	// stepMaxDefault is how many nodes one command may remove. Larger commands save little
	// more and undo more when one node fails.
	stepMaxDefault = 32
	// offeringsMinDefault is how many offerings a spot launch must leave open.
	offeringsMinDefault = 3
	// spotTypesMinDefault is how many cheaper instance types a spot node that replaces one
	// spot node must leave open: Karpenter's number.
	spotTypesMinDefault = 15
	// restDefault is the cooldown of a pod that came in the place of an evicted one: longer
	// than a rollout of its workload or its start takes.
	restDefault = 10 * time.Minute

	// Costs.

	// Young is for how long after its launch a node is dearer to remove, twice as dear at
	// first: what changes within the hour often changes back.
	Young = time.Hour
	// balancedMin is the score that pools whose policy is Balanced ask for: fixed by the API.
	balancedMin = 0.5
	// leastSaving is what any change must save, in dollars per hour: less is rounding.
	leastSaving = 1e-6

	// How often a search is repeated.

	// triesMax is how many orders of nodes a small cluster is planned in. After twenty the
	// scenarios of 100 nodes find hardly more.
	triesMax = 20
	// triesFutile is after how many orders in a row that find hardly more no other is tried.
	triesFutile = 5
	// triesAgain is how many orders are tried besides the one that saved most a short time
	// ago.
	triesAgain = 2
	// triesNodesMax bounds the nodes of all orders together: one search stays within seconds.
	triesNodesMax = 4000
	// moreShare is the share of the price that is hardly more.
	moreShare = 0.0002
	// hopelessShare is the share of what another order gained that the rest of an order must
	// promise: its commands only lose of it.
	hopelessShare = 0.95
	// fewShare is how many times the commands that may begin now those that were found must
	// be for few orders to do: what comes next is searched again anyway.
	fewShare = 16
	// searchRoundsMax is how often it is searched again because some of what was found did
	// not become commands.
	searchRoundsMax = 3
	// littleShare is of how many nodes one removed is little: what the session has worked out
	// for the others is kept then.
	littleShare = 5
	// noiseShare is by how much, as a share, ranks differ from one order to another.
	noiseShare = 0.1

	// How far a search goes.

	// roundsMax and roundsFew are how often windows go over the nodes, roundsFew where there
	// are more than manyNodes: 5,000 nodes are searched in a minute.
	roundsMax, roundsFew, manyNodes = 4, 2, 1500
	// partsOpen is how many parts of a command that is too large are tried for a node.
	partsOpen = 8
	// stageNodesMax is how many nodes are compared for the next of a stage.
	stageNodesMax = 256
	// fillMin is the share of a target node that must be filled: less is what sums lose.
	fillMin = 1e-9
	// searchBase, searchNode and searchPod are the units of effort that a search may take: in
	// all cases, for each node, and for each pod that could move. Searches about ordinary pods
	// take less than a tenth (BenchmarkEffort prints it).
	searchBase, searchNode, searchPod = 10_000_000, 40_000, 8_000
	// searchesMax bounds how often a search that takes too much and finds nothing is repeated.
	searchesMax = 2
)
