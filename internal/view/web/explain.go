package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// saysMost is how many of the things that were decided about a subject a page has.
const saysMost = 50

// explainPath is that of the page of what is known of a subject.
const explainPath = "/explain"

// explainPathOf returns the address of what is known of a subject.
func explainPathOf(kind, name string) string {
	return explainPath + "?" + url.Values{"q": {strings.Trim(kind+"/"+name, "/")}}.Encode()
}

// subject is what is known of one subject. More is how many other things were decided about it.
type subject struct {
	view.Explained
	More int
}

// answerExplain answers with what is known of what was asked about: all of the name.
func (s *site) answerExplain(w http.ResponseWriter, r *http.Request) {
	asked := strings.TrimSpace(r.URL.Query().Get("q"))
	p := &page{Title: cmp.Or(asked, "Explain"), Path: explainPath, Asked: asked}
	if asked == "" {
		s.respond(w, r, answer{"explain", nil, nil}, p)
		return
	}
	known, err := s.past.Explain(asked, r.URL.Query().Get("types") == "true")
	all := make([]subject, len(known))
	for i := range known {
		all[i] = subject{Explained: known[i], More: max(0, len(known[i].Says)-saysMost)}
		all[i].Says = known[i].Says[:len(known[i].Says)-all[i].More]
		if node, err := s.views.Of("node/"+known[i].Node, ""); err == nil {
			all[i].InstanceType = node.(view.NodeView).Node.InstanceType
		}
	}
	s.respond(w, r, answer{"explain", all, err}, p)
}
