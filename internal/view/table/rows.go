package table

import "github.com/dovetail-sh/dovetail/internal/view"

// Rows returns what a list has: nodes, groups of pending pods, NodePools, and so on. Of a view that is no list it is
// the view alone.
func Rows(v any) []any {
	switch v := v.(type) {
	case *view.Fleet:
		var nodes []any
		for _, n := range v.Nodes() {
			nodes = append(nodes, n)
		}
		return nodes
	case *view.Pending:
		return each(v.Groups)
	case *view.Pools:
		return each(v.Pools)
	case *view.Blockers:
		return each(v.Blockers)
	case *view.Offerings:
		return each(v.Offerings)
	case *view.Cost:
		return each(v.Rows)
	case *view.Next:
		return each(v.Entries)
	case *view.History:
		return each(v.Actions)
	default:
		return []any{v}
	}
}

// each returns the elements of a list.
func each[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
