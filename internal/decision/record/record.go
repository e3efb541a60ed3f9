// Package record writes decisions down, whole, so that they can be decided again: what
// the core saw, how it was set, and what it answered. Reading a record and asking the
// core again gives the same plan, byte for byte.
//
// A record is JSON. Its fields have the names of the core's Go fields, zero values are
// left out, and what many things share (pods' names, instance types, pod constraints) stands once,
// in a table, and is referred to by its index. New fields of the core are written without
// a line here; a record with fields that the reader does not know is refused.
//
// A journal has many decisions about much the same cluster. A Writer writes their snapshots in pieces
// (a node with its pods, a NodePool, pod constraints), each of which is kept once.
//
// It may import the core. Read record.go first, then encode.go; decode.go is its mirror image.
// pieces.go writes in pieces and reader.go reads that. older.go reads what older versions wrote,
// compare.go says in words where two plans differ.
package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/static"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Formats of what is written.
const (
	decisionFormat = "dovetail-decision/1"
	planFormat     = "dovetail-plan/1"
)

// Loop says who decided.
type Loop string

// The loops that decide.
const (
	Provisioning Loop = "provisioning"
	Disruption   Loop = "disruption"
	Static       Loop = "static"
)

// Decision is one question to the core and its answer. The zero values of the options
// are the defaults.
type Decision struct {
	Loop     Loop
	Snapshot *cluster.Snapshot
	Pack     pack.Options
	Disrupt  disrupt.Options
	// Memory is what disruption remembered before the decision.
	Memory disrupt.Memory
	// Early is what was known of the batch window, if provisioning decided before it ended; else nil.
	Early *pack.Window
	// Plan is the answer of provisioning, Disruption that of disruption, Scaling that about a static
	// pool; the others are zero. The pool that Scaling names is part of the question.
	Plan       plan.Plan
	Disruption plan.Disruption
	Scaling    plan.Scaling
	// Stays stands for Disruption.Blocked where that was left out.
	Stays Stays
	// Claims are the names of the NodeClaims that the launches of the plan or the scaling became, in
	// their order; empty where none was made. Those of steps are not among them.
	Claims []string
	// Took is how long the decision took.
	Took time.Duration
	// Error says what went wrong when the plan was carried out; empty: nothing.
	Error string
	// Bug says what the core died of; empty: it lives, and there is a plan.
	Bug string
}

// At is the instant that was decided about.
func (d *Decision) At() time.Time { return d.Snapshot.At }

// Encode returns the decision in its written form. Equal decisions give equal bytes. The
// error is a bug: something in the snapshot has no written form.
func (d *Decision) Encode() (text []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("encode decision of %s: %v", d.Loop, r)
		}
	}()
	return newEncoder().document(decisionFormat, "decision", d), nil
}

// Decode reads what Encode returned. The error names the field that is wrong.
func Decode(text []byte) (*Decision, error) {
	d, from := &Decision{}, newDecoder(text)
	if err := from.document(decisionFormat, "decision", d); err != nil {
		return nil, fmt.Errorf("decode decision: %w", err)
	}
	if d.Snapshot == nil {
		return nil, fmt.Errorf("decode decision: it has no Snapshot")
	}
	from.older.upgrade(d)
	return d, nil
}

// EncodePlan returns the plan of a decision in its written form: equal plans, and no others,
// give equal bytes.
func (d *Decision) EncodePlan() []byte {
	switch d.Loop {
	case Disruption:
		return newEncoder().document(planFormat, "plan", &d.Disruption)
	case Static:
		return newEncoder().document(planFormat, "plan", &d.Scaling)
	default:
		return newEncoder().document(planFormat, "plan", &d.Plan)
	}
}

// Redo asks the core the same question again, and returns the decision with its answer. A
// death of the core is an answer too, a Bug.
func (d *Decision) Redo() (again *Decision) {
	again = &Decision{Loop: d.Loop, Snapshot: d.Snapshot, Pack: d.Pack, Early: d.Early, Disrupt: d.Disrupt, Memory: d.Memory}
	defer func() {
		if r := recover(); r != nil {
			again.Bug = fmt.Sprint(r)
		}
	}()
	switch d.Loop {
	case Provisioning:
		if d.Early != nil {
			again.Plan = pack.DecideEarly(d.Snapshot, *d.Early, d.Pack)
			break
		}
		again.Plan = pack.Decide(d.Snapshot, d.Pack)
	case Disruption:
		again.Disruption, _ = disrupt.Propose(d.Snapshot, d.Memory, d.Disrupt)
	case Static:
		again.Scaling = static.Next(d.Snapshot, d.Scaling.Pool)
	default:
		again.Bug = fmt.Sprintf("there is no loop %q", d.Loop)
	}
	return again
}

// SamePlan reports whether two decisions have the same plan, byte for byte in its written form, but for the reasons for which
// nodes stay: of these the sums are compared, which is all that a kept decision has.
func SamePlan(a, b *Decision) bool {
	a, b = a.withoutStays(), b.withoutStays()
	return a.Stays == b.Stays && bytes.Equal(a.EncodePlan(), b.EncodePlan())
}

// Stays is what is kept of the reasons for which nodes stay: how many there are, and a sum.
type Stays struct {
	Count int
	Sum   string
}

// summedAtOnce is how many bytes of text are summed together, so that the text of 5,000 reasons is never in memory.
const summedAtOnce = 16 << 10

func staysOf(blocked []verdict.Verdict) Stays {
	if len(blocked) == 0 {
		return Stays{}
	}
	e, h := newEncoder(), sha256.New()
	for i := range blocked { // as one list would be written
		e.text = append(e.text, ',')
		if i == 0 {
			e.text[0] = '['
		}
		e.verdict(&blocked[i])
		if len(e.text) > summedAtOnce {
			_, _ = h.Write(e.text) // never fails
			e.text = e.text[:0]
		}
	}
	_, _ = h.Write(append(e.text, ']'))
	return Stays{len(blocked), hex.EncodeToString(h.Sum(nil)[:16])}
}

// withoutStays returns the decision with Stays in the place of Disruption.Blocked.
func (d *Decision) withoutStays() *Decision {
	if d.Disruption.Blocked == nil {
		return d
	}
	short := *d
	short.Stays, short.Disruption.Blocked = staysOf(d.Disruption.Blocked), nil
	return &short
}
