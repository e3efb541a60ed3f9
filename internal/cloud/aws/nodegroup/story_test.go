package nodegroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/class"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// TestStories prints what inventories become:
//
//	propose [families] [notes]    the manifests and notes; with notes, these alone
//	user-data                     what is left of user data
//	flags                         what is read of a command line
//
// Every manifest must be one that the controller accepts.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "user-data":
				own, notes := nodegroup.OwnUserData(d.Input + "\n")
				return own + strings.Join(append([]string{"--"}, notes...), "\n") + "\n"
			case "flags":
				var b strings.Builder
				for k, v := range nodegroup.ParseFlags(strings.Fields(d.Input)) {
					fmt.Fprintf(&b, "%s=%s\n", k, v)
				}
				lines := strings.SplitAfter(b.String(), "\n")
				slices.Sort(lines)
				return strings.Join(lines, "")
			case "status":
				groups, err := nodegroup.ParseStatus(d.Input)
				if err != nil {
					return err.Error() + "\n"
				}
				return fmt.Sprintf("%+v\n", groups)
			case "priorities":
				p, err := nodegroup.ParsePriorities(d.Input)
				if err != nil {
					return err.Error() + "\n"
				}
				return fmt.Sprintf("%v\n", p)
			default:
				return propose(t, d)
			}
		})
	})
}

func propose(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var in struct {
		nodegroup.Inventory
		// Tags of each group, as they are.
		AllTags map[string]map[string]string
	}
	if err := yaml.UnmarshalStrict([]byte(d.Input), &in); err != nil {
		d.Fatalf(t, "%v", err)
	}
	for i := range in.Groups {
		in.Groups[i].AddTags(in.AllTags[in.Groups[i].Name])
	}
	vocabulary := translate.NewVocabulary(ec2catalog.WellKnown(), []string{ec2catalog.Domain})
	p := nodegroup.Propose(&in.Inventory, nodegroup.Options{Families: d.HasArg("families"), CPU: cpus(t), Restricted: vocabulary.Restricted})
	var b strings.Builder
	for _, pool := range p.Pools {
		fmt.Fprintf(&b, "# %s for %s\n", pool.Name, strings.Join(pool.Groups, ", "))
		if !d.HasArg("notes") {
			b.WriteString(pool.Manifest)
		}
		accepted(t, d, pool.Manifest, vocabulary)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "! %s: %s\n", n.Group, n.Text)
	}
	return b.String()
}

// accepted fails the test if the controller would not accept a manifest, limits of 0 included.
func accepted(t *testing.T, d *datadriven.TestData, manifest string, vocabulary translate.Vocabulary) {
	t.Helper()
	pool, nodeClass, _ := strings.Cut(manifest, "\n---\n")
	np, c := &karpenterv1.NodePool{}, &awsv1.EC2NodeClass{}
	if err := yaml.UnmarshalStrict([]byte(pool), np); err != nil {
		d.Fatalf(t, "%v\n%s", err, pool)
	}
	if err := yaml.UnmarshalStrict([]byte(nodeClass), c); err != nil {
		d.Fatalf(t, "%v\n%s", err, nodeClass)
	}
	if err := translate.ValidatePool(np, vocabulary); err != nil {
		d.Fatalf(t, "NodePool: %v", err)
	}
	if cpu := np.Spec.Limits["cpu"]; !cpu.IsZero() || np.Spec.Template.Spec.NodeClassRef.Name != c.Name {
		d.Fatalf(t, "limits %v, class %s", np.Spec.Limits, c.Name)
	}
	if v := class.Validate(c, &class.Facts{}); v.Reason != "" && strings.Contains(v.Reason, "Invalid") {
		d.Fatalf(t, "EC2NodeClass: %+v", v)
	}
}

func cpus(t *testing.T) func(string) int {
	t.Helper()
	types, err := ec2catalog.Types()
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) int {
		for _, it := range types {
			if it.Name == name {
				return int(it.Capacity[quantity.CPU] / 1000)
			}
		}
		return 0
	}
}
