package aws

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/class"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestClassStatus brings classes that differ in one thing from a good one before an account
// that differs in one fault, and reads what keeps them from being Ready.
func TestClassStatus(t *testing.T) {
	t.Parallel()
	nowhere := map[string]string{"no": "such tag"}
	for name, c := range map[string]struct {
		change func(*awsv1.EC2NodeClass)
		fault  awssim.Fault
		want   string // condition=reason; empty: Ready
	}{
		"a good one": {},
		"no subnet has the tag": {
			change: func(c *awsv1.EC2NodeClass) { c.Spec.SubnetSelectorTerms[0].Tags = nowhere }, want: "SubnetsReady=SubnetsNotFound",
		},
		"no security group has the tag": {
			change: func(c *awsv1.EC2NodeClass) { c.Spec.SecurityGroupSelectorTerms[0].Tags = nowhere }, want: "SecurityGroupsReady=SecurityGroupsNotFound",
		},
		"no image has the name": {
			change: func(c *awsv1.EC2NodeClass) {
				family := "AL2023"
				c.Spec.AMIFamily, c.Spec.AMISelectorTerms = &family, []awsv1.AMISelectorTerm{{Name: "no-such-*"}}
			},
			want: "AMIsReady=AMINotFound",
		},
		"AL2 ended with 1.32": {
			change: func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2@latest" }, want: "AMIsReady=UnsupportedAlias",
		},
		"no placement group has the name": {
			change: func(c *awsv1.EC2NodeClass) {
				c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "none"}
			},
			want: "PlacementGroupReady=PlacementGroupNotFound",
		},
		"IAM has no such role": {
			change: func(c *awsv1.EC2NodeClass) { c.Spec.Role = "Nobody" }, want: "InstanceProfileReady=RoleNotFound",
		},
		"instances may not be launched": {
			fault: awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:RunInstances"}, want: "ValidationSucceeded=RunInstancesAuthCheckFailed",
		},
		"fleets may not be launched": {
			fault: awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:CreateFleet"}, want: "ValidationSucceeded=CreateFleetAuthCheckFailed",
		},
		"launch templates may not be made": {
			fault: awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:CreateLaunchTemplate"}, want: "ValidationSucceeded=CreateLaunchTemplateAuthCheckFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				p := w.provider(t)
				found := newClass("odd")
				if c.change != nil {
					c.change(found)
				}
				if err := w.api.Create(t.Context(), found); err != nil {
					t.Fatal(err)
				}
				if c.fault.Kind != "" {
					if err := w.sim.Inject(c.fault); err != nil {
						t.Fatal(err)
					}
				}
				for range 5 {
					if _, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("odd")}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Second)
				}
				if err := w.api.Get(t.Context(), named("odd"), found); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, condition := range found.Status.Conditions {
					if condition.Status == metav1.ConditionFalse && condition.Type != "Ready" && condition.Reason != class.ReasonDependencies {
						got = append(got, condition.Type+"="+condition.Reason)
					}
				}
				var want []string
				if c.want != "" {
					want = []string{c.want}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestClassGoes shows that what was made for a class goes with it, and not before its claims.
func TestClassGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		launchIDs(t, p, requests(t, p, 1, onDemand))
		if len(w.sim.Templates()) == 0 || len(w.sim.Profiles()) == 0 {
			t.Fatal("nothing was made")
		}
		c := &awsv1.EC2NodeClass{}
		if err := w.api.Get(t.Context(), named("default"), c); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Delete(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("default")}); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Get(t.Context(), named("default"), c); !apierrors.IsNotFound(err) {
			t.Errorf("the class is still there: %v", err)
		}
		if left := append(w.sim.Templates(), w.sim.Profiles()...); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestClassGoesWithoutIAM shows that a class with a profile of the user's own goes where IAM
// cannot be reached.
func TestClassGoesWithoutIAM(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultDown, Operation: "iam:*"}); err != nil {
			t.Fatal(err)
		}
		class := newClass("isolated")
		class.Spec.Role, class.Spec.InstanceProfile = "", new("mine")
		class.Finalizers = []string{awsv1.TerminationFinalizer}
		for _, do := range []func() error{
			func() error { return w.api.Create(t.Context(), class) }, func() error { return w.api.Delete(t.Context(), class) },
		} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		p := w.provider(t)
		p.opts.IsolatedVPC = true
		if _, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("isolated")}); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Get(t.Context(), named("isolated"), class); !apierrors.IsNotFound(err) {
			t.Errorf("the class is still there: %v", err)
		}
	})
}

