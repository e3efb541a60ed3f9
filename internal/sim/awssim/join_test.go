package awssim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// nodes is an API server that only counts.
type nodes struct {
	joined map[string]*corev1.Node
	left   []string
}

func (n *nodes) Join(node *corev1.Node) { n.joined[node.Name] = node }
func (n *nodes) Leave(name string)      { n.left = append(n.left, name) }

const nodeadm = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: demo, apiServerEndpoint: https://x, certificateAuthority: Y2E=, cidr: 172.20.0.0/16}
  kubelet:
    config: {maxPods: 29}
    flags: ['--node-labels="karpenter.sh/nodepool=default"']
--//--
`

// TestJoin: an instance's Node joins when it has booted, and leaves when it is gone.
func TestJoin(t *testing.T) {
	t.Parallel()
	api := &nodes{joined: map[string]*corev1.Node{}}
	w := newWorld(t, func(o *awssim.Options) { o.Registrar = api })
	w.template(t.Context(), t, nodeadm, func(d *ec2types.RequestLaunchTemplateData) {
		d.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
			DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(100)},
		}}
	})
	out, err := w.ec2.CreateFleet(t.Context(), fleet(1, "spot", override("m5.large", subnetA)))
	if err != nil {
		t.Fatal(err)
	}
	w.pass(19 * time.Second)
	if len(api.joined) != 0 {
		t.Error("a Node joined before its instance had booted")
	}
	w.pass(21 * time.Second)
	in := w.sim.Instances()[0]
	node := api.joined[in.Node]
	if node == nil {
		t.Fatalf("no Node joined: %+v", in)
	}
	if got, want := node.Spec.ProviderID, "aws:///us-east-1a/"+ids(out)[0]; got != want {
		t.Errorf("providerID %s, want %s", got, want)
	}
	disk := node.Status.Capacity[corev1.ResourceEphemeralStorage]
	if node.Status.Allocatable.Memory().Value() != 6903<<20 || disk.Value() != 100<<30 {
		t.Errorf("capacity %v, allocatable %v", node.Status.Capacity, node.Status.Allocatable)
	}
	if _, err := w.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids(out)}); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if len(api.left) != 1 || api.left[0] != node.Name {
		t.Errorf("left: %v, want %s", api.left, node.Name)
	}
}

// TestReboot: an instance that is rebooted runs all the while, and its kubelet registers the same Node
// with another boot ID when it has booted; one that is rebooted again meanwhile boots once more. After
// its end it does not boot.
func TestReboot(t *testing.T) {
	t.Parallel()
	api := &nodes{joined: map[string]*corev1.Node{}}
	w := newWorld(t, func(o *awssim.Options) { o.Registrar = api })
	w.template(t.Context(), t, nodeadm, nil)
	out, err := w.ec2.CreateFleet(t.Context(), fleet(1, "on-demand", override("m5.large", subnetA)))
	if err != nil {
		t.Fatal(err)
	}
	reboot := func() {
		t.Helper()
		if _, err := w.ec2.RebootInstances(t.Context(), &ec2.RebootInstancesInput{InstanceIds: ids(out)}); err != nil {
			t.Fatal(err)
		}
	}
	// joined returns the Node that joined since it was asked last; nil: none did.
	joined := func() *corev1.Node {
		node := api.joined[w.sim.Instances()[0].Node]
		clear(api.joined)
		return node
	}
	w.pass(40 * time.Second)
	first := joined()
	reboot()
	w.pass(19 * time.Second)
	reboot()
	if in := w.sim.Instances()[0]; in.State != "running" || in.Reboots != 2 {
		t.Errorf("while it boots: %+v", in)
	}
	w.pass(19 * time.Second)
	if joined() != nil {
		t.Error("a Node joined before its instance had booted again")
	}
	w.pass(21 * time.Second)
	second := joined()
	if first == nil || second == nil {
		t.Fatalf("Nodes: %v and after the reboot %v", first, second)
	}
	if id := second.Status.NodeInfo.BootID; len(id) != 36 || id == first.Status.NodeInfo.BootID {
		t.Errorf("the boot ID is %q, and was %q", id, first.Status.NodeInfo.BootID)
	}
	if first.Name != second.Name || first.Spec.ProviderID != second.Spec.ProviderID {
		t.Errorf("the Node is %s of %s, and was %s of %s", second.Name, second.Spec.ProviderID, first.Name, first.Spec.ProviderID)
	}
	reboot()
	if _, err := w.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids(out)}); err != nil {
		t.Fatal(err)
	}
	reboot() // which EC2 ignores
	w.pass(2 * time.Minute)
	if joined() != nil || w.sim.Instances()[0].Reboots != 3 {
		t.Errorf("after its end: %+v", w.sim.Instances()[0])
	}
}

// TestBrokenUserData: the instance runs, and the account can say why no Node joins.
func TestBrokenUserData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.template(t.Context(), t, "#!/bin/sh\n", nil)
	if _, err := w.ec2.CreateFleet(t.Context(), fleet(1, "on-demand", override("m5.large", subnetA))); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if in := w.sim.Instances()[0]; in.State != "running" || in.Node != "" || !strings.Contains(in.BootError, "NodeConfig") {
		t.Errorf("instance: %+v", in)
	}
}

// TestMemoryError: what kubelets report differs from the prediction by up to the share asked.
func TestMemoryError(t *testing.T) {
	t.Parallel()
	api := &nodes{joined: map[string]*corev1.Node{}}
	w := newWorld(t, func(o *awssim.Options) { o.Registrar, o.Beliefs.MemoryError = api, 0.02 })
	w.template(t.Context(), t, nodeadm, nil)
	if _, err := w.ec2.CreateFleet(t.Context(), fleet(1, "on-demand", override("m5.large", subnetA))); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	for _, node := range api.joined {
		if off := node.Status.Capacity.Memory().Value() - 7577<<20; off == 0 || off > 164<<20 || off < -164<<20 {
			t.Errorf("memory is off by %d bytes, want at most 2 %% and not nothing", off)
		}
	}
	if len(api.joined) != 1 {
		t.Errorf("%d Nodes joined", len(api.joined))
	}
}
