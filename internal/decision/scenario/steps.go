package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Step is one change of the nodes that there are: first Launch, then Moves in their
// order, then Delete.
type Step struct {
	Launch []NamedNode `json:"launch,omitempty"`
	Moves  []Move      `json:"moves,omitempty"`
	Delete []string    `json:"delete,omitempty"`
}

// NamedNode is a node to launch that moves can name.
type NamedNode struct {
	Name         string `json:"name"`
	Type         string `json:"type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"ct"`
	Pool         string `json:"pool"`
}

// Move is pods of a group that go from one node to another.
type Move struct {
	Group int    `json:"group"`
	Count int    `json:"count"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// pdbs returns the disruption budgets of the groups that have one, in their order.
func (s *Scenario) pdbs() []cluster.PodDisruptionBudget {
	var pdbs []cluster.PodDisruptionBudget
	for i := range s.PodGroups {
		if n := s.PodGroups[i].DisruptionsAllowed; n != nil {
			pdbs = append(pdbs, cluster.PodDisruptionBudget{Name: fmt.Sprintf("%s/group-%06d", namespace, i), Allowed: *n})
		}
	}
	return pdbs
}

// inhabit adds the pods of a scenario's node, one by one, to a node of the snapshot. The UID of each is the index
// of its group.
func (s *Scenario) inhabit(m *cluster.Node, n *Node, constraintSets []*cluster.Constraints) {
	if m.Pool != "" {
		m.Claim = m.Name
	}
	m.Empty = len(n.Pods) == 0
	for _, share := range n.Pods {
		g := &s.PodGroups[share.Group()]
		r := cluster.ReschedulablePod{Constraints: constraintSets[share.Group()], Controller: "ReplicaSet"}
		if g.DoNotDisrupt {
			r.DoNotDisrupt = "annotation karpenter.sh/do-not-disrupt"
		}
		if g.DisruptionsAllowed != nil {
			at := 0
			for i := range share.Group() {
				if s.PodGroups[i].DisruptionsAllowed != nil {
					at++
				}
			}
			r.PDBs = []int{at}
		}
		for k := range share.Count() {
			r.PodRef = cluster.PodRef{Namespace: namespace, Name: fmt.Sprintf("%s-%06d-%03d", n.Name, share.Group(), k), UID: strconv.Itoa(share.Group())}
			m.Reschedulable = append(m.Reschedulable, r)
		}
	}
}

// Steps returns steps as kplan/1 has them, without the times. Launched nodes are named by
// step; a launch leaves several types open, and the node named is its cheapest offering.
func Steps(name string, snap *cluster.Snapshot, steps []plan.Command) (*Plan, error) {
	out := &Plan{Format: PlanFormat, Scenario: name, Mode: "consolidate", NewNodes: []NewNode{}, Existing: []Existing{}, Unschedulable: []Share{}}
	on := map[cluster.PodRef]string{}
	for i := range snap.Nodes {
		for r := range snap.Nodes[i].Reschedulable {
			on[snap.Nodes[i].Reschedulable[r].PodRef] = snap.Nodes[i].Name
		}
	}
	for i := range steps {
		step, err := stepOf(i, snap, &steps[i], on)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		out.Steps = append(out.Steps, step)
	}
	return out, nil
}

func launchName(step, launch int) string { return fmt.Sprintf("new-%05d-%02d", step, launch) }

func stepOf(i int, snap *cluster.Snapshot, step *plan.Command, on map[cluster.PodRef]string) (Step, error) {
	var out Step
	count := map[Move]int{} // Count is 0
	move := func(ref cluster.PodRef, to string) error {
		g, err := strconv.Atoi(ref.UID)
		if err != nil {
			return fmt.Errorf("pod %s has no group: %w", ref, err)
		}
		count[Move{Group: g, From: on[ref], To: to}]++
		return nil
	}
	for k := range step.Launch {
		l := &step.Launch[k]
		choice, err := Cheapest(snap, l)
		if err != nil {
			return out, fmt.Errorf("launch %d: %w", k, err)
		}
		node := NamedNode{launchName(i, k), choice.Type.Name, choice.Offering.Zone, choice.Offering.CapacityType, l.Pool}
		out.Launch = append(out.Launch, node)
		for _, ref := range l.Pods {
			if err := move(ref, node.Name); err != nil {
				return out, err
			}
		}
	}
	for _, m := range step.Moves {
		if err := move(m.Pod, m.Node); err != nil {
			return out, err
		}
	}
	for _, m := range step.Joins {
		if err := move(m.Pod, launchName(m.Command, m.Launch)); err != nil {
			return out, err
		}
	}
	for m, n := range count {
		m.Count = n
		out.Moves = append(out.Moves, m)
	}
	slices.SortFunc(out.Moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Group, b.Group))
	})
	for _, r := range step.Remove {
		out.Delete = append(out.Delete, r.Node)
	}
	return out, nil
}
