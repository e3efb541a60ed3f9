package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// replaceWithin bounds the wait for a node's replacement: launch, drain and end.
const replaceWithin = 4 * time.Minute

// TestMoto runs the whole product against an AWS account that others have written: the
// moto_server of https://docs.getmoto.org. moto is permissive: it proves that what we send
// can be read and that we read what is answered, and little of what EC2 would refuse.
// What it lacks is in TestMotoLacks.
func TestMoto(t *testing.T) {
	t.Parallel()
	m := startMoto(t)
	cluster := testkit.StartCluster(t)
	s := &motoStory{moto: m, c: connect(t, cluster), kubeconfig: cluster.Kubeconfig}
	installDefinitions(t, s.c)
	go m.join(t.Context(), s.c)
	s.start(t)
	for _, step := range []struct {
		name string
		play func(*testing.T)
	}{
		{"a class becomes Ready, and its instance profile has its role", s.classReady},
		{"pods get instances on demand by launch template and fleet", s.onDemand},
		{"pods get spot instances", s.spot},
		{"prices are read", s.prices},
		{"notices of the queue replace the instances that they name", s.notices},
		{"an instance that vanished takes its claim along", s.vanished},
		{"an instance that no claim knows is ended, and no stranger's", s.orphan},
		{"nodes of an edited class are replaced", s.classDrift},
		{"nodes of an older image are replaced", s.imageDrift},
		{"a class whose launches are not allowed is not Ready, and is again", s.rights},
		{"in the end nothing is left", s.end},
	} {
		if !t.Run(step.name, step.play) {
			t.Fatalf("the next steps begin where this one ends\n%s", s.controller)
		}
	}
}

// motoStory is a cluster on an account of moto. Its methods are the steps, in their order.
type motoStory struct {
	*moto
	c          client.Client
	kubeconfig string
	controller *process
}

// start starts the controller, after ending the one that runs.
func (s *motoStory) start(t *testing.T) {
	t.Helper()
	if s.controller != nil {
		if status := s.controller.stop(); status != 0 {
			t.Errorf("exit status %d\n%s", status, s.controller)
		}
	}
	s.controller = startIn(s.t, s.environment(), "controller", "--kubeconfig", s.kubeconfig, "--metrics-port", "0", "--health-probe-port", "0",
		"--cloud-provider=aws", "--cluster-name=demo", "--interruption-queue=demo", "--batch-idle-duration=500ms", "--replace-on-rebalance=true")
}

func (s *motoStory) classReady(t *testing.T) {
	class := awsClass()
	class.Spec.AMIFamily = aws.String("AL2023")
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{SSMParameter: motoImage}}
	objects := []client.Object{class}
	for _, capacity := range []string{"on-demand", "spot"} {
		objects = append(objects, motoPool(capacity))
	}
	for _, o := range objects {
		if err := s.c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), s.c) })
	class = s.class(t)
	if len(class.Status.Subnets) != 3 || len(class.Status.SecurityGroups) != 1 || len(class.Status.AMIs) != 1 {
		t.Errorf("want three subnets, a security group and an image: %+v", class.Status)
	}
	profile := must(s.iam.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: &class.Status.InstanceProfile}))(t)
	if roles := profile.InstanceProfile.Roles; len(roles) != 1 || aws.ToString(roles[0].RoleName) != motoRole {
		t.Errorf("instance profile %s has roles %+v, want %s", class.Status.InstanceProfile, roles, motoRole)
	}
}

func (s *motoStory) onDemand(t *testing.T) {
	s.deploy(t, "on-demand", 2)
	for id, i := range s.await(t, "on-demand", 2) {
		if i.InstanceLifecycle != "" {
			t.Errorf("instance %s is %q, want on demand", id, i.InstanceLifecycle)
		}
		s.checkTags(t, id)
	}
	templates := must(s.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{}))(t)
	if len(templates.LaunchTemplates) == 0 {
		t.Error("there is no launch template")
	}
}

