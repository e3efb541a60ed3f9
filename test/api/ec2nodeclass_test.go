package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

var ec2NodeClass = kind{
	crd:      "karpenter.k8s.aws_ec2nodeclasses.yaml",
	resource: awsv1.GroupVersion.WithResource("ec2nodeclasses"),
	base: `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
spec:
  role: node
  amiFamily: AL2023
  amiSelectorTerms: [{id: ami-1}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
`,
	entries: both(classEntries(), subnetEntries(), groupEntries(), reservationEntries(), imageEntries(), tagEntries(), volumeEntries(), interfaceEntries(), optionEntries()),
}

func classEntries() map[string]entry {
	const family = "spec rule spec.amiFamily must be set unless spec.amiSelectorTerms has an alias"
	const latest = "spec rule spec.amiSelectorTerms must be set for the families Custom and Ubuntu, which have no latest image"
	const alias = "spec rule spec.amiFamily beside an alias must be the family of the alias, or Custom"
	return map[string]entry{
		"spec required": {accept: "{role: other}", refuse: "null", why: "Required"},
		"spec rule exactly one of spec.role and spec.instanceProfile must be set": {accept: "{role: null, instanceProfile: p}", refuse: "{instanceProfile: p}"},
		family:                           {accept: "{amiFamily: null, amiSelectorTerms: [{alias: al2@latest}]}", refuse: "{amiFamily: null}"},
		latest:                           {accept: "{amiSelectorTerms: null}", refuse: "{amiFamily: Custom, amiSelectorTerms: null}"},
		alias:                            {accept: "{amiFamily: Windows2022, amiSelectorTerms: [{alias: windows2022@latest}]}", refuse: "{amiFamily: AL2, amiSelectorTerms: [{alias: al2023@latest}]}"},
		"spec.role minLength":            {accept: "r", refuse: "''", why: "at least 1 char"},
		"spec.instanceProfile minLength": {at: "spec", field: "spec.instanceProfile", accept: "{role: null, instanceProfile: p}", refuse: "{role: null, instanceProfile: ''}", why: "at least 1 char"},
		"spec.amiFamily enum":            {accept: "Windows2025", refuse: "Debian", why: `supported values: "AL2", "AL2023", "Bottlerocket", "Custom", "Ubuntu", "Windows2019", "Windows2022", "Windows2025"`},
		"spec.ipPrefixCount minimum":     {accept: "0", refuse: "-1", why: "greater than or equal to 0"},
		"spec.instanceStorePolicy enum":  {accept: "RAID0", refuse: "RAID1", why: `supported values: "RAID0"`},
		"spec.placementGroupSelector rule exactly one of 'name' and 'id' must be set": {accept: "{name: a}", refuse: "{name: a, id: pg-1}"},
		"spec.placementGroupSelector.name minLength":                                  {accept: "a", refuse: "''", why: "at least 1 char"},
		"spec.placementGroupSelector.id pattern":                                      {accept: "pg-0a", refuse: "0a", why: "should match"},
	}
}

// selectorEntries is what all lists of terms have. term is a valid one.
func selectorEntries(at, term string) map[string]entry {
	tags := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d: v, ", i)
		}
		return "[{tags: {" + b.String() + "}}]"
	}
	return map[string]entry{
		at + " maxItems":              {accept: list(30, same(term)), refuse: list(31, same(term)), why: "Too many"},
		at + "[].tags maxProperties":  {at: at, field: at + "[0].tags", accept: tags(20), refuse: tags(21), why: "at most 20"},
		at + "[].tags" + nothingEmpty: {at: at, field: at + "[0].tags", accept: "[{tags: {k: '*'}}]", refuse: "[{tags: {k: ''}}]"},
		at + " rule" + idStandsAlone:  {accept: "[" + term + "]", refuse: "[" + strings.Replace(term, "}", ", tags: {k: v}}", 1) + "]"},
	}
}

const (
	nothingEmpty  = " rule tags must not have an empty key or value"
	idStandsAlone = " 'id' stands alone in a term"
)

func subnetEntries() map[string]entry {
	const at = "spec.subnetSelectorTerms"
	return both(selectorEntries(at, "{id: subnet-1}"), map[string]entry{
		at + " required":     {accept: "[{id: subnet-2}]", refuse: "null", why: "Required"},
		at + " minItems":     {accept: "[{tags: {k: v}}]", refuse: "[]", why: "at least 1"},
		at + "[].id pattern": {at: at, field: at + "[0].id", accept: "[{id: subnet-0a1}]", refuse: "[{id: sg-0a1}]", why: "should match"},
		at + " rule each term must have one of 'tags' and 'id'": {accept: "[{tags: {k: v}}, {id: subnet-1}]", refuse: "[{}]"},
	})
}

