package demo

import "fmt"

// state is the cluster as the story shows it.
type state struct {
	// A pod is counted once.
	pending, bound, running int
	// A node that is ready is registered as well, and claimed.
	claimed, registered, ready int
	// nodes are the Node objects of our NodeClaims.
	nodes       int
	priceHourly float64
	// spent is the bill so far, in dollars, if isBilled.
	spent    float64
	isBilled bool
	// elsewhere is how many pods run on a node that is not ours.
	elsewhere int
	// instances are those that the cloud has answered for, by claim name.
	instances []instance
	// poolsReady reports whether there is a pool, and all are ready.
	poolsReady bool
}

// instance is what a NodeClaim turned out to be.
type instance struct {
	claim, pool, instance, node, instanceType, zone, capacityType, arch string

	priceHourly float64 // 0: not known yet
	// pods is how many run there.
	pods            int
	isReady, leaves bool
}

func (s *state) line() string {
	return fmt.Sprintf("pods: %3d pending, %3d bound, %3d running | nodes: %2d claimed, %2d registered, %2d ready | $%.2f per hour",
		s.pending, s.bound, s.running, s.claimed, s.registered, s.ready, s.priceHourly)
}

// bill continues the line with what has been spent.
func (s *state) bill() string {
	if !s.isBilled {
		return ""
	}
	return fmt.Sprintf(", $%.4f so far", s.spent)
}

// empty reports whether no node of ours is left or still to come.
func (s *state) empty() bool { return s.claimed == 0 && s.nodes == 0 }

// allReady reports whether no node of ours is still to become ready.
func (s *state) allReady() bool { return s.ready == s.claimed }

func (s *state) instance(claim string) (instance, bool) {
	for _, m := range s.instances {
		if m.claim == claim && m.instanceType != "" {
			return m, true
		}
	}
	return instance{}, false
}
