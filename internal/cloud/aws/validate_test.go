package aws

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// follow reconciles a class for a while, as often as it asks for itself, and shows it to
// look each time.
func (w *world) follow(t *testing.T, p *Provider, name string, length time.Duration, observe func(*awsv1.EC2NodeClass)) {
	t.Helper()
	const afterError = 30 * time.Second
	for until := time.Now().Add(length); time.Now().Before(until); {
		result, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named(name)})
		if err != nil {
			result.RequeueAfter = afterError
		}
		observe(w.class(t, name))
		if result.RequeueAfter == 0 {
			return
		}
		time.Sleep(result.RequeueAfter)
	}
}

func (w *world) class(t *testing.T, name string) *awsv1.EC2NodeClass {
	t.Helper()
	c := &awsv1.EC2NodeClass{}
	if err := w.api.Get(t.Context(), named(name), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// said returns a condition of a class as status and reason.
func said(c *awsv1.EC2NodeClass, conditionType string) string {
	found := meta.FindStatusCondition(c.Status.Conditions, conditionType)
	if found == nil {
		return ""
	}
	return fmt.Sprintf("%s %s", found.Status, found.Reason)
}

const isValid = "True ValidationSucceeded"

// TestReadyThroughInconclusiveDryRuns has AWS answer dry runs, or what a validation asks
// besides, with something that says nothing about the class. A class that was Ready stays so
// for as long as it lasts, EC2 is not asked often, and the next conclusive answer counts.
func TestReadyThroughInconclusiveDryRuns(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]awssim.Fault{
		"throttled fleet":               {Kind: awssim.FaultThrottle, Operation: "ec2:CreateFleet"},
		"throttled instance":            {Kind: awssim.FaultThrottle, Operation: "ec2:RunInstances"},
		"an error of the server":        {Kind: awssim.FaultError, Operation: "ec2:CreateFleet"},
		"EC2 is away":                   {Kind: awssim.FaultDown, Operation: "ec2:*"},
		"a code that nobody knows":      {Kind: awssim.FaultRefused, Operation: "ec2:RunInstances", Target: "SomethingNew"},
		"an unknown code of the fleet":  {Kind: awssim.FaultRefused, Operation: "ec2:CreateFleet", Target: "SomethingNew"},
		"credentials that have expired": {Kind: awssim.FaultExpired},
		"throttled EKS":                 {Kind: awssim.FaultThrottle, Operation: "eks:*"},
		"EKS is away":                   {Kind: awssim.FaultDown, Operation: "eks:*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				p := w.provider(t)
				w.ready(t, p, "default")
				time.Sleep(triedKept + time.Minute) // what was found out is old
				if err := w.sim.Inject(fault); err != nil {
					t.Fatal(err)
				}
				before := w.sim.Calls()
				w.follow(t, p, "default", time.Hour, func(c *awsv1.EC2NodeClass) {
					if got := said(c, "Ready"); got != "True Ready" {
						t.Fatalf("Ready is %s; ValidationSucceeded is %s", got, said(c, awsv1.ConditionTypeValidationSucceeded))
					}
				})
				const most = 7 + 11 // 5 s to 160 s, and then every 5 min
				for _, operation := range []string{"ec2:CreateFleet", "ec2:RunInstances"} {
					calls := w.sim.Calls()[operation] - before[operation]
					if operation == "ec2:RunInstances" && fault.Kind == awssim.FaultRefused {
						calls /= subnetsTried
					}
					if calls > most {
						t.Errorf("%d calls of %s in an hour, want %d at most", calls, operation, most)
					}
				}
				w.sim.Clear()
				if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:CreateFleet"}); err != nil {
					t.Fatal(err)
				}
				var last string
				w.follow(t, p, "default", triedKept+tryAgainMost, func(c *awsv1.EC2NodeClass) { last = said(c, awsv1.ConditionTypeValidationSucceeded) })
				if want := "False CreateFleetAuthCheckFailed"; last != want {
					t.Errorf("after a conclusive answer: %s, want %s", last, want)
				}
			})
		})
	}
}