func groupEntries() map[string]entry {
	const at = "spec.securityGroupSelectorTerms"
	return both(selectorEntries(at, "{id: sg-1}"), map[string]entry{
		at + " required":     {accept: "[{id: sg-2}]", refuse: "null", why: "Required"},
		at + " minItems":     {accept: "[{tags: {k: v}}]", refuse: "[]", why: "at least 1"},
		at + "[].id pattern": {at: at, field: at + "[0].id", accept: "[{id: sg-0a1}]", refuse: "[{id: subnet-0a1}]", why: "should match"},
		at + " rule each term must have one of 'tags', 'id' and 'name'": {accept: "[{name: web}, {tags: {k: v}}, {id: sg-1}]", refuse: "[{}]"},
		at + " rule 'name' stands alone in a term":                      {accept: "[{name: web}]", refuse: "[{name: web, tags: {k: v}}]"},
	})
}

func reservationEntries() map[string]entry {
	const at = "spec.capacityReservationSelectorTerms"
	const first = at + "[0]"
	return both(selectorEntries(at, "{id: cr-1}"), map[string]entry{
		at + "[].id pattern":                 {at: at, field: first + ".id", accept: "[{id: cr-0a1}]", refuse: "[{id: 0a1}]", why: "should match"},
		at + "[].ownerID pattern":            {at: at, field: first + ".ownerID", accept: "[{ownerID: '123456789012', tags: {k: v}}]", refuse: "[{ownerID: me, tags: {k: v}}]", why: "should match"},
		at + "[].instanceMatchCriteria enum": {at: at, field: first + ".instanceMatchCriteria", accept: "[{instanceMatchCriteria: open}, {instanceMatchCriteria: targeted}]", refuse: "[{instanceMatchCriteria: any}]", why: `supported values: "open", "targeted"`},
		at + " rule each term must have one of 'tags', 'id' and 'instanceMatchCriteria'": {accept: "[{instanceMatchCriteria: open, ownerID: '123456789012'}]", refuse: "[{ownerID: '123456789012'}]"},
	})
}

func imageEntries() map[string]entry {
	const at = "spec.amiSelectorTerms"
	const alias, first = at + "[].alias", at + "[0].alias"
	aliased := func(text string) string { return "{amiFamily: null, amiSelectorTerms: [{alias: " + text + "}]}" }
	return both(selectorEntries(at, "{id: ami-1}"), map[string]entry{
		at + " minItems":     {accept: "[{ssmParameter: /a/b}]", refuse: "[]", why: "at least 1"},
		at + "[].id pattern": {at: at, field: at + "[0].id", accept: "[{id: ami-0a1}]", refuse: "[{id: 0a1}]", why: "should match"},
		at + " rule each term must have one of 'tags', 'id', 'name', 'alias' and 'ssmParameter'": {accept: "[{name: 'my-*', owner: self}]", refuse: "[{owner: self}]"},
		at + " rule 'alias' stands alone in a term":                                              {accept: "[{alias: al2023@latest}]", refuse: "[{alias: al2023@latest, name: a}]"},
		at + " rule a term with 'alias' must be the only one":                                    {accept: "[{id: ami-1}, {name: a}]", refuse: "[{alias: al2023@latest}, {id: ami-1}]"},
		alias + " maxLength": {at: "spec", field: "spec.amiSelectorTerms[0].alias", accept: aliased("bottlerocket@v1.46.0-abcdefghi"), refuse: aliased("bottlerocket@v1.46.0-abcdefghij"), why: "Too long"},
		alias + " rule alias must be 'family@version', as in 'al2023@latest'": {at: "spec", field: first, accept: aliased("al2023@v20250101"), refuse: aliased("al2023")},
		alias + " rule the version of a windows alias must be 'latest'":       {at: "spec", field: first, accept: aliased("windows2019@latest"), refuse: aliased("windows2019@v1")},
		alias + " rule the family of an alias must be one of 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022' and 'windows2025'": {
			at: "spec", field: first, accept: aliased("windows2025@latest"), refuse: aliased("ubuntu@latest"),
		},
	})
}

func tagEntries() map[string]entry {
	const at = "spec.tags"
	table := map[string]entry{
		at + " rule tags must not have an empty key":                             {accept: "{k: ''}", refuse: "{'': v}"},
		at + " rule tags that start with 'kubernetes.io/cluster' are restricted": {accept: "{example.com/kubernetes.io/cluster: a}", refuse: "{kubernetes.io/cluster/a: owned}"},
	}
	for _, key := range []string{"eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"} {
		table[fmt.Sprintf("%s rule tag '%s' is restricted", at, key)] = entry{accept: "{example.com/" + key + ": a}", refuse: "{'" + key + "': a}"}
	}
	return table
}

