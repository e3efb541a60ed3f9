// Package journal keeps the decisions of the core, so that a person can ask later what was
// decided, why, and whether it would be decided again: the newest in memory, and if asked
// for many more on disk, both within bounds.
//
// A loop hands each decision to Journal.Add and goes on; all else happens in Run. Three things are
// kept, each in its own store, so that a decision costs what has changed and not what is there:
// timelines (what was said about each subject, kept when it changes), plans, and the pieces of
// which snapshots consist (internal/decision/record writes them), each once. A decision that says
// the same as the one before is counted, not kept. In a file a line stands by itself: one that a
// crash cut short is skipped and reported, and the others are as good as before.
//
// It may import the core and decision/record. Read journal.go first, then store.go (what is kept),
// line.go (how it is written), timeline.go, landed.go and moved.go (where the pods of launches and of commands
// went), arrival.go (how long they waited for what), pieces.go, disk.go, read.go and recall.go (files), explain.go and node.go (what a decision says),
// subject.go (what can be asked about), ask.go (answers), types.go (why an instance type was chosen), serve.go (HTTP).
package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

const (
	// queueMax is how many decisions may wait to be written, snapshotsMax how many of them with their
	// snapshots. One more is dropped: a loop never waits for the journal.
	queueMax, snapshotsMax = 64, 16
	// decisionsMax bounds how many decisions are kept in memory, besides their bytes.
	decisionsMax = 4096
	// askersMax bounds of how many static pools it is remembered what was decided last.
	askersMax = 1000
	// sameEvery is how often it is written to disk that a decision still stands.
	sameEvery = time.Minute
	// idleEvery is how often a decision to do nothing is kept at most, when only the reasons
	// for that change: in a large cluster they do with every decision.
	idleEvery = time.Minute
	// workingBytes is the least memory for pieces: without them each decision on disk is a whole one.
	workingBytes = 4 << 20
)

// Outcomes of handing a decision in, as Options.Count gets them.
const (
	Written = "written" // it is in the journal
	Same    = "same"    // it said what the one before said
	Idle    = "idle"    // it was to do nothing, as one that was kept a moment ago
	Dropped = "dropped" // the queue was full
	Failed  = "failed"  // it could not be written
	// SnapshotDropped: many waited, so only its plan was kept.
	SnapshotDropped = "snapshot_dropped"
)

// Options are what a journal needs to know of its surroundings.
type Options struct {
	// MemoryBytes bounds what is kept in memory.
	MemoryBytes int64
	// Dir is where files are kept; empty: nowhere. DiskBytes bounds them together.
	Dir       string
	DiskBytes int64
	// Version is the program's.
	Version string
	Now     func() time.Time
	Log     *slog.Logger
	// Count is called with the outcome of each decision.
	Count func(record.Loop, string)
}

// Journal keeps decisions. A nil Journal keeps none.
type Journal struct {
	opts  Options
	queue chan handed
	ids   numbering
	// arrivals wait for the next decision.
	arrivals arrivals
	failing  launchFailures
	// snapshots is how many of those in the queue have their snapshots.
	snapshots atomic.Int64
	disk      *disk // nil: none

	// writing is held while a decision is written, also to disk, and by who reads pieces. mu is held for a moment
	// at a time, so that a question does not wait for a first snapshot. Who needs both takes writing first.
	writing sync.Mutex
	prices  nodePrices // of the nodes of the newest decision; only the writer uses it
	mu      sync.Mutex // protects everything below, but for the pieces of the store; only the writer changes it
	store
	last  map[asker]*last
	lines *timelines
	// awaiting are the launches of which it is not known yet where their pods went.
	awaiting awaiting
	// seen are the newest snapshots of the loops that see the whole cluster.
	seen map[record.Loop]*cluster.Snapshot
	// failures are launches that have failed and that no decision is about yet.
	failures []*launchFailure
	// live says what subjects are now; nil: nothing does.
	live Live
}

