package nodegroup

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// writeClass writes the EC2NodeClass.
func (t *translation) writeClass() {
	o, g := &t.out, &t.groups[0]
	o.add(0, "apiVersion: karpenter.k8s.aws/v1", "")
	o.add(0, "kind: EC2NodeClass", "")
	o.add(0, "metadata:", "")
	o.add(1, "name: "+text(t.name), "")
	o.add(0, "spec:", "")
	t.writeImage()
	switch role := g.Role[strings.LastIndex(g.Role, "/")+1:]; {
	case role != "":
		o.add(1, "role: "+text(role), "node role of the group")
	case g.Profile != "" || g.Template != nil && g.Template.Profile != "":
		profile := g.Profile
		if profile == "" {
			profile = g.Template.Profile
		}
		o.add(1, "instanceProfile: "+text(profile[strings.LastIndex(profile, "/")+1:]), "instance profile of the launch template")
	default:
		o.add(1, `role: "KarpenterNodeRole-CLUSTER"`, "not known: put in the name of the nodes' role")
		t.note("role of the nodes: not known; put it into the EC2NodeClass")
	}
	t.writeNetwork()
	t.writeVolumes()
	if tpl := g.Template; tpl != nil {
		t.writeTemplate(tpl)
	}
	t.writeTags()
}

var release = regexp.MustCompile(`^[0-9]+\.[0-9]+(?:\.[0-9]+)?-(20[0-9]{6})$`)

// alias returns the alias of an AMI type; empty: there is none.
func alias(amiType, version string) (name, source string) {
	pinned := func(family, v string) (string, string) {
		if v == "" {
			return family + "@latest", "amiType " + amiType
		}
		return family + "@v" + v, fmt.Sprintf("amiType %s, release %s; @latest follows EKS", amiType, version)
	}
	date := ""
	if m := release.FindStringSubmatch(version); m != nil {
		date = m[1]
	}
	switch {
	case strings.HasPrefix(amiType, "AL2023_"):
		return pinned("al2023", date)
	case strings.HasPrefix(amiType, "AL2_"):
		return pinned("al2", date)
	case strings.HasPrefix(amiType, "BOTTLEROCKET_") && !strings.Contains(amiType, "FIPS"):
		v, _, _ := strings.Cut(version, "-")
		return pinned("bottlerocket", v)
	case strings.HasPrefix(amiType, "WINDOWS_"):
		for _, year := range []string{"2019", "2022", "2025"} {
			if strings.Contains(amiType, year) {
				return "windows" + year + "@latest", "amiType " + amiType
			}
		}
	}
	return "", ""
}

func (t *translation) writeImage() {
	o, g := &t.out, &t.groups[0]
	image := ""
	if g.Template != nil {
		image = g.Template.ImageID
	}
	name, source := alias(g.AMIType, g.Release)
	if name != "" && image == "" {
		o.add(1, "amiSelectorTerms:", "")
		o.add(2, "- alias: "+text(name), source)
		if strings.HasPrefix(g.AMIType, "WINDOWS_FULL") {
			t.note("amiType %s: the alias is of the core edition; select the full one by name in amiSelectorTerms", g.AMIType)
		}
		return
	}
	if strings.Contains(g.AMIType, "FIPS") && image == "" {
		arch := strings.ReplaceAll(architecture(g.AMIType), "amd64", "x86_64")
		o.add(1, "amiFamily: Bottlerocket", "amiType "+g.AMIType)
		o.add(1, "amiSelectorTerms:", "")
		o.add(2, "- name: "+quoted("bottlerocket-aws-k8s-*-fips-"+arch+"-*"), "amiType "+g.AMIType+": there is no alias")
		o.add(3, "owner: amazon", "")
		t.note("amiType %s: images are selected by name, of all versions of Kubernetes: narrow it to the cluster's", g.AMIType)
		return
	}
	if image != "" {
		o.add(1, "amiFamily: Custom", "the image of the launch template; name its family to have user data merged")
		o.add(1, "amiSelectorTerms:", "")
		o.add(2, "- id: "+text(image), "ImageId of launch template "+g.Template.Name)
		t.note("image %s is kept with the family Custom: its user data must do all that joins the cluster", image)
		return
	}
	o.add(1, "amiSelectorTerms:", "")
	o.add(2, "- alias: al2023@latest", "the image is not known: choose")
	t.note("image: not known; the EC2NodeClass has al2023@latest")
}

func (t *translation) writeNetwork() {
	o, g := &t.out, &t.groups[0]
	var subnets []string
	for i := range t.groups {
		subnets = append(subnets, t.groups[i].Subnets...)
	}
	slices.Sort(subnets)
	subnets = slices.Compact(subnets)
	o.add(1, "subnetSelectorTerms:", "")
	for _, id := range subnets {
		o.add(2, "- id: "+text(id), "subnet of the group")
	}
	if len(subnets) == 0 {
		o.add(2, "- tags: {karpenter.sh/discovery: CLUSTER}", "not known: tag the subnets, and put in the cluster's name")
		t.note("subnets: not known; tag them with karpenter.sh/discovery")
	}
	groups, source := g.SecurityGroups, "security group of the group"
	if g.Template != nil && len(g.Template.SecurityGroups) > 0 {
		groups, source = g.Template.SecurityGroups, "launch template "+g.Template.Name
	}
	o.add(1, "securityGroupSelectorTerms:", "")
	for _, id := range groups {
		o.add(2, "- id: "+text(id), source)
	}
	if len(groups) == 0 {
		o.add(2, "- tags: {karpenter.sh/discovery: CLUSTER}", "not known: tag the security groups, and put in the cluster's name")
		t.note("security groups: not known; tag them with karpenter.sh/discovery")
	}
}

