package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/policy"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestRequestsMeetThePolicy judges every request of an instance's life, and a class's, by the
// policies: each action on each resource, with the tags that it has or is given.
func TestRequestsMeetThePolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *awssim.Options) { o.Roles = []string{"KarpenterNodeRole-demo-2"} })
		p := w.provider(t)
		j := newJudge(w.sim)
		p.opts.InterruptionQueue, p.opts.KubernetesVersion = "demo", nil
		p.opts.Config.HTTPClient = &http.Client{Transport: j}
		p.connect()
		live(t, w, p)
		for _, refused := range j.refused {
			t.Error(refused)
		}
		for _, policy := range policy.Policies(j.params)[:3] { // what is looked up depends on the class
			for _, statement := range policy.Document.Statement {
				if !j.used[statement.Sid] {
					t.Errorf("statement %s of policy %s allowed nothing", statement.Sid, policy.Name)
				}
			}
		}
	})
}

// live has instances launched, tagged, interrupted and ended, and the class changed and
// deleted with all that was made for it.
func live(t *testing.T, w *world, p *Provider) {
	ctx := t.Context()
	w.ready(t, p, "default")
	spot := maps.Clone(onDemand)
	spot[label.CapacityType] = label.In(label.Spot)
	rs := append(requests(t, p, 2, onDemand), requests(t, p, 2, spot)...)
	for i := range rs {
		rs[i].Token, rs[i].Claim = fmt.Sprint("uid-", i), fmt.Sprint("claim-", i)
	}
	ids := launchIDs(t, p, rs)
	if len(ids) != len(rs) {
		t.Fatalf("launched %d instances, want %d", len(ids), len(rs))
	}
	time.Sleep(time.Minute)
	if err := p.instances.tagNew(ctx); err != nil {
		t.Error(err)
	}
	if _, err := p.List(ctx); err != nil {
		t.Error(err)
	}
	if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Count: 1}); err != nil {
		t.Fatal(err)
	}
	notify := p.notifier(func(context.Context, cloud.Notice) error { return nil })
	if err := (&queueReader{opts: p.opts, clients: p.clients, notify: notify}).read(ctx); err != nil {
		t.Error(err)
	}
	if err := (&statusReader{opts: p.opts, clients: p.clients, notify: notify}).read(ctx); err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		if err := p.Reboot(ctx, cloud.RebootRequest{InstanceID: id}); err != nil {
			t.Error(err)
		}
		if err := p.Terminate(ctx, id); err != nil {
			t.Error(err)
		}
	}
	class := &awsv1.EC2NodeClass{}
	if err := w.api.Get(ctx, named("default"), class); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(ctx, class); err != nil {
		t.Fatal(err)
	}
	if _, err := p.classes.reconcile(ctx, reconcile.Request{NamespacedName: named("default")}); err != nil {
		t.Error(err)
	}
	if left := append(w.sim.Templates(), w.sim.Profiles()...); len(left) > 0 {
		t.Errorf("the class has left %v", left)
	}
}

// tags are tags by key.
type tags map[string]string

// asked is one action on one resource, with what conditions may look at.
type asked struct {
	action, resource string
	keys             map[string][]string
}

// judge carries requests to an account and notes those that the policies do not allow.
type judge struct {
	sim     *awssim.Sim
	params  policy.Params
	mu      sync.Mutex
	made    map[string]tags // of launch templates and instance profiles, by name
	path    map[string]string
	refused []string
	used    map[string]bool // statements
}

func newJudge(sim *awssim.Sim) *judge {
	o := sim.Options()
	return &judge{
		sim: sim, made: map[string]tags{}, path: map[string]string{}, used: map[string]bool{},
		params: policy.Params{
			Partition: "aws", Region: o.Region, Account: o.AccountID, Cluster: o.Cluster.Name, NodeRole: "KarpenterNodeRole-" + o.Cluster.Name, Queue: o.Queue,
		},
	}
}

// RoundTrip judges a request and passes it on.
func (j *judge) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	j.mu.Lock()
	for _, a := range j.asks(r, body) {
		if !j.allows(&a) {
			j.refused = append(j.refused, fmt.Sprintf("no statement allows %s on %s with %v", a.action, a.resource, a.keys))
		}
	}
	j.mu.Unlock()
	return j.sim.Transport().RoundTrip(r)
}