// TestInconclusiveFromTheStart shows a class that no dry run has said anything about yet:
// nobody knows whether it is valid, the condition says why, and it is once EC2 says so. The same holds
// for a class that was edited.
func TestInconclusiveFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		expect := func(what, want, message string) {
			t.Helper()
			for range 3 {
				_, _ = p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("default")})
				time.Sleep(tryAgainMost)
			}
			c := w.class(t, "default")
			condition := meta.FindStatusCondition(c.Status.Conditions, awsv1.ConditionTypeValidationSucceeded)
			if got := said(c, awsv1.ConditionTypeValidationSucceeded); got != want || !strings.Contains(condition.Message, message) {
				t.Errorf("%s: %s: %s; want %s: …%s…", what, got, condition.Message, want, message)
			}
		}
		throttle := func() {
			t.Helper()
			if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultThrottle, Operation: "ec2:CreateFleet"}); err != nil {
				t.Fatal(err)
			}
		}
		throttle()
		expect("a new class", "Unknown AwaitingReconciliation", "RequestLimitExceeded")
		w.sim.Clear()
		expect("EC2 answers", isValid, "")
		throttle()
		edited := w.class(t, "default")
		edited.Generation++
		edited.Spec.Tags = map[string]string{"team": "blue"}
		if err := w.api.Update(t.Context(), edited); err != nil {
			t.Fatal(err)
		}
		expect("an edited class", "Unknown AwaitingReconciliation", "RequestLimitExceeded")
		w.sim.Clear()
		expect("EC2 answers again", isValid, "")
	})
}

// TestProfileOfTheUserIsMissing: EC2 says so, and the class says it, until there is one.
func TestProfileOfTheUserIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		c := newClass("own")
		c.Spec.Role, c.Spec.InstanceProfile = "", new("mine")
		if err := w.api.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		var last string
		observe := func(c *awsv1.EC2NodeClass) { last = said(c, awsv1.ConditionTypeValidationSucceeded) }
		w.follow(t, p, "own", 5*time.Minute, observe)
		if want := "False InstanceProfileNotFound"; last != want {
			t.Errorf("%s, want %s", last, want)
		}
		w.sim.AddProfile("mine", "nodes")
		w.follow(t, p, "own", 2*missingAgain, observe)
		if last != isValid {
			t.Errorf("with the profile: %s, want %s", last, isValid)
		}
	})
}

// TestInterfacesOfAClass tries out a class that has several network interfaces, whatever
// EC2 does with those of the request and those of the launch template.
func TestInterfacesOfAClass(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]bool{"EC2 merges them": false, "those of the request replace the others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(o *awssim.Options) { o.Beliefs.ReplaceInterfaces = replace })
				p := w.provider(t)
				c := newClass("wide")
				c.Spec.NetworkInterfaces = []awsv1.NetworkInterface{
					{NetworkCardIndex: 0, DeviceIndex: 0, InterfaceType: awsv1.InterfaceTypeInterface},
					{NetworkCardIndex: 0, DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeInterface},
				}
				if err := w.api.Create(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				w.follow(t, p, "wide", time.Minute, func(*awsv1.EC2NodeClass) {})
				if got := said(w.class(t, "wide"), "Ready"); got != "True Ready" {
					condition := meta.FindStatusCondition(w.class(t, "wide").Status.Conditions, awsv1.ConditionTypeValidationSucceeded)
					t.Errorf("Ready is %s: %s", got, condition.Message)
				}
			})
		})
	}
}

// TestDryRunAsksFewSubnets: a class with many subnets, none of which will do, costs few
// requests.
func TestDryRunAsksFewSubnets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *awssim.Options) {
			for i := range 40 {
				o.Subnets = append(o.Subnets, awssim.Subnet{
					ID: fmt.Sprintf("subnet-%02d", i), Zone: "us-east-1a", CIDR: fmt.Sprintf("10.%d.0.0/16", i), Tags: map[string]string{"karpenter.sh/discovery": "demo"},
				})
			}
		})
		p := w.provider(t)
		if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultRefused, Operation: "ec2:RunInstances", Target: "SomethingNew"}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.classes.reconcile(context.Background(), reconcile.Request{NamespacedName: named("default")}); err != nil {
			t.Fatal(err)
		}
		if n := w.sim.Calls()["ec2:RunInstances"]; n != subnetsTried {
			t.Errorf("%d calls, want %d", n, subnetsTried)
		}
		if c := w.class(t, "default"); len(c.Status.Subnets) != 40 || meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, "Ready", metav1.ConditionTrue) {
			t.Errorf("%d subnets, Ready %s", len(c.Status.Subnets), said(c, "Ready"))
		}
	})
}
