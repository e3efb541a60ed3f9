package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// resolvePatience is how long one attempt to resolve a batch may take.
const resolvePatience = 2 * time.Minute

var (
	// errUnresolved says that what became of a fleet is not known yet.
	errUnresolved = errors.New("it is not known yet what became of an earlier request; its instances are looked for")
	// errLost says that a request of unknown outcome brought nothing.
	errLost = errors.New("an earlier request brought no instance")
)

// ledger is the record of what was recently requested from EC2 by any process of this cluster.
// It ensures that a token gets at most one instance.
type ledger struct {
	now func() time.Time
	log *slog.Logger
	// send sends a request to EC2. Its error means that the outcome is not known. doubtful: an
	// earlier attempt may have succeeded.
	send func(ctx context.Context, o *fleetRequest, doubtful bool) (outcome, error)
	// find returns the instances that EC2 shows of a batch.
	find func(ctx context.Context, name string) ([]ec2Instance, error)
	// note writes a mark on a claim unless it has another that holds. errLeft: the claim is gone.
	note func(ctx context.Context, m mark, holds func(mark) bool) error
	// marks returns the marks on all claims, and the ids of the instances that claims have.
	marks func(ctx context.Context) ([]mark, map[string]bool, error)
	// isWanted reports whether the claim of a request is there.
	isWanted func(context.Context, member) bool
	// throttle waits until a new batch may be sent. Meanwhile other requests join the batch: the
	// lower the rate, the larger the batches.
	throttle func(ctx context.Context) error
	// gathered gets for how long the first member of a batch waited for others, and how
	// many they are.
	gathered func(waited time.Duration, size int)

	loading turnstile // one reading of marks at a time
	mu      sync.Mutex
	loaded  bool
	batches map[string]*batch // by name, from their first mark on
	opened  map[string]*batch // those that more requests may join, by key
	byToken map[string]*batch // which batch has a token
}

func newLedger() *ledger {
	return &ledger{loading: newTurnstile(), batches: map[string]*batch{}, opened: map[string]*batch{}, byToken: map[string]*batch{}}
}

// join adds a request to the open batch with the same key, or opens one. If a batch has the
// request's token already, join returns that one.
func (l *ledger) join(key string, m member, draft func() fleetRequest) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.byToken[m.Token]; b != nil {
		return b
	}
	b := l.opened[key]
	if b == nil {
		b = &batch{key: key, request: draft(), open: true}
		b.request.ClientToken, b.request.Begun = string(uuid.NewUUID()), l.now()
		b.name = batchPrefix + b.request.ClientToken
		l.opened[key] = b
	}
	b.request.Members = append(b.request.Members, m)
	l.byToken[m.Token] = b
	if len(b.request.Members) == batchMost {
		delete(l.opened, key)
	}
	return b
}

// holding returns the batch that has a token; nil: there is none.
func (l *ledger) holding(token string) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byToken[token]
}

// shortOf returns the offerings that EC2 had no capacity for when it answered a batch, and for
// how long to avoid them.
func (l *ledger) shortOf(b *batch) ([]catalog.Place, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return b.short, b.keep
}

// answer waits for an attempt that begin returned, and returns the instance of a token. An error
// that is no *cloud.Failure means that the outcome is not known yet.
func (l *ledger) answer(ctx context.Context, b *batch, attempt <-chan struct{}, token string) (ec2Instance, error) {
	select {
	case <-attempt:
	case <-ctx.Done():
		return ec2Instance{}, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !b.resolved {
		return ec2Instance{}, b.err
	}
	if m, ok := b.got[token]; ok {
		return m, nil
	}
	return ec2Instance{}, cmp.Or(b.failure, errLeft)
}

// begin starts an attempt to send or resolve a batch, unless one is running or the batch is
// resolved. The channel is closed when the attempt has ended.
func (l *ledger) begin(ctx context.Context, b *batch) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.running || b.resolved {
		return b.attempt
	}
	b.running, b.attempt = true, make(chan struct{})
	go func() { // not bound to ctx: other callers wait for the same attempt
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolvePatience)
		defer cancel()
		var got outcome
		err := l.gather(ctx, b)
		if err == nil {
			got, err = l.resolve(ctx, b)
		}
		l.end(b, got, err)
	}()
	return b.attempt
}

