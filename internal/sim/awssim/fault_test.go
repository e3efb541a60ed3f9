package awssim_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// launched is an account with n spot instances that run.
func launched(t *testing.T, n int32, capacity ec2types.DefaultTargetCapacityType) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.template(t.Context(), t, nodeadm, nil)
	if out, err := w.ec2.CreateFleet(t.Context(), fleet(n, capacity, override("m5.large", subnetA))); err != nil || len(ids(out)) != int(n) {
		t.Fatal(out, err)
	}
	w.pass(time.Minute)
	w.messages(t) // those of the start
	return w
}

// envelope is an EventBridge event.
type envelope struct {
	Version, Source string
	DetailType      string `json:"detail-type"`
	Detail          map[string]any
}

// messages takes all visible messages off the queue.
func (w *world) messages(t *testing.T) []envelope {
	t.Helper()
	client := sqs.NewFromConfig(w.cfg)
	url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("demo")})
	if err != nil {
		t.Fatal(err)
	}
	var all []envelope
	for {
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return all
		}
		for _, m := range out.Messages {
			var e envelope
			if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
			if _, err := client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url.QueueUrl, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (w *world) live() int {
	n := 0
	for _, in := range w.sim.Instances() {
		if in.Live() {
			n++
		}
	}
	return n
}

// TestInterruption: the notice is on the queue at once, and the end comes two minutes later.
func TestInterruption(t *testing.T) {
	t.Parallel()
	w := launched(t, 3, "spot")
	if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Count: 2}, awssim.Fault{Kind: awssim.FaultRebalance}); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, m := range w.messages(t) {
		kinds[m.DetailType]++
		if m.Source != "aws.ec2" || m.Version != "0" || !strings.HasPrefix(m.Detail["instance-id"].(string), "i-") {
			t.Errorf("message: %+v", m)
		}
	}
	if kinds["EC2 Spot Instance Interruption Warning"] != 2 || kinds["EC2 Instance Rebalance Recommendation"] != 1 {
		t.Errorf("messages: %v, want 2 warnings, and a recommendation for the third", kinds)
	}
	w.pass(119 * time.Second)
	if n := w.live(); n != 3 {
		t.Errorf("%d live before the two minutes are over", n)
	}
	w.pass(time.Second)
	if n := w.live(); n != 1 {
		t.Errorf("%d live after two minutes, want 1", n)
	}
	if m := w.messages(t); len(m) != 2 || m[0].DetailType != "EC2 Instance State-change Notification" || m[0].Detail["state"] != "shutting-down" {
		t.Errorf("messages of the end: %+v", m)
	}
}

func TestMaintenance(t *testing.T) {
	t.Parallel()
	w := launched(t, 1, "on-demand")
	f := awssim.Fault{Kind: awssim.FaultMaintenance}
	f.Delay.Duration = time.Hour
	if err := w.sim.Inject(f); err != nil {
		t.Fatal(err)
	}
	m := w.messages(t)
	if len(m) != 1 || m[0].Source != "aws.health" || m[0].Detail["eventTypeCategory"] != "scheduledChange" || m[0].Detail["startTime"] != "Sun, 01 Nov 2026 10:01:00 UTC" {
		t.Fatalf("messages: %+v", m)
	}
	out, err := w.ec2.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{Filters: filter("event.code", "instance-retirement", "instance-stop")})
	if err != nil || len(out.InstanceStatuses) != 1 || out.InstanceStatuses[0].Events[0].NotBefore == nil {
		t.Errorf("status: %+v, %v", out, err)
	}
	w.pass(time.Hour)
	if w.live() != 0 {
		t.Error("the instance outlives its retirement")
	}
}

// TestFaultsOfInstances: what a person or a zone does to instances and templates.
func TestFaultsOfInstances(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fault awssim.Fault
		live  int
		code  string // of the next fleet's only error, or of the fleet
	}{
		"terminated by hand":          {awssim.Fault{Kind: awssim.FaultTerminate, Count: 1}, 1, ""},
		"a zone is gone":              {awssim.Fault{Kind: awssim.FaultZone, Zone: "us-east-1a"}, 0, "InsufficientInstanceCapacity"},
		"another zone is gone":        {awssim.Fault{Kind: awssim.FaultZone, Zone: "us-east-1b"}, 2, ""},
		"all pools are short":         {awssim.Fault{Kind: awssim.FaultShort}, 2, "InsufficientInstanceCapacity"},
		"spot is short":               {awssim.Fault{Kind: awssim.FaultShort, CapacityType: "spot"}, 2, ""},
		"a quota":                     {awssim.Fault{Kind: awssim.FaultQuota, Target: "on-demand/*", Count: 4}, 2, "VcpuLimitExceeded"},
		"the template is deleted":     {awssim.Fault{Kind: awssim.FaultDeleteTemplates}, 2, "InvalidLaunchTemplateName.NotFoundException"},
		"other templates are deleted": {awssim.Fault{Kind: awssim.FaultDeleteTemplates, Target: "karpenter*"}, 2, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := launched(t, 2, "on-demand")
			if err := w.sim.Inject(tc.fault); err != nil {
				t.Fatal(err)
			}
			if n := w.live(); n != tc.live {
				t.Errorf("%d instances live, want %d", n, tc.live)
			}
			out, err := w.ec2.CreateFleet(t.Context(), fleet(1, "on-demand", override("m5.large", subnetA)))
			got := code(err)
			if err == nil && len(out.Errors) > 0 {
				got = aws.ToString(out.Errors[0].ErrorCode)
			}
			if got != tc.code {
				t.Errorf("the next fleet: %q, want %q", got, tc.code)
			}
			w.sim.Clear()
		})
	}
}

