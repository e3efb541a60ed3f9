package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Path is where Handler answers.
const Path = "/debug/journal"

// ExplainPath is below Path where questions about a subject are answered: ?kind=&namespace=&name=.
const ExplainPath = "/explain"

// PlansPath is below Path where the decisions are without their snapshots, as a file: a small part of the whole.
const PlansPath = "/plans"

// HeaderNoSubject is in the answer, with status 404, that there is nothing of the kind and name.
const HeaderNoSubject = "Dovetail-No-Subject"

// Explained is what ExplainPath answers.
type Explained struct {
	Format  string   `json:"format"`
	Answers []Answer `json:"answers"`
}

// explainFormat is that of Explained.
const explainFormat = "dovetail-explain/1"

// readersMost bounds how many may read the journal at once: what one has not read yet is kept
// in memory for it, though the journal may have dropped it since.
const readersMost = 2

// Listing is what Path answers: what is in memory, at a glance.
type Listing struct {
	Decisions []Head    `json:"decisions"`
	Refusals  []Refused `json:"refusals"`
}

// Handler answers for the journal: Path lists it, Path/explain answers about a subject, Path/all is the whole of it as a file,
// Path/plans that without snapshots, Path/ID one decision of it, which dovetail replay opens. One reader too many is turned away.
func (j *Journal) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, j.answerList)
	mux.HandleFunc("GET "+Path+"/{$}", j.answerList)
	mux.HandleFunc("GET "+Path+ExplainPath, j.answerExplain)
	mux.HandleFunc("GET "+Path+"/all", func(w http.ResponseWriter, _ *http.Request) { j.answerFile(w, ID{}) })
	mux.HandleFunc("GET "+Path+PlansPath, func(w http.ResponseWriter, _ *http.Request) { j.answerPlans(w) })
	mux.HandleFunc("GET "+Path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := ParseID(r.PathValue("id"))
		if err != nil {
			http.Error(w, fmt.Sprintf("%v; %s lists them, %s/all is all of them", err, Path, Path), http.StatusBadRequest)
			return
		}
		j.answerFile(w, id)
	})
	readers := make(chan struct{}, readersMost)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case readers <- struct{}{}:
			defer func() { <-readers }()
			mux.ServeHTTP(w, r)
		default:
			http.Error(w, fmt.Sprintf("%d others read the journal at this moment; ask again later", readersMost), http.StatusTooManyRequests)
		}
	})
}

func (j *Journal) answerList(w http.ResponseWriter, _ *http.Request) {
	b, err := json.MarshalIndent(Listing{j.Heads(), j.Refusals()}, "", " ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n')) // who asked is gone
}

func (j *Journal) answerExplain(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s := Subject{Kind: q.Get("kind"), Namespace: q.Get("namespace"), Name: q.Get("name")}
	if s.Name == "" || s.Kind != "" && kinds[s.Kind] != s.Kind {
		http.Error(w, fmt.Sprintf("the question is %q; it needs a name, and a kind that there is", r.URL.RawQuery), http.StatusBadRequest)
		return
	}
	answers := j.Explain(s)
	if len(answers) == 0 {
		w.Header().Set(HeaderNoSubject, "true")
		http.Error(w, fmt.Sprintf("there is no %s, and no decision is about one", s), http.StatusNotFound)
		return
	}
	b, err := json.Marshal(Explained{explainFormat, answers})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // who asked is gone
}

func (j *Journal) answerPlans(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	_ = j.WritePlans(w) // who asked is gone
}

func (j *Journal) answerFile(w http.ResponseWriter, id ID) {
	name := cmp.Or(id.String(), "all")
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name+suffix))
	if err := j.WriteFile(w, id); errors.Is(err, ErrNoDecision) { // any other: who asked is gone
		w.Header().Del("Content-Disposition")
		http.Error(w, err.Error(), http.StatusNotFound)
	}
}