func volumeEntries() map[string]entry {
	const at = "spec.blockDeviceMappings"
	const ebs, first = at + "[].ebs", at + "[0].ebs"
	volume := func(fields string) string { return "[{deviceName: /dev/xvda, ebs: {" + fields + "}}]" }
	const root = "{rootVolume: true, ebs: {volumeSize: 1Gi}}"
	const largest = "[{ebs: {volumeSize: 59000Gi}}, {ebs: {volumeSize: 64000G}}, {ebs: {volumeSize: 58Ti}}, {ebs: {volumeSize: 18Ti}}, {ebs: {volumeSize: 64T}}]"
	return map[string]entry{
		at + " maxItems": {accept: list(50, same("{ebs: {volumeSize: 1Gi}}")), refuse: list(51, same("{ebs: {volumeSize: 1Gi}}")), why: "Too many"},
		at + " rule at most one mapping may have rootVolume":           {accept: "[" + root + ", {rootVolume: false}]", refuse: "[" + root + ", " + root + "]"},
		ebs + " rule one of 'snapshotID' and 'volumeSize' must be set": {at: at, field: first, accept: volume("snapshotID: snap-1"), refuse: volume("encrypted: true")},
		ebs + " rule 'volumeInitializationRate' needs 'snapshotID'":    {at: at, field: first, accept: volume("snapshotID: snap-1, volumeInitializationRate: 100"), refuse: volume("volumeSize: 1Gi, volumeInitializationRate: 100")},
		ebs + ".volumeInitializationRate minimum":                      {at: at, field: first + ".volumeInitializationRate", accept: volume("snapshotID: s, volumeInitializationRate: 100"), refuse: volume("snapshotID: s, volumeInitializationRate: 99"), why: "greater than or equal to 100"},
		ebs + ".volumeInitializationRate maximum":                      {at: at, field: first + ".volumeInitializationRate", accept: volume("snapshotID: s, volumeInitializationRate: 300"), refuse: volume("snapshotID: s, volumeInitializationRate: 301"), why: "less than or equal to 300"},
		ebs + ".volumeSize pattern":                                    {at: at, field: first + ".volumeSize", accept: largest, refuse: volume("volumeSize: 59001Gi"), why: "should match"},
		ebs + ".volumeType enum":                                       {at: at, field: first + ".volumeType", accept: volume("volumeSize: 1Gi, volumeType: st1"), refuse: volume("volumeSize: 1Gi, volumeType: gp4"), why: `supported values: "standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"`},
	}
}

func interfaceEntries() map[string]entry {
	const at = "spec.networkInterfaces"
	const card, device, kind = at + "[0].networkCardIndex", at + "[0].deviceIndex", at + "[0].interfaceType"
	const main = "{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}"
	many := func(n int) string {
		return list(n, func(i int) string {
			return fmt.Sprintf("{networkCardIndex: 0, deviceIndex: %d, interfaceType: interface}", i)
		})
	}
	return map[string]entry{
		at + " maxItems": {accept: many(150), refuse: many(151), why: "Too many"},
		at + " rule there must be one of type 'interface' at networkCardIndex 0 and deviceIndex 0": {accept: "[]", refuse: "[{networkCardIndex: 0, deviceIndex: 0, interfaceType: efa-only}]"},
		at + " rule networkCardIndex and deviceIndex together must be unique":                      {accept: "[" + main + ", {networkCardIndex: 1, deviceIndex: 0, interfaceType: interface}]", refuse: "[" + main + ", {networkCardIndex: 0, deviceIndex: 0, interfaceType: efa-only}]"},
		at + " rule a network card may have at most one interface of type 'efa-only'": {
			accept: "[" + main + ", {networkCardIndex: 0, deviceIndex: 1, interfaceType: efa-only}, {networkCardIndex: 1, deviceIndex: 1, interfaceType: efa-only}]",
			refuse: "[" + main + ", {networkCardIndex: 0, deviceIndex: 1, interfaceType: efa-only}, {networkCardIndex: 0, deviceIndex: 2, interfaceType: efa-only}]",
		},
		at + "[].networkCardIndex required": {at: at, field: card, accept: "[" + main + "]", refuse: "[{deviceIndex: 0, interfaceType: interface}]", why: "Required"},
		at + "[].deviceIndex required":      {at: at, field: device, accept: "[" + main + "]", refuse: "[{networkCardIndex: 0, interfaceType: interface}]", why: "Required"},
		at + "[].interfaceType required":    {at: at, field: kind, accept: "[" + main + "]", refuse: "[{networkCardIndex: 0, deviceIndex: 0}]", why: "Required"},
		at + "[].networkCardIndex minimum":  {at: at, field: card, accept: "[" + main + "]", refuse: "[{networkCardIndex: -1, deviceIndex: 0, interfaceType: interface}]", why: "greater than or equal to 0"},
		at + "[].deviceIndex minimum":       {at: at, field: device, accept: "[" + main + "]", refuse: "[{networkCardIndex: 0, deviceIndex: -1, interfaceType: interface}]", why: "greater than or equal to 0"},
		at + "[].interfaceType enum":        {at: at, field: kind, accept: "[" + main + "]", refuse: "[{networkCardIndex: 0, deviceIndex: 0, interfaceType: efa}]", why: `supported values: "interface", "efa-only"`},
	}
}

