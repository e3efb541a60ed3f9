package class_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/class"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
)

// classOf returns a class with a spec in YAML and all that it selects found.
func classOf(t testing.TB, spec string) *awsv1.EC2NodeClass {
	t.Helper()
	c := &awsv1.EC2NodeClass{}
	if err := yaml.UnmarshalStrict([]byte("spec: "+spec), c); err != nil {
		t.Fatal(err)
	}
	for _, condition := range []string{"AMIsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady"} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
	}
	return c
}

// manyTags returns so many tags, as YAML.
func manyTags(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("team-%d: web", i))
	}
	return strings.Join(out, ", ")
}

const base = `{role: node, amiSelectorTerms: [{alias: al2023@latest}], tags: {a: b}, userData: echo,
	blockDeviceMappings: [{deviceName: /dev/a, ebs: {volumeSize: 20Gi}}, {deviceName: /dev/b, ebs: {volumeSize: 1024Gi}}]}`

// TestHash changes a class in one way at a time.
func TestHash(t *testing.T) {
	t.Parallel()
	first := class.Hash(classOf(t, base), "ca")
	for name, tc := range map[string]struct {
		was, is string
		same    bool
	}{
		"nothing":                              {same: true},
		"the family, as the alias has it":      {was: "{role", is: "{amiFamily: AL2023, role", same: true},
		"another family":                       {was: "{role", is: "{amiFamily: Custom, role"},
		"the version of the alias":             {was: "al2023@latest", is: "al2023@v20250101", same: true},
		"subnets":                              {was: "{role", is: "{subnetSelectorTerms: [{id: subnet-1}], role", same: true},
		"security groups":                      {was: "{role", is: "{securityGroupSelectorTerms: [{id: sg-1}], role", same: true},
		"reservations":                         {was: "{role", is: "{capacityReservationSelectorTerms: [{id: cr-1}], role", same: true},
		"prefixes":                             {was: "{role", is: "{ipPrefixCount: 1, role", same: true},
		"what is off anyway":                   {was: "{role", is: "{detailedMonitoring: false, metadataOptions: {}, role", same: true},
		"an empty kubelet":                     {was: "{role", is: "{kubelet: {}, role", same: true},
		"monitoring":                           {was: "{role", is: "{detailedMonitoring: true, role"},
		"the placement group":                  {was: "{role", is: "{placementGroupSelector: {name: a}, role"},
		"the role":                             {was: "role: node", is: "role: other"},
		"a profile in place of the role":       {was: "role: node", is: "instanceProfile: node"},
		"a tag":                                {was: "a: b", is: "a: c"},
		"the key of a tag":                     {was: "a: b", is: "b: b"},
		"user data":                            {was: "echo", is: "echo 1"},
		"the size of a volume":                 {was: "20Gi", is: "21Gi"},
		"the size of a volume, in other words": {was: "1024Gi", is: "1Ti", same: true},
		"which volume is which":                {was: "/dev/a", is: "/dev/c"},
		"the kubelet":                          {was: "{role", is: "{kubelet: {cpuCFSQuota: false}, role"},
		"the token":                            {was: "{role", is: "{metadataOptions: {httpTokens: optional}, role"},
		"the order of volumes": {
			was: "{deviceName: /dev/a, ebs: {volumeSize: 20Gi}}, {deviceName: /dev/b, ebs: {volumeSize: 1024Gi}}",
			is:  "{deviceName: /dev/b, ebs: {volumeSize: 1024Gi}}, {deviceName: /dev/a, ebs: {volumeSize: 20Gi}}", same: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := class.Hash(classOf(t, strings.Replace(base, tc.was, tc.is, 1)), "ca")
			if (got == first) != tc.same {
				t.Errorf("Hash() is the same: %t, want %t", got == first, tc.same)
			}
		})
	}
	if class.Hash(classOf(t, base), "other") == first {
		t.Error("another certificate of the cluster makes no difference")
	}
	one := class.Hash(classOf(t, "{kubelet: {cpuCFSQuota: false}}"), "")
	if one == class.Hash(classOf(t, "{kubelet: {cpuCFSQuota: true}}"), "") {
		t.Error("the kubelet's false and true are the same")
	}
}

// TestHashIsForGood: the hash is on instances of clusters that run. Who changes it without
// a new awsv1.HashVersion replaces them all.
func TestHashIsForGood(t *testing.T) {
	t.Parallel()
	const want = "7082203085058880481"
	if got := class.Hash(classOf(t, base), "ca"); got != want || awsv1.HashVersion != "dovetail-v1" {
		t.Errorf("Hash() = %s at %s, want %s", got, awsv1.HashVersion, want)
	}
}