// checkTags wants the tags by which people, policies and the controller know an instance.
// Its name and claim come a little later than itself.
func (s *motoStory) checkTags(t *testing.T, id string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		running, err := s.instances(t.Context())
		if err != nil {
			return err
		}
		i := running[id]
		var claims karpenterv1.NodeClaimList
		if err := s.c.List(t.Context(), &claims); err != nil {
			return err
		}
		claim := ""
		for j := range claims.Items {
			if strings.HasSuffix(claims.Items[j].Status.ProviderID, "/"+id) {
				claim = claims.Items[j].Name
			}
		}
		for key, want := range map[string]string{
			awsv1.TagNodeClass: "default", awsv1.TagNodePool: "on-demand", awsv1.TagClusterPrefix + "demo": "owned",
			awsv1.TagEKSClusterName: "demo", awsv1.TagNodeClaim: claim, awsv1.TagName: aws.ToString(i.PrivateDnsName),
		} {
			if got := motoTag(&i, key); got != want || want == "" {
				return fmt.Errorf("instance %s has tag %s %q, want %q", id, key, got, want)
			}
		}
		return nil
	})
}

func (s *motoStory) spot(t *testing.T) {
	s.deploy(t, "spot", 5)
	for id, i := range s.await(t, "spot", 5) {
		if i.InstanceLifecycle != types.InstanceLifecycleTypeSpot {
			t.Errorf("instance %s is %q, want spot", id, i.InstanceLifecycle)
		}
	}
}

// prices wants moto's price of spot instances, which is the same for all, among the metrics,
// and prices on demand though moto has none: those that come with the program.
func (s *motoStory) prices(t *testing.T) {
	answer := must(http.Get(s.controller.address("metrics") + "/metrics"))(t) //nolint:bodyclose // it is closed below
	text := must(io.ReadAll(answer.Body))(t)
	_ = answer.Body.Close()
	spot, onDemand := 0, 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "karpenter_cloudprovider_instance_type_offering_price_estimate{") {
			continue
		}
		switch {
		case strings.Contains(line, `capacity_type="on-demand"`):
			onDemand++
		case strings.HasSuffix(strings.TrimSpace(line), " 1e-05"):
			spot++
		}
	}
	if spot == 0 || onDemand == 0 {
		t.Errorf("%d spot offerings at moto's price and %d on demand with any, want some of both", spot, onDemand)
	}
}

// notices sends what EventBridge would, of each kind to another instance, among messages
// that are nobody's. moto itself reports nothing.
func (s *motoStory) notices(t *testing.T) {
	running := s.await(t, "spot", 5)
	ids := slices.Sorted(maps.Keys(running))
	kept := ids[4]
	now := time.Now().UTC()
	for _, message := range []string{
		motoEvent(now, "aws.ec2", "EC2 Spot Instance Interruption Warning", map[string]any{"instance-id": ids[0], "instance-action": "terminate"}),
		motoEvent(now, "aws.ec2", "EC2 Instance Rebalance Recommendation", map[string]any{"instance-id": ids[1]}),
		motoEvent(now, "aws.ec2", "EC2 Instance State-change Notification", map[string]any{"instance-id": ids[2], "state": "stopping"}),
		motoEvent(now, "aws.health", "AWS Health Event", map[string]any{
			"service": "EC2", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "eventTypeCategory": "scheduledChange",
			"startTime": now.Format(time.RFC1123), "affectedEntities": []any{map[string]any{"entityValue": ids[3]}},
		}),
		motoEvent(now, "aws.ec2", "EC2 Instance State-change Notification", map[string]any{"instance-id": kept, "state": "running"}),
		motoEvent(now, "aws.ec2", "EC2 Instance State-change Notification", map[string]any{"instance-id": "i-0123456789abcdef0", "state": "terminated"}),
		`not of EventBridge`,
	} {
		must(s.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &s.queue, MessageBody: &message}))(t)
	}
	s.gone(t, ids[:4]...)
	if now := s.await(t, "spot", 5); now[kept].InstanceId == nil {
		t.Errorf("instance %s is gone, of which nothing was said but that it runs", kept)
	}
	testkit.Eventually(t, patience, func() error {
		depth, err := s.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &s.queue, AttributeNames: []sqstypes.QueueAttributeName{
			sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		}})
		if err != nil {
			return err
		}
		for name, n := range depth.Attributes {
			if n != "0" {
				return fmt.Errorf("%s is %s", name, n)
			}
		}
		return nil
	})
}

