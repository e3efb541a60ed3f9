package awssim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// nodeGroupsPage is how many names one answer has at most.
const nodeGroupsPage = 100

func (s *eks) listNodeGroups(c *call) (any, error) {
	if c.path != s.base.opts.Cluster.Name {
		return nil, &apiError{http.StatusNotFound, "ResourceNotFoundException", "No cluster found for name: " + c.path + "."}
	}
	names := []string{}
	for i := range s.base.opts.NodeGroups {
		names = append(names, s.base.opts.NodeGroups[i].Name)
	}
	names, token, err := page(c, names, func(n string) string { return n }, 0, nodeGroupsPage)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"nodegroups": names}
	if token != "" {
		answer["nextToken"] = token
	}
	return answer, nil
}

func (s *eks) describeNodeGroup(c *call) (any, error) {
	cluster, name, _ := strings.Cut(c.path, "/")
	for i := range s.base.opts.NodeGroups {
		g := &s.base.opts.NodeGroups[i]
		if g.Name != name || cluster != s.base.opts.Cluster.Name {
			continue
		}
		fields := maps.Clone(g.Fields)
		if fields == nil {
			fields = map[string]any{}
		}
		fields["nodegroupName"], fields["clusterName"], fields["status"] = name, cluster, "ACTIVE"
		fields["nodegroupArn"] = s.base.arn("eks", "nodegroup/"+cluster+"/"+name)
		return map[string]any{"nodegroup": fields}, nil
	}
	return nil, &apiError{http.StatusNotFound, "ResourceNotFoundException", "No node group found for name: " + name + "."}
}

// describeVersions describes the only version of a launch template.
func (s *templates) describeVersions(c *call) (any, error) {
	id, name := c.form.text("LaunchTemplateId"), c.form.text("LaunchTemplateName")
	for _, t := range s.byID {
		if t.id != id && (name == "" || t.name != name) || t.visible.After(c.now) {
			continue
		}
		for _, version := range c.form.texts("LaunchTemplateVersion") {
			if version != "1" && version != "$Latest" && version != "$Default" {
				return nil, fail("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, t.id)
			}
		}
		return fields{{"launchTemplateVersionSet", list{fields{
			{"launchTemplateId", t.id},
			{"launchTemplateName", t.name},
			{"versionNumber", 1},
			{"defaultVersion", true},
			{"createTime", t.created},
			{"launchTemplateData", asDescribed(t.data, "")},
		}}}}, nil
	}
	return nil, fail("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
}

// asDescribed returns a form as EC2 describes what it was asked for: names begin with a small letter, and lists end
// with Set.
func asDescribed(f *form, within string) any {
	if len(f.children) == 0 {
		return f.value
	}
	var out fields
	for _, name := range slices.Sorted(maps.Keys(f.children)) {
		child := f.children[name]
		label := strings.ToLower(name[:1]) + name[1:]
		items := child.list()
		if len(items) == 0 {
			out = append(out, field{label, asDescribed(child, name)})
			continue
		}
		if within == "NetworkInterface" && name == "SecurityGroupId" { // the one list whose items have a name
			var groups fields
			for _, item := range items {
				groups = append(groups, field{"groupId", item.value})
			}
			out = append(out, field{"groupSet", groups})
			continue
		}
		var all list
		for _, item := range items {
			all = append(all, asDescribed(item, name))
		}
		out = append(out, field{label + "Set", all})
	}
	return out
}