// handed is a decision in the queue. One that is short has no snapshot but its time, and says
// how many pods and nodes there were.
type handed struct {
	decision       *record.Decision
	id             ID
	isShort        bool
	pending, nodes int
}

// last is the newest decision of an asker.
type last struct {
	id      ID
	essence uint64
	idle    bool
	at      time.Time
	// unwritten is how often it was come to since that was last written to disk, until when; also are those IDs.
	unwritten int64
	also      []ID
	until     time.Time
	written   time.Time
}

// Open returns a journal that keeps what is handed in once Run runs. The error is about
// the directory.
func Open(opts Options) (*Journal, error) {
	memory := opts.MemoryBytes
	if opts.Dir != "" {
		memory = max(memory, workingBytes)
	}
	j := &Journal{
		opts: opts, queue: make(chan handed, queueMax), ids: numbering{newest: map[asker]numbered{}}, store: newStore(memory),
		last: map[asker]*last{}, lines: newTimelines(int(min(statementsMax, memory/statementBytes))), seen: map[record.Loop]*cluster.Snapshot{},
		awaiting: newAwaiting(), failing: launchFailures{wake: make(chan struct{}, 1)},
	}
	if opts.Dir == "" {
		return j, nil
	}
	d, err := openDisk(opts.Dir, opts.DiskBytes, opts.Now)
	if err != nil {
		return nil, err
	}
	j.disk = d
	j.recall()
	return j, nil
}

// Add hands a decision in and returns at once. The decision must not be changed any more. The ID is the one that
// Identify returned; none: it gets one.
func (j *Journal) Add(d *record.Decision, id ID) {
	if j == nil {
		return
	}
	h := handed{decision: d, id: id}
	if j.snapshots.Load() >= snapshotsMax {
		short := *d
		short.Snapshot, short.Memory = &cluster.Snapshot{At: d.At()}, disrupt.Memory{}
		h = handed{decision: &short, id: id, isShort: true, pending: len(d.Snapshot.Pending), nodes: len(d.Snapshot.Nodes)}
	} else {
		j.snapshots.Add(1)
	}
	select {
	case j.queue <- h:
	default:
		if !h.isShort {
			j.snapshots.Add(-1)
		}
		j.opts.Count(d.Loop, Dropped)
	}
}

// Run writes what is handed in until the context ends, and then what still waits.
func (j *Journal) Run(ctx context.Context) {
	for {
		select {
		case h := <-j.queue:
			j.take(h)
			continue
		case <-j.failing.wake:
			j.takeFailures()
			continue
		case <-ctx.Done():
		}
		break
	}
	for {
		select {
		case h := <-j.queue:
			j.take(h)
			continue
		default:
		}
		break
	}
	j.takeFailures()
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sayAllAgain()
	if j.disk != nil {
		j.toDisk(timelineLine(j.lines.open(true)))
		j.reported(j.disk.close())
	}
}

// take writes one decision, or counts it.
func (j *Journal) take(h handed) {
	if !h.isShort {
		j.snapshots.Add(-1)
	}
	outcome, err := j.write(h)
	if err != nil {
		j.opts.Log.Error("keeping a decision", "loop", h.decision.Loop, "error", err)
	}
	if outcome == Written && h.isShort {
		outcome = SnapshotDropped
	}
	j.opts.Count(h.decision.Loop, outcome)
}

func (j *Journal) write(h handed) (outcome string, err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	defer func() { // a bug here must not end the controller
		if r := recover(); r != nil {
			outcome, err = Failed, fmt.Errorf("bug: %v", r)
		}
	}()
	d := h.decision
	essence := j.lines.essenceOf(d)
	arrived := j.arrivals.take()
	j.locked(func() {
		j.lines.arrived(arrived)
		if !h.isShort && d.Loop != record.Static {
			j.seen[d.Loop] = d.Snapshot
			j.landed(d.Snapshot)
		}
		outcome = j.isKnown(d, h.id, essence)
	})
	if outcome != "" {
		return outcome, nil
	}
	if h.id.IsZero() || j.find(h.id) != nil {
		h.id = j.fresh()
	}
	head := headWithPrices(d, h.id, j.opts.Version, j.prices.of(d.Snapshot))
	if h.isShort {
		head.Pending, head.Nodes, head.NoSnapshot = h.pending, h.nodes, true
	}
	k, err := j.encode(d, head)
	if err != nil {
		return Failed, err
	}
	j.locked(func() {
		j.decided(d, k, essence)
		j.failed(d.At())
	})
	j.decisionToDisk(k)
	j.locked(j.trim)
	return Written, nil
}

