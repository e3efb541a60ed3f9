package mirror

// Outcome is what became of a pod that was planned for a node.
type Outcome string

// Outcomes: the pod was bound to the planned node, it was bound to another one, or it is no
// longer planned for that node because kube-scheduler refused to bind it there.
const (
	AsPlanned Outcome = "planned"
	Elsewhere Outcome = "elsewhere"
	Refused   Outcome = "refused"
)

// listeners are the functions that the Store calls when something happens. The lock of the
// Store is held during a call, so they must not call back. All but work may be nil.
type listeners struct {
	work       func(id string)
	nomination func()
	outcome    func(Outcome)
}

func (l *listeners) reportNomination() {
	if l.nomination != nil {
		l.nomination()
	}
}

func (l *listeners) reportOutcome(o Outcome) {
	if l.outcome != nil {
		l.outcome(o)
	}
}
