package awssim

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"time"
)

// userDataMax is the most that user data may hold, before base64.
const userDataMax = 16384

// tagsMax is how many tags a resource may have.
const tagsMax = 50

// templates has the launch templates.
type templates struct {
	base *base

	byID map[string]*template
}

// template is a launch template with its only version.
type template struct {
	id, name, token, request string
	created, visible         time.Time
	tags                     map[string]string
	data                     *form
	userData                 []byte
}

func (t *template) describe() fields {
	return fields{
		{"launchTemplateId", t.id},
		{"launchTemplateName", t.name},
		{"createTime", t.created},
		{"defaultVersionNumber", 1},
		{"latestVersionNumber", 1},
		{"tagSet", tagSet(t.tags)},
	}
}

func (s *templates) createTemplate(c *call) (any, error) {
	name, token := c.form.text("LaunchTemplateName"), c.form.text("ClientToken")
	if !regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`).MatchString(name) {
		return nil, fail("InvalidLaunchTemplateName.MalformedException", "A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and the following characters: ( ) . / _ -")
	}
	userData, err := decodeUserData(c.form.text("LaunchTemplateData", "UserData"))
	if err != nil {
		return nil, err
	}
	tags := c.form.tagsFor("launch-template")
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	request := c.form.String()
	for _, t := range s.byID {
		switch {
		case token != "" && t.token == token && t.request != request:
			return nil, fail("IdempotentParameterMismatch", "The client token you have provided is associated with a resource that does not match the parameters of this request")
		case token != "" && t.token == token:
			return fields{{"launchTemplate", t.describe()}}, nil
		case t.name == name:
			return nil, fail("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
		}
	}
	t := &template{
		id: s.base.id("lt"), name: name, token: token, request: request, created: c.now, visible: s.base.visible(c.now),
		tags: tags, data: c.form.at("LaunchTemplateData"), userData: userData,
	}
	s.byID[t.id] = t
	return fields{{"launchTemplate", t.describe()}}, nil
}

func decodeUserData(text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fail("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(b) > userDataMax {
		return nil, fail("InvalidUserData.Malformed", "User data is limited to %d bytes", userDataMax)
	}
	return b, nil
}

func (s *templates) deleteTemplate(c *call) (any, error) {
	t, err := s.template(c.form.at(), c.now)
	if err != nil {
		return nil, err
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	delete(s.byID, t.id)
	return fields{{"launchTemplate", t.describe()}}, nil
}

// template finds the one that a request names by id or by name.
func (s *templates) template(f *form, now time.Time) (*template, error) {
	if id := f.text("LaunchTemplateId"); id != "" {
		if t := s.byID[id]; t != nil && !t.visible.After(now) {
			return t, nil
		}
		return nil, fail("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	}
	name := f.text("LaunchTemplateName")
	if name == "" {
		return nil, fail("MissingParameter", "The request must contain the parameter LaunchTemplateId or LaunchTemplateName")
	}
	for _, t := range s.byID {
		if t.name == name && !t.visible.After(now) {
			return t, nil
		}
	}
	return nil, fail("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist.")
}

func (s *templates) describeTemplates(c *call) (any, error) {
	var all []*template
	for _, key := range []string{"LaunchTemplateId", "LaunchTemplateName"} {
		for _, v := range c.form.texts(key) {
			t, err := s.template(&form{children: map[string]*form{key: {value: v}}}, c.now)
			if err != nil {
				return nil, err
			}
			all = append(all, t)
		}
	}
	if !c.form.isSet("LaunchTemplateId") && !c.form.isSet("LaunchTemplateName") {
		all = slices.DeleteFunc(slices.Collect(maps.Values(s.byID)), func(t *template) bool { return t.visible.After(c.now) })
	}
	return describeAll(c, "launchTemplates", 200, all, described[*template]{
		key: func(t *template) string { return t.id }, tags: func(t *template) map[string]string { return t.tags }, write: (*template).describe,
		property: func(t *template, filter string) ([]string, bool) {
			switch filter {
			case "launch-template-name":
				return only(t.name)
			case "create-time":
				return only(stamp(t.created))
			default:
				return nil, false
			}
		},
	})
}

// deleteTemplates deletes launch templates, as a person may do by mistake.
func (s *templates) deleteTemplates(f *Fault, _ time.Time) {
	maps.DeleteFunc(s.byID, func(_ string, t *template) bool { return matches(f.Target, t.name) })
}

func checkTags(tags map[string]string) error {
	if len(tags) > tagsMax {
		return fail("TagLimitExceeded", "The maximum number of tags for a resource is %d", tagsMax)
	}
	for k, v := range tags {
		if k == "" || len(k) > 128 || len(v) > 256 || len(k) >= 4 && k[:4] == "aws:" {
			return fail("InvalidParameterValue", "Tag key '%s' is not valid: keys have 1 to 128 characters and do not begin with aws:, values have at most 256", k)
		}
	}
	return nil
}

func checkCount(tags map[string]string) error {
	n := 0
	for k := range tags {
		if len(k) < 4 || k[:4] != "aws:" {
			n++
		}
	}
	if n > tagsMax {
		return fail("TagLimitExceeded", "The maximum number of tags for a resource is %d", tagsMax)
	}
	return nil
}
