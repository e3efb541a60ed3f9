package nominate

import "time"

// decision is the state of one call of Next.
type decision struct {
	View
	nodes     map[string]*Node
	pods      map[string]int  // unbound pods, by target node
	chosen    map[string]bool // nodes that open now, or once their pods' nominations are seen
	lacking   map[string]int  // pods whose nomination has not been seen yet, by target node
	nominated nominations
	gangs     map[string]*gang // by name
	gangOf    map[string]*gang // by the Node that it keeps closed
	step      Step
}

// openAt opens the node if that time has come, and reports whether it has.
func (d *decision) openAt(n *Node, due time.Time) bool {
	if due.After(d.At) {
		d.until(due)
		return false
	}
	d.chosen[n.Name] = true
	d.step.Open = append(d.step.Open, n.Name)
	return true
}

func (d *decision) until(t time.Time) {
	if d.step.Until.IsZero() || t.Before(d.step.Until) {
		d.step.Until = t
	}
}
