package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// ID names a decision. It is written as 17.6f3k9a: Number counts the decisions of a journal, and Stamp is
// the start of the process that decided, so that no two decisions have the same ID. In a question the stamp may be
// missing: then it is the newest decision of that number.
type ID struct {
	Number int64
	Stamp  string
}

// Stamps are numbers of base stampBase.
const stampBase, stampDigits = 32, "0123456789abcdefghijklmnopqrstuv"

// stampFrom is from when stamps count seconds: until 2054 they have six characters, and sort by age.
var stampFrom = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func stampOf(t time.Time) string {
	return strconv.FormatInt(int64(t.Sub(stampFrom)/time.Second), stampBase)
}

// String returns the ID as it is written; empty: there is none.
func (id ID) String() string {
	switch {
	case id.IsZero():
		return ""
	case id.Stamp == "":
		return strconv.FormatInt(id.Number, 10)
	default:
		return strconv.FormatInt(id.Number, 10) + "." + id.Stamp
	}
}

// IsZero reports whether the ID names no decision.
func (id ID) IsZero() bool { return id == ID{} }

// Names reports whether a question for the ID is one for the other.
func (id ID) Names(other ID) bool {
	return id.Number == other.Number && (id.Stamp == "" || id.Stamp == other.Stamp)
}

// ParseID reads an ID, with or without a stamp.
func ParseID(text string) (ID, error) {
	number, stamp, hasStamp := strings.Cut(text, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || number[0] == '+' || hasStamp == (stamp == "") || strings.Trim(stamp, stampDigits) != "" {
		return ID{}, fmt.Errorf("%q names no decision: give its number, such as 17, or its whole name, such as 17.6f3k9a", text)
	}
	return ID{n, stamp}, nil
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalJSON implements json.Unmarshaler. Older journals have only the number.
func (id *ID) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &id.Number) == nil {
		id.Stamp = ""
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("the name of a decision is %s: %w", b, err)
	}
	parsed, err := ParseID(text)
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// numbering gives decisions their IDs. It has a lock of its own, so that a loop does not wait for the writer.
type numbering struct {
	mu     sync.Mutex // protects everything below
	last   int64
	stamp  string
	newest map[asker]numbered
}

// numbered is the newest decision of an asker, if that is to change nothing.
type numbered struct {
	id      ID
	essence uint64
	idle    bool
	at      time.Time
}

// Identify returns the ID that the decision will have, so that what is done because of it can name it before it
// is handed in. A decision to change nothing has the ID of the one before that it will be counted with.
func (j *Journal) Identify(d *record.Decision) ID {
	if j == nil {
		return ID{}
	}
	if acts(d) {
		return j.number(d, numbered{})
	}
	return j.number(d, numbered{essence: j.lines.essenceOf(d).hash, idle: idle(d), at: d.At()})
}

func (j *Journal) number(d *record.Decision, is numbered) ID {
	who, n := askerOf(d), &j.ids
	n.mu.Lock()
	defer n.mu.Unlock()
	had, ok := n.newest[who]
	if ok && !is.at.IsZero() && (had.essence == is.essence || had.idle && is.idle && is.at.Sub(had.at) < idleEvery) {
		return had.id
	}
	is.id = n.next(j.opts.Now)
	if len(n.newest) >= askersMax { // most are pools that are gone
		clear(n.newest)
	}
	if n.newest[who] = is; is.at.IsZero() {
		delete(n.newest, who)
	}
	return is.id
}

// next returns an ID that no decision has. The stamp is that of the first decision: of two replicas that start
// at once only one decides.
func (n *numbering) next(now func() time.Time) ID {
	if n.stamp == "" {
		n.stamp = stampOf(now())
	}
	n.last++
	return ID{n.last, n.stamp}
}

// fresh returns an ID for a decision that was handed in without one.
func (j *Journal) fresh() ID {
	j.ids.mu.Lock()
	defer j.ids.mu.Unlock()
	return j.ids.next(j.opts.Now)
}

// acts reports whether a decision changes anything.
func acts(d *record.Decision) bool {
	q := &d.Disruption
	return len(d.Plan.Launches)+len(d.Scaling.Launches)+len(d.Scaling.Removals)+len(q.Commands)+len(q.Undos)+len(q.Marks)+len(q.Unmarks)+
		len(q.Removals)+len(q.Reboots)+len(q.SoftTaints)+len(q.SoftTaintsOver) > 0
}

// alsoMax bounds how many IDs of decisions are remembered that were counted with another one.
const alsoMax = 64

// names reports whether an ID is the decision's, or that of one that was counted with it.
func (h *Head) names(id ID) bool {
	return id.Names(h.ID) || slices.ContainsFunc(h.Also, id.Names)
}

// also notes that a decision was counted with this one.
func (h *Head) also(id ID) {
	if id.IsZero() || h.names(id) {
		return
	}
	h.Also = append(h.Also, id)
	h.Also = h.Also[max(0, len(h.Also)-alsoMax):]
}
