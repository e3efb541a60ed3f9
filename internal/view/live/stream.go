package live

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	// messageBytesMost and nodesMost bound a message: where more has changed, readers ask for the map again.
	messageBytesMost, nodesMost = 48 << 10, 200
	// writePatience bounds how long a reader may take to read a message; then it is dropped.
	writePatience = 10 * time.Second
	// beatEvery is how often a reader without messages is sent a comment, which shows that the connection lives.
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
	seen     int64 // the revision of Latest that fleet is of
	fleet    view.Fleet
	nodes    map[string]*view.Node // those of fleet
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
	Revision string   `json:"rev"`
	From     string   `json:"from"`
	Reset    bool     `json:"reset,omitempty"`
	Nodes    [][]any  `json:"nodes,omitempty"`
	Gone     []string `json:"gone,omitempty"`
	Summary  summary  `json:"summary"`
}

func newStream(v *Views) *stream {
	return &stream{views: v, stamp: strconv.FormatInt(v.Now().UnixNano(), 36), seen: -1, next: make(chan struct{})}
}

// Handler answers Path with views as JSON, Path/map with the nodes as the map draws them, and Path/stream
// with what changes, as Server-Sent Events.
func (v *Views) Handler() http.Handler {
	mux, stream := http.NewServeMux(), newStream(v)
	mux.HandleFunc("GET "+Path+"/{name...}", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		answer, err := v.Ask(Question{Name: r.PathValue("name"), By: q.Get("by"), Namespace: q.Get("namespace"), Selector: q.Get("selector")})
		if err != nil {
			http.Error(w, err.Error(), Status(err))
			return
		}
		writeJSON(w, r, answer)
	})
	mux.HandleFunc("GET "+Path+"/map", stream.answerMap)
	mux.Handle("GET "+Path+"/stream", stream)
	return mux
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
	nodes := make(map[string]*view.Node, len(s.nodes))
	for i := range fleet.Pools {
		for k := range fleet.Pools[i].Nodes {
			nodes[fleet.Pools[i].Nodes[k].Name] = &fleet.Pools[i].Nodes[k]
		}
	}
	first := s.seen < 0
	sum := summaryOf(&overview)
	changed, gone := differences(s.nodes, nodes)
	same := len(changed) == 0 && len(gone) == 0 && sum == s.summary
	s.seen, s.nodes, s.fleet, s.summary = revision, nodes, fleet, sum
	if first || same {
		return nil
	}
	return s.publish(changed, gone)
}

// differences returns the nodes that are new or shown differently, and the names of those that are gone.
func differences(before, after map[string]*view.Node) (changed []*view.Node, gone []string) {
	for name, n := range after {
		if old, ok := before[name]; !ok || !shownAlike(old, n) {
			changed = append(changed, n)
		}
	}
	slices.SortFunc(changed, func(a, b *view.Node) int { return strings.Compare(a.Name, b.Name) })
	for name := range before {
		if _, ok := after[name]; !ok {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	return changed, gone
}

// publish adds a message to the ring and wakes the readers.
func (s *stream) publish(changed []*view.Node, gone []string) error {
	c := change{From: s.name(s.revision), Revision: s.name(s.revision + 1), Gone: gone, Summary: s.summary}
	for _, n := range changed[:min(len(changed), nodesMost)] {
		c.Nodes = append(c.Nodes, changeOf(n))
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(text) > messageBytesMost || len(changed) > nodesMost {
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
// of one that is not known, or too old, is sent a message that says to ask for the map again. next is closed when there is
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

// answerMap answers with the rows of all nodes; with ?groups=true with their pods by workload.
func (s *stream) answerMap(w http.ResponseWriter, r *http.Request) {
	if err := s.refresh(); err != nil {
		http.Error(w, err.Error(), Status(err))
		return
	}
	s.mu.Lock()
	fleet, revision := s.fleet, s.name(s.revision)
	s.mu.Unlock()
	if r.URL.Query().Get("groups") == "true" {
		writeJSON(w, r, groupsOf(&fleet))
		return
	}
	writeJSON(w, r, mapOf(&fleet, revision))
}
