package history

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// liveFresh is for how long the plans of a journal that is being written are answered from before they are
// read again.
const liveFresh = 2 * time.Second

// Live answers about a journal that is being written. One question is answered at a time; its fields are set
// before the first.
type Live struct {
	Journal *journal.Journal
	Now     func() time.Time

	mu   sync.Mutex    // protects everything below
	file *journal.File // the plans; nil: not read yet
	at   time.Time     // when they were read
}

// History returns what was done since a time, for a reason in a person's word and in a pool; empty: for all, in
// all. The error is live.ErrUnknown if there is no such reason.
func (l *Live) History(since time.Time, reason, pool string) (view.History, error) {
	wanted, err := filterOf(since, reason, pool)
	if err != nil {
		return view.History{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return view.History{}, err
	}
	return Of(l.file, wanted)
}

// Decision returns one decision, with its snapshot's part if that is kept. The error is live.ErrUnknown if
// there is none of that ID.
func (l *Live) Decision(id string) (view.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return view.Decision{}, err
	}
	e, err := entryOf(l.file, id)
	if err != nil {
		return view.Decision{}, err
	}
	whole, err := l.whole(e.ID)
	if err != nil {
		return view.Decision{}, err
	}
	return DecisionOf(l.file, e.ID, whole)
}

// filterOf returns the filter that a question asks for. The error is live.ErrUnknown if there is no such reason.
func filterOf(since time.Time, reason, pool string) (*Filter, error) {
	wanted := &Filter{Since: since, Pool: pool}
	if reason != "" {
		if wanted.Reasons = Reasons(reason); wanted.Reasons == nil {
			return nil, fmt.Errorf("reason %q: %w", reason, live.ErrUnknown)
		}
	}
	return wanted, nil
}

// entryOf returns the decision with an ID as it is written. The error is live.ErrUnknown if there is none.
func entryOf(file *journal.File, id string) (*journal.Entry, error) {
	asked, err := journal.ParseID(id)
	if err != nil {
		return nil, fmt.Errorf("decision %q: %w: %w", id, live.ErrUnknown, err)
	}
	e, err := file.Find(asked)
	if errors.Is(err, journal.ErrNoDecision) {
		return nil, fmt.Errorf("%w: %w", live.ErrUnknown, err)
	}
	return e, err
}

// read reads the plans, unless they were read a moment ago.
func (l *Live) read() error {
	now := l.Now()
	if l.file != nil && now.Sub(l.at) < liveFresh {
		return nil
	}
	var text bytes.Buffer
	if err := l.Journal.WritePlans(&text); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	file, err := journal.ReadFrom(&text, "the journal")
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	l.file, l.at = file, now
	return nil
}

// whole returns a decision with its snapshot; nil: that is not kept any more.
func (l *Live) whole(id journal.ID) (*record.Decision, error) {
	var text bytes.Buffer
	if err := l.Journal.WriteFile(&text, id); errors.Is(err, journal.ErrNoDecision) {
		return nil, nil // it was dropped since
	} else if err != nil {
		return nil, fmt.Errorf("read decision %s: %w", id, err)
	}
	file, err := journal.ReadFrom(&text, "the journal")
	if err != nil {
		return nil, fmt.Errorf("read decision %s: %w", id, err)
	}
	return file.Whole(id)
}