// locked calls do with mu held.
func (j *Journal) locked(do func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	do()
}

// decided takes in a decision that is kept.
func (j *Journal) decided(d *record.Decision, k *kept, essence essence) {
	j.add(k)
	j.toDisk(j.sameLine(askerOf(d)))
	if len(j.last) >= askersMax { // most are pools that are gone
		j.sayAllAgain()
		clear(j.last)
		clear(j.lines.current)
	}
	j.last[askerOf(d)] = &last{id: k.head.ID, essence: essence.hash, idle: idle(d), at: d.At(), written: d.At()}
	j.lines.decided(d, saying{loop: d.Loop, at: d.At(), until: d.At(), times: 1, decision: k.head.ID, stays: essence.stays})
	j.awaiting.await(d, k.head.ID)
}

// sayAllAgain writes to the disk how often each newest decision was come to since that was last
// written, in the order of the decisions.
func (j *Journal) sayAllAgain() {
	all := slices.SortedFunc(maps.Keys(j.last), func(a, b asker) int { return cmp.Compare(j.last[a].id.Number, j.last[b].id.Number) })
	for _, who := range all {
		j.toDisk(j.sameLine(who))
	}
}

// isKnown says why the decision need not be kept: the loop's newest decision said the
// same, and that is counted; or both are to do nothing, a moment apart. Empty: keep it.
func (j *Journal) isKnown(d *record.Decision, id ID, essence essence) (outcome string) {
	l := j.last[askerOf(d)]
	switch {
	case l == nil:
		return ""
	case l.essence == essence.hash:
		j.again(d, id, l)
		return Same
	case l.idle && idle(d) && d.At().Sub(l.at) < idleEvery:
		j.lines.decided(d, saying{loop: d.Loop, at: d.At(), until: d.At(), times: 1, stays: essence.stays})
		j.toDisk(timelineLine(j.lines.written()))
		return Idle
	default:
		return ""
	}
}

// again counts that the loop's newest decision was come to once more.
func (j *Journal) again(d *record.Decision, id ID, l *last) {
	l.unwritten, l.until = l.unwritten+1, d.At()
	if id != l.id && !id.IsZero() && len(l.also) < alsoMax {
		l.also = append(l.also, id)
	}
	if k := j.find(l.id); k != nil {
		k.head.also(id)
		k.head.Again++
		k.head.Until = d.At()
	}
	j.lines.again(askerOf(d), d.At())
	if d.At().Sub(l.written) >= sameEvery {
		j.toDisk(j.sameLine(askerOf(d)))
	}
}

// sameLine returns the line that says how often an asker's newest decision was come to
// since that was last written; none if it was not.
func (j *Journal) sameLine(who asker) ([]byte, error) {
	l := j.last[who]
	if l == nil || l.unwritten == 0 {
		return nil, nil
	}
	b, err := (&line{Same: &same{l.id, l.unwritten, l.until, l.also}}).bytes()
	l.unwritten, l.written, l.also = 0, l.until, nil
	return b, err
}

// toDisk writes lines to the disk, if there is one. A disk that fails takes nothing from
// what is in memory.
func (j *Journal) toDisk(written []byte, err error) {
	if j.disk == nil || written == nil && err == nil {
		return
	}
	if err == nil {
		err = j.disk.write(func(int64) ([]byte, error) { return written, nil }, j.diskHead)
	}
	j.reported(err)
}

