// Package tui is the screens of dovetail top. A screen is a function from a Moment, which is what a Source
// answered, to lines of text: what is drawn depends on nothing else than that and the keys that were
// pressed, so the tests need no terminal. No key changes the cluster.
//
// It may import internal/view and the journal, and no client. It alone imports the drawing libraries.
//
// Read moment.go and session.go first (what is shown, and recordings of it), then text.go, filter.go and
// table.go (how a list is drawn), screens.go and rows.go (which lists there are), model.go, keys.go,
// does.go and draw.go (what keys do, and the frame), and last top.go.
package tui
