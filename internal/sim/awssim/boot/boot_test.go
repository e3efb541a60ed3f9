package boot_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim/boot"
)

// large is an m5.large as its kernel sees it.
func large() boot.Instance {
	return boot.Instance{
		InstanceID: "i-1", InstanceType: "m5.large", Arch: "x86_64", Zone: "us-east-1a", ZoneID: "use1-az4", Region: "us-east-1",
		NodeName: "ip-10-0-0-4.ec2.internal", Local: "10.0.0.4", Cluster: "demo", KubeletVersion: "v1.35.2-eks-1",
		VCPUs: 2, MemoryBytes: 7577 << 20, ENIs: 3, Addresses: 10, StorageBytes: 75e9,
		Volumes: map[string]int64{"/dev/xvda": 20 << 30, "/dev/xvdb": 20 << 30, "/dev/sda1": 50 << 30},
	}
}

const nodeConfig = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo hello
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet: {config: {maxPods: 8, kubeReserved: {cpu: 500m}}}
--//
Content-Type: application/node.eks.aws

# written by a program
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: demo, apiServerEndpoint: https://x, certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet:
    config:
      maxPods: 29
      kubeReserved: {memory: 1Gi}
      evictionHard: {memory.available: 5%}
      registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]
    flags: ['--node-labels="a=1,karpenter.sh/nodepool=default"']
  instance: {localStorage: {strategy: RAID0}}
--//--
`

const bootstrap = `#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://x' --b64-cluster-ca 'Y2E=' \
--dns-cluster-ip '10.100.0.10' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="a=1" --register-with-taints="x=y:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=20'`

const settings = `[settings.kubernetes]
api-server = "https://x"
cluster-name = "demo"
cluster-certificate = "Y2E="
max-pods = 10
[settings.kubernetes.node-labels]
a = "1"
[settings.kubernetes.node-taints]
"x" = ["y:NoSchedule"]
[settings.kubernetes.kube-reserved]
cpu = "100m"
`

const powershell = `<powershell>
Write-Host hello
[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'demo' -APIServerEndpoint 'https://x' -Base64ClusterCA 'Y2E=' -KubeletExtraArgs '--node-labels="a=1" --max-pods=110' -DNSClusterIP '10.100.0.10'
</powershell>`

func TestNode(t *testing.T) {
	t.Parallel()
	const unregistered = "karpenter.sh/unregistered"
	cases := map[string]struct {
		family, userData string
		allocatable      map[corev1.ResourceName]string
		taints           []corev1.Taint
	}{
		"AL2023 merges NodeConfigs, by key": {
			family: boot.AL2023, userData: nodeConfig,
			// 7577Mi less 1Gi and 5 %; the store of 75 GB less 1Gi and a tenth.
			allocatable: map[corev1.ResourceName]string{"cpu": "1500m", "memory": "6174Mi", "pods": "29", "ephemeral-storage": "63349Mi"},
			taints:      []corev1.Taint{{Key: unregistered, Effect: "NoExecute"}},
		},
		"AL2 keeps by addresses, whatever the pods": {
			family: boot.AL2, userData: bootstrap,
			allocatable: map[corev1.ResourceName]string{"cpu": "1930m", "memory": "6903Mi", "pods": "20", "ephemeral-storage": "17Gi"},
			taints:      []corev1.Taint{{Key: "x", Value: "y", Effect: "NoSchedule"}, {Key: unregistered, Effect: "NoExecute"}},
		},
		"Bottlerocket keeps by pods": {
			family: boot.Bottlerocket, userData: settings,
			allocatable: map[corev1.ResourceName]string{"cpu": "1900m", "memory": "7112Mi", "pods": "10", "ephemeral-storage": "17Gi"},
			taints:      []corev1.Taint{{Key: "x", Value: "y", Effect: "NoSchedule"}},
		},
		"Windows": {
			family: "windows2022", userData: powershell,
			allocatable: map[corev1.ResourceName]string{"cpu": "1930m", "memory": "6012Mi", "pods": "110", "ephemeral-storage": "44Gi"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, err := boot.Node(tc.family, []byte(tc.userData), large())
			if err != nil {
				t.Fatal(err)
			}
			for k, text := range tc.allocatable {
				want, got := resource.MustParse(text), node.Status.Allocatable[k]
				// A tenth is not a power of two: kubelet is off by some bytes.
				if d := got.Value() - want.Value(); d > 1<<20 || d < -1<<20 || k == "cpu" && got.Cmp(want) != 0 {
					t.Errorf("allocatable %s is %s, want %s", k, got.String(), text)
				}
			}
			if diff := cmp.Diff(tc.taints, node.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
			if node.Labels["a"] != "1" || node.Labels["node.kubernetes.io/instance-type"] != "m5.large" || node.Spec.ProviderID != "aws:///us-east-1a/i-1" {
				t.Errorf("labels %v, providerID %s", node.Labels, node.Spec.ProviderID)
			}
		})
	}
}

func TestNoNode(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ family, userData, want string }{
		"nothing is said":                      {boot.AL2023, "", "no NodeConfig"},
		"a NodeConfig without a cluster":       {boot.AL2023, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig", "lacks certificateAuthority"},
		"another cluster's":                    {boot.AL2, strings.ReplaceAll(bootstrap, "'demo'", "other"), `for cluster "other"`},
		"a label that kubelet may not give":    {boot.AL2, strings.Replace(bootstrap, "a=1", "kubernetes.io/role=x", 1), "unknown 'kubernetes.io'"},
		"a flag that kubelet does not know":    {boot.AL2, strings.Replace(bootstrap, "--max-pods", "--max-pots", 1), "--max-pots: unknown flag"},
		"an argument bootstrap does not know":  {boot.AL2, strings.Replace(bootstrap, "--use-max-pods", "--use-max-pots", 1), "unknown argument"},
		"a script that does not call it":       {boot.AL2, "#!/bin/sh\necho", "does not call"},
		"TOML that is none":                    {boot.Bottlerocket, "settings = [", "user data"},
		"a taint without an effect":            {boot.Bottlerocket, strings.Replace(settings, "y:NoSchedule", "y", 1), "has no effect"},
		"no powershell":                        {"windows2019", "echo", "no <powershell>"},
		"a parameter that the script has not":  {"windows2019", strings.Replace(powershell, "-DNSClusterIP", "-DNS", 1), "'DNS'"},
		"an image that runs no kubelet at all": {"", nodeConfig, "no family"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := boot.Node(tc.family, []byte(tc.userData), large()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// FuzzNode: user data is what users write; no text may crash an instance, and a Node never
// offers more than it has.
func FuzzNode(f *testing.F) {
	for _, text := range []string{nodeConfig, bootstrap, settings, powershell} {
		f.Add([]byte(text))
		f.Add([]byte(strings.NewReplacer("500m", "-1", "100m", "-1", "=20", "=-1").Replace(text)))
	}
	f.Fuzz(func(t *testing.T, userData []byte) {
		for _, family := range []string{boot.AL2, boot.AL2023, boot.Bottlerocket, "windows2022"} {
			node, err := boot.Node(family, userData, large())
			if err != nil {
				continue
			}
			for k, q := range node.Status.Allocatable {
				if has := node.Status.Capacity[k]; q.Cmp(has) > 0 {
					t.Errorf("%s: %s of %s can be had of %s", family, q.String(), k, has.String())
				}
			}
		}
	})
}
