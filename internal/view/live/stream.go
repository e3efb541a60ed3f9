package live

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
)

const (
	// readersMost bounds the connections of a stream.
	readersMost = 32
	// retryAfter is in how many seconds one reader too many may ask again.
	retryAfter = 5
	// messagesMost and ringBytesMost bound what is kept for readers that come back.
	messagesMost, ringBytesMost = 300, 4 << 20
	// messageBytesMost bounds a message: where more has changed, readers ask for the map again.
	messageBytesMost = 48 << 10
	// writePatience bounds how long a reader may take to read a message; then it is dropped.
	writePatience = 10 * time.Second
	// beatEvery is how often a reader is sent a comment while nothing changes, so that the connection stays open.
	beatEvery = 20 * time.Second
	// streamLife ends a connection: the reader comes back, if this replica still leads.
	streamLife = 5 * time.Minute
)

// stream sends readers what has changed: at most one message a second, the same for all. Nothing is made
// while nobody reads.
type stream struct {
	views *Views
	// stamp is different in each process, so that revisions of another are known for what they are.
	stamp string

	mu       sync.Mutex // protects everything below
	readers  int
	running  bool  // run is on its way
	seen     int64 // the revision of Latest that rows are of
	rows     map[string]row
	summary  summary
	revision int64
	// ring has the newest messages, that of revision the last.
	ring      []message
	ringBytes int
	// next is closed when the next message is there.
	next chan struct{}
}

// message is one event, encoded.
type message struct {
	revision int64
	text     string
}

// change is what a message says. From is the revision before: a reader of another asks for the map again,
// as it does if Reset is set.
type change struct {
	Revision string          `json:"rev"`
	From     string          `json:"from"`
	Reset    bool            `json:"reset,omitempty"`
	Nodes    json.RawMessage `json:"nodes,omitempty"`
	Gone     []string        `json:"gone,omitempty"`
	Summary  summary         `json:"summary"`
}

func newStream(v *Views) *stream {
	return &stream{views: v, stamp: strconv.FormatInt(v.Now().UnixNano(), 36), seen: -1, next: make(chan struct{})}
}

// name returns a revision as readers know it.
func (s *stream) name(revision int64) string { return fmt.Sprintf("%s-%d", s.stamp, revision) }

// refresh takes in what the loops have handed in since, and makes a message if readers see a difference.
func (s *stream) refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fleet, overview, revision, err := s.views.since(s.seen)
	if err != nil || revision == s.seen {
		return err
	}
	rows := make(map[string]row, len(s.rows))
	for i := range fleet.Pools {
		for k := range fleet.Pools[i].Nodes {
			n := &fleet.Pools[i].Nodes[k]
			if rows[n.Name], err = rowOf(n); err != nil {
				return err
			}
		}
	}
	first := s.seen < 0
	before, sum := s.rows, summaryOf(&overview)
	changed, gone := differences(before, rows)
	same := len(changed) == 0 && len(gone) == 0 && sum == s.summary
	s.seen, s.rows, s.summary = revision, rows, sum
	if first || same {
		return nil
	}
	return s.publish(changed, gone)
}