// TestEveryFieldIsInTheHashOrNot makes whoever adds a field say which.
func TestEveryFieldIsInTheHashOrNot(t *testing.T) {
	t.Parallel()
	known := strings.Fields(`subnetSelectorTerms securityGroupSelectorTerms capacityReservationSelectorTerms placementGroupSelector
		associatePublicIPAddress ipPrefixCount amiSelectorTerms amiFamily userData role instanceProfile tags kubelet blockDeviceMappings
		instanceStorePolicy networkInterfaces detailedMonitoring metadataOptions connectionTracking context cpuOptions enclaveOptions`)
	spec := reflect.TypeFor[awsv1.EC2NodeClassSpec]()
	if spec.NumField() != len(known) {
		t.Errorf("the spec has %d fields, %d are known: does the new one belong into the hash, with a new awsv1.HashVersion or left out if it is not set?", spec.NumField(), len(known))
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*class.Instance, *class.Now)
		want   string
	}{
		"as it would be launched":            {change: func(*class.Instance, *class.Now) {}},
		"another class":                      {change: func(m *class.Instance, _ *class.Now) { m.Hash = "2" }, want: "NodeClassDrift"},
		"launched by another implementation": {change: func(m *class.Instance, _ *class.Now) { m.Hash, m.HashVersion = "2", "v6" }},
		"launched with a hash not known":     {change: func(m *class.Instance, _ *class.Now) { m.Hash = "" }},
		"another image":                      {change: func(_ *class.Instance, n *class.Now) { n.ImageID = "ami-2" }, want: "AMIDrift"},
		"no image any more":                  {change: func(_ *class.Instance, n *class.Now) { n.ImageID = "" }, want: "AMIDrift"},
		"a security group less":              {change: func(m *class.Instance, _ *class.Now) { m.SecurityGroups = []string{"sg-1"} }, want: "SecurityGroupDrift"},
		"a security group more":              {change: func(m *class.Instance, _ *class.Now) { m.SecurityGroups = []string{"sg-1", "sg-2", "sg-3"} }, want: "SecurityGroupDrift"},
		"groups in another order":            {change: func(m *class.Instance, _ *class.Now) { m.SecurityGroups = []string{"sg-2", "sg-1"} }},
		"another subnet":                     {change: func(m *class.Instance, _ *class.Now) { m.SubnetID = "subnet-2" }, want: "SubnetDrift"},
		"a reservation of the class":         {change: func(m *class.Instance, _ *class.Now) { m.Reservation = "cr-1" }},
		"a reservation of nobody":            {change: func(m *class.Instance, _ *class.Now) { m.Reservation = "cr-2" }, want: "CapacityReservationDrift"},
		"another placement group":            {change: func(_ *class.Instance, n *class.Now) { n.PlacementGroup = "pg-1" }, want: "PlacementGroupDrift"},
		"several at once: the first": {change: func(m *class.Instance, n *class.Now) {
			n.PlacementGroup, m.SubnetID, m.SecurityGroups = "pg-1", "subnet-2", nil
		}, want: "SecurityGroupDrift"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := classOf(t, base)
			c.Status.Subnets = []awsv1.Subnet{{ID: "subnet-1"}}
			c.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}}
			c.Status.CapacityReservations = []awsv1.CapacityReservation{{ID: "cr-1"}}
			m := &class.Instance{Hash: "1", HashVersion: awsv1.HashVersion, ImageID: "ami-1", SubnetID: "subnet-1", SecurityGroups: []string{"sg-1", "sg-2"}}
			now := &class.Now{Hash: "1", ImageID: "ami-1"}
			tc.change(m, now)
			if got := class.Drift(c, m, now); got != tc.want {
				t.Errorf("Drift() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	const images = "amiSelectorTerms: [{alias: al2023@latest}], "
	types := []kubelet.InstanceType{{Type: "m5.large", VCPUs: 2, Pods: 29}, {Type: "t3.nano", VCPUs: 1, Pods: 4}}
	unready := func(condition string, status metav1.ConditionStatus) func(*awsv1.EC2NodeClass, *class.Facts) {
		return func(c *awsv1.EC2NodeClass, _ *class.Facts) {
			for i := range c.Status.Conditions {
				if c.Status.Conditions[i].Type == condition {
					c.Status.Conditions[i].Status = status
				}
			}
		}
	}
	shares := func(mode string, gate bool) func(*awsv1.EC2NodeClass, *class.Facts) {
		return func(c *awsv1.EC2NodeClass, f *class.Facts) {
			c.Annotations, f.NVIDIADevices = map[string]string{awsv1.AnnotationNVIDIASharing: mode}, gate
		}
	}
	for name, tc := range map[string]struct {
		spec             string
		change           func(*awsv1.EC2NodeClass, *class.Facts)
		want             string // reason: message
		unknown, settled bool
	}{
		"nothing is wrong":                   {spec: "{" + images + "kubelet: {maxPods: 'vcpus * 8'}, tags: {team: web, kubernetes.io/cluster-x: y}}"},
		"the range of services is not known": {spec: "{" + images + "}", change: func(_ *awsv1.EC2NodeClass, f *class.Facts) { f.CIDR, f.CIDRError = "", errors.New("denied") }, want: "ClusterCIDRResolutionFailed: the range of the cluster's services is not known: denied"},
		"which other families do not need":   {spec: "{amiFamily: AL2}", change: func(_ *awsv1.EC2NodeClass, f *class.Facts) { f.CIDR = "" }},
		"a kubelet that is not one":          {spec: "{" + images + "kubelet: {maxPod: 3}}", want: `InvalidKubeletConfiguration: spec.kubelet: unknown field "maxPod"`, settled: true},
		"an expression without the gate":     {spec: "{" + images + "kubelet: {maxPods: vcpus}}", change: func(_ *awsv1.EC2NodeClass, f *class.Facts) { f.Expressions = false }, want: "KubeletExpressionsDisabled: spec.kubelet has expressions; they need the feature gate NodeClassCEL", settled: true},
		"an expression that is not one":      {spec: "{" + images + "kubelet: {maxPods: instance_type}}", want: `KubeletExpressionInvalid: spec.kubelet.maxPods: expression "instance_type": gives a string`, settled: true},
		"a kubelet of another family":        {spec: "{amiFamily: AL2, kubelet: {serializeImagePulls: false}}", want: "UnsupportedKubeletConfiguration: spec.kubelet.serializeImagePulls: family AL2 cannot set it", settled: true},
		"user data that cannot be read":      {spec: "{amiFamily: Bottlerocket, userData: not toml}", want: "InvalidUserData: spec.userData: not TOML", settled: true},
		"GPUs shared in a way that is none":  {spec: "{" + images + "}", change: shares("0", true), want: `NVIDIAConsumableCapacityInvalid: karpenter.k8s.aws/nvidia-consumable-capacity: "0" is none of disabled,`, settled: true},
		"GPUs shared without the gate":       {spec: "{" + images + "}", change: shares("memory", false), want: "DRADisabled: karpenter.k8s.aws/nvidia-consumable-capacity needs the feature gate DRANVIDIAGPU", settled: true},
		"GPUs shared":                        {spec: "{" + images + "}", change: shares("4", true)},
		"GPUs not shared, without the gate":  {spec: "{" + images + "}", change: shares("disabled", false)},
		"no subnet, and no image yet": {spec: "{" + images + "}", change: func(c *awsv1.EC2NodeClass, f *class.Facts) {
			unready("SubnetsReady", "False")(c, f)
			unready("AMIsReady", "Unknown")(c, f)
		}, want: "DependenciesNotReady: not true: SubnetsReady"},
		"no image yet":                        {spec: "{" + images + "}", change: unready("AMIsReady", "Unknown"), want: "DependenciesNotReady: not known yet: AMIsReady", unknown: true},
		"no type is known":                    {spec: "{" + images + "kubelet: {maxPods: vcpus}}", change: func(_ *awsv1.EC2NodeClass, f *class.Facts) { f.InstanceTypes = nil }, want: "InstanceTypesNotKnown: ", unknown: true},
		"an expression that fails for a type": {spec: "{" + images + "kubelet: {maxPods: '1 / (vcpus - 1)'}}", want: "KubeletExpressionEvaluationFailed: spec.kubelet.maxPods on t3.nano: division by zero"},
		"a tag that is ours":                  {spec: "{" + images + "tags: {karpenter.sh/nodepool: a}}", want: `TagValidationFailed: spec.tags: "karpenter.sh/nodepool" is not yours to set; take it out`, settled: true},
		"a tag of another cluster":            {spec: "{" + images + "tags: {kubernetes.io/cluster/other: owned}}", want: `TagValidationFailed: spec.tags: "kubernetes.io/cluster/other" is not yours`, settled: true},
		"more tags than there is room for":    {spec: "{" + images + "tags: {" + manyTags(42) + "}}", want: "TagValidationFailed: spec.tags: EC2 takes 50 tags, and 9 are ours: take out 1 of your 42", settled: true},
		"as many tags as there is room for":   {spec: "{" + images + "tags: {" + manyTags(41) + "}}"},
		"a name takes the place of ours":      {spec: "{" + images + "tags: {Name: web, " + manyTags(41) + "}}"},
		"several at once: the first":          {spec: "{" + images + "kubelet: {maxPod: 3}, tags: {karpenter.sh/nodepool: a}}", want: "InvalidKubeletConfiguration: ", settled: true},
		"Custom takes anything":               {spec: "{amiFamily: Custom, kubelet: {serializeImagePulls: false}, userData: 'MIME-Version: what'}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := classOf(t, tc.spec)
			facts := &class.Facts{CIDR: "10.100.0.0/16", Expressions: true, InstanceTypes: types}
			if tc.change != nil {
				tc.change(c, facts)
			}
			got := class.Validate(c, facts)
			text := got.Reason + ": " + got.Message
			if tc.want == "" && got != (class.Verdict{}) || !strings.HasPrefix(text, tc.want) || got.Unknown != tc.unknown || got.Settled != tc.settled {
				t.Errorf("Validate() = %+v, want %s, unknown %t, settled %t", got, tc.want, tc.unknown, tc.settled)
			}
		})
	}
}
