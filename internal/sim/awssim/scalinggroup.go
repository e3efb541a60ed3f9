package awssim

import (
	"maps"
	"slices"
)

// scalingGroupsPage is how many groups one answer has at most.
const scalingGroupsPage = 100

// describeScalingGroups describes the Auto Scaling groups that all filters select.
func (b *base) describeScalingGroups(c *call) (any, error) {
	var found []*ScalingGroup
	for i := range b.opts.ScalingGroups {
		g := &b.opts.ScalingGroups[i]
		is, err := g.selected(c.form.at("Filters").list("member"))
		if err != nil {
			return nil, err
		}
		if is {
			found = append(found, g)
		}
	}
	found, next, err := page(c, found, func(g *ScalingGroup) string { return g.Name }, c.form.number(0, "MaxRecords"), scalingGroupsPage)
	if err != nil {
		return nil, err
	}
	var groups members
	for _, g := range found {
		all := maps.Clone(g.Fields)
		if all == nil {
			all = map[string]any{}
		}
		all["AutoScalingGroupName"], all["AutoScalingGroupARN"] = g.Name, b.arn("autoscaling", "autoScalingGroup:1:autoScalingGroupName/"+g.Name)
		groups = append(groups, asXML(all))
	}
	return fields{{"AutoScalingGroups", groups}, {"NextToken", next}}, nil
}

// selected reports whether all filters select the group. They know its tags alone.
func (g *ScalingGroup) selected(filters []*form) (bool, error) {
	tags := map[string]string{}
	listed, _ := g.Fields["Tags"].([]any)
	for _, tag := range listed {
		pair, _ := tag.(map[string]any)
		key, _ := pair["Key"].(string)
		tags[key], _ = pair["Value"].(string)
	}
	for _, f := range filters {
		wanted := f.at("Values").texts("member")
		var has []string
		switch name := f.text("Name"); {
		case name == "tag-key":
			has = slices.Collect(maps.Keys(tags))
		case name == "tag-value":
			has = slices.Collect(maps.Values(tags))
		case len(name) > len("tag:") && name[:len("tag:")] == "tag:":
			has = []string{tags[name[len("tag:"):]]}
		default:
			return false, fail("ValidationError", "Filter type %s is not correct. Allowed Filter types are: tag-key tag-value tag:", name)
		}
		if !slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(has, w) }) {
			return false, nil
		}
	}
	return true, nil
}

// asXML returns a JSON value as the Query protocol writes it.
func asXML(value any) any {
	switch v := value.(type) {
	case map[string]any:
		var out fields
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, field{name, asXML(v[name])})
		}
		return out
	case []any:
		var out members
		for _, item := range v {
			out = append(out, asXML(item))
		}
		return out
	default:
		return v
	}
}
