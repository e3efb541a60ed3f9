package disrupt

import (
	"time"
)

// The constants that tune what disruption remembers and how much one decision does, each
// with its unit, its meaning and why it has this value. Those of the search for
// consolidation are in the same form in internal/core/consolidate.
const (
	// Time between decisions.

	// pauseCalm is how often a decision is considered when no command is in progress.
	// Karpenter's disruption loop polls every ten seconds; budgets by the minute and
	// consolidateAfter in seconds need no more.
	pauseCalm = 5 * time.Second
	// pauseBusy is how often commands in progress are considered. A replacement that is
	// ready costs twice its price for each second that is lost.
	pauseBusy = time.Second
	// idleMin and idleMax bound for how long nothing is decided anew while no event is
	// reported: only time that is not foreseen (NextAt) can change a decision then. It
	// doubles from decision to decision.
	idleMin, idleMax = 30 * time.Second, 2 * time.Minute

	// Cooldowns after failures.

	// poolCooldownMin and poolCooldownMax bound how long nothing is launched for the nodes of
	// a pool whose replacements failed; it doubles. A shortage of capacity lasts minutes.
	poolCooldownMin, poolCooldownMax = time.Minute, 10 * time.Minute
	// nodeCooldownMin and nodeCooldownMax bound how long a node is no candidate that could
	// not be replaced, or whose command was undone; it doubles. Without it a command was
	// begun and undone every second for ever (simulation, seed 18).
	nodeCooldownMin, nodeCooldownMax = time.Minute, 10 * time.Minute
	// roomTries is how many nodes that could not be replaced are tried again when limits
	// leave more room: what one node that goes leaves is room for a few at most.
	roomTries = 4

	// Searches for consolidation that are put off.

	// budgetPatience is how long no search is made when all that was found waits for budgets,
	// unless these allow more nodes.
	budgetPatience = 30 * time.Second
	// searchThrift is how many times its own duration a search puts off the next: searches
	// take a tenth of a processor at most.
	searchThrift = 10
	// searchBackoffMin and searchBackoffMax bound how long a search that began nothing puts
	// off the next; it doubles.
	searchBackoffMin, searchBackoffMax = pauseCalm, 4 * pauseCalm
	// conclusiveMin and conclusiveMax bound how long a search of all nodes that left nothing
	// to be begun saves others from searching nodes to which nothing has happened: prices and
	// room change without an event of theirs. It doubles from search to search.
	conclusiveMin, conclusiveMax = time.Minute, 8 * time.Minute
	// conclusiveIdleMax takes the place of conclusiveMax while no event at all is reported
	// and no node is young (simulation, seed 102198: a young node gets cheaper to remove with
	// time alone). Events that say why nodes stay last an hour and are renewed before.
	conclusiveIdleMax = 32 * time.Minute
	// triesHold is how long the order of nodes that saved most is tried first, with few
	// others: twenty orders take twenty times as long.
	triesHold = 2 * time.Minute

	// Repair.

	// rankWorth is how long a node waits for its repair until that is worth as much as the next
	// higher priority. It is Karpenter's, and so is the next.
	rankWorth = 30 * time.Minute
	// unhealthyPart is the part of a pool's nodes that may be unhealthy before repair stops: one
	// in five.
	unhealthyPart = 5

	// One decision.

	// probesDefault is how many nodes' replacements are worked out in one decision, where
	// Options.ProbesMax does not say: each takes a decision about the node's pods.
	probesDefault = 32
	// replaceWithinDefault is how long replacements may take until they are initialized,
	// where Options.ReplaceWithin does not say. Karpenter allows ten minutes, too.
	replaceWithinDefault = 10 * time.Minute
	// expiryWindowMin and expiryWindowMax bound the time before a node's end in which it is
	// replaced, which is else a tenth of its life; never more than half of it, unless the
	// cloud ends it. With expiryWindowMin left before that, neither budgets nor pods are
	// asked.
	expiryWindowMin, expiryWindowMax = 10 * time.Minute, 24 * time.Hour
	// eventLag is how much later than the last pod event the snapshot may say a pod came or
	// went: events that follow one another closely are written once.
	eventLag = 10 * time.Second

	// The PreferNoSchedule taint.

	// taintsMax is how many nodes get or lose the taint in one decision: each is a write.
	taintsMax = 200
	// reservesMax is how many nodes may stay for any of them to get the taint: each is
	// compared with each kind of pod that is to move.
	reservesMax = 1000
	// reserveRounds is in how many rounds at most, each of as many nodes as budgets allow at
	// once, all commands are to be begun for that: other pods are kept from these nodes until
	// then.
	reserveRounds = 8
)