func optionEntries() map[string]entry {
	const metadata, tracking = "spec.metadataOptions", "spec.connectionTracking"
	table := map[string]entry{
		metadata + " default":                               {accept: "{httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}"},
		metadata + ".httpEndpoint default":                  {accept: "enabled"},
		metadata + ".httpProtocolIPv6 default":              {accept: "disabled"},
		metadata + ".httpPutResponseHopLimit default":       {accept: "1"},
		metadata + ".httpTokens default":                    {accept: "required"},
		metadata + ".httpEndpoint enum":                     {accept: "disabled", refuse: "on", why: `supported values: "enabled", "disabled"`},
		metadata + ".httpProtocolIPv6 enum":                 {accept: "enabled", refuse: "on", why: `supported values: "enabled", "disabled"`},
		metadata + ".httpTokens enum":                       {accept: "optional", refuse: "none", why: `supported values: "required", "optional"`},
		metadata + ".httpPutResponseHopLimit minimum":       {accept: "1", refuse: "0", why: "greater than or equal to 1"},
		metadata + ".httpPutResponseHopLimit maximum":       {accept: "64", refuse: "65", why: "less than or equal to 64"},
		"spec.enclaveOptions.enabled required":              {at: "spec.enclaveOptions", field: "spec.enclaveOptions.enabled", accept: "{enabled: true}", refuse: "{}", why: "Required"},
		"spec.cpuOptions.nestedVirtualization enum":         {accept: "enabled", refuse: "on", why: `supported values: "enabled", "disabled"`},
		tracking + " rule at least one timeout must be set": {accept: "{udpTimeout: 30}", refuse: "{}"},
	}
	for field, bounds := range map[string][2]int{"tcpEstablishedTimeout": {60, 432000}, "udpStreamTimeout": {60, 180}, "udpTimeout": {30, 60}} {
		at := tracking + "." + field
		table[at+" minimum"] = entry{accept: fmt.Sprint(bounds[0]), refuse: fmt.Sprint(bounds[0] - 1), why: "greater than or equal to"}
		table[at+" maximum"] = entry{accept: fmt.Sprint(bounds[1]), refuse: fmt.Sprint(bounds[1] + 1), why: "less than or equal to"}
	}
	return table
}

// TestKubeletIsKeptAsWritten checks that no field of the kubelet's is dropped by the API
// server, which knows none of them, nor by our type.
func TestKubeletIsKeptAsWritten(t *testing.T) {
	t.Parallel()
	const text = "{maxPods: vcpus * 8, podsPerCore: 10, evictionHard: {memory.available: 5%}, featureGates: {A: true}, newField: [1, x]}"
	u := with(t, ec2NodeClass.object(t, "kubelet"), "spec.kubelet", text)
	got, err := ec2NodeClass.client(t).Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"evictionHard":{"memory.available":"5%"},"featureGates":{"A":true},"maxPods":"vcpus * 8","newField":[1,"x"],"podsPerCore":10}`
	if diff := cmp.Diff(want, string(typed[awsv1.EC2NodeClass](t, got).Spec.Kubelet.Raw)); diff != "" {
		t.Errorf("spec.kubelet (-want +got):\n%s", diff)
	}
}

func TestEC2NodeClassStatusDefaults(t *testing.T) {
	t.Parallel()
	client := ec2NodeClass.client(t)
	u, err := client.Create(t.Context(), ec2NodeClass.object(t, "status"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const reservation = "{availabilityZone: a, id: cr-1, instanceMatchCriteria: open, instanceType: m5.large, ownerID: '123456789012'}"
	if u, err = client.UpdateStatus(t.Context(), with(t, u, "status.capacityReservations", "["+reservation+"]"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := typed[awsv1.EC2NodeClass](t, u).Status.CapacityReservations[0]
	if got.ReservationType != "default" || got.State != "active" {
		t.Errorf("type is %q and state %q, want default and active", got.ReservationType, got.State)
	}
}
