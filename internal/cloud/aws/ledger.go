package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	// batchMost is how many requests one fleet is for.
	batchMost = 50
	// settlePatience is how long one attempt to settle a batch may take.
	settlePatience = 2 * time.Minute
	// recordKept is how long a batch is remembered. No claim waits that long for its
	// instance, so nobody asks for a token of an older one.
	recordKept = 15 * time.Minute

	recordPrefix = "launch-"
	recordLabel  = awsv1.Group + "/launch"
	recordValue  = "batch"
	launchTag    = recordLabel // on every instance, with the name of its batch
	clusterLabel = awsv1.Group + "/cluster"
)

var (
	// errElsewhere says that another process is launching for the same claims.
	errElsewhere = errors.New("another process is launching for the same claims")
	// errUnseen says that EC2 refused a request without looking at it.
	errUnseen = errors.New("refused by EC2 unseen")
)

// member is one request of a batch.
type member struct {
	Token, Claim string
}

// order is a batch as it is written down: enough to send it again as it was.
type order struct {
	ClientToken string
	Begun       time.Time
	Members     []member
	// CapacityType, Tenancy and Partition of the machines; Reservations by type and zone, of
	// capacity type reserved.
	CapacityType, Tenancy, Partition string
	// EFA: the machines have the interfaces that pods may ask for.
	EFA          bool
	Reservations map[string]string
	Input        *ec2.CreateFleetInput
}

// verdict is EC2's definite answer to an order: machines for the first members, the
// failure for the rest.
type verdict struct {
	machines []machine
	failure  error
}

// batch is an order and what became of it. It is guarded by the ledger's lock; while a
// round is on, its order belongs to the round alone.
type batch struct {
	name    string // of the record
	key     string // what its members want
	order   order
	open    bool // for more members, if there is room
	written bool
	// doubtful: it was sent, or may have been, and nobody knows what became of it.
	doubtful bool
	left     bool // nobody waits for what becomes of it

	round   chan struct{} // closed when the attempt has ended; nil: none was made
	running bool
	settled bool
	err     error // of the last attempt, while not settled
	got     map[string]machine
	failure error
}

// ledger is what was ordered from EC2 lately, by anybody of this cluster.
type ledger struct {
	client    client.Client
	reader    client.Reader // not behind
	namespace string
	cluster   string
	now       func() time.Time
	log       *slog.Logger
	// send gives an order to EC2. Its error means that the outcome is not known. Doubtful:
	// an earlier attempt may have been carried out.
	send func(ctx context.Context, o *order, doubtful bool) (verdict, error)
	// waits tells whether the claim of a request is there.
	waits func(context.Context, member) bool
	// turn waits until a new batch may be sent. Meanwhile the batch takes in others: the
	// less may be sent, the more go together.
	turn func(ctx context.Context) error
	// gathered is told for how long the first member of a batch waited for others, and how
	// many they are.
	gathered func(waited time.Duration, size int)

	loading turnstile // one reading of old records at a time
	mu      sync.Mutex
	loaded  bool
	batches map[string]*batch // by the name of the record; those not written yet are absent
	opened  map[string]*batch // by what they want
	byToken map[string]*batch // the batch that answers for a token
}

// answers tells whether a batch is the one to ask about a member.
func (b *batch) answers(m member) bool {
	if _, ok := b.got[m.Token]; ok || b.settled {
		return ok
	}
	return slices.Contains(b.order.Members, m)
}

// deal settles a batch: machines are for the first members.
func (b *batch) deal(machines []machine, failure error) {
	b.settled, b.failure, b.got = true, failure, map[string]machine{}
	for i, m := range machines[:min(len(machines), len(b.order.Members))] {
		m.Token, m.Claim = b.order.Members[i].Token, b.order.Members[i].Claim
		b.got[m.Token] = m
	}
}

func newLedger() *ledger {
	return &ledger{loading: newTurnstile(), batches: map[string]*batch{}, opened: map[string]*batch{}, byToken: map[string]*batch{}}
}

// join puts a request into the batch of those that want the same, unless there is one
// that answers for its token. Attend says how it ends.
func (l *ledger) join(key string, m member, draft func() order) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.byToken[m.Token]; b != nil {
		b.left = false
		return b
	}
	b := l.opened[key]
	if b == nil {
		b = &batch{key: key, order: draft(), open: true}
		b.order.ClientToken, b.order.Begun = string(uuid.NewUUID()), l.now()
		l.opened[key] = b
	}
	b.order.Members = append(b.order.Members, m)
	l.byToken[m.Token] = b
	if len(b.order.Members) == batchMost {
		delete(l.opened, key)
	}
	return b
}

// holding returns the batch that answers for a token that is asked for; nil: there is none.
func (l *ledger) holding(token string) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.byToken[token]
	if b != nil {
		b.left = false
	}
	return b
}

