package aws

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

const (
	// seenAfter is how long EC2 may take until all its answers show a new instance. A younger
	// instance that EC2 does not show is assumed to exist.
	seenAfter = 90 * time.Second
	// shownAfter is how long after its last mark a batch of another process may still have
	// instances that EC2 does not show: its request may have taken requestPatience.
	shownAfter = requestPatience + seenAfter
	// batchKept is how long a batch is remembered. No claim waits that long for its instance,
	// so no request has a token of an older batch.
	batchKept = 15 * time.Minute
)

// batch is several launch requests that are sent as one request for a fleet, and what became of
// it. The ledger's lock protects it. While an attempt runs, request and the fields about the
// outcome belong to the attempt's goroutine.
type batch struct {
	name    string // in the marks of its claims and in a tag of its instances
	key     string // equal for requests that may share a fleet
	request fleetRequest
	open    bool // for more members, if there is room

	// size is how many instances were requested. places are the members' positions by token:
	// the member at position n gets the nth instance by id. Both are set when the first mark is
	// written.
	size   int
	places map[string]int
	// adopted are the ids of the instances that already had a NodeClaim when the batch was read
	// from its marks.
	adopted map[string]bool

	// doubtful: the request was sent, or may have been, and its outcome is not known. From shown
	// on, EC2 shows every instance that it launched.
	doubtful bool
	shown    time.Time
	// repeated: EC2 has answered a repeat of the request, so it is not sent again. answered and
	// refused are that answer. Only the instances that it names are believed, because EC2 does
	// not promise what it does with a token that was used before.
	repeated bool
	answered []ec2Instance
	refused  error

	attempt  chan struct{} // closed when the attempt has ended; nil: none was made
	running  bool
	resolved bool
	err      error // of the last attempt, while it is not resolved
	got      map[string]ec2Instance
	failure  error
	// short are the offerings that EC2 had no capacity for, and keep for how long to avoid them.
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
	for _, m := range b.request.Members { // there are more than were requested
		for at := range instances {
			give(m, at)
		}
	}
}
