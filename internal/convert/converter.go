package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// olderPoolLabel is what karpenter.sh/nodepool was before v1beta1.
const olderPoolLabel = karpenterv1.Group + "/provisioner-name"

// aliasVersionAnnotation says on an EC2NodeClass of v1beta1 which version the alias of its family has.
const aliasVersionAnnotation = "compatibility.karpenter.k8s.aws/v1-alias-version"

// Kinds of notes.
const (
	// Guessed: the older object does not say it; the reader may know better.
	Guessed = "guessed"
	// Dropped: nothing takes the field's place.
	Dropped = "dropped"
	// Changed: the same is said, and means something else in v1.
	Changed = "changed"
	// Refused: the object cannot be converted, and was left out.
	Refused = "refused"
)

// Note is something that the reader of a converted manifest has to know.
type Note struct{ Object, Kind, Field, Text string }

// String returns the note as one line.
func (n Note) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", n.Object, n.Kind, n.Field, n.Text)
}

// Options say how to convert.
type Options struct {
	// Class is the kind of node class that references without a kind mean.
	Class schema.GroupVersionKind
	// IgnoreDefaults: leave out the requirements that a webhook gave every Provisioner.
	IgnoreDefaults bool
	// NodeRole is the IAM role of the nodes of an AWSNodeTemplate that names no instance profile.
	NodeRole string
}

// Result is what became of objects.
type Result struct {
	Objects []Object
	Notes   []Note
}

// Has reports whether there is a note of a kind.
func (r *Result) Has(kind string) bool {
	for _, n := range r.Notes {
		if n.Kind == kind {
			return true
		}
	}
	return false
}

// converter is one run.
type converter struct {
	opts  Options
	out   Result
	about string // the object that is being converted
}

func (c *converter) note(kind, field, format string, args ...any) {
	c.out.Notes = append(c.out.Notes, Note{c.about, kind, field, fmt.Sprintf(format, args...)})
}

// strip removes the fields that v1 does not know, and says where the words of tutorials belong.
func (c *converter) strip(o map[string]any) error {
	var into any
	switch text(o["kind"]) {
	case "NodePool":
		into = &karpenterv1.NodePool{}
	case "NodeClaim":
		into = &karpenterv1.NodeClaim{}
	case "EC2NodeClass":
		into = &awsv1.EC2NodeClass{}
	default:
		return nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return err
	}
	var wrong []error
	for _, e := range unknown {
		_, field, ok := strings.Cut(e.Error(), `unknown field "`)
		field = strings.TrimSuffix(field, `"`)
		if !ok {
			wrong = append(wrong, e)
			continue
		}
		remove(o, field)
		c.note(Dropped, field, "%s", advice(field))
	}
	return errors.Join(wrong...)
}

// advices say where something belongs that people write into NodePools and Provisioners, by a part of
// the field.
var advices = map[string]string{ //nolint:gochecknoglobals // a constant that Go cannot spell
	"capacityType":           "write a requirement on karpenter.sh/capacity-type; the share of on-demand nodes is no field of a NodePool",
	"zoneSpread":             "write topologySpreadConstraints into the pods, or a requirement on topology.kubernetes.io/zone",
	"instanceOS":             "write amiSelectorTerms with an alias into the EC2NodeClass, as in bottlerocket@latest, or a requirement on kubernetes.io/os",
	"instanceTypes":          "write a requirement on node.kubernetes.io/instance-type",
	"kmsKeyID":               "write blockDeviceMappings[].ebs.kmsKeyID into the EC2NodeClass",
	"kmsKeyId":               "write blockDeviceMappings[].ebs.kmsKeyID into the EC2NodeClass",
	"securityGroups":         "write securityGroupSelectorTerms into the EC2NodeClass",
	"securityGroupSelector":  "write securityGroupSelectorTerms into the EC2NodeClass",
	"subnetSelector":         "write subnetSelectorTerms into the EC2NodeClass",
	"spotInterruptionQueue":  "set --interruption-queue or the value settings.interruptionQueue",
	"interruptionQueue":      "set --interruption-queue or the value settings.interruptionQueue",
	"kubelet":                "a Provisioner has kubeletConfiguration; v1 has kubelet in the EC2NodeClass",
	"ttlSecondsAfterEmpty":   "write spec.disruption.consolidationPolicy WhenEmpty with consolidateAfter",
	"ttlAfterEmpty":          "a Provisioner has ttlSecondsAfterEmpty; v1 has spec.disruption.consolidationPolicy WhenEmpty with consolidateAfter",
	"ttlSecondsUntilExpired": "write spec.template.spec.expireAfter",
	"consolidation":          "write spec.disruption.consolidationPolicy",
	"resources":              "a NodePool launches for what pods ask for; limits are spec.limits",
	"containerRuntime":       "the image decides it",
}

func advice(field string) string {
	for step := range strings.SplitSeq(field, ".") {
		if why, ok := advices[step]; ok {
			return why
		}
	}
	return "no such field in v1"
}

// rest says what is left of an older object whose fields have been taken out.
func (c *converter) rest(prefix string, left any) {
	if m, isMap := left.(map[string]any); left == nil || isMap && len(m) == 0 {
		return
	}
	for _, field := range leaves(prefix, left) {
		c.note(Dropped, field, "%s", advice(field))
	}
}

// metadata returns what a new object has of the metadata of an old one.
func metadata(o map[string]any) map[string]any {
	old, _ := o["metadata"].(map[string]any)
	clean := map[string]any{}
	for _, field := range []string{"name", "generateName", "labels", "annotations"} {
		put(clean, field, old[field])
	}
	annotations, _ := clean["annotations"].(map[string]any)
	for _, key := range []string{
		"kubectl.kubernetes.io/last-applied-configuration", "karpenter.sh/stored-version-migrated", "karpenter.sh/provisioner-hash",
		"karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version",
		"karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version", "karpenter.k8s.aws/nodetemplate-hash",
		"compatibility.karpenter.sh/v1beta1-nodeclass-reference", aliasVersionAnnotation,
	} {
		delete(annotations, key)
	}
	if len(annotations) == 0 {
		delete(clean, "annotations")
	}
	return clean
}

// renamed replaces the older name of the pool's label.
func renamed(m map[string]any) {
	if v, has := m[olderPoolLabel]; has {
		delete(m, olderPoolLabel)
		maps.Copy(m, map[string]any{karpenterv1.NodePoolLabelKey: v})
	}
}