// asks returns what a request asks for.
func (j *judge) asks(r *http.Request, body []byte) []asked {
	scope := strings.Split(r.Header.Get("Authorization"), "/")
	service := scope[3]
	form, err := url.ParseQuery(string(body))
	if err != nil {
		form = nil
	}
	switch service {
	case "ec2":
		return j.ec2Asks(form)
	case "iam":
		return j.iamAsks(form)
	case "eks":
		return []asked{{action: "eks:DescribeCluster", resource: j.arn("eks", "cluster/"+r.URL.Path[len("/clusters/"):])}}
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var doc struct{ QueueName, QueueUrl, Name string } //nolint:revive // as the service names it
	if err := json.Unmarshal(body, &doc); err != nil {
		return []asked{{action: err.Error()}}
	}
	resource := "*"
	switch service {
	case "sqs":
		resource = j.arn("sqs", doc.QueueName+doc.QueueUrl[strings.LastIndex(doc.QueueUrl, "/")+1:])
	case "ssm":
		resource = "arn:aws:ssm:" + j.params.Region + "::parameter" + doc.Name
	}
	return []asked{{action: service + ":" + operation, resource: resource}}
}

func (j *judge) arn(service, resource string) string {
	return "arn:aws:" + service + ":" + j.params.Region + ":" + j.params.Account + ":" + resource
}

func (j *judge) ec2Asks(form url.Values) []asked {
	action := form.Get("Action")
	as := func(resource string, keys map[string][]string) asked {
		return asked{"ec2:" + action, j.arn("ec2", resource), keys}
	}
	var out []asked
	switch action {
	case "CreateFleet", "RunInstances", "CreateLaunchTemplate":
		for kind, given := range specified(form, "") {
			out = append(out, as(kind+"/new", given.keys("aws:RequestTag/")))
			tagging := given.keys("aws:RequestTag/")
			tagging["ec2:CreateAction"] = []string{action}
			out = append(out, asked{"ec2:CreateTags", j.arn("ec2", kind+"/new"), tagging})
		}
		if action == "CreateLaunchTemplate" {
			name := form.Get("LaunchTemplateName")
			j.made[name] = specified(form, "")["launch-template"]
			for kind, given := range specified(form, `LaunchTemplateData\.`) {
				out = append(out, asked{"ec2:RunInstances", j.arn("ec2", kind+"/new"), given.keys("aws:RequestTag/")})
			}
			break
		}
		for _, name := range values(form, `LaunchTemplateName$`) {
			out = append(out, as("launch-template/lt-1", j.made[name].keys("aws:ResourceTag/")))
		}
		for _, id := range values(form, `SubnetId$`) {
			out = append(out, as("subnet/"+id, nil))
		}
		for _, id := range values(form, `ImageId$`) {
			out = append(out, asked{"ec2:" + action, "arn:aws:ec2:" + j.params.Region + "::image/" + id, nil})
		}
		out = append(out, asked{"iam:PassRole", "arn:aws:iam::" + j.params.Account + ":role/" + j.params.NodeRole, map[string][]string{"iam:PassedToService": {"ec2.amazonaws.com"}}})
	case "CreateTags":
		keys := values(form, `^Tag\.\d+\.Key$`)
		for _, id := range values(form, `^ResourceId`) {
			with := j.instance(id).keys("aws:ResourceTag/")
			with["aws:TagKeys"] = keys
			out = append(out, as("instance/"+id, with))
		}
	case "RebootInstances", "TerminateInstances":
		for _, id := range values(form, `^InstanceId`) {
			out = append(out, as("instance/"+id, j.instance(id).keys("aws:ResourceTag/")))
		}
	case "DeleteLaunchTemplate":
		out = append(out, as("launch-template/lt-1", j.made[form.Get("LaunchTemplateName")].keys("aws:ResourceTag/")))
	default:
		out = append(out, asked{"ec2:" + action, "*", map[string][]string{"aws:RequestedRegion": {j.params.Region}}})
	}
	return out
}

func (j *judge) instance(id string) tags {
	for _, in := range j.sim.Instances() {
		if in.ID == id {
			return in.Tags
		}
	}
	return nil
}

func (j *judge) iamAsks(form url.Values) []asked {
	action, name := form.Get("Action"), form.Get("InstanceProfileName")
	prefix := "arn:aws:iam::" + j.params.Account + ":"
	switch action {
	case "CreateInstanceProfile":
		given := listed(form, "Tags.member.")
		j.made[name], j.path[name] = given, form.Get("Path")
		resource := prefix + "instance-profile" + j.path[name] + name
		return []asked{{"iam:" + action, resource, given.keys("aws:RequestTag/")}, {"iam:TagInstanceProfile", resource, given.keys("aws:RequestTag/")}}
	case "GetInstanceProfile", "ListInstanceProfiles":
		return []asked{{"iam:" + action, prefix + "instance-profile" + strings.TrimSuffix(j.path[name], "/") + "/" + name, nil}}
	}
	out := []asked{{"iam:" + action, prefix + "instance-profile" + j.path[name] + name, j.made[name].keys("aws:ResourceTag/")}}
	if action == "AddRoleToInstanceProfile" {
		out = append(out, asked{"iam:PassRole", prefix + "role/" + form.Get("RoleName"), map[string][]string{"iam:PassedToService": {"ec2.amazonaws.com"}}})
	}
	return out
}

// keys returns tags as conditions name them.
func (g tags) keys(prefix string) map[string][]string {
	out := map[string][]string{}
	for key, value := range g {
		out[prefix+key] = []string{value}
	}
	return out
}

// fields returns the names of the fields that match, in order.
func fields(form url.Values, pattern string) []string {
	match := regexp.MustCompile(pattern)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(form)), func(name string) bool { return !match.MatchString(name) })
}

