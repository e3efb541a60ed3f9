package web

import (
	"bytes"
	"net/url"
	"slices"
	"time"
)

// momentsPath is where the pages of moments are: momentsPath/ID/ and below.
const momentsPath = "/at"

// Moment is the instant of a decision.
type Moment struct {
	ID string
	At time.Time
}

// moment is the moment that a page is of.
type moment struct {
	Moment
	all    []Moment
	n      int
	prefix string // of the addresses of its pages
	page   string // the address of the page without prefix
}

// Number, Count and Prefix say which of how many moments it is, and where its pages are.
func (m *moment) Number() int    { return m.n + 1 }
func (m *moment) Count() int     { return len(m.all) }
func (m *moment) Prefix() string { return m.prefix }

// Page returns the address of the page without the moment; Here, First, Before, After and Last return those of the same
// page at a moment; empty: there is no such moment.
func (m *moment) Page() string   { return m.page }
func (m *moment) Here() string   { return m.at(m.n) }
func (m *moment) First() string  { return m.at(0) }
func (m *moment) Before() string { return m.at(m.n - 1) }
func (m *moment) After() string  { return m.at(m.n + 1) }
func (m *moment) Last() string   { return m.at(len(m.all) - 1) }

func (m *moment) at(n int) string {
	if n < 0 || n >= len(m.all) {
		return ""
	}
	return prefixOf(m.all[n].ID) + m.page
}

// Has reports whether there are pages of the moment of a decision.
func (m *moment) Has(id string) bool {
	return slices.ContainsFunc(m.all, func(m Moment) bool { return m.ID == id })
}

func prefixOf(id string) string { return momentsPath + "/" + url.PathEscape(id) }

// onPage returns the moment with the address of a page; nil: the pages are of now.
func (m *moment) onPage(at *url.URL) *moment {
	if m == nil {
		return nil
	}
	here := *m
	if here.page = at.EscapedPath(); at.RawQuery != "" {
		here.page += "?" + at.RawQuery
	}
	return &here
}

// lead makes the links of a page lead to pages of the same moment. Names in pages have no quotes, so that what is
// replaced is of a template.
func (m *moment) lead(page []byte) []byte {
	if m == nil || m.prefix == "" {
		return page
	}
	for _, link := range []string{`href="`, `action="`} {
		page = bytes.ReplaceAll(page, []byte(link+"/"), []byte(link+m.prefix+"/"))
		page = bytes.ReplaceAll(page, []byte(link+m.prefix+momentsPath+"/"), []byte(link+momentsPath+"/"))
	}
	return page
}
