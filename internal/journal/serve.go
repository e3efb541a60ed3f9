package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Path is where Handler answers.
const Path = "/debug/journal"

// Listing is what Path answers: what is in memory, at a glance.
type Listing struct {
	Decisions []Head    `json:"decisions"`
	Refusals  []Refused `json:"refusals"`
}

// Handler answers for the journal: Path lists it, Path/all is the whole of it as a file,
// Path/ID one decision of it, which dovetail replay opens.
func (j *Journal) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, j.answerList)
	mux.HandleFunc("GET "+Path+"/{$}", j.answerList)
	mux.HandleFunc("GET "+Path+"/all", func(w http.ResponseWriter, _ *http.Request) { j.answerFile(w, 0) })
	mux.HandleFunc("GET "+Path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil || id <= 0 {
			http.Error(w, fmt.Sprintf("%q is no number of a decision; %s lists them, %s/all is all of them", r.PathValue("id"), Path, Path), http.StatusBadRequest)
			return
		}
		j.answerFile(w, id)
	})
	return mux
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

func (j *Journal) answerFile(w http.ResponseWriter, id int64) {
	b, err := j.File(id)
	switch {
	case errors.Is(err, ErrNoDecision):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	name := "all"
	if id > 0 {
		name = strconv.FormatInt(id, 10)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name+suffix))
	_, _ = w.Write(b) // who asked is gone
}
