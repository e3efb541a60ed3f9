package awssim

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// iam has instance profiles and roles.
type iam struct {
	base   *base
	prices *prices

	byName map[string]*profile
	roles  map[string]bool
}

// profile is an instance profile.
type profile struct {
	name, path, role, id string
	tags                 map[string]string
	created, visible     time.Time
}

func (s *iam) operations() map[string]operation {
	return map[string]operation{
		"GetInstanceProfile":            s.getProfile,
		"CreateInstanceProfile":         s.createProfile,
		"AddRoleToInstanceProfile":      s.addRole,
		"RemoveRoleFromInstanceProfile": s.removeRole,
		"DeleteInstanceProfile":         s.deleteProfile,
		"ListInstanceProfiles":          s.listProfiles,
		"TagInstanceProfile":            s.tagProfile,
		"GetRole":                       s.getRole,
	}
}

// callerIdentity answers GetCallerIdentity of STS.
func (s *iam) callerIdentity(*call) (any, error) {
	return fields{{"Arn", s.base.arn("iam", "user/dovetail")}, {"UserId", "AIDA0000000000000001"}, {"Account", s.base.opts.AccountID}}, nil
}

func noEntity(what, name string) error {
	return &apiError{http.StatusNotFound, "NoSuchEntity", what + " " + name + " cannot be found."}
}

func (s *iam) profile(c *call) (*profile, error) {
	name := c.form.text("InstanceProfileName")
	if p := s.byName[name]; p != nil {
		return p, nil
	}
	return nil, noEntity("Instance Profile", name)
}

func (s *iam) describeProfile(p *profile) fields {
	var roles, tags members
	if p.role != "" {
		roles = append(roles, s.describeRole(p.role))
	}
	for _, k := range slices.Sorted(maps.Keys(p.tags)) {
		tags = append(tags, fields{{"Key", k}, {"Value", verbatim(p.tags[k])}})
	}
	return fields{
		{"InstanceProfileName", p.name},
		{"InstanceProfileId", p.id},
		{"Path", p.path},
		{"CreateDate", p.created},
		{"Arn", s.base.arn("iam", "instance-profile"+p.path+p.name)},
		{"Roles", roles},
		{"Tags", tags},
	}
}

func (s *iam) describeRole(name string) fields {
	return fields{
		{"RoleName", name},
		{"RoleId", "AROA" + strings.ToUpper(hashHex([]byte(name))[:16])},
		{"Path", "/"},
		{"CreateDate", s.prices.spot.start},
		{"Arn", s.base.arn("iam", "role/"+name)},
	}
}

func (s *iam) getProfile(c *call) (any, error) {
	p, err := s.profile(c)
	if err != nil {
		return nil, err
	}
	return fields{{"InstanceProfile", s.describeProfile(p)}}, nil
}

func (s *iam) createProfile(c *call) (any, error) {
	name := c.form.text("InstanceProfileName")
	if !regexp.MustCompile(`^[\w+=,.@-]{1,128}$`).MatchString(name) {
		return nil, fail("ValidationError", "The specified value for instanceProfileName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-")
	}
	if s.byName[name] != nil {
		return nil, &apiError{http.StatusConflict, "EntityAlreadyExists", "Instance Profile " + name + " already exists."}
	}
	tags := c.form.tags("Tags")
	if err := checkTags(tags); err != nil {
		return nil, fail("LimitExceeded", "%v", err)
	}
	keys := map[string]bool{}
	for key := range tags {
		if keys[strings.ToLower(key)] {
			return nil, fail("InvalidInput", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")
		}
		keys[strings.ToLower(key)] = true
	}
	p := &profile{
		name: name, path: orDefault(c.form.text("Path"), "/"), id: s.base.id("AIPA"), tags: tags, created: c.now, visible: s.base.visible(c.now),
	}
	s.byName[name] = p
	return fields{{"InstanceProfile", s.describeProfile(p)}}, nil
}

func (s *iam) addRole(c *call) (any, error) {
	p, err := s.profile(c)
	if err != nil {
		return nil, err
	}
	role := c.form.text("RoleName")
	if !s.roles[role] {
		return nil, &apiError{http.StatusNotFound, "NoSuchEntity", "The role with name " + role + " cannot be found."}
	}
	if p.role != "" {
		return nil, &apiError{http.StatusConflict, "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1"}
	}
	p.role = role
	return fields{}, nil
}

func (s *iam) removeRole(c *call) (any, error) {
	p, err := s.profile(c)
	if err != nil {
		return nil, err
	}
	if role := c.form.text("RoleName"); p.role != role {
		return nil, noEntity("Role", role)
	}
	p.role = ""
	return fields{}, nil
}

func (s *iam) deleteProfile(c *call) (any, error) {
	p, err := s.profile(c)
	if err != nil {
		return nil, err
	}
	if p.role != "" {
		return nil, &apiError{http.StatusConflict, "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first."}
	}
	delete(s.byName, p.name)
	return fields{}, nil
}

func (s *iam) tagProfile(c *call) (any, error) {
	p, err := s.profile(c)
	if err != nil {
		return nil, err
	}
	maps.Copy(p.tags, c.form.tags("Tags"))
	return fields{}, nil
}

func (s *iam) getRole(c *call) (any, error) {
	name := c.form.text("RoleName")
	if !s.roles[name] {
		return nil, &apiError{http.StatusNotFound, "NoSuchEntity", "The role with name " + name + " cannot be found."}
	}
	return fields{{"Role", s.describeRole(name)}}, nil
}

func (s *iam) listProfiles(c *call) (any, error) {
	prefix := orDefault(c.form.text("PathPrefix"), "/")
	var found []*profile
	for _, p := range s.byName {
		if strings.HasPrefix(p.path, prefix) {
			found = append(found, p)
		}
	}
	c.token = c.form.text("Marker")
	found, next, err := page(c, found, func(p *profile) string { return p.name }, c.form.number(100, "MaxItems"), 1000)
	if err != nil {
		return nil, err
	}
	var out members
	for _, p := range found {
		out = append(out, s.describeProfile(p))
	}
	return fields{{"InstanceProfiles", out}, {"IsTruncated", next != ""}, {"Marker", next}}, nil
}