// diskHead is what a new file begins with: what still stands.
func (j *Journal) diskHead() ([]byte, error) {
	list := j.lines.open(false)
	for _, e := range list {
		e.unwritten = false
	}
	return timelineLine(list)
}

// decisionToDisk writes a decision, the pieces that the file at hand lacks, and the statements that
// it made.
func (j *Journal) decisionToDisk(k *kept) {
	statements := j.lines.written()
	if j.disk == nil {
		return
	}
	for _, e := range statements {
		e.unwritten = false
	}
	said, err := timelineLine(statements)
	if err == nil {
		err = j.disk.write(func(file int64) ([]byte, error) {
			lines, err := j.linesFor(k, file, j.disk.bytes/2)
			return append(lines, said...), err
		}, j.diskHead)
	}
	j.reported(err)
}

// reported says what is wrong with the disk.
func (j *Journal) reported(err error) {
	if err != nil {
		j.opts.Log.Error("writing the journal to disk", "error", err)
	}
}

// Heads returns what is known at a glance of the decisions in memory, oldest first.
func (j *Journal) Heads() []Head {
	j.mu.Lock()
	defer j.mu.Unlock()
	heads := make([]Head, len(j.kept))
	for i, k := range j.kept {
		heads[i] = k.head
	}
	return heads
}

// Refusals returns who was refused and why, since when, and how often.
func (j *Journal) Refusals() []Refused {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.refusals()
}

// ErrNoDecision is returned where a decision is asked for that there is not, or is no more.
var ErrNoDecision = errors.New("there is no such decision")

// WriteFile writes what is in memory in the form of a file: all of it, or with an id
// that decision alone, for which the disk is read if memory does not have its snapshot. Nothing waits for the
// writer: what it writes was kept when it began.
func (j *Journal) WriteFile(w io.Writer, id ID) error {
	said, pieces, decisions, err := j.held(id)
	if !id.IsZero() && j.disk != nil && (err != nil || decisions[0].head.NoSnapshot) {
		asked := id
		if err == nil {
			asked = decisions[0].head.ID
		}
		if onDisk, k, ok := j.disk.find(asked); ok {
			pieces, decisions, err = onDisk, []kept{*k}, nil
		}
	}
	if err != nil {
		return err
	}
	if _, err := w.Write(said); err != nil {
		return err
	}
	for chunk := range slices.Chunk(pieces, piecesAtOnce) {
		lines, err := pieceLines(chunk)
		if err != nil {
			return err
		}
		if _, err := w.Write(lines); err != nil {
			return err
		}
	}
	for i := range decisions {
		if err := writeLine(w, decisions[i].line()); err != nil {
			return err
		}
	}
	return nil
}

// WritePlans writes the decisions in memory without snapshots, in the form of a file.
func (j *Journal) WritePlans(w io.Writer) error {
	var decisions []kept
	j.locked(func() { decisions = j.all() })
	for i := range decisions {
		decisions[i].head.NoSnapshot = true
		if err := writeLine(w, decisions[i].line()); err != nil {
			return err
		}
	}
	return nil
}

// piecesAtOnce is how many pieces are made into lines before the first of them is written.
const piecesAtOnce = 1000

func writeLine(w io.Writer, l *line) error {
	b, err := l.bytes()
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// held returns what is in memory: a line of statements, the pieces and the decisions; with an id
// that decision alone, with its pieces. They are shared: nobody changes them.
func (j *Journal) held(id ID) (said []byte, pieces []*piece, decisions []kept, err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	if id.IsZero() {
		j.locked(func() { said, err = timelineLine(j.lines.all()) })
		return said, j.pieces.list(), j.all(), err
	}
	k := j.find(id)
	if k == nil {
		return nil, nil, nil, fmt.Errorf("decision %s: %w", id, ErrNoDecision)
	}
	pieces, err = j.piecesOf(k)
	return nil, pieces, []kept{*k}, err
}
