package live

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// Path is where views are answered, as JSON: Path/overview, Path/node/NAME, Path/pool/NAME.
const Path = "/debug/view"

const (
	// buildEvery is how often views are made at most, however many ask.
	buildEvery = time.Second
	// answersMost bounds how many answers are kept for others within that time.
	answersMost = 64
)

// ErrNotYet is returned while no loop has decided.
var ErrNotYet = errors.New("no decision was made yet, so there is nothing to show: ask again in some seconds")

// ErrUnknown is returned for a subject that is not there.
var ErrUnknown = errors.New("there is no such subject")

// Views makes views, and keeps them for a moment. Its methods may be called from any goroutine.
type Views struct {
	Latest *Latest
	Now    func() time.Time

	mu      sync.Mutex // protects everything below, and is held while a view is made
	state   *view.State
	stateAt time.Time
	answers map[Question]any
	// revision is that of Latest that state is.
	revision int64
}

// Names returns what Of answers to, besides node/NAME and pool/NAME.
func Names() []string {
	return []string{"overview", "fleet", "pending", "pools", "blockers", "offerings", "cost", "next"}
}

// Question names a view. By divides cost, and says which labels nodes of a fleet have, as view.ByLabels does. Namespace and Selector, a label selector as kubectl reads it, say which part of the
// cluster it is about: of pending and cost pods, of fleet and offerings nodes by their labels, of blockers objects of a namespace that
// keep nodes and nodes by their labels, of next the pending pods of a namespace or else nodes; empty: all.
type Question struct{ Name, By, Namespace, Selector string }

// Of returns the view of that name, which the caller must not change. by divides cost.
func (v *Views) Of(name, by string) (any, error) { return v.Ask(Question{Name: name, By: by}) }

// Ask returns the view that a question names, which the caller must not change.
func (v *Views) Ask(q Question) (any, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ask(q)
}

// since returns the fleet and the overview if they are of another revision of Latest than the given one,
// and of which. If it is the same, nothing is made.
func (v *Views) since(revision int64) (view.Fleet, view.Overview, int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.Latest.Revision() == revision {
		return view.Fleet{}, view.Overview{}, revision, nil
	}
	if v.renew(); v.state == nil {
		return view.Fleet{}, view.Overview{}, 0, ErrNotYet
	}
	ofFleet, ofOverview := Question{Name: "fleet"}, Question{Name: "overview"}
	fleet, hasFleet := v.answers[ofFleet].(view.Fleet)
	overview, hasOverview := v.answers[ofOverview].(view.Overview)
	if !hasFleet || !hasOverview {
		fleet, overview = view.FleetAndOverviewOf(v.state)
		v.answers[ofFleet], v.answers[ofOverview] = fleet, overview
	}
	return fleet, overview, v.revision, nil
}

// renew takes the newest state, at most once a second.
func (v *Views) renew() {
	if now := v.Now(); v.state == nil || now.Sub(v.stateAt) >= buildEvery || now.Before(v.stateAt) {
		v.state, v.revision = v.Latest.stateAndRevision()
		v.stateAt, v.answers = now, map[Question]any{}
	}
}

// ask is Ask with the lock held.
func (v *Views) ask(q Question) (any, error) {
	if v.renew(); v.state == nil {
		return nil, ErrNotYet
	}
	if answer, ok := v.answers[q]; ok {
		return answer, nil
	}
	state, err := q.within(v.state)
	if err != nil {
		return nil, err
	}
	answer, err := viewOf(state, q.Name, q.By)
	if err == nil && len(v.answers) < answersMost {
		v.answers[q] = answer
	}
	return answer, err
}

// within returns the part of a state that a question is about.
func (q *Question) within(s *view.State) (*view.State, error) {
	if q.Namespace == "" && q.Selector == "" {
		return s, nil
	}
	selector, err := labels.Parse(q.Selector)
	if err != nil {
		return nil, fmt.Errorf("label selector %q: %w", q.Selector, err)
	}
	selects := func(of map[string]string) bool { return selector.Matches(labels.Set(of)) }
	var part *view.State
	switch {
	case q.Name == "fleet" && q.Namespace == "":
		part = s.WithNodes(selects)
	case q.Name == "pending":
		part = s.WithPending(q.Namespace, selects)
	case q.Name == "cost", q.Name == "blockers":
		part = s.Within(q.Namespace, selects)
	case q.Name == "next":
		part = s.WithEntries(q.Namespace, selects)
	case q.Name == "offerings" && q.Namespace == "":
		part = s.WithOfferings(selects)
	default:
		return nil, fmt.Errorf("%s has no namespace or labels to be chosen by: pending, cost, blockers and next have both, fleet and offerings labels", q.Name)
	}
	part.Scope = q.scope()
	return part, nil
}

// scope says in words what the question is about.
func (q *Question) scope() string {
	var parts []string
	if q.Namespace != "" {
		parts = append(parts, "namespace "+q.Namespace)
	}
	if q.Selector != "" {
		parts = append(parts, "labels "+q.Selector)
	}
	return strings.Join(parts, ", ")
}

func viewOf(s *view.State, name, by string) (any, error) {
	switch name {
	case "overview":
		return view.OverviewOf(s), nil
	case "fleet":
		return view.FleetOf(s, view.LabelsBy(by)...), nil
	case "pending":
		return view.PendingOf(s), nil
	case "pools":
		return view.PoolsOf(s), nil
	case "blockers":
		return view.BlockersOf(s), nil
	case "offerings":
		return view.OfferingsOf(s), nil
	case "next":
		return view.NextOf(s), nil
	case "cost":
		divided, ok := view.ParseBy(by)
		if !ok {
			return nil, fmt.Errorf("cost cannot be divided by %q: it may be namespace, workload or label:KEY", by)
		}
		return view.CostOf(s, divided), nil
	}
	if node, ok := strings.CutPrefix(name, "node/"); ok {
		if v, ok := view.NodeOf(s, node); ok {
			return v, nil
		}
		return nil, fmt.Errorf("node %q: %w", node, ErrUnknown)
	}
	if pool, ok := strings.CutPrefix(name, "pool/"); ok {
		if v, ok := view.PoolOf(s, pool); ok {
			return v, nil
		}
		return nil, fmt.Errorf("NodePool %q: %w", pool, ErrUnknown)
	}
	return nil, fmt.Errorf("view %q: %w; there are %s, node/NAME and pool/NAME", name, ErrUnknown, strings.Join(Names(), ", "))
}

// Status returns the HTTP status of an error of Of.
func Status(err error) int {
	switch {
	case errors.Is(err, ErrNotYet):
		return http.StatusServiceUnavailable
	case errors.Is(err, ErrUnknown):
		return http.StatusNotFound
	default:
		return http.StatusBadRequest
	}
}

func writeJSON(w http.ResponseWriter, r *http.Request, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	Write(w, r, http.StatusOK, text)
}

// Write answers with a body, compressed if whoever asked reads that.
func Write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(body) // whoever asked may be gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := gzip.NewWriter(w)
	_, _ = z.Write(body)
	_ = z.Close()
}