// answer waits for a round of a batch, which begin returned, and returns the answer for a
// token. An error that is no *cloud.Failure means that it is not known yet.
func (l *ledger) answer(ctx context.Context, b *batch, round <-chan struct{}, token string) (machine, error) {
	select {
	case <-round:
	case <-ctx.Done():
		return machine{}, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !b.settled {
		return machine{}, b.err
	}
	if m, ok := b.got[token]; ok {
		return m, nil
	}
	return machine{}, b.failure
}

// begin starts a round for a batch unless one is on or it is settled.
func (l *ledger) begin(ctx context.Context, b *batch) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.running || b.settled {
		return b.round
	}
	b.running, b.round = true, make(chan struct{})
	go func() { // for others too, who may have more patience than this caller
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlePatience)
		defer cancel()
		var got verdict
		err := l.gather(ctx, b)
		if err == nil {
			got, err = l.settle(ctx, b)
		}
		l.end(ctx, b, got, err)
	}()
	return b.round
}

// gather lets a new batch take in others until its turn has come.
func (l *ledger) gather(ctx context.Context, b *batch) error {
	if !b.open { // only its first round, this one, closes it
		return nil
	}
	err := l.turn(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	b.open = false
	l.gathered(l.now().Sub(b.order.Begun), len(b.order.Members))
	if l.opened[b.key] == b {
		delete(l.opened, b.key)
	}
	return err
}

// settle sends a batch that was written down, once more if it was sent before.
func (l *ledger) settle(ctx context.Context, b *batch) (verdict, error) {
	if !b.written {
		if err := l.write(ctx, b); err != nil {
			return verdict{}, err
		}
	}
	v, err := l.send(ctx, &b.order, b.doubtful)
	switch {
	case errors.Is(err, errUnseen) && !b.doubtful:
		// Who still wants a machine asks anew; the others may have left.
		return verdict{failure: err}, nil
	case err != nil && !errors.Is(err, errUnseen):
		b.doubtful = true
	}
	return v, err
}

// end notes how a round has ended. The record of a batch that got nothing goes first, so
// that its members find none of that name when they are launched anew.
func (l *ledger) end(ctx context.Context, b *batch, v verdict, err error) {
	nothing := err == nil && len(v.machines) == 0
	switch {
	case nothing:
		l.erase(ctx, b.name)
	case err == nil:
		l.note(ctx, b.name, v.machines)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(b.round)
	b.running, b.err = false, err
	if errors.Is(err, errElsewhere) {
		l.release(b)
	}
	if err != nil {
		return
	}
	b.deal(v.machines, v.failure)
	l.release(b)
	if nothing {
		delete(l.batches, b.name)
	}
}

// release lets go of the members that got nothing: they may be launched anew, unless that
// was done already, by a later batch that a predecessor left.
func (l *ledger) release(b *batch) {
	for _, m := range b.order.Members {
		if _, ok := b.got[m.Token]; ok || l.byToken[m.Token] != b {
			continue
		}
		delete(l.byToken, m.Token)
		for _, other := range l.batches {
			if other != b && other.answers(m) {
				l.byToken[m.Token] = other
			}
		}
	}
}

// write writes a batch down. Its name says whom it is for, so that of two processes that
// want the same one writes and the other finds what was written.
func (l *ledger) write(ctx context.Context, b *batch) error {
	b.name = recordName(b.order.Members)
	b.order.seal(b.name)
	content, err := pack(&b.order)
	if err != nil {
		return err
	}
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: b.name, Namespace: l.namespace,
			Labels: map[string]string{recordLabel: recordValue, clusterLabel: clusterValue(l.cluster)},
		},
		BinaryData: map[string][]byte{recordField: content},
	}
	err = l.client.Create(ctx, record)
	if apierrors.IsAlreadyExists(err) {
		if err := l.reader.Get(ctx, client.ObjectKeyFromObject(record), record); err != nil {
			return fmt.Errorf("read launch record %s: %w", b.name, err)
		}
		found, err := unpack(record.BinaryData[recordField])
		if err != nil {
			return fmt.Errorf("read launch record %s: %w", b.name, err)
		}
		b.order, b.doubtful = found, true
	} else if err != nil {
		return fmt.Errorf("write launch record %s: %w", b.name, err)
	}
	l.mu.Lock()
	l.batches[b.name], b.written = b, true
	l.mu.Unlock()
	return l.yield(ctx, b, record.ResourceVersion)
}

// yield takes a batch back that has just been written if an older one, which this process
// did not know of, is for some of the same claims. The lease keeps two processes from
// launching at once; one that lost it in its sleep ends up here.
func (l *ledger) yield(ctx context.Context, b *batch, version string) error {
	others, err := l.load(ctx, func(r *corev1.ConfigMap) bool {
		return older(r.ResourceVersion, version) || len(noted(r)) > 0 // which was written since
	})
	if err != nil {
		return err
	}
	for _, other := range others {
		if !slices.ContainsFunc(b.order.Members, other.answers) {
			continue
		}
		l.mu.Lock()
		delete(l.batches, b.name)
		for _, m := range other.order.Members {
			if other.answers(m) {
				l.byToken[m.Token] = other
			}
		}
		l.mu.Unlock()
		l.erase(ctx, b.name)
		return fmt.Errorf("launch batch %s: %w", b.name, errElsewhere)
	}
	return nil
}

