// Package journal keeps the decisions of the core, so that a person can ask later what was
// decided, why, and whether it would be decided again: the newest in memory, and if asked
// for many more on disk, both within bounds.
//
// A loop hands each decision to Journal.Add and goes on; all else happens in Run. A
// decision that says the same as the one before is counted, not kept. What is kept is
// lines: JSON objects with what is known of a decision at a glance, and the decision
// itself (internal/decision/record), compressed. A line stands by itself, so one that a crash cut
// short is skipped and reported, and the others are as good as before.
//
// It may import the core and decision/record. Read journal.go first, then line.go (what is
// kept), refusals.go (who was refused, since when), disk.go and read.go (files), explain.go
// and node.go (answers), serve.go (HTTP).
package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

const (
	// queueMax is how many decisions may wait to be written. One more is dropped: a loop
	// never waits for the journal.
	queueMax = 16
	// decisionsMax bounds how many decisions are kept in memory, besides their bytes.
	decisionsMax = 4096
	// refusalsMax bounds how many refusals are remembered.
	refusalsMax = 10_000
	// askersMax bounds of how many static pools it is remembered what was decided last.
	askersMax = 1000
	// sameEvery is how often it is written to disk that a decision still stands.
	sameEvery = time.Minute
	// idleEvery is how often a decision to do nothing is kept at most, when only the reasons
	// for that change: in a large cluster they do with every decision.
	idleEvery = time.Minute
)

// Outcomes of handing a decision in, as Options.Count gets them.
const (
	Written = "written" // it is in the journal
	Same    = "same"    // it said what the one before said
	Idle    = "idle"    // it was to do nothing, as one that was kept a moment ago
	Dropped = "dropped" // the queue was full
	Failed  = "failed"  // it could not be written
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
	queue chan *record.Decision
	disk  *disk // nil: none

	mu       sync.Mutex // protects everything below
	kept     []kept     // oldest first
	bytes    int64
	nextID   int64
	last     map[asker]*last
	refusals *refusals
}

// asker is who decides about the same thing again and again: a loop, or of the static loops one pool.
type asker struct {
	loop record.Loop
	pool string
}

func askerOf(d *record.Decision) asker { return asker{d.Loop, d.Scaling.Pool} }

// kept is one decision in memory. Its line says nothing of how often it was come to again.
type kept struct {
	head Head
	line []byte
}

// last is the newest decision of an asker.
type last struct {
	id      int64
	essence uint64
	idle    bool
	at      time.Time
	// unwritten is how often it was come to since that was last written to disk, until when.
	unwritten int64
	until     time.Time
	written   time.Time
}

// Open returns a journal that keeps what is handed in once Run runs. The error is about
// the directory.
func Open(opts Options) (*Journal, error) {
	j := &Journal{
		opts: opts, queue: make(chan *record.Decision, queueMax), nextID: 1,
		last: map[asker]*last{}, refusals: newRefusals(refusalsMax),
	}
	if opts.Dir == "" {
		return j, nil
	}
	d, lastID, err := openDisk(opts.Dir, opts.DiskBytes, opts.Now)
	if err != nil {
		return nil, err
	}
	j.disk, j.nextID = d, lastID+1
	return j, nil
}

// Add hands a decision in and returns at once. The decision must not be changed any more.
func (j *Journal) Add(d *record.Decision) {
	if j == nil {
		return
	}
	select {
	case j.queue <- d:
	default:
		j.opts.Count(d.Loop, Dropped)
	}
}

