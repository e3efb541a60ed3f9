package topology

// Domains of a place that are not numbers of domains.
const (
	// None: the node has no label with the key.
	None int32 = -1
	// Open: the node is yet to be launched and may come to be in one of several domains.
	Open int32 = -2
	// Undetermined: the node is launched, and the cloud has not said in which of several
	// domains it is. A rule has to hold in each of them.
	Undetermined int32 = -3
)

// Place is where a pod may be: the topology domains of one node, one for each key of the Ledger.
type Place struct {
	Domain []int32
	// Counts says for each spreading group whether the node counts in it. Nil: in all.
	Counts []bool
	// Doubt says for each spreading group whether the node may yet turn out not to
	// count. Nil: in none.
	Doubt []bool
	// May has, by group, the domains in which a node may be and count whose domain is
	// undetermined. Nil: all its domains are known.
	May [][]int32
}

// domains returns those of a group's key that the node may be in, and whether the node
// surely is there and counts.
func (p *Place) domains(group, key int) (domains []int32, sure bool) {
	switch d := p.Domain[key]; {
	case d >= 0:
		return p.Domain[key : key+1], p.Doubt == nil || !p.Doubt[group]
	case d == Undetermined:
		return p.May[group], false
	}
	return nil, false
}

func (p *Place) counts(group int) bool { return p.Counts == nil || p.Counts[group] }