// gather waits until a new batch may be sent, and closes it. Until then other requests join.
func (l *ledger) gather(ctx context.Context, b *batch) error {
	if !b.open { // an earlier attempt closed it
		return nil
	}
	err := l.throttle(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	b.open = false
	l.gathered(l.now().Sub(b.request.Begun), len(b.request.Members))
	if l.opened[b.key] == b {
		delete(l.opened, b.key)
	}
	return err
}

// resolve sends a batch, or finds out what became of it. If the batch was sent and not answered,
// resolve first looks for its instances. Only then does it repeat the request: EC2 may answer a
// repeat with the same instances, with none, with an error or with other instances. Instances
// that no member gets have no claim, and are terminated later.
func (l *ledger) resolve(ctx context.Context, b *batch) (outcome, error) {
	if b.doubtful {
		if v, err := l.seek(ctx, b); !errors.Is(err, errUnresolved) {
			return v, err
		}
		if b.repeated || !slices.ContainsFunc(b.request.Members, func(m member) bool { return l.isWanted(ctx, m) }) {
			return outcome{}, errUnresolved
		}
	}
	switch err := l.mark(ctx, b); {
	case errors.Is(err, errElsewhere) && b.doubtful:
		b.repeated = true
		return outcome{}, errUnresolved
	case errors.Is(err, errElsewhere) || errors.Is(err, errLeft):
		return outcome{failure: err}, nil
	case err != nil:
		return outcome{}, err
	}
	v, err := l.send(ctx, &b.request, b.doubtful)
	switch {
	case errors.Is(err, errUnseen):
		if !b.doubtful { // nothing was launched; claims that still want an instance ask again
			return outcome{failure: err}, nil
		}
	case errors.Is(err, errRepeated):
		if b.repeated = true; !b.doubtful { // somebody else has used the token
			b.doubtful, b.shown = true, l.now().Add(seenAfter)
		}
	case err != nil:
		b.doubtful, b.shown = true, l.now().Add(seenAfter)
	case b.doubtful:
		b.repeated, b.answered, b.refused = true, v.instances, v.failure
		found, err := l.seek(ctx, b)
		found.short, found.keep = v.short, v.keep
		return found, err
	}
	return v, err
}

// seek looks for the instances of a batch. If it finds fewer than were requested, it believes
// that only after EC2 has had the time to show all.
func (l *ledger) seek(ctx context.Context, b *batch) (outcome, error) {
	over := !l.now().Before(b.shown) // read before find, which takes a while
	found, err := l.find(ctx, b.name)
	if err != nil {
		return outcome{}, fmt.Errorf("find instances of %s: %w", b.name, err)
	}
	for _, m := range b.answered {
		if !slices.ContainsFunc(found, func(f ec2Instance) bool { return f.ID == m.ID }) {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b ec2Instance) int { return strings.Compare(a.ID, b.ID) })
	if len(found) < b.size && !over {
		return outcome{}, errUnresolved
	}
	if len(found) > b.size {
		l.log.Error("EC2 launched more instances than were asked for; those without a NodeClaim will be terminated", "launch", b.name, "ordered", b.size, "found", len(found))
	}
	return outcome{instances: found, failure: cmp.Or(b.refused, errLost)}, nil
}

// mark writes on each claim of a batch that the batch is about to be sent. So a process that
// launches for the same claims later looks for the batch's instances first. Claims that are gone
// are taken out of a batch that was not sent yet.
func (l *ledger) mark(ctx context.Context, b *batch) error {
	l.mu.Lock()
	if b.size == 0 {
		slices.SortFunc(b.request.Members, func(x, y member) int { return strings.Compare(x.Token, y.Token) })
	}
	l.batches[b.name] = b
	l.mu.Unlock()
	for {
		members, now := b.request.Members, l.now()
		left := make([]bool, len(members))
		group, marking := errgroup.WithContext(ctx)
		group.SetLimit(marksAtOnce)
		for i, m := range members {
			group.Go(func() error {
				err := l.note(marking, mark{m, b.name, i, len(members), now}, func(other mark) bool { return l.holds(b, other) })
				if left[i] = errors.Is(err, errLeft); left[i] {
					return nil
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			if errors.Is(err, errElsewhere) {
				err = errors.Join(err, l.load(ctx))
			}
			return fmt.Errorf("launch batch %s: %w", b.name, err)
		}
		if b.size > 0 {
			return nil
		}
		if !slices.Contains(left, true) {
			l.seal(b, now)
			return nil
		}
		var stay []member
		for i, m := range members {
			if !left[i] {
				stay = append(stay, m)
			}
		}
		if len(stay) == 0 {
			return errLeft
		}
		l.mu.Lock()
		b.request.Members = stay
		l.mu.Unlock()
	}
}

// seal fixes the members of a batch and their positions, and makes its request ready to be sent.
func (l *ledger) seal(b *batch, now time.Time) {
	b.request.seal(b.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	b.request.Begun = now
	b.size, b.places = len(b.request.Members), map[string]int{}
	for i, m := range b.request.Members {
		b.places[m.Token] = i
	}
}

// holds reports whether a mark keeps a batch from launching for the marked claim, because the
// other batch that the mark names may still launch an instance for it.
func (l *ledger) holds(b *batch, m mark) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.batch == b.name || l.now().Sub(m.begun) > batchKept {
		return false
	}
	other := l.batches[m.batch]
	if other == nil || !other.resolved {
		return true
	}
	_, has := other.got[m.Token]
	return has
}

// end records how an attempt has ended.
func (l *ledger) end(b *batch, v outcome, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(b.attempt)
	b.running, b.err = false, err
	if err != nil {
		return
	}
	b.deal(v.instances, v.failure)
	b.short, b.keep = v.short, v.keep
	for _, m := range slices.Collect(maps.Keys(l.byToken)) { // those that got nothing may be launched anew
		if _, ok := b.got[m]; !ok && l.byToken[m] == b {
			l.release(m)
		}
	}
}

// release takes a token off its batch. Another process's batch that is not resolved yet may have it.
func (l *ledger) release(token string) {
	delete(l.byToken, token)
	for _, other := range l.batches {
		if _, has := other.places[token]; has && !other.resolved {
			l.byToken[token] = other
		}
	}
}

// ready reads the marks that earlier processes left, once.
func (l *ledger) ready(ctx context.Context) error {
	l.mu.Lock()
	loaded := l.loaded
	l.mu.Unlock()
	if loaded {
		return nil
	}
	if err := l.load(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	l.loaded = true
	l.mu.Unlock()
	return nil
}

// load reads the marks on claims and adds the batches that this process does not know.
func (l *ledger) load(ctx context.Context) error {
	if err := l.loading.enter(ctx); err != nil {
		return fmt.Errorf("read what NodeClaims are marked with: %w", err)
	}
	defer l.loading.leave()
	all, adopted, err := l.marks(ctx)
	if err != nil {
		return fmt.Errorf("read what NodeClaims are marked with: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]*batch{}
	for _, m := range all {
		if l.batches[m.batch] == nil && l.now().Sub(m.begun) <= batchKept {
			l.learn(found, m, adopted)
		}
	}
	maps.Copy(l.batches, found)
	return nil
}

// learn adds a claim to the batch of another process that it is marked with. Such a batch is
// never sent again, because only that process knows its request.
func (l *ledger) learn(found map[string]*batch, m mark, adopted map[string]bool) {
	b := found[m.batch]
	if b == nil {
		b = &batch{name: m.batch, doubtful: true, repeated: true, places: map[string]int{}, adopted: adopted}
		found[m.batch] = b
	}
	if now := l.now(); m.begun.After(now) { // another process's clock may be ahead
		m.begun = now
	}
	if m.begun.After(b.request.Begun) {
		b.request.Begun, b.shown = m.begun, m.begun.Add(shownAfter)
	}
	b.size = max(b.size, m.of)
	b.places[m.Token] = m.at
	b.request.Members = append(b.request.Members, m.member)
	if l.byToken[m.Token] == nil {
		l.byToken[m.Token] = b
	}
}

// resolveAll begins an attempt for every batch that was sent and is not resolved, and waits for
// their ends.
func (l *ledger) resolveAll(ctx context.Context) {
	l.mu.Lock()
	var sent []*batch
	for _, b := range l.batches {
		if !b.resolved && b.size > 0 { // without a size it was not sent
			sent = append(sent, b)
		}
	}
	l.mu.Unlock()
	for _, b := range sent {
		select {
		case <-l.begin(ctx, b):
		case <-ctx.Done():
			return
		}
	}
}

// unresolved reports whether an instance belongs to a batch whose outcome is not known, so that
// it is not known whose it is.
func (l *ledger) unresolved(m *ec2Instance) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.batches[m.Tags[launchTag]]
	return b != nil && !b.resolved && !b.adopted[m.ID]
}

// instances returns the instances of all batches, by instance id.
func (l *ledger) instances() map[string]ec2Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]ec2Instance{}
	for _, b := range l.batches {
		for _, m := range b.got {
			all[m.ID] = m
		}
	}
	return all
}

// forgetOld forgets batches older than batchKept.
func (l *ledger) forgetOld() {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := func(_ string, b *batch) bool { return !b.running && l.now().Sub(b.request.Begun) > batchKept }
	maps.DeleteFunc(l.batches, old)
	maps.DeleteFunc(l.byToken, old)
}
