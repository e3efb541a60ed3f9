package awssim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// images has the Amazon Machine Images (AMIs).
type images struct {
	base *base
	ssm  *ssm

	byID map[string]*Image
}

// Image is an AMI.
type Image struct {
	ID, Name, Architecture, Owner string
	Created, Deprecated           time.Time
	Windows                       bool
	Tags                          map[string]string
	family                        string // one of package boot's
}

// release is the name of an image generation; newer ones follow deprecations.
func release(at time.Time) string { return "v" + at.UTC().Format("20060102") }

// publishImages makes the images of the cluster's version and the public parameters that
// point to them: the version that is current, and "latest" or "recommended".
func (s *images) publishImages(at time.Time) {
	k, v := s.base.opts.Cluster.Version, release(at)
	al2 := "/aws/service/eks/optimized-ami/" + k
	for _, a := range []struct{ path, name, arch string }{
		{"amazon-linux-2", "amazon-eks-node-", "x86_64"},
		{"amazon-linux-2-arm64", "amazon-eks-arm64-node-", "arm64"},
		{"amazon-linux-2-gpu", "amazon-eks-gpu-node-", "x86_64"},
	} {
		name := a.name + k + "-" + v
		s.publish(at, name, a.arch, "al2", al2+"/"+a.path+"/recommended/image_id", al2+"/"+a.path+"/"+name+"/image_id")
	}
	for _, a := range []struct{ arch, variant string }{
		{"x86_64", "standard"}, {"x86_64", "nvidia"}, {"x86_64", "neuron"}, {"arm64", "standard"}, {"arm64", "nvidia"},
	} {
		name := strings.Join([]string{"amazon-eks-node-al2023", a.arch, a.variant, k, v}, "-")
		path := al2 + "/amazon-linux-2023/" + a.arch + "/" + a.variant
		s.publish(at, name, a.arch, "al2023", path+"/recommended/image_id", path+"/"+name+"/image_id")
	}
	version := fmt.Sprintf("1.%d.%d", 40+at.Year()-2024, at.YearDay())
	for _, a := range []struct{ flavor, arch string }{{"", "x86_64"}, {"", "arm64"}, {"-nvidia", "x86_64"}, {"-nvidia", "arm64"}} {
		name := "bottlerocket-aws-k8s-" + k + a.flavor + "-" + a.arch + "-v" + version
		path := "/aws/service/bottlerocket/aws-k8s-" + k + a.flavor + "/" + a.arch
		s.publish(at, name, a.arch, "bottlerocket", path+"/latest/image_id", path+"/"+version+"/image_id")
	}
	for _, year := range []string{"2019", "2022", "2025"} {
		name := "Windows_Server-" + year + "-English-Core-EKS_Optimized-" + k
		s.publish(at, name+"-"+at.UTC().Format("2006.01.02"), "x86_64", "windows"+year, "/aws/service/ami-windows-latest/"+name+"/image_id")
	}
}

func (s *images) publish(at time.Time, name, arch, family string, parameters ...string) {
	id := s.base.id("ami")
	s.byID[id] = &Image{
		ID: id, Name: name, Architecture: arch, Owner: "602401143452", Created: at.Add(-24 * time.Hour), Deprecated: at.AddDate(2, 0, 0),
		Windows: strings.HasPrefix(family, "windows"), family: family,
	}
	for _, p := range parameters {
		s.ssm.values[p] = id
	}
}

// deprecate ends the images' time and publishes a newer generation.
func (s *images) deprecate(f *Fault, now time.Time) {
	hit := false
	for _, im := range s.byID {
		if im.Deprecated.After(now) && (matches(f.Target, im.ID) || matches(f.Target, im.Name)) {
			im.Deprecated, hit = now, true
		}
	}
	if hit {
		s.publishImages(now.Add(24 * time.Hour))
	}
}

func (s *images) describeImages(c *call) (any, error) {
	asked := c.form.texts("ImageId")
	for _, id := range asked {
		if !strings.HasPrefix(id, "ami-") {
			return nil, fail("InvalidAMIID.Malformed", "Invalid id: \"%s\" (expecting \"ami-...\")", id)
		}
	}
	all, err := byID(asked, s.byID, "InvalidAMIID.NotFound", "image id")
	if err != nil {
		return nil, err
	}
	owners := c.form.texts("Owner")
	all = slices.DeleteFunc(all, func(im *Image) bool {
		aged := !im.Deprecated.IsZero() && !im.Deprecated.After(c.now) && !c.form.flag("IncludeDeprecated") && len(asked) == 0
		return aged || len(owners) > 0 && !slices.ContainsFunc(owners, func(o string) bool { return s.owns(o, im) })
	})
	return describeAll(c, "imagesSet", 1000, all, described[*Image]{
		key: func(im *Image) string { return im.ID }, tags: func(im *Image) map[string]string { return im.Tags }, property: imageProperty,
		write: func(im *Image) fields {
			platform := ""
			if im.Windows {
				platform = "windows"
			}
			return fields{
				{"imageId", im.ID},
				{"name", im.Name},
				{"architecture", im.Architecture},
				{"creationDate", im.Created},
				{"deprecationTime", im.Deprecated},
				{"imageOwnerId", im.Owner},
				{"imageState", "available"},
				{"imageType", "machine"},
				{"platform", platform},
				{"virtualizationType", "hvm"},
				{"rootDeviceType", "ebs"},
				{"tagSet", tagSet(im.Tags)},
			}
		},
	})
}

// owns reports whether an image belongs to an owner as requests name them.
func (s *images) owns(owner string, im *Image) bool {
	switch owner {
	case "self":
		return im.Owner == s.base.opts.AccountID
	case "amazon":
		return im.Owner != s.base.opts.AccountID
	default:
		return im.Owner == owner
	}
}

func imageProperty(im *Image, filter string) ([]string, bool) {
	switch filter {
	case "image-id":
		return only(im.ID)
	case "name":
		return only(im.Name)
	case "state":
		return only("available")
	case "architecture":
		return only(im.Architecture)
	case "owner-id":
		return only(im.Owner)
	case "virtualization-type":
		return only("hvm")
	default:
		return nil, false
	}
}