func motoEvent(at time.Time, source, kind string, detail map[string]any) string {
	text, err := json.Marshal(map[string]any{
		"version": "0", "id": "12345678-1234-1234-1234-123456789012", "detail-type": kind, "source": source, "account": motoAccount,
		"time": at.Format(time.RFC3339), "region": motoRegion, "resources": []string{}, "detail": detail,
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (s *motoStory) vanished(t *testing.T) {
	id := slices.Sorted(maps.Keys(s.await(t, "spot", 5)))[0]
	must(s.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	s.gone(t, id)
	s.await(t, "spot", 5)
}

func (s *motoStory) orphan(t *testing.T) {
	image := s.class(t).Status.AMIs[0].ID
	run := func(tags map[string]string) string {
		out := must(s.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{
			ImageId: &image, InstanceType: types.InstanceTypeC5Xlarge, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: motoTags(tags)}},
		}))(t)
		return aws.ToString(out.Instances[0].InstanceId)
	}
	stranger := run(map[string]string{awsv1.TagEKSClusterName: "demo", awsv1.TagName: "bastion"})
	orphan := run(map[string]string{
		awsv1.TagEKSClusterName: "demo", awsv1.TagClusterPrefix + "demo": "owned", awsv1.TagNodePool: "spot", awsv1.TagNodeClass: "default", awsv1.TagNodeClaim: "spot-lost",
	})
	s.gone(t, orphan)
	running := must(s.instances(t.Context()))(t)
	if running[stranger].InstanceId == nil {
		t.Error("an instance was ended that has no tags of Karpenter's")
	}
	must(s.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{stranger}}))(t)
}

func (s *motoStory) classDrift(t *testing.T) {
	s.deploy(t, "spot", 2)
	old := slices.Collect(maps.Keys(s.await(t, "spot", 2)))
	class := s.class(t)
	class.Spec.Tags = map[string]string{"team": "blue"}
	if err := s.c.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	s.start(t) // what another process has launched is compared as well
	s.gone(t, old...)
	for id, i := range s.await(t, "spot", 2) {
		if got := motoTag(&i, "team"); got != "blue" {
			t.Errorf("instance %s has tag team %q, want blue", id, got)
		}
	}
}

func (s *motoStory) imageDrift(t *testing.T) {
	old := slices.Collect(maps.Keys(s.await(t, "spot", 2)))
	image := s.publishImage("node-2")
	s.start(t) // it would find the image within five minutes
	s.gone(t, old...)
	for id, i := range s.await(t, "spot", 2) {
		if got := aws.ToString(i.ImageId); got != image {
			t.Errorf("instance %s has image %s, want %s", id, got, image)
		}
	}
}

func (s *motoStory) rights(t *testing.T) {
	for _, c := range []struct{ action, reason string }{
		{"ec2:CreateFleet", "CreateFleetAuthCheckFailed"},
		{"ec2:RunInstances", "RunInstancesAuthCheckFailed"},
	} {
		s.allow(motoUser, "denied", "Deny", []string{c.action})
		s.touch(t)
		testkit.Eventually(t, patience, func() error {
			class := s.class(t)
			got := meta.FindStatusCondition(class.Status.Conditions, awsv1.ConditionTypeValidationSucceeded)
			if got == nil || got.Status != metav1.ConditionFalse || got.Reason != c.reason || meta.IsStatusConditionTrue(class.Status.Conditions, "Ready") {
				return fmt.Errorf("%s is not allowed, and the class says %+v", c.action, class.Status.Conditions)
			}
			return nil
		})
		must(s.iam.DeleteUserPolicy(t.Context(), &iam.DeleteUserPolicyInput{UserName: aws.String(motoUser), PolicyName: aws.String("denied")}))(t)
		s.touch(t)
		testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), s.c) })
	}
}

