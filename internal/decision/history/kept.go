package history

import (
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// Kept answers about a journal that was read from a file. One question is answered at a time.
type Kept struct {
	File *journal.File
	// Lock protects File.
	Lock *sync.Mutex
	// Until is the last instant of which History says what was done; zero: to the newest decision.
	Until time.Time
}

// History returns what was done since a time, as Live does.
func (k *Kept) History(since time.Time, reason, pool string) (view.History, error) {
	wanted, err := filterOf(since, reason, pool)
	if err != nil {
		return view.History{}, err
	}
	wanted.Until = k.Until
	k.Lock.Lock()
	defer k.Lock.Unlock()
	h, err := Of(k.File, wanted)
	if !k.Until.IsZero() {
		h.At = k.Until
	}
	return h, err
}

// Decision returns one decision, as Live does.
func (k *Kept) Decision(id string) (view.Decision, error) {
	k.Lock.Lock()
	defer k.Lock.Unlock()
	e, err := entryOf(k.File, id)
	if err != nil {
		return view.Decision{}, err
	}
	return DecisionOf(k.File, e.ID, nil)
}