func (t *translation) writeVolumes() {
	o, g := &t.out, &t.groups[0]
	volumes, source := []Volume(nil), ""
	switch {
	case g.Template != nil && len(g.Template.Volumes) > 0:
		volumes, source = g.Template.Volumes, "launch template "+g.Template.Name
	case g.DiskGiB > 0:
		device := "/dev/xvda"
		if strings.HasPrefix(g.AMIType, "BOTTLEROCKET_") {
			device = "/dev/xvdb"
		} else if strings.HasPrefix(g.AMIType, "WINDOWS_") {
			device = "/dev/sda1"
		}
		volumes, source = []Volume{{Device: device, SizeGiB: int64(g.DiskGiB), Type: "gp3"}}, "diskSize of the node group"
	default:
		return
	}
	o.add(1, "blockDeviceMappings:", "")
	for _, v := range volumes {
		o.add(2, "- deviceName: "+text(v.Device), source)
		o.add(3, "ebs:", "")
		if v.SizeGiB > 0 {
			o.add(4, fmt.Sprintf("volumeSize: %dGi", v.SizeGiB), "")
		}
		optional := func(field, value string) {
			if value != "" && value != "0" {
				o.add(4, field+": "+value, "")
			}
		}
		if v.Type != "" {
			optional("volumeType", text(v.Type))
		}
		optional("iops", fmt.Sprint(v.IOPS))
		optional("throughput", fmt.Sprint(v.Throughput))
		if v.Key != "" {
			optional("kmsKeyID", quoted(v.Key))
		}
		if v.Snapshot != "" {
			optional("snapshotID", text(v.Snapshot))
		}
		if v.Encrypted != nil {
			optional("encrypted", fmt.Sprint(*v.Encrypted))
		}
		if v.KeepsData != nil {
			optional("deleteOnTermination", fmt.Sprint(!*v.KeepsData))
		}
	}
}

// writeTemplate writes what the launch template says besides image, network and volumes.
func (t *translation) writeTemplate(tpl *Template) {
	o, source := &t.out, "launch template "+tpl.Name
	if len(tpl.Metadata) > 0 {
		o.add(1, "metadataOptions:", source)
		for _, f := range []struct{ name, field string }{
			{"httpEndpoint", "httpEndpoint"}, {"httpProtocolIpv6", "httpProtocolIPv6"}, {"httpPutResponseHopLimit", "httpPutResponseHopLimit"}, {"httpTokens", "httpTokens"},
		} {
			if v := tpl.Metadata[f.name]; v != "" {
				if !positive(v) {
					v = text(v)
				}
				o.add(2, f.field+": "+v, "")
			}
		}
	}
	if tpl.Monitoring {
		o.add(1, "detailedMonitoring: true", source)
	}
	if tpl.PublicIP != nil {
		o.add(1, fmt.Sprintf("associatePublicIPAddress: %v", *tpl.PublicIP), source)
	}
	if tpl.PlacementGroup != "" {
		o.add(1, "placementGroupSelector:", source)
		o.add(2, "name: "+text(tpl.PlacementGroup), "")
	}
	if tpl.Reservation != "" {
		o.add(1, "capacityReservationSelectorTerms:", source)
		o.add(2, "- id: "+text(tpl.Reservation), "the NodePool must allow the capacity type reserved")
		t.note("capacity reservation %s: add reserved to the NodePool's karpenter.sh/capacity-type", tpl.Reservation)
	}
	data, notes := ownUserData(tpl.UserData)
	kept := ", without what joins the cluster"
	if tpl.ImageID != "" {
		data, notes, kept = tpl.UserData, nil, ", as it is"
	}
	for _, n := range notes {
		t.note("%s", n)
	}
	if data != "" {
		o.add(1, "userData: |", source+kept)
		for l := range strings.SplitSeq(strings.TrimRight(data, "\n"), "\n") {
			o.add(2, l, "")
		}
	}
}

func (t *translation) writeTags() {
	tags := map[string]string{}
	if tpl := t.groups[0].Template; tpl != nil {
		for k, v := range tpl.Tags {
			if own(k) {
				tags[k] = v
			}
		}
	}
	for i := range t.groups {
		for k, v := range t.groups[i].Tags {
			if before, has := tags[k]; has && before != v {
				t.note("tag %s=%s of %s: the EC2NodeClass has %s", k, v, t.groups[i].Name, before)
				continue
			}
			tags[k] = v
		}
	}
	if len(tags) == 0 {
		return
	}
	t.out.add(1, "tags:", "")
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		t.out.add(2, quoted(k)+": "+quoted(tags[k]), "tag of the group or of its launch template")
	}
}