func (s *motoStory) end(t *testing.T) {
	s.deploy(t, "spot", 0)
	s.deploy(t, "on-demand", 0)
	testkit.Eventually(t, replaceWithin, func() error {
		left, err := s.instances(t.Context())
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d instances are left", len(left))
		}
		return err
	})
	class := s.class(t)
	for _, o := range []client.Object{motoPool("spot"), motoPool("on-demand"), class} {
		if err := s.c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, patience, func() error {
		if err := s.c.Get(t.Context(), client.ObjectKeyFromObject(class), class); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the class is still there: %w", err)
		}
		return nil
	})
	profiles := must(s.iam.ListInstanceProfiles(t.Context(), &iam.ListInstanceProfilesInput{}))(t)
	templates := must(s.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{}))(t)
	if n, k := len(profiles.InstanceProfiles), len(templates.LaunchTemplates); n+k > 0 {
		t.Errorf("%d instance profiles and %d launch templates are left of the class", n, k)
	}
	if status := s.controller.stop(); status != 0 {
		t.Errorf("exit status %d\n%s", status, s.controller)
	}
}

func (s *motoStory) class(t *testing.T) *awsv1.EC2NodeClass {
	t.Helper()
	class := &awsv1.EC2NodeClass{}
	if err := s.c.Get(t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
		t.Fatal(err)
	}
	return class
}

// touch has the class tried out anew, as a person may who has mended an account.
func (s *motoStory) touch(t *testing.T) {
	t.Helper()
	before := s.class(t)
	class := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, "demo/tried", time.Now().String())
	if err := s.c.Patch(t.Context(), class, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// deploy wants so many pods on nodes of a capacity type, each of which takes one node.
func (s *motoStory) deploy(t *testing.T, capacity string, pods int32) {
	t.Helper()
	labels := map[string]string{"app": capacity}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: capacity, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{karpenterv1.CapacityTypeLabelKey: capacity}, TerminationGracePeriodSeconds: aws.Int64(1),
				Containers: []corev1.Container{{Name: "web", Image: "web", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("1Gi")},
				}}},
			},
		}},
	}
	err := s.c.Create(t.Context(), d.DeepCopy())
	if client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		if err := s.c.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// await returns the instances of a pool when there are so many, each with a pod that runs.
func (s *motoStory) await(t *testing.T, capacity string, want int) (out map[string]types.Instance) {
	t.Helper()
	testkit.Eventually(t, replaceWithin, func() error {
		running, err := s.instances(t.Context())
		if err != nil {
			return err
		}
		out = running
		maps.DeleteFunc(out, func(_ string, i types.Instance) bool { return motoTag(&i, awsv1.TagNodePool) != capacity })
		pods, err := s.pods(t.Context(), capacity)
		if err == nil && (len(out) != want || pods != want) {
			err = fmt.Errorf("%d instances and %d pods that run, want %d of each", len(out), pods, want)
		}
		return err
	})
	return out
}

// pods returns how many pods of a deployment run.
func (s *motoStory) pods(ctx context.Context, app string) (n int, err error) {
	var pods corev1.PodList
	err = s.c.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{"app": app})
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n, err
}

// gone returns when none of the instances runs, and none is on a claim.
func (s *motoStory) gone(t *testing.T, ids ...string) {
	t.Helper()
	testkit.Eventually(t, replaceWithin, func() error {
		running, err := s.instances(t.Context())
		if err != nil {
			return err
		}
		var claims karpenterv1.NodeClaimList
		if err := s.c.List(t.Context(), &claims); err != nil {
			return err
		}
		for _, id := range ids {
			if _, runs := running[id]; runs {
				return fmt.Errorf("instance %s still runs", id)
			}
			for i := range claims.Items {
				if strings.HasSuffix(claims.Items[i].Status.ProviderID, "/"+id) {
					return fmt.Errorf("claim %s still has instance %s", claims.Items[i].Name, id)
				}
			}
		}
		return nil
	})
}

// motoPool returns a pool of one capacity type, of nodes that take one pod of deploy's each.
func motoPool(capacity string) *karpenterv1.NodePool {
	pool := awsPool()
	pool.Name = capacity
	spec := &pool.Spec.Template.Spec
	for i := range spec.Requirements {
		if spec.Requirements[i].Key == karpenterv1.CapacityTypeLabelKey {
			spec.Requirements[i].Values = []string{capacity}
		}
	}
	spec.Requirements = append(spec.Requirements,
		karpenterv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceCPU, Operator: "In", Values: []string{"4"}},
		karpenterv1.NodeSelectorRequirementWithMinValues{Key: corev1.LabelArchStable, Operator: "In", Values: []string{"amd64"}},
	)
	pool.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "100%"}}
	return pool
}
