package cluster

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// TestWhichNamespacesATermSelects asks a term about a pod of namespace shop, which has the label team=red.
func TestWhichNamespacesATermSelects(t *testing.T) {
	t.Parallel()
	namespaces := map[string]map[string]string{"shop": {"team": "red"}}
	team := func(name string) Selector {
		return Selector{Some: true, Requirements: label.Requirements{"team": label.In(name)}}
	}
	for name, c := range map[string]struct {
		term      PodTerm
		namespace string
		want      bool
	}{
		"by name":                             {PodTerm{Namespaces: []string{"bank", "shop"}}, "shop", true},
		"another name":                        {PodTerm{Namespaces: []string{"bank"}}, "shop", false},
		"by label":                            {PodTerm{NamespaceSelector: team("red")}, "shop", true},
		"another label":                       {PodTerm{NamespaceSelector: team("blue")}, "shop", false},
		"another name, by label":              {PodTerm{Namespaces: []string{"bank"}, NamespaceSelector: team("red")}, "shop", true},
		"by name, another label":              {PodTerm{Namespaces: []string{"shop"}, NamespaceSelector: team("blue")}, "shop", true},
		"every namespace":                     {PodTerm{NamespaceSelector: Selector{Some: true}}, "shop", true},
		"every namespace, one not known yet":  {PodTerm{NamespaceSelector: Selector{Some: true}}, "new", true},
		"by label, a namespace not known yet": {PodTerm{NamespaceSelector: team("red")}, "new", false},
		"neither names nor a selector":        {PodTerm{}, "shop", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.term.Selector = Selector{Some: true, Requirements: label.Requirements{"app": label.In("web")}}
			if got := c.term.Selects(c.namespace, map[string]string{"app": "web"}, namespaces); got != c.want {
				t.Errorf("selects: %v, want %v", got, c.want)
			}
			if c.term.Selects(c.namespace, map[string]string{"app": "db"}, namespaces) {
				t.Error("a pod with another label is selected")
			}
		})
	}
}
