package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// fieldError is a value that may not be what it is.
type fieldError struct {
	path    []any // names and indexes
	problem string
}

func wrong(problem string, path ...any) error { return &fieldError{path, problem} }

// Error returns the field and what is wrong with it.
func (e *fieldError) Error() string {
	var b strings.Builder
	for _, step := range e.path {
		switch step := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(step) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String() + ": " + e.problem
}

// validate judges what can be judged without the catalog.
func (s *Scenario) validate() error {
	if err := validateTypes(s.InstanceTypes); err != nil {
		return err
	}
	pools := map[string]bool{}
	for i, p := range s.NodePools {
		switch {
		case p.Name == "":
			return wrong("is missing", "nodePools", i, "name")
		case pools[p.Name]:
			return wrong("is there twice: "+p.Name, "nodePools", i, "name")
		case p.LimitCPU < 0:
			return wrong("is negative", "nodePools", i, "limitCpu")
		case p.LimitMem < 0:
			return wrong("is negative", "nodePools", i, "limitMem")
		}
		pools[p.Name] = true
		if err := validateRequirements(p.Requirements, "nodePools", i, "requirements"); err != nil {
			return err
		}
	}
	for i, d := range s.DaemonSets {
		if d.CPU < 0 || d.Mem < 0 {
			return wrong("asks for less than nothing", "daemonSets", i)
		}
	}
	for i := range s.PodGroups {
		if err := validateGroup(&s.PodGroups[i], i); err != nil {
			return err
		}
	}
	return nil
}

func validateTypes(types []InstanceType) error {
	seen := map[string]bool{}
	for i := range types {
		t := &types[i]
		switch {
		case t.Name == "":
			return wrong("is missing", "instanceTypes", i, "name")
		case seen[t.Name]:
			return wrong("is there twice: "+t.Name, "instanceTypes", i, "name")
		case t.CPU < 0:
			return wrong("is negative", "instanceTypes", i, "cpu")
		case t.Mem < 0:
			return wrong("is negative", "instanceTypes", i, "mem")
		case t.Pods < 0:
			return wrong("is negative", "instanceTypes", i, "pods")
		}
		seen[t.Name] = true
		if err := validateRequirements(t.Reqs, "instanceTypes", i, "reqs"); err != nil {
			return err
		}
		for j, o := range t.Offerings {
			switch {
			case o.Price < 0:
				return wrong("is negative", "instanceTypes", i, "offerings", j, "price")
			case o.CapacityType != label.OnDemand && o.CapacityType != label.Spot:
				return wrong(fmt.Sprintf("is %q, must be on-demand or spot", o.CapacityType), "instanceTypes", i, "offerings", j, "ct")
			}
		}
	}
	return nil
}

func validateRequirements(list []Requirement, path ...any) error {
	for i, r := range list {
		switch label.Operator(r.Op) {
		case label.OpIn, label.OpNotIn, label.OpExists, label.OpDoesNotExist:
		default:
			return wrong(fmt.Sprintf("is %q, must be In, NotIn, Exists or DoesNotExist", r.Op), append(slices.Clip(path), i, "op")...)
		}
		if r.Key == "" {
			return wrong("is missing", append(slices.Clip(path), i, "key")...)
		}
	}
	return nil
}

func validateGroup(g *PodGroup, i int) error {
	switch {
	case g.N < 0:
		return wrong("is negative", "podGroups", i, "n")
	case g.CPU < 0:
		return wrong("is negative", "podGroups", i, "cpu")
	case g.Mem < 0:
		return wrong("is negative", "podGroups", i, "mem")
	}
	for j, sp := range g.Spread {
		switch {
		case sp.Key == "":
			return wrong("is missing", "podGroups", i, "spread", j, "key")
		case sp.MaxSkew < 1:
			return wrong("must be at least 1", "podGroups", i, "spread", j, "maxSkew")
		}
	}
	for j, t := range g.Affinity {
		if t.Key == "" {
			return wrong("is missing", "podGroups", i, "affinity", j, "key")
		}
	}
	for j, t := range g.AntiAffinity {
		if t.Key == "" {
			return wrong("is missing", "podGroups", i, "antiAffinity", j, "key")
		}
	}
	return nil
}

// validateReferences judges what names something else of the scenario.
func (s *Scenario) validateReferences() error {
	types := map[string]bool{}
	for i := range s.InstanceTypes {
		if types[s.InstanceTypes[i].Name] {
			return wrong("the catalog has "+s.InstanceTypes[i].Name+", which instanceTypes has too", "catalog")
		}
		types[s.InstanceTypes[i].Name] = true
	}
	nodes := map[string]bool{}
	for i, n := range s.Nodes {
		switch {
		case n.Name == "":
			return wrong("is missing", "nodes", i, "name")
		case nodes[n.Name]:
			return wrong("is there twice: "+n.Name, "nodes", i, "name")
		case !types[n.Type]:
			return wrong(fmt.Sprintf("there is no instance type %q", n.Type), "nodes", i, "type")
		}
		nodes[n.Name] = true
		for j, share := range n.Pods {
			if share.Group() < 0 || share.Group() >= len(s.PodGroups) {
				return wrong(fmt.Sprintf("there is no group %d", share.Group()), "nodes", i, "pods", j)
			}
			if share.Count() < 0 {
				return wrong("a negative number of pods", "nodes", i, "pods", j)
			}
		}
	}
	return nil
}