// TestDrift launches an instance, changes one thing, and asks in what way it differs.
func TestDrift(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, w *world, c *awsv1.EC2NodeClass)
		want   string
	}{
		"nothing changed": {func(*testing.T, *world, *awsv1.EC2NodeClass) {}, ""},
		"a tag of the class": {func(_ *testing.T, _ *world, c *awsv1.EC2NodeClass) {
			c.Spec.Tags = map[string]string{"team": "blue"}
		}, class.NodeClassDrift},
		"a newer image": {func(t *testing.T, w *world, _ *awsv1.EC2NodeClass) {
			t.Helper()
			if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultDeprecate, Target: "*"}); err != nil {
				t.Fatal(err)
			}
		}, class.AMIDrift},
		"fewer security groups": {func(_ *testing.T, _ *world, c *awsv1.EC2NodeClass) {
			c.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{ID: c.Status.SecurityGroups[0].ID}}
		}, class.SecurityGroupDrift},
		"other subnets": {func(_ *testing.T, _ *world, c *awsv1.EC2NodeClass) {
			c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-0c000000000000000"}}
		}, class.SubnetDrift},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				p := w.provider(t)
				w.ready(t, p, "default")
				id := launchIDs(t, p, requests(t, p, 1, onDemand))["token-0"]
				found := &awsv1.EC2NodeClass{}
				if err := w.api.Get(t.Context(), named("default"), found); err != nil {
					t.Fatal(err)
				}
				c.change(t, w, found)
				if err := w.api.Update(t.Context(), found); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour) // caches and the like
				for range 3 {
					if _, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("default")}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Minute)
				}
				got, err := p.Drifted(t.Context(), classRef, id)
				if err != nil || got != c.want {
					t.Errorf("drifted %q, error %v; want %q", got, err, c.want)
				}
				if _, err := p.Drifted(t.Context(), classRef, "aws:///zone/i-0"); !errors.Is(err, cloud.ErrNotFound) {
					t.Errorf("an instance that is not: error %v", err)
				}
			})
		})
	}
}

// TestUsedUp asks for more than there is: of vCPUs, of addresses, of instances. What is had
// is had, and the rest is reported short where it is.
func TestUsedUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  awssim.Fault
		reason string
	}{
		"vCPUs":     {awssim.Fault{Kind: awssim.FaultQuota, Target: "on-demand/standard", Count: 10}, "VCPULimitExceeded"},
		"addresses": {awssim.Fault{Kind: awssim.FaultAddresses, Target: "*"}, "InsufficientFreeAddressesInSubnet"},
		"instances": {awssim.Fault{Kind: awssim.FaultShort, Target: "*"}, "InsufficientCapacity"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				p := w.provider(t)
				w.ready(t, p, "default")
				if err := w.sim.Inject(c.fault); err != nil {
					t.Fatal(err)
				}
				rs := requests(t, p, 20, onDemand)
				launched := 0
				for i, result := range p.Launch(t.Context(), rs) {
					var failure *cloud.Failure
					switch {
					case result.Err == nil:
						launched++
					case !errors.As(result.Err, &failure):
						t.Errorf("request %d: %v", i, result.Err)
					case failure.Kind != cloud.NoCapacity || failure.Reason != c.reason || len(failure.Short) == 0:
						t.Errorf("request %d: %+v", i, failure)
					}
				}
				if n := len(w.sim.Instances()); n != launched || n == len(rs) {
					t.Errorf("%d instances run, %d claims have one, of %d", n, launched, len(rs))
				}
			})
		})
	}
}

// TestSteadyCluster counts what a provider asks for in an hour without changes.
func TestSteadyCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		rs := requests(t, p, 30, onDemand)
		ids := launchIDs(t, p, rs)
		time.Sleep(10 * time.Minute)
		before := w.sim.Calls()
		for range 30 { // what the loops ask in an hour
			if _, err := p.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if _, err := p.Drifted(t.Context(), classRef, id); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if _, err := p.Types(t.Context(), classRef); err != nil {
					t.Fatal(err)
				}
				if _, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("default")}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
		}
		total := 0
		var reported []string
		for operation, n := range w.sim.Calls() {
			if n -= before[operation]; n > 0 {
				total += n
				reported = append(reported, operation)
			}
		}
		slices.Sort(reported)
		t.Logf("%d calls in an hour, of %v", total, reported)
		if total > 300 {
			t.Errorf("a steady cluster of 30 instances makes %d calls in an hour", total)
		}
	})
}

// TestChores shows that launch templates nobody uses go, those of a predecessor too, and
// that instances launched together get their own tags.
func TestChores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		launchIDs(t, p, requests(t, p, 5, onDemand))
		made := len(w.sim.Templates())
		time.Sleep(time.Minute)
		for range 2 {
			if err := p.instances.tagNew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range w.sim.Instances() {
			if i.Tags[awsv1.TagNodeClaim] == "" || i.Tags[awsv1.TagName] == "" {
				t.Errorf("instance %s has tags %v", i.ID, i.Tags)
			}
		}
		if n := w.sim.Calls()["ec2:CreateTags"]; n != 5 {
			t.Errorf("tagged %d times, want once for each of 5", n)
		}
		next := w.provider(t)
		if err := next.cleanUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(w.sim.Templates()); n != made || n == 0 {
			t.Errorf("%d launch templates are left of %d that were just used", n, made)
		}
		time.Sleep(templateKept + time.Minute)
		if err := next.cleanUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := w.sim.Templates(); len(left) != 0 {
			t.Errorf("launch templates that nobody uses are left: %v", left)
		}
		if err := next.sweepProfiles(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(w.sim.Profiles()) != 1 {
			t.Errorf("instance profiles are %v, want that of the class", w.sim.Profiles())
		}
	})
}
