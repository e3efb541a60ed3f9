package awssim

// ssm is the Parameter Store.
type ssm struct {
	base *base

	values map[string]string
}

func (s *ssm) getParameter(c *call) (any, error) {
	name, _ := c.doc["Name"].(string)
	value, ok := s.values[name]
	if !ok {
		return nil, fail("ParameterNotFound", "The parameter %s does not exist.", name)
	}
	return map[string]any{"Parameter": map[string]any{
		"Name": name, "Type": "String", "Value": value, "Version": 1, "DataType": "text",
		"ARN": s.base.arn("ssm", "parameter"+name),
	}}, nil
}