// Run writes what is handed in until the context ends, and then what still waits.
func (j *Journal) Run(ctx context.Context) {
	for {
		select {
		case d := <-j.queue:
			j.take(d)
			continue
		case <-ctx.Done():
		}
		break
	}
	for {
		select {
		case d := <-j.queue:
			j.take(d)
			continue
		default:
		}
		break
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sayAllAgain()
	if j.disk != nil {
		j.reported(j.disk.close())
	}
}

// take writes one decision, or counts it.
func (j *Journal) take(d *record.Decision) {
	outcome, err := j.write(d)
	if err != nil {
		j.opts.Log.Error("keeping a decision", "loop", d.Loop, "error", err)
	}
	j.opts.Count(d.Loop, outcome)
}

func (j *Journal) write(d *record.Decision) (outcome string, err error) {
	defer func() { // a bug here must not end the controller
		if r := recover(); r != nil {
			outcome, err = Failed, fmt.Errorf("bug: %v", r)
		}
	}()
	hash := fnv.New64a()
	_, _ = hash.Write(essence(d))
	if outcome := j.isKnown(d, hash.Sum64()); outcome != "" {
		return outcome, nil
	}
	text, err := d.Encode()
	if err != nil {
		return Failed, err
	}
	body, err := compress(text)
	if err != nil {
		return Failed, fmt.Errorf("compress decision of %s: %w", d.Loop, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	head := headOf(d, j.nextID, j.opts.Version)
	written, err := (&line{Decision: &head, Body: body}).bytes()
	if err != nil {
		return Failed, err
	}
	j.nextID++
	j.toDisk(j.sameLine(askerOf(d)))
	if len(j.last) >= askersMax { // most are pools that are gone
		j.sayAllAgain()
		clear(j.last)
	}
	j.last[askerOf(d)] = &last{id: head.ID, essence: hash.Sum64(), idle: idle(d), at: d.At(), written: d.At()}
	if d.Loop == record.Provisioning {
		j.refusals.decided(&d.Plan, d.At())
	}
	j.kept = append(j.kept, kept{head, written})
	j.bytes += int64(len(written))
	for len(j.kept) > 0 && (j.bytes > j.opts.MemoryBytes || len(j.kept) > decisionsMax) {
		j.bytes -= int64(len(j.kept[0].line))
		j.kept = slices.Delete(j.kept, 0, 1)
	}
	j.toDisk(written, nil)
	return Written, nil
}

// sayAllAgain writes to the disk how often each newest decision was come to since that was last
// written, in the order of the decisions.
func (j *Journal) sayAllAgain() {
	all := slices.SortedFunc(maps.Keys(j.last), func(a, b asker) int { return cmp.Compare(j.last[a].id, j.last[b].id) })
	for _, who := range all {
		j.toDisk(j.sameLine(who))
	}
}

// isKnown says why the decision need not be kept: the loop's newest decision said the
// same, and that is counted; or both are to do nothing, a moment apart. Empty: keep it.
func (j *Journal) isKnown(d *record.Decision, essence uint64) (outcome string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.last[askerOf(d)]
	switch {
	case l == nil:
		return ""
	case l.essence == essence:
		j.again(d, l)
		return Same
	case l.idle && idle(d) && d.At().Sub(l.at) < idleEvery:
		return Idle
	default:
		return ""
	}
}

// again counts that the loop's newest decision was come to once more.
func (j *Journal) again(d *record.Decision, l *last) {
	l.unwritten, l.until = l.unwritten+1, d.At()
	if i := slices.IndexFunc(j.kept, func(k kept) bool { return k.head.ID == l.id }); i >= 0 {
		j.kept[i].head.Again++
		j.kept[i].head.Until = d.At()
	}
	if d.Loop == record.Provisioning {
		j.refusals.again(1, d.At())
	}
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
	b, err := (&line{Same: &same{l.id, l.unwritten, l.until}}).bytes()
	l.unwritten, l.written = 0, l.until
	return b, err
}

// toDisk writes a line to the disk, if there is one. A disk that fails takes nothing from
// what is in memory.
func (j *Journal) toDisk(written []byte, err error) {
	if j.disk == nil || written == nil && err == nil {
		return
	}
	if err == nil {
		err = j.disk.write(written, func() ([]byte, error) { return (&line{Refusals: j.refusals.list()}).bytes() })
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
	for i := range j.kept {
		heads[i] = j.kept[i].head
	}
	return heads
}

// Refusals returns who was refused and why, since when, and how often.
func (j *Journal) Refusals() []Refused {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.refusals.list()
}

// ErrNoDecision is returned where a decision is asked for that there is not, or is no more.
var ErrNoDecision = errors.New("there is no such decision")

// WriteFile writes what is in memory in the form of a file: all of it, or with an id above 0
// that decision alone. Nothing waits for the writer: what it writes was kept when it began.
func (j *Journal) WriteFile(w io.Writer, id int64) error {
	lines, refusals := j.held(id)
	if id > 0 && len(lines) == 0 {
		return fmt.Errorf("decision %d: %w", id, ErrNoDecision)
	}
	if id <= 0 {
		if err := writeLine(w, &line{Refusals: refusals}); err != nil {
			return err
		}
	}
	for i := range lines {
		k := &lines[i]
		if _, err := w.Write(k.line); err != nil {
			return err
		}
		if k.head.Again > 0 {
			if err := writeLine(w, &line{Same: &same{k.head.ID, k.head.Again, k.head.Until}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeLine(w io.Writer, l *line) error {
	b, err := l.bytes()
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// held returns the decisions in memory, or with an id above 0 that one, and the refusals. The
// lines are shared: nobody changes them.
func (j *Journal) held(id int64) ([]kept, []Refused) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if id <= 0 {
		return slices.Clone(j.kept), j.refusals.list()
	}
	i := slices.IndexFunc(j.kept, func(k kept) bool { return k.head.ID == id })
	if i < 0 {
		return nil, nil
	}
	return []kept{j.kept[i]}, nil
}
