package awssim

import (
	"cmp"
	"slices"
	"strconv"
)

// spreadMax is how many instances a spread group may have in one zone.
const spreadMax = 7

// placements has the placement groups.
type placements struct {
	base      *base
	instances *instances

	groups []placementGroup
}

// PlacementGroup says how near to each other instances are put.
type PlacementGroup struct {
	ID, Name string
	// Strategy is cluster, partition or spread.
	Strategy   string
	Partitions int
}

type placementGroup struct{ PlacementGroup }

func (s *placements) describePlacements(c *call) (any, error) {
	all := slices.Clone(s.groups)
	for _, by := range []struct {
		param string
		get   func(g placementGroup) string
	}{
		{"GroupId", func(g placementGroup) string { return g.ID }}, {"GroupName", func(g placementGroup) string { return g.Name }},
	} {
		for _, v := range c.form.texts(by.param) {
			all = slices.DeleteFunc(all, func(g placementGroup) bool { return by.get(g) != v })
			if len(all) == 0 {
				if by.param == "GroupId" {
					return nil, s.noGroup(v, "")
				}
				return nil, s.noGroup("", v)
			}
		}
	}
	return describeAll(c, "placementGroupSet", 1000, all, described[placementGroup]{
		key: func(g placementGroup) string { return g.ID }, tags: noTags[placementGroup],
		property: func(g placementGroup, filter string) ([]string, bool) {
			switch filter {
			case "state":
				return only("available")
			case "strategy":
				return only(g.Strategy)
			case "group-name":
				return only(g.Name)
			default:
				return nil, false
			}
		},
		write: func(g placementGroup) fields {
			out := fields{{"groupId", g.ID}, {"groupName", g.Name}, {"strategy", g.Strategy}, {"state", "available"}}
			if g.Partitions > 0 {
				out = append(out, field{"partitionCount", g.Partitions})
			}
			if g.Strategy == "spread" {
				out = append(out, field{"spreadLevel", "rack"})
			}
			return out
		},
	})
}

// placementFor finds where in its placement group an instance of a launch option goes, if the
// option names a group.
func (s *placements) placementFor(o *launchOption) (placed, *apiError) {
	spec := o.template.data.at("Placement")
	id, name := spec.text("GroupId"), spec.text("GroupName")
	if id == "" && name == "" {
		return placed{}, nil
	}
	i := slices.IndexFunc(s.groups, func(g placementGroup) bool { return g.ID == id || name != "" && g.Name == name })
	if i < 0 {
		return placed{}, s.noGroup(id, name)
	}
	g := s.groups[i]
	if !slices.Contains(o.typ.strategies(), g.Strategy) {
		return placed{}, fail("InvalidParameterCombination", "%s placement groups may not be used with instances of type '%s'.", g.Strategy, o.instanceType)
	}
	inZone, byPartition := 0, map[int]int{}
	for _, in := range s.instances.byID {
		if in.placement.groupID == g.ID && in.state != stateTerminated && in.subnet.Zone == o.zone {
			inZone++
			byPartition[in.placement.partition]++
		}
	}
	p := placed{groupID: g.ID, groupName: g.Name}
	switch g.Strategy {
	case "spread":
		if inZone >= spreadMax {
			return placed{}, fail("InsufficientInstanceCapacity", "You have reached the limit of instances in this spread placement group in %s (%d).", o.zone, spreadMax)
		}
	case "partition":
		p.partition, _ = strconv.Atoi(spec.text("PartitionNumber"))
		if p.partition == 0 {
			p.partition = 1
			for n := 2; n <= g.Partitions; n++ {
				if byPartition[n] < byPartition[p.partition] {
					p.partition = n
				}
			}
		}
		if p.partition > g.Partitions {
			return placed{}, fail("InvalidParameterValue", "Placement group %s has %d partitions", g.Name, g.Partitions)
		}
	}
	return p, nil
}

// noGroup is the error for a placement group that does not exist.
func (s *placements) noGroup(id, name string) *apiError {
	if id != "" && s.base.opts.Beliefs.GroupIDMalformed {
		return fail("InvalidPlacementGroupId.Malformed", "Invalid id: \"%s\"", id)
	}
	return fail("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", cmp.Or(id, name))
}