// values returns what the fields hold whose names match.
func values(form url.Values, pattern string) []string {
	var out []string
	for _, name := range fields(form, pattern) {
		out = append(out, form.Get(name))
	}
	return out
}

// specified returns the tags of the tag specifications of a prefix, by kind of resource.
func specified(form url.Values, prefix string) map[string]tags {
	out := map[string]tags{}
	for _, name := range fields(form, `^`+prefix+`TagSpecification\.\d+\.ResourceType$`) {
		out[form.Get(name)] = listed(form, strings.TrimSuffix(name, "ResourceType")+"Tag.")
	}
	return out
}

// listed returns the tags of a list.
func listed(form url.Values, prefix string) tags {
	out := tags{}
	for _, name := range fields(form, `^`+regexp.QuoteMeta(prefix)+`\d+\.Key$`) {
		out[form.Get(name)] = form.Get(strings.TrimSuffix(name, "Key") + "Value")
	}
	return out
}

// allows reports whether a statement allows what is asked, as IAM would.
func (j *judge) allows(a *asked) bool {
	allowed := false
	for _, p := range policy.Policies(j.params) {
		for _, s := range p.Document.Statement {
			if slices.Contains(s.Action, a.action) && slices.ContainsFunc(s.Resource, func(r string) bool { return wild(r, a.resource) }) && meets(s.Condition, a.keys) {
				j.used[s.Sid], allowed = true, true
			}
		}
	}
	return allowed
}

// meets reports whether all conditions hold.
func meets(conditions map[string]map[string][]string, keys map[string][]string) bool {
	for operator, byKey := range conditions {
		for key, wanted := range byKey {
			given := keys[key]
			fits := func(v string) bool {
				return slices.ContainsFunc(wanted, func(w string) bool { return w == v || operator == "StringLike" && wild(w, v) })
			}
			switch operator {
			case "StringEquals", "StringLike":
				if len(given) != 1 || !fits(given[0]) {
					return false
				}
			case "ForAllValues:StringEquals":
				if slices.ContainsFunc(given, func(v string) bool { return !fits(v) }) {
					return false
				}
			default:
				panic("no such operator: " + operator)
			}
		}
	}
	return true
}

// wild reports whether a text matches a pattern in which * is anything.
func wild(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(text)
}
