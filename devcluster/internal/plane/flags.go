package plane

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/devcluster/internal/home"
)

// gangFlags switch PodGroups on, which are beta in 1.37. The feature gate is common to all components.
var gangFlags = []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"}

// gangController removes the finalizer of PodGroups.
const gangController = "podgroup-protection-controller"

func apiserverFlags(h *home.Home, addr net.Addr, gangs bool) []string {
	flags := []string{
		"--etcd-servers=" + etcdURL(h),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", addr.(*net.TCPAddr).Port),
		"--advertise-address=127.0.0.1",
		"--external-hostname=localhost",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + h.Path("pki", "apiserver.crt"),
		"--tls-private-key-file=" + h.Path("pki", "apiserver.key"),
		"--client-ca-file=" + h.Path("pki", "ca.crt"),
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + h.Path("pki", "sa.key"),
		"--service-account-key-file=" + h.Path("pki", "sa.key"),
		"--allow-privileged=true",
		"--profiling=false",
		"--event-ttl=15m",
	}
	if gangs {
		flags = append(flags, gangFlags...)
	}
	return flags
}

// controllers is what an autoscaler's world needs, and nothing that wants a cloud, a pod
// network or a kubelet's API.
var controllers = []string{
	"serviceaccount-token-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller",
	"namespace-controller", "garbage-collector-controller", "pod-garbage-collector-controller",
	"replicationcontroller-controller", "replicaset-controller", "deployment-controller",
	"statefulset-controller", "daemonset-controller", "job-controller", "cronjob-controller",
	"ttl-after-finished-controller", "disruption-controller",
	"node-lifecycle-controller", "taint-eviction-controller",
	"resourcequota-controller", "clusterrole-aggregation-controller",
	"persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller", "ephemeral-volume-controller",
	"resourceclaim-controller",
	"validatingadmissionpolicy-status-controller",
}

// kcmFlags raises the client's rate limits: with the defaults, 1000 pods took 49 s just to
// exist (20 requests per second). RBAC demands the service-account credentials. On a busy
// machine the kubelets' leases are late; pods of a node that is taken for dead then would
// be not ready for good, since KWOK does not say again that they are.
func kcmFlags(h *home.Home, gangs bool) []string {
	controllers := controllers
	if gangs {
		controllers = append(slices.Clone(controllers), gangController)
	}
	return []string{
		"--kubeconfig=" + h.ClientConfig("kube-controller-manager"),
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file=" + h.Path("pki", "sa.key"),
		"--root-ca-file=" + h.Path("pki", "ca.crt"),
		"--use-service-account-credentials=true",
		"--allocate-node-cidrs=false",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=20",
		"--concurrent-gc-syncs=30",
		"--node-monitor-grace-period=5m",
	}
}

func schedulerFlags(h *home.Home) []string {
	return []string{"--config=" + schedulerConfigPath(h), "--secure-port=0"}
}

func schedulerConfigPath(h *home.Home) string { return h.Path("conf", "scheduler.yaml") }

// schedulerConfig is kube-scheduler's configuration when the user has none. Pods whose
// schedulerName is default-spread are scheduled as in a cluster that spreads pods without
// constraints of their own over zones.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
enableProfiling: false
podMaxBackoffSeconds: 5
profiles:
- schedulerName: default-scheduler
- schedulerName: default-spread
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}
      - {topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}
`

// writeSchedulerConfig writes the file that kube-scheduler must have: its flags for rate
// limits and kubeconfig are ignored once there is one. What the user's says of either, or of
// leader election, is replaced. With the default limit of 50 binds per second, 5000
// pods take 100 s.
func writeSchedulerConfig(h *home.Home, text []byte) error {
	if len(text) == 0 {
		text = []byte(schedulerConfig)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read kube-scheduler's configuration: %w", err)
	}
	config["clientConnection"] = map[string]any{"kubeconfig": h.ClientConfig("kube-scheduler"), "qps": 1000, "burst": 2000}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("write kube-scheduler's configuration: %w", err)
	}
	if err := os.WriteFile(schedulerConfigPath(h), text, 0o600); err != nil {
		return fmt.Errorf("write kube-scheduler's configuration: %w", err)
	}
	return nil
}
