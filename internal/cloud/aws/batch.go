package aws

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

const (
	// seenAfter is how long EC2 may take to show a new instance to everybody. Before that,
	// one that it does not show is taken to be there.
	seenAfter = 90 * time.Second
	// shownAfter is how long after its last mark a batch of another process can still bring
	// instances that EC2 does not show: its request may have been under way for as long as
	// requests may take.
	shownAfter = requestPatience + seenAfter
	// batchKept is how long a batch is remembered. No claim waits that long for its
	// instance, so nobody asks for a token of an older one.
	batchKept = 15 * time.Minute
)

// batch is an order and what became of it. It is guarded by the ledger's lock; while a
// round is on, its order and what is known of its outcome belong to the round alone.
type batch struct {
	name    string // on its claims and instances
	key     string // what its members want
	request fleetRequest
	open    bool // for more members, if there is room

	// size is how many instances were ordered, and places for whom, by token: the nth
	// instance by id is the nth member's. Both are set when the first mark is written.
	size   int
	places map[string]int
	// adopted are the ids of instances that claims had when the batch was read from its marks.
	adopted map[string]bool

	// doubtful: it was sent, or may have been, and nobody knows what became of it. From shown
	// on, EC2 shows whatever it brought.
	doubtful bool
	shown    time.Time
	// observed: EC2 has answered a repeat, so there are no more. That answer is believed as far
	// as it names instances, and no further: what EC2 does with a used token is not promised.
	repeated bool
	answered []ec2Instance
	refused  error

	round    chan struct{} // closed when the attempt has ended; nil: none was made
	running  bool
	resolved bool
	err      error // of the last attempt, while not settled
	got      map[string]ec2Instance
	failure  error
	// short are the places that EC2 had nothing in, for so long.
	short []catalog.Place
	keep  time.Duration
}

// deal ends a batch: it assigns the instances that EC2 launched to the batch's members. A
// member gets the instance that carries its claim's tag, else the one at its own position in
// the batch. Instances that other claims have already are left out.
func (b *batch) deal(instances []ec2Instance, failure error) {
	b.resolved, b.failure, b.got = true, failure, map[string]ec2Instance{}
	taken := map[string]bool{}
	maps.Copy(taken, b.adopted)
	give := func(m member, at int) {
		if _, has := b.got[m.Token]; has || at < 0 || at >= len(instances) || taken[instances[at].ID] {
			return
		}
		its := instances[at]
		its.Token, its.Claim = m.Token, m.Claim
		b.got[m.Token], taken[its.ID] = its, true
	}
	for _, m := range b.request.Members {
		give(m, slices.IndexFunc(instances, func(has ec2Instance) bool { return has.Claim == m.Claim && !taken[has.ID] }))
	}
	for _, m := range b.request.Members {
		give(m, b.places[m.Token])
	}
	if len(instances) <= b.size {
		return
	}
	for _, m := range b.request.Members { // there are more than were ordered
		for at := range instances {
			give(m, at)
		}
	}
}
