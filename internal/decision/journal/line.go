package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// format is in every line, so that a line is known for what it is wherever it turns up. What has the
// older one is read, too: there a decision's body is the whole of it.
const format, olderFormat = "dovetail-journal/2", "dovetail-journal/1"

// Head is what is known of a decision without unpacking it.
type Head struct {
	ID   ID          `json:"id"`
	At   time.Time   `json:"at"`
	Loop record.Loop `json:"loop"`
	// Written is the version of the program that decided.
	Written string        `json:"written,omitempty"`
	Took    time.Duration `json:"tookNanoseconds,omitempty"`
	// Pending is how many pods asked for a node. Placed are those of
	// them that existing nodes can take, Launched those for new nodes, Refused those for none.
	Pending  int `json:"pending,omitempty"`
	Placed   int `json:"placed,omitempty"`
	Launched int `json:"launched,omitempty"`
	Refused  int `json:"refused,omitempty"`
	// Nodes is how many nodes there were, Launches how many to launch, Removals how many to
	// remove; those of commands are among them.
	Nodes    int `json:"nodes,omitempty"`
	Launches int `json:"launches,omitempty"`
	Removals int `json:"removals,omitempty"`
	// Steps is how many commands change running nodes.
	Steps int `json:"steps,omitempty"`
	// PriceBefore is what the nodes cost that were not being deleted, in dollars per hour, as
	// far as their prices are known; PriceAfter what they cost with the plan. Bound is
	// what the launches must cost at least; 0: not known.
	PriceBefore float64 `json:"priceBeforeHourly,omitempty"`
	PriceAfter  float64 `json:"priceAfterHourly,omitempty"`
	Bound       float64 `json:"launchBoundHourly,omitempty"`
	// FleetBound is what all nodes must cost at least, wherever their pods are; 0: not
	// computed.
	FleetBound float64 `json:"fleetBoundHourly,omitempty"`
	// Error says what went wrong when the plan was carried out, Bug what the core died of.
	Error string `json:"error,omitempty"`
	Bug   string `json:"bug,omitempty"`
	// NoSnapshot: only the plan was kept.
	NoSnapshot bool `json:"noSnapshot,omitempty"`
	// Again is how often the same decision was made later, Until when the last time.
	Again int64     `json:"again,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Also are the IDs of those of them that had others: the newest.
	Also []ID `json:"also,omitempty"`
	// Landed says where the pods of its launches and commands went, of those of which that is known.
	Landed []LaunchOutcome `json:"landed,omitempty"`
}

// same says that a decision was come to again: so many times more, the last at Until.
type same struct {
	ID    ID        `json:"id"`
	Again int64     `json:"again"`
	Until time.Time `json:"until"`
	// Also are the IDs of these that had others.
	Also []ID `json:"also,omitempty"`
}

// writtenPiece is a piece as a file has it, after those from which it is made.
type writtenPiece struct {
	Number int64 `json:"n"`
	Base   int64 `json:"base,omitempty"`
	// Dictionary: the body is compressed with the text of the base as its dictionary.
	Dictionary bool   `json:"dictionary,omitempty"`
	Body       []byte `json:"body"`
}

// line is one line of a journal; one of Decision, Same, Landed, Pieces, Timeline and Refusals is there.
type line struct {
	Format   string         `json:"format"`
	Decision *Head          `json:"decision,omitempty"`
	Same     *same          `json:"same,omitempty"`
	Landed   *landed        `json:"landed,omitempty"`
	Pieces   []writtenPiece `json:"pieces,omitempty"`
	// Timeline: the body has statements. Those of another line may be the same ones, said more often.
	Timeline int `json:"timeline,omitempty"`
	// Refusals are in files of the older format.
	Refusals []Refused `json:"refusals,omitzero"`
	// Body is compressed: a decision without its pieces, or statements.
	Body []byte `json:"body,omitempty"`
}

// writtenStatement is a statement as a file has it.
type writtenStatement struct {
	identity
	Facts    []string       `json:"facts,omitempty"`
	Pool     string         `json:"pool,omitempty"`
	Loop     record.Loop    `json:"loop"`
	First    time.Time      `json:"first"`
	Last     time.Time      `json:"last"`
	Times    int64          `json:"times"`
	Decision ID             `json:"decision,omitzero"`
	What     string         `json:"what"`
	Details  []string       `json:"details,omitempty"`
	Reason   verdict.Reason `json:"reason,omitempty"`
	Ends     string         `json:"ends,omitempty"`
}

// pieceLine is about how large a line of pieces is.
const pieceLine = 256 << 10

// pieceLines writes pieces, as many to a line as makes a line of some size.
func pieceLines(list []*piece) (out []byte, err error) {
	l, size := &line{}, 0
	for i, p := range list {
		w := writtenPiece{Number: p.number, Dictionary: p.hasDictionary, Body: p.body}
		if p.base != nil {
			w.Base = p.base.number
		}
		l.Pieces, size = append(l.Pieces, w), size+len(p.body)
		if size < pieceLine && i < len(list)-1 {
			continue
		}
		b, err := l.bytes()
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
		l, size = &line{}, 0
	}
	return out, nil
}

// timelineLine writes statements; none: no line.
func timelineLine(list []*statement) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	written := make([]writtenStatement, len(list))
	for i, e := range list {
		written[i] = writtenStatement{
			identity: e.of.identity, Facts: e.of.facts, Pool: e.of.pool, Loop: e.loop, First: e.first, Last: e.last, Times: e.times,
			Decision: e.decision, What: e.what, Details: e.lines(), Reason: e.why.Reason, Ends: e.end(),
		}
	}
	text, err := json.Marshal(written)
	if err != nil {
		return nil, fmt.Errorf("write statements: %w", err)
	}
	body, err := compress(text)
	if err != nil {
		return nil, err
	}
	return (&line{Timeline: len(list), Body: body}).bytes()
}

// bytes returns the line as it is written, its end included.
func (l *line) bytes() ([]byte, error) {
	l.Format = format
	b, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("write journal line: %w", err)
	}
	return append(b, '\n'), nil
}

// headOf returns what is known of a decision at a glance.
func headOf(d *record.Decision, id ID, version string) Head {
	return headWithPrices(d, id, version, (&nodePrices{}).of(d.Snapshot))
}

// headWithPrices is headOf where the prices of the nodes are known.
func headWithPrices(d *record.Decision, id ID, version string, prices []nodePrice) Head {
	p, q := &d.Plan, &d.Disruption
	h := Head{
		ID: id, At: d.At(), Loop: d.Loop, Written: version, Took: d.Took, Pending: len(d.Snapshot.Pending), Nodes: len(d.Snapshot.Nodes),
		Placed: len(p.Assignments), Refused: len(p.Refusals), Launches: len(p.Launches) + len(d.Scaling.Launches), Removals: len(q.Removals) + len(d.Scaling.Removals),
		Steps: len(q.Commands), Bound: p.BoundHourly, FleetBound: q.FleetBound(), Error: d.Error, Bug: d.Bug,
	}
	for i := range p.Launches {
		h.Launched += len(p.Launches[i].Pods)
	}
	going := map[string]bool{}
	for _, r := range slices.Concat(q.Removals, d.Scaling.Removals) {
		going[r.Node] = true
	}
	for i := range d.Snapshot.Nodes {
		n := &d.Snapshot.Nodes[i]
		if n.Deleting || !prices[i].known {
			continue
		}
		h.PriceBefore += prices[i].dollars
		if len(going) > 0 && going[n.Name] {
			h.PriceAfter -= prices[i].dollars
		}
	}
	h.PriceAfter += h.PriceBefore + p.PriceHourly()
	for i := range d.Scaling.Launches {
		h.PriceAfter += d.Scaling.Launches[i].PriceHourly
	}
	for i := range q.Commands {
		h.PriceAfter -= q.Commands[i].SavingHourly
		h.Removals += len(q.Commands[i].Remove)
		h.Launches += len(q.Commands[i].Launch)
	}
	return h
}

// bodyLevel is how thoroughly records are compressed, of 9.
const bodyLevel = 6

// writers are used again: one has a megabyte.
var writers = sync.Pool{New: func() any { //nolint:gochecknoglobals // memory, not state
	w, err := gzip.NewWriterLevel(nil, bodyLevel)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// compress packs a record.
func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := writers.Get().(*gzip.Writer) //nolint:forcetypeassert // nothing else is in it
	defer writers.Put(w)
	w.Reset(&b)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// expandedMax bounds what a compressed record may become.
const expandedMax = 1 << 30

func expand(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, expandedMax+1))
	if err == nil && len(text) > expandedMax {
		err = fmt.Errorf("it has more than %d bytes", expandedMax)
	}
	return text, err
}

// essence is what distinguishes a decision from the one before.
type essence struct {
	hash uint64
	// stays are the hashes of the reasons for which nodes stay.
	stays []uint64
}

// essenceOf returns what distinguishes a decision from the one before: two decisions of the same
// essence say the same to whoever reads them. Times and amounts in the reasons for which nodes
// stay change with every decision, and so do the ids of commands: they do not count. NodeClaims do:
// static pools have no pods by which one launch differs from the next, and a launch that failed is planned again for the same pods.
func (t *timelines) essenceOf(d *record.Decision) essence {
	said := record.Decision{Loop: d.Loop, Plan: d.Plan, Disruption: d.Disruption, Scaling: d.Scaling}
	p := &said.Disruption
	said.Plan.At, said.Plan.BoundHourly, p.At, p.FleetBoundHourly = time.Time{}, 0, time.Time{}, 0
	said.Scaling.At = time.Time{}
	p.Blocked = nil
	p.Commands = append([]plan.Command(nil), p.Commands...)
	for i := range p.Commands {
		p.Commands[i].ID, p.Commands[i].NotBefore = "", time.Time{}
	}
	var h maphash.Hash
	h.SetSeed(t.hasher.seed)
	_, _ = h.Write(said.EncodePlan())
	_, _ = h.WriteString(string(d.Loop) + d.Error + d.Bug)
	_, _ = h.WriteString(strings.Join(d.Claims, " "))
	own := hasher{seed: t.hasher.seed} // Identify holds no lock
	stays := own.hashesOf(d.Disruption.Blocked)
	for i, hash := range stays {
		own.text = binary.LittleEndian.AppendUint64(append(own.text[:0], d.Disruption.Blocked[i].Subject...), hash)
		_, _ = h.Write(own.text)
	}
	return essence{h.Sum64(), stays}
}

// idle reports whether a decision is to do nothing, and refuses nothing.
func idle(d *record.Decision) bool {
	p, q := &d.Plan, &d.Disruption
	for i := range p.Buffers {
		if !p.Buffers[i].Why.IsYes() {
			return false
		}
	}
	return d.Loop != record.Static && len(p.Assignments)+len(p.Launches)+len(p.Refusals)+len(q.Commands)+len(q.Undos)+len(q.Marks)+len(q.Unmarks)+len(q.Removals)+len(q.Reboots)+len(q.SoftTaints)+len(q.SoftTaintsOver) == 0 &&
		d.Error == "" && d.Bug == ""
}
