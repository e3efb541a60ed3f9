package convert

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// NodeRolePlaceholder stands for a role that nobody has named.
const NodeRolePlaceholder = "$KARPENTER_NODE_ROLE"

// provisioner returns the NodePool that a Provisioner is now, and the EC2NodeClass if it has one in it.
func (c *converter) provisioner(o map[string]any) []map[string]any {
	spec, _ := o["spec"].(map[string]any)
	pool := map[string]any{"apiVersion": karpenterv1.GroupVersion.String(), "kind": "NodePool", "metadata": metadata(o)}
	name := text(at(pool, "metadata", "name"))
	moveAll(spec, pool, []move{
		{"labels", "spec.template.metadata.labels"},
		{"annotations", "spec.template.metadata.annotations"},
		{"taints", "spec.template.spec.taints"},
		{"startupTaints", "spec.template.spec.startupTaints"},
		{"kubeletConfiguration", "spec.template.spec.kubelet"},
		{"limits.resources", "spec.limits"},
		{"weight", "spec.weight"},
	})
	requirements, _ := take(spec, "requirements").([]any)
	labels, _ := at(pool, "spec", "template", "metadata", "labels").(map[string]any)
	put(pool, "spec.template.spec.requirements", c.requirements(requirements, labels))
	if take(pool, "spec.template.spec.kubelet.containerRuntime") != nil {
		c.note(Dropped, "spec.kubeletConfiguration.containerRuntime", "%s", advice("containerRuntime"))
	}
	made := []map[string]any{pool}
	inline, hasInline := take(spec, "provider").(map[string]any)
	ref, _ := take(spec, "providerRef").(map[string]any)
	switch {
	case hasInline:
		take(inline, "apiVersion")
		take(inline, "kind")
		class := c.template(name, inline, "spec.provider")
		if class == nil {
			return nil
		}
		made = append(made, class)
	case text(ref["name"]) != "":
		name = text(ref["name"])
	default:
		name = DefaultClass
		c.note(Guessed, "spec.template.spec.nodeClassRef", "EC2NodeClass %s: there was neither providerRef nor provider", name)
	}
	put(pool, "spec.template.spec.nodeClassRef", map[string]any{"group": awsv1.Group, "kind": "EC2NodeClass", "name": name})
	c.disruption(spec, pool)
	c.rest("spec", spec)
	return made
}

// disruption says in a pool's words when a Provisioner removes nodes.
func (c *converter) disruption(spec, pool map[string]any) {
	policy, after := "WhenEmpty", any(karpenterv1.Never)
	enabled, empty := take(spec, "consolidation.enabled"), take(spec, "ttlSecondsAfterEmpty")
	switch {
	case enabled == true:
		policy, after = "WhenEmptyOrUnderutilized", "0s"
		if empty != nil {
			c.note(Dropped, "spec.ttlSecondsAfterEmpty", "consolidation is on, which removes empty nodes, too")
		}
	case empty != nil:
		after = seconds(empty)
	default:
		c.note(Changed, "spec.disruption", "consolidateAfter Never: neither consolidation nor ttlSecondsAfterEmpty was set, and v1's default is to consolidate")
	}
	put(pool, "spec.disruption.consolidationPolicy", policy)
	put(pool, "spec.disruption.consolidateAfter", after)
	if expires := take(spec, "ttlSecondsUntilExpired"); expires != nil {
		put(pool, "spec.template.spec.expireAfter", seconds(expires))
		c.note(Changed, "spec.template.spec.expireAfter", "v1 removes nodes of this age whatever budgets allow")
	} else {
		put(pool, "spec.template.spec.expireAfter", karpenterv1.Never)
	}
}

