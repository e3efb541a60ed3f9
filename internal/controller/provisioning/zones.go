package provisioning

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Values of the label zone for pods that can be in several zones, and in none.
const (
	zoneFlexible = "flexible"
	zoneNone     = "none"
)

// pendingByZone counts the pending pods by the zone that they can be in.
func pendingByZone(snap *cluster.Snapshot) map[string]int {
	offered := zonesOffered(snap)
	byConstraints := map[*cluster.Constraints]string{}
	counts := map[string]int{}
	for i := range snap.Pending {
		c := snap.Pending[i].Constraints
		zone, known := byConstraints[c]
		if !known {
			zone = effectiveZone(c, offered)
			byConstraints[c] = zone
		}
		counts[zone]++
	}
	return counts
}

// zonesOffered returns the zones in which NodePools can have nodes.
func zonesOffered(snap *cluster.Snapshot) map[string]bool {
	zones := map[string]bool{}
	for i := range snap.Pools {
		for _, t := range snap.Pools[i].Types {
			for _, zone := range t.Requirements[label.Zone].Values() {
				zones[zone] = true
			}
		}
	}
	return zones
}

// effectiveZone returns the one zone that node affinity and volumes leave to pods.
func effectiveZone(c *cluster.Constraints, offered map[string]bool) string {
	only := zoneNone
	for zone := range offered {
		for _, term := range c.Terms {
			asked, isAsked := term[label.Zone]
			if isAsked && !asked.Allows(zone) || zone == only {
				continue
			}
			if only != zoneNone {
				return zoneFlexible
			}
			only = zone
		}
	}
	return only
}