// ready reads what a predecessor left, once.
func (l *ledger) ready(ctx context.Context) error {
	l.mu.Lock()
	loaded := l.loaded
	l.mu.Unlock()
	if loaded {
		return nil
	}
	if _, err := l.load(ctx, func(*corev1.ConfigMap) bool { return true }); err != nil {
		return err
	}
	l.mu.Lock()
	l.loaded = true
	l.mu.Unlock()
	return nil
}

// load reads the records that this process does not know and returns their batches.
// Those that nobody waits for any more are erased.
func (l *ledger) load(ctx context.Context, wanted func(*corev1.ConfigMap) bool) ([]*batch, error) {
	if err := l.loading.enter(ctx); err != nil {
		return nil, fmt.Errorf("list launch records: %w", err)
	}
	defer l.loading.leave()
	var records corev1.ConfigMapList
	err := l.reader.List(ctx, &records, client.InNamespace(l.namespace), client.MatchingLabels{recordLabel: recordValue, clusterLabel: clusterValue(l.cluster)})
	if err != nil {
		return nil, fmt.Errorf("list launch records: %w", err)
	}
	var found []*batch
	for i := range records.Items {
		r := &records.Items[i]
		if !wanted(r) {
			continue
		}
		o, err := unpack(r.BinaryData[recordField])
		if err != nil {
			l.log.Error("launch record is damaged and left aside", "record", r.Name, "error", err)
			continue
		}
		if l.now().Sub(o.Begun) > recordKept {
			l.erase(ctx, r.Name)
			continue
		}
		if b := l.learn(r.Name, o, noted(r)); b != nil {
			found = append(found, b)
		}
	}
	return found, nil
}

// learn takes a batch of somebody else in, with what became of it if that was noted; nil: it
// is known.
func (l *ledger) learn(name string, o order, outcome []machine) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.batches[name] != nil {
		return nil
	}
	b := &batch{name: name, order: o, written: true, doubtful: true}
	if len(outcome) > 0 {
		b.deal(outcome, nil)
		b.round = make(chan struct{})
		close(b.round)
	}
	l.batches[name] = b
	for _, m := range o.Members {
		if l.byToken[m.Token] == nil && b.answers(m) {
			l.byToken[m.Token] = b
		}
	}
	return b
}

// settleAll waits until every batch that was written down is settled, or cannot be now. One
// that nobody waits for any more is left as it is: it may never have been carried out, and
// would be now.
func (l *ledger) settleAll(ctx context.Context) {
	l.mu.Lock()
	var rounds []*batch
	for _, b := range l.batches {
		if !b.settled {
			rounds = append(rounds, b)
		}
	}
	l.mu.Unlock()
	for _, b := range rounds {
		if l.leave(ctx, b) {
			continue
		}
		select {
		case <-l.begin(ctx, b):
		case <-ctx.Done():
			return
		}
	}
}

// leave notes that a batch is left as it is if none of its claims is there any more.
func (l *ledger) leave(ctx context.Context, b *batch) bool {
	l.mu.Lock()
	var members []member
	if !b.running {
		members = b.order.Members
	}
	l.mu.Unlock()
	if len(members) == 0 || slices.ContainsFunc(members, func(m member) bool { return l.waits(ctx, m) }) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b.left = !b.running
	return b.left
}

// unsettled tells whether somebody waits for a batch whose outcome is not known.
func (l *ledger) unsettled(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.batches[name]
	return b != nil && !b.settled && !b.left
}

// machines returns all that were launched lately, by instance id.
func (l *ledger) machines() map[string]machine {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]machine{}
	for _, b := range l.batches {
		for _, m := range b.got {
			all[m.ID] = m
		}
	}
	return all
}

// tidy forgets the batches that nobody waits for any more.
func (l *ledger) tidy(ctx context.Context) {
	l.mu.Lock()
	var old []string
	for name, b := range l.batches {
		if b.running || l.now().Sub(b.order.Begun) <= recordKept {
			continue
		}
		old = append(old, name)
		delete(l.batches, name)
		for _, m := range b.order.Members {
			if l.byToken[m.Token] == b {
				delete(l.byToken, m.Token)
			}
		}
	}
	l.mu.Unlock()
	for _, name := range old {
		l.erase(ctx, name)
	}
}

// erase deletes a record. What remains of one is found by its age the next time.
func (l *ledger) erase(ctx context.Context, name string) {
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: l.namespace}}
	if err := l.client.Delete(ctx, record); client.IgnoreNotFound(err) != nil {
		l.log.Warn("launch record could not be deleted", "record", name, "error", err)
	}
}

// recordName returns the name for a batch of these members: the same for every order of them.
func recordName(members []member) string {
	tokens := make([]string, 0, len(members))
	for _, m := range members {
		tokens = append(tokens, m.Token)
	}
	slices.Sort(tokens)
	sum := sha256.Sum256([]byte(strings.Join(tokens, "\n")))
	return recordPrefix + hex.EncodeToString(sum[:16])
}

// clusterValue returns the cluster's name as a label value.
func clusterValue(cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return hex.EncodeToString(sum[:8])
}

// older tells whether one resource version was given out before another: they are
// numbers that the API server counts up.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}
