package awssim

import (
	"maps"
)

// tagging puts tags on what EC2 has.
type tagging struct {
	network   *network
	templates *templates
	instances *instances
}

func (s *tagging) createTags(c *call) (any, error) {
	tags := c.form.tags("Tag")
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	var targets []map[string]string
	for _, id := range c.form.texts("ResourceId") {
		switch t := s.templates.byID[id]; {
		case t != nil:
			targets = append(targets, t.tags)
		case s.network.subnets[id] != nil:
			targets = append(targets, s.network.subnets[id].Tags)
		default:
			named, err := s.instances.named(c, []string{id})
			if err != nil {
				return nil, err
			}
			targets = append(targets, named[0].tags)
		}
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	for _, t := range targets {
		maps.Copy(t, tags)
		if err := checkCount(t); err != nil {
			return nil, err
		}
	}
	return fields{{"return", true}}, nil
}