// TestFaultsOfCalls: what a call to any service gets.
func TestFaultsOfCalls(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ kind, ec2, iam, ssm string }{
		"throttling":               {awssim.FaultThrottle, "RequestLimitExceeded", "Throttling", "ThrottlingException"},
		"internal errors":          {awssim.FaultError, "InternalError", "InternalError", "InternalError"},
		"expired credentials":      {awssim.FaultExpired, "RequestExpired", "ExpiredToken", "ExpiredTokenException"},
		"denied":                   {awssim.FaultDenied, "UnauthorizedOperation", "AccessDenied", "AccessDeniedException"},
		"the endpoint is down":     {awssim.FaultDown, "", "", ""},
		"answers are lost":         {awssim.FaultCut, "", "", ""},
		"nothing but inconsistent": {awssim.FaultInconsistent, "ok", "ok", "ok"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			calls := func() (string, string, string) {
				_, a := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
				_, b := iam.NewFromConfig(w.cfg).ListInstanceProfiles(t.Context(), &iam.ListInstanceProfilesInput{})
				_, c := ssm.NewFromConfig(w.cfg).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(al2023)})
				return outcome(a), outcome(b), outcome(c)
			}
			f := awssim.Fault{Kind: tc.kind}
			f.For.Duration = time.Minute
			if err := w.sim.Inject(f); err != nil {
				t.Fatal(err)
			}
			if a, b, c := calls(); a != tc.ec2 || b != tc.iam || c != tc.ssm {
				t.Errorf("%s, %s, %s; want %s, %s, %s", a, b, c, tc.ec2, tc.iam, tc.ssm)
			}
			w.pass(time.Minute)
			if a, b, c := calls(); a+b+c != "okokok" {
				t.Errorf("after a minute: %s, %s, %s", a, b, c)
			}
		})
	}
}

// outcome is "ok", an API code, or nothing for a broken connection.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return code(err)
}

// TestDeprecation: an image's time ends, and its parameter names a newer one.
func TestDeprecation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	old := w.sim.Parameter(al2023)
	if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultDeprecate, Target: "amazon-eks-node-al2023-x86_64-standard-*"}); err != nil {
		t.Fatal(err)
	}
	fresh := w.sim.Parameter(al2023)
	describe := func(deprecated bool) int {
		out, err := w.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{
			Filters: filter("name", "amazon-eks-node-al2023-x86_64-standard-*"), Owners: []string{"amazon"}, IncludeDeprecated: aws.Bool(deprecated),
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Images)
	}
	if fresh == old || describe(true) != 2 || describe(false) != 1 {
		t.Errorf("old %s, new %s, %d images with deprecated ones, %d without", old, fresh, describe(true), describe(false))
	}
}

// TestScenario: a file of faults is played by the clock.
func TestScenario(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const file = `
faults:
- {kind: throttle, operation: "ec2:Describe*", at: 10s, for: 20s}
- {kind: error, operation: "ec2:DescribeSubnets", at: 1m, times: 2}
`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://awssim.local/_awssim/faults", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.sim.Transport().RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	if r, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://awssim.local/_awssim/account", nil); err != nil {
		t.Fatal(err)
	}
	observe, err := w.sim.Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = observe.Body.Close() }()
	var account map[string]any
	if err := json.NewDecoder(observe.Body).Decode(&account); err != nil || account["spent"] != 0.0 || len(account) != 4 {
		t.Errorf("the account: %v, %v", account, err)
	}
	var got []string
	for range 7 {
		_, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
		got = append(got, outcome(err))
		w.pass(10 * time.Second)
	}
	_, err = w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	got = append(got, outcome(err))
	_, err = w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	got = append(got, outcome(err))
	if s := strings.Join(got, ","); s != "ok,RequestLimitExceeded,RequestLimitExceeded,ok,ok,ok,InternalError,InternalError,ok" {
		t.Errorf("reported %s", s)
	}
	for _, bad := range []string{"faults: [{kind: flood}]", "faults: [{kind: error, often: 1}]", "faults: [{kind: error, rate: 2}]", "{"} {
		if _, err := awssim.ReadScenario([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
