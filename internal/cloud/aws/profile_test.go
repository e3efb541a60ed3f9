package aws

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestProfileOfAnOldRole changes the role of a class. The profile of the old one stays while
// an instance has it and for a while after, and goes then.
func TestProfileOfAnOldRole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *awssim.Options) { o.Roles = []string{"other"} })
		p := w.provider(t)
		w.ready(t, p, "default")
		old := w.class(t, "default").Status.InstanceProfile
		id := launchIDs(t, p, requests(t, p, 1, onDemand))["token-0"]
		c := w.class(t, "default")
		c.Generation++
		c.Spec.Role = "other"
		if err := w.api.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.ready(t, p, "default")
		current := w.class(t, "default").Status.InstanceProfile
		sweep := func(what string, want ...string) {
			t.Helper()
			for range 4 {
				if err := p.sweepProfiles(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(profilesEvery)
			}
			slices.Sort(want)
			if got := w.sim.Profiles(); !slices.Equal(got, want) {
				t.Errorf("%s: profiles %v, want %v", what, got, want)
			}
		}
		sweep("an instance has the old one", old, current)
		if err := p.Terminate(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // EC2 shows it for an hour
		if err := p.sweepProfiles(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.sim.Profiles(); len(got) != 2 {
			t.Errorf("it goes at once: %v are left", got)
		}
		sweep("nothing has the old one", current)
	})
}

// TestTagsThatDifferInCase: to EC2 they are two, to IAM the same.
func TestTagsThatDifferInCase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		c := newClass("tagged")
		c.Spec.Tags = map[string]string{"team": "a", "Team": "b", "EKS:eks-cluster-name": "mine"}
		if err := w.api.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		w.ready(t, p, "tagged")
		found, err := p.clients.IAM.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(w.class(t, "tagged").Status.InstanceProfile)})
		if err != nil {
			t.Fatal(err)
		}
		tags := map[string]string{}
		for _, tag := range found.InstanceProfile.Tags {
			tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
		}
		if tags["Team"] != "b" || tags[awsv1.TagEKSClusterName] != "demo" || len(tags) != 5 {
			t.Errorf("tags of the profile: %v", tags)
		}
	})
}

// TestLegacyProfile deletes a class that Karpenter once made a profile for, under the name
// that followed from the class: it goes if its tags are right and that is allowed, and is
// never in the way.
func TestLegacyProfile(t *testing.T) {
	t.Parallel()
	const legacy = "demo_15843455441266977890" // 64 bits of FNV-1 of "us-east-1default"
	for name, tc := range map[string]struct {
		class    string // that the profile's tags name
		fault    awssim.Fault
		left     bool
		reported bool
	}{
		"it is the class's":     {class: "default"},
		"it is another's":       {class: "other", left: true},
		"it may not be deleted": {class: "default", fault: awssim.Fault{Kind: awssim.FaultDenied, Operation: "iam:DeleteInstanceProfile"}, left: true, reported: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				p := w.provider(t)
				log := &bytes.Buffer{}
				p.opts.Log = slog.New(slog.NewTextHandler(log, nil))
				_, err := p.clients.IAM.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(p.profiles.legacyName("default")), Tags: []types.Tag{
					{Key: aws.String("kubernetes.io/cluster/demo"), Value: aws.String("owned")}, {Key: aws.String("karpenter.k8s.aws/ec2nodeclass"), Value: aws.String(tc.class)},
				}})
				if err != nil {
					t.Fatal(err)
				}
				if got := w.sim.Profiles(); !slices.Equal(got, []string{legacy}) {
					t.Fatalf("profiles %v, want %s", got, legacy)
				}
				c := w.class(t, "default")
				c.Finalizers = []string{awsv1.TerminationFinalizer}
				for _, do := range []func() error{func() error { return w.api.Update(t.Context(), c) }, func() error { return w.api.Delete(t.Context(), c) }} {
					if err := do(); err != nil {
						t.Fatal(err)
					}
				}
				if tc.fault.Kind != "" {
					if err := w.sim.Inject(tc.fault); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("default")}); err != nil {
					t.Fatal(err)
				}
				if err := w.api.Get(t.Context(), named("default"), c); err == nil {
					t.Error("the class is still there")
				}
				if left := len(w.sim.Profiles()) > 0; left != tc.left {
					t.Errorf("the profile is left: %t, want %t", left, tc.left)
				}
				if reported := strings.Contains(log.String(), legacy); reported != tc.reported {
					t.Errorf("its name is logged: %t, want %t", reported, tc.reported)
				}
			})
		})
	}
}

// TestTemplatesOfKarpenterStay: one that runs beside us, or is about to take over, has
// launch templates with the same tags and the same beginning of their names.
func TestTemplatesOfKarpenterStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		const theirs = "karpenter.k8s.aws/12345678901234567890"
		_, err := p.clients.EC2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: aws.String(theirs), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{},
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: tagList(map[string]string{
				"kubernetes.io/cluster/demo": "owned", "eks:eks-cluster-name": "demo", "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/nodepool": "",
			})}},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.ready(t, p, "default")
		launchIDs(t, p, requests(t, p, 1, onDemand))
		next := w.provider(t)
		for range 2 {
			if err := next.cleanUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(templateKept + time.Minute)
		}
		if err := next.cleanUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.sim.Templates(); !slices.Equal(got, []string{theirs}) {
			t.Errorf("launch templates %v, want theirs", got)
		}
	})
}
