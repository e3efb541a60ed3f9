package convert

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// nodePool brings a NodePool of v1beta1, or one of v1 with fields of v1beta1, to v1.
func (c *converter) nodePool(o map[string]any) {
	o["apiVersion"], o["metadata"] = karpenterv1.GroupVersion.String(), metadata(o)
	c.classRef(o, "spec.template.spec.nodeClassRef")
	if old := take(o, "spec.disruption.expireAfter"); old != nil {
		const field = "spec.template.spec.expireAfter"
		if now := at(o, "spec", "template", "spec", "expireAfter"); now == nil || now == defaultExpireAfter {
			put(o, field, old)
			if old != karpenterv1.Never {
				c.note(Changed, field, "v1 removes nodes of this age whatever budgets allow; v1beta1 waited for budgets")
			}
		} else {
			c.note(Dropped, "spec.disruption.expireAfter", "%s is set, too: %v", field, now)
		}
	}
	const policy = "spec.disruption.consolidationPolicy"
	if at(o, "spec", "disruption", "consolidationPolicy") == "WhenUnderutilized" {
		put(o, policy, "WhenEmptyOrUnderutilized")
		if at(o, "spec", "disruption", "consolidateAfter") == nil {
			put(o, "spec.disruption.consolidateAfter", "0s")
		}
	}
}

// nodeClaim brings a NodeClaim of v1beta1 to v1.
func (c *converter) nodeClaim(o map[string]any) {
	o["apiVersion"] = karpenterv1.GroupVersion.String()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		take(o, "metadata."+field)
	}
	c.classRef(o, "spec.nodeClassRef")
	if at(o, "spec", "expireAfter") != nil {
		return
	}
	pool := text(at(o, "metadata", "labels", karpenterv1.NodePoolLabelKey))
	for _, made := range c.out.Objects {
		if made.version() == "karpenter.sh/v1 NodePool" && text(at(made.Content, "metadata", "name")) == pool {
			if after := at(made.Content, "spec", "template", "spec", "expireAfter"); after != nil {
				put(o, "spec.expireAfter", after)
				return
			}
		}
	}
	c.note(Guessed, "spec.expireAfter", "%s, the default: NodePool %s stands not before it and says nothing else", defaultExpireAfter, pool)
}

// classRef completes the reference to a node class at a dotted path.
func (c *converter) classRef(o map[string]any, field string) {
	var ref *karpenterv1.NodeClassReference
	if old, isMap := at(o, strings.Split(field, ".")...).(map[string]any); isMap {
		ref = &karpenterv1.NodeClassReference{Group: text(old["group"]), Kind: text(old["kind"]), Name: text(old["name"]), APIVersion: text(old["apiVersion"])}
	}
	full := Complete(ref, c.opts.Class)
	switch {
	case ref == nil:
		c.note(Guessed, field, "%s %s: there was none", full.Kind, full.Name)
	case full.Kind != ref.Kind || ref.Group == "" && ref.APIVersion == "":
		c.note(Guessed, field, "kind %s of group %s: it did not say", full.Kind, full.Group)
	}
	put(o, field, map[string]any{"group": full.Group, "kind": full.Kind, "name": full.Name})
}

// nodeClass brings an EC2NodeClass of v1beta1 to v1. It returns false if it cannot.
func (c *converter) nodeClass(o map[string]any) bool {
	version := text(at(o, "metadata", "annotations", aliasVersionAnnotation))
	if o["apiVersion"] != awsv1.GroupVersion.String() {
		put(o, "spec.metadataOptions", hops(at(o, "spec", "metadataOptions")))
	}
	o["apiVersion"], o["metadata"] = awsv1.GroupVersion.String(), metadata(o)
	return c.images(o, version)
}

// hops returns metadata options that say how many hops an answer survives. The default was 2 and is 1.
func hops(v any) any {
	options, isMap := v.(map[string]any)
	if !isMap {
		options = map[string]any{}
	}
	if options["httpPutResponseHopLimit"] == nil {
		options["httpPutResponseHopLimit"] = int64(2)
	}
	return options
}

// images brings the family and the images of an EC2NodeClass to v1. It returns false if it cannot.
func (c *converter) images(o map[string]any, aliasVersion string) bool {
	family := text(at(o, "spec", "amiFamily"))
	terms, _ := at(o, "spec", "amiSelectorTerms").([]any)
	switch {
	case family == ubuntu && len(terms) == 0:
		c.note(Refused, "spec.amiSelectorTerms", "no alias stands for the images of Ubuntu: name them, by id or by name and owner 099720109477")
		return false
	case family == "Custom" && len(terms) == 0:
		c.note(Refused, "spec.amiSelectorTerms", "family Custom has no image of its own: name them")
		return false
	case family == ubuntu:
		c.note(Changed, "spec.amiFamily", "AL2, whose user data Ubuntu's images understand")
	case family == "Custom":
		c.note(Changed, "spec.userData", "nodes have to register with the taint karpenter.sh/unregistered:NoExecute since v1")
	}
	var spec awsv1.EC2NodeClassSpec
	part := map[string]any{}
	for _, field := range []string{"amiFamily", "amiSelectorTerms", "blockDeviceMappings"} {
		put(part, field, at(o, "spec", field))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, &spec); err != nil {
		return true // strip says what is wrong
	}
	if !images(&spec, aliasVersion) {
		return true
	}
	now, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return true
	}
	for _, field := range []string{"amiFamily", "amiSelectorTerms", "blockDeviceMappings"} {
		take(o, "spec."+field)
		put(o, "spec."+field, now[field])
	}
	if alias := text(at(now, "amiSelectorTerms")); alias == "" && len(spec.AMISelectorTerms) == 1 && strings.HasPrefix(spec.AMISelectorTerms[0].Alias, "al2@") {
		c.note(Changed, "spec.amiSelectorTerms", "AL2 has no images for Kubernetes after 1.32: al2023@latest has, and takes other user data")
	}
	return true
}

const ubuntu = "Ubuntu"

// Class brings the fields that an EC2NodeClass still has of v1beta1 to v1: a family without images is
// its latest one, and Ubuntu is AL2 with another root volume.
func Class(c *awsv1.EC2NodeClass) { images(&c.Spec, c.Annotations[aliasVersionAnnotation]) }

// images reports whether it has changed something.
func images(spec *awsv1.EC2NodeClassSpec, aliasVersion string) bool {
	if spec.AMIFamily == nil {
		return false
	}
	switch family := *spec.AMIFamily; {
	case family == ubuntu:
		spec.AMIFamily = new("AL2")
		if len(spec.BlockDeviceMappings) == 0 {
			size := resource.MustParse("20Gi")
			spec.BlockDeviceMappings = []awsv1.BlockDeviceMapping{{DeviceName: new("/dev/sda1"), RootVolume: true, EBS: &awsv1.BlockDevice{
				Encrypted: new(true), VolumeType: new("gp3"), VolumeSize: &size,
			}}}
		}
		return true
	case family != "Custom" && len(spec.AMISelectorTerms) == 0:
		if aliasVersion == "" {
			aliasVersion = "latest"
		}
		spec.AMIFamily, spec.AMISelectorTerms = nil, []awsv1.AMISelectorTerm{{Alias: fmt.Sprintf("%s@%s", strings.ToLower(family), aliasVersion)}}
		return true
	default:
		return false
	}
}