// differences returns the rows that are new or different, with their groups, and the nodes that are gone.
func differences(before, after map[string]row) (changed, gone []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if r := after[name]; before[name] != r {
			changed = append(changed, "["+r.node+","+r.groups+"]")
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	return changed, gone
}

// publish adds a message to the ring and wakes the readers.
func (s *stream) publish(changed, gone []string) error {
	c := change{From: s.name(s.revision), Revision: s.name(s.revision + 1), Nodes: json.RawMessage(join(changed)), Gone: gone, Summary: s.summary}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(text) > messageBytesMost {
		c.Reset, c.Nodes, c.Gone = true, nil, nil
		if text, err = json.Marshal(c); err != nil {
			return err
		}
	}
	s.revision++
	m := message{s.revision, fmt.Sprintf("id: %s\nevent: change\ndata: %s\n\n", s.name(s.revision), text)}
	s.ring, s.ringBytes = append(s.ring, m), s.ringBytes+len(m.text)
	for len(s.ring) > messagesMost || s.ringBytes > ringBytesMost {
		s.ringBytes -= len(s.ring[0].text)
		s.ring = slices.Delete(s.ring, 0, 1)
	}
	close(s.next)
	s.next = make(chan struct{})
	return nil
}

// after returns the messages after a revision as readers know it, and the revision of the last. A reader
// of one that is not known, or too old, has to ask for the map again. next is closed when there is
// another message.
func (s *stream) after(name string) (messages []string, last string, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, next = s.name(s.revision), s.next
	number, ours := strings.CutPrefix(name, s.stamp+"-")
	revision, err := strconv.ParseInt(number, 10, 64)
	if !ours || err != nil || revision > s.revision || revision < s.revision-int64(len(s.ring)) {
		text, err := json.Marshal(change{Revision: last, Reset: true, Summary: s.summary})
		if err != nil {
			return nil, last, next
		}
		return []string{fmt.Sprintf("id: %s\nevent: change\ndata: %s\n\n", last, text)}, last, next
	}
	for _, m := range s.ring {
		if m.revision > revision {
			messages = append(messages, m.text)
		}
	}
	return messages, last, next
}

// enter counts a reader in; false: there are as many as there may be. The first sets the stream going.
func (s *stream) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers >= readersMost {
		return false
	}
	s.readers++
	if !s.running {
		s.running = true
		go s.run()
	}
	return true
}

func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers--
}

// run refreshes until nobody reads.
func (s *stream) run() {
	tick := time.NewTicker(buildEvery)
	defer tick.Stop()
	for range tick.C {
		s.mu.Lock()
		s.running = s.readers > 0
		goesOn := s.running
		s.mu.Unlock()
		if !goesOn {
			return
		}
		_ = s.refresh() // before the first decision there is nothing to say
	}
}

// ServeHTTP answers with events until the reader goes, is too slow, or has been there for streamLife.
func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		http.Error(w, fmt.Sprintf("%d readers follow the cluster at this moment; ask again later", readersMost), http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	_ = s.refresh() // before the first decision there is nothing to say
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{}) // where deadlines are not known, none ends the stream
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	position := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("since"))
	text := "retry: 2000\n\n"
	beat, end := time.NewTicker(beatEvery), time.NewTimer(streamLife)
	defer beat.Stop()
	defer end.Stop()
	for {
		messages, last, next := s.after(position)
		position, text = last, text+strings.Join(messages, "")
		_ = connection.SetWriteDeadline(s.views.Now().Add(writePatience))
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
		if err := connection.Flush(); err != nil {
			return
		}
		text = ""
		select {
		case <-next:
		case <-beat.C:
			text = ":\n\n"
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// mapAnswer is the fleet as the map draws it: an array for each node. Groups come by themselves, since
// they are most of it.
type mapAnswer struct {
	Format   string          `json:"format"`
	Revision string          `json:"rev"`
	Nodes    json.RawMessage `json:"nodes,omitempty"`
	Groups   json.RawMessage `json:"groups,omitempty"`
}

// answerMap answers with the rows of all nodes; with ?groups=true with [name, groups] of each.
func (s *stream) answerMap(w http.ResponseWriter, r *http.Request) {
	if err := s.refresh(); err != nil {
		http.Error(w, err.Error(), Status(err))
		return
	}
	groups := r.URL.Query().Get("groups") == "true"
	s.mu.Lock()
	rows, answer := s.rows, mapAnswer{Format: view.Format, Revision: s.name(s.revision)}
	s.mu.Unlock()
	list := make([]string, 0, len(rows))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if !groups {
			list = append(list, rows[name].node)
		} else if quoted, err := json.Marshal(name); err == nil {
			list = append(list, "["+string(quoted)+","+rows[name].groups+"]")
		}
	}
	if groups {
		answer.Groups = json.RawMessage(join(list))
	} else {
		answer.Nodes = json.RawMessage(join(list))
	}
	writeJSON(w, r, answer)
}