// provisionerDefaults are the requirements that a webhook gave every Provisioner without its own.
func provisionerDefaults() []karpenterv1.NodeSelectorRequirementWithMinValues {
	in := func(key string, values ...string) karpenterv1.NodeSelectorRequirementWithMinValues {
		return karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	return []karpenterv1.NodeSelectorRequirementWithMinValues{
		in(corev1.LabelOSStable, "linux"), in(corev1.LabelArchStable, karpenterv1.ArchitectureAmd64), in(karpenterv1.CapacityTypeLabelKey, karpenterv1.CapacityTypeOnDemand),
		in(awsv1.LabelInstanceCategory, "c", "m", "r"),
		{Key: awsv1.LabelInstanceGeneration, Operator: corev1.NodeSelectorOpGt, Values: []string{"2"}},
	}
}

// requirements returns those of a pool: its own, in today's words, and those that it had by default.
func (c *converter) requirements(own []any, labels map[string]any) []any {
	has := map[string]bool{}
	for key := range labels {
		has[key] = true
	}
	all := []any{}
	for _, r := range own {
		if m, isMap := r.(map[string]any); isMap {
			if m["key"] == olderPoolLabel {
				m["key"] = karpenterv1.NodePoolLabelKey
			}
			has[text(m["key"])] = true
		}
		all = append(all, r)
	}
	if c.opts.IgnoreDefaults {
		return all
	}
	typed := has[corev1.LabelInstanceTypeStable] || has[awsv1.LabelInstanceFamily] || has[awsv1.LabelInstanceCategory] || has[awsv1.LabelInstanceGeneration]
	for _, r := range provisionerDefaults() {
		ofType := r.Key == awsv1.LabelInstanceCategory || r.Key == awsv1.LabelInstanceGeneration
		if has[r.Key] || ofType && typed {
			continue
		}
		values := make([]any, len(r.Values))
		for i, v := range r.Values {
			values[i] = v
		}
		all = append(all, map[string]any{"key": r.Key, "operator": string(r.Operator), "values": values})
		c.note(Guessed, "spec.template.spec.requirements", "%s %s %s, which every Provisioner had unless it said otherwise; --ignore-defaults leaves it out", r.Key, r.Operator, strings.Join(r.Values, ", "))
	}
	return all
}

// machine returns the NodeClaim that a Machine is now.
func (c *converter) machine(o map[string]any) map[string]any {
	o["apiVersion"], o["kind"] = karpenterv1.GroupVersion.String(), "NodeClaim"
	if labels, isMap := at(o, "metadata", "labels").(map[string]any); isMap {
		renamed(labels)
	}
	annotations, _ := at(o, "metadata", "annotations").(map[string]any)
	for older, newer := range map[string]string{
		"karpenter.sh/provisioner-hash": karpenterv1.NodePoolHashAnnotationKey, "karpenter.k8s.aws/nodetemplate-hash": awsv1.AnnotationHash,
		"karpenter.sh/managed-by": "", "karpenter.sh/linked": "",
	} {
		v, has := annotations[older]
		delete(annotations, older)
		if has && newer != "" {
			annotations[newer] = v
		}
	}
	ref, _ := take(o, "spec.machineTemplateRef").(map[string]any)
	put(o, "spec.nodeClassRef", map[string]any{"group": awsv1.Group, "kind": "EC2NodeClass", "name": text(ref["name"])})
	conditions, _ := at(o, "status", "conditions").([]any)
	for _, condition := range conditions {
		if m, isMap := condition.(map[string]any); isMap {
			m["type"] = strings.TrimPrefix(text(m["type"]), "Machine")
		}
	}
	requirements, _ := at(o, "spec", "requirements").([]any)
	for _, r := range requirements {
		if m, isMap := r.(map[string]any); isMap && m["key"] == olderPoolLabel {
			m["key"] = karpenterv1.NodePoolLabelKey
		}
	}
	c.nodeClaim(o)
	return o
}

// nodeTemplate returns the EC2NodeClass that an AWSNodeTemplate is now; none if there can be none.
func (c *converter) nodeTemplate(o map[string]any) []map[string]any {
	spec, _ := o["spec"].(map[string]any)
	class := c.template(text(at(o, "metadata", "name")), spec, "spec")
	if class == nil {
		return nil
	}
	class["metadata"] = metadata(o)
	return []map[string]any{class}
}

// template returns the EC2NodeClass that the spec of an AWSNodeTemplate is now; nil if there can be none.
func (c *converter) template(name string, spec map[string]any, prefix string) map[string]any {
	if spec["launchTemplate"] != nil {
		c.note(Refused, prefix+".launchTemplate", "v1 makes launch templates of its own: write what yours has into userData, blockDeviceMappings, metadataOptions and the selector terms")
		return nil
	}
	class := map[string]any{"apiVersion": awsv1.GroupVersion.String(), "kind": "EC2NodeClass", "metadata": map[string]any{"name": name}}
	moves := []move{}
	for _, same := range []string{"userData", "tags", "context", "detailedMonitoring", "blockDeviceMappings", "instanceProfile", "amiFamily"} {
		moves = append(moves, move{same, "spec." + same})
	}
	moveAll(spec, class, moves)
	put(class, "spec.metadataOptions", hops(take(spec, "metadataOptions")))
	put(class, "spec.subnetSelectorTerms", c.terms(take(spec, "subnetSelector"), prefix+".subnetSelector"))
	put(class, "spec.securityGroupSelectorTerms", c.terms(take(spec, "securityGroupSelector"), prefix+".securityGroupSelector"))
	put(class, "spec.amiSelectorTerms", c.terms(take(spec, "amiSelector"), prefix+".amiSelector"))
	if at(class, "spec", "amiSelectorTerms") != nil {
		c.note(Changed, "spec.amiSelectorTerms", "tags of images no longer say which instance types they are for: the newest image of an architecture is taken")
	}
	if at(class, "spec", "amiFamily") == nil {
		put(class, "spec.amiFamily", "AL2")
		c.note(Guessed, "spec.amiFamily", "AL2, which was the default")
	}
	if at(class, "spec", "instanceProfile") == nil {
		role := c.opts.NodeRole
		if role == "" {
			role = NodeRolePlaceholder
			c.note(Guessed, "spec.role", "%s stands for the role of the nodes, which was a setting of the controller: write it, or give --node-role", role)
		}
		put(class, "spec.role", role)
	}
	c.rest(prefix, spec)
	if !c.images(class, "") {
		return nil
	}
	return class
}

// terms returns the selector terms that a selector is now.
func (c *converter) terms(v any, field string) any {
	selector, _ := v.(map[string]any)
	if len(selector) == 0 {
		return nil
	}
	var ids, names, owners []string
	tags := []map[string]any{{}}
	hasTags := false
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		value := text(selector[key])
		switch key {
		case "aws-ids", "aws::ids":
			ids = append(ids, words(value)...)
		case "aws::name":
			names = words(value)
		case "aws::owners":
			owners = words(value)
		default:
			hasTags = true
			tags = c.crossed(tags, key, value, field)
		}
	}
	terms := []any{}
	if len(ids) > 0 {
		for _, id := range ids {
			terms = append(terms, map[string]any{"id": id})
		}
		if hasTags || len(names)+len(owners) > 0 {
			c.note(Dropped, field, "a term with an id has nothing else: names, owners and tags beside the ids are left out")
		}
		return terms
	}
	for _, owner := range orNone(owners) {
		for _, name := range orNone(names) {
			for _, set := range tags {
				term := map[string]any{}
				if owner != "" {
					term["owner"] = owner
				}
				if name != "" {
					term["name"] = name
				}
				if hasTags {
					term["tags"] = maps.Clone(set)
				}
				terms = append(terms, term)
			}
		}
	}
	return terms
}

func orNone(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

// crossed returns each set of tags with each value of a comma-separated list.
func (c *converter) crossed(sets []map[string]any, key, list, field string) []map[string]any {
	values := words(list)
	if len(values) == 0 {
		values = []string{"*"}
		c.note(Guessed, field+"."+key, "'*', any value: it was empty")
	}
	var all []map[string]any
	for _, set := range sets {
		for _, value := range values {
			next := maps.Clone(set)
			next[key] = value
			all = append(all, next)
		}
	}
	return all
}
