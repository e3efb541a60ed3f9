package kubelet_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

var large = kubelet.InstanceType{Type: "m5.large", VCPUs: 2, MemoryMiB: 8192, ENIs: 3, IPsPerENI: 10, Pods: 29}

func raw(t testing.TB, text string) *runtime.RawExtension {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: json}
}

func parse(t testing.TB, text string) *kubelet.Config {
	t.Helper()
	c, err := kubelet.Parse(raw(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatIsRefusedNamesItsField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[1]":                                   "spec.kubelet: not an object",
		"{maxPod: 3}":                           `spec.kubelet: unknown field "maxPod"`,
		"{podsPerCore: few}":                    "spec.kubelet: json: cannot unmarshal string",
		"{maxPods: 1.5}":                        "spec.kubelet: json: cannot unmarshal number 1.5",
		"{registerWithTaints: []}":              "spec.kubelet.registerWithTaints: not to be set; taints belong into the NodePool",
		"{evictionHard: {memory: 1Gi}}":         `spec.kubelet.evictionHard: "memory" is not one of memory.available, nodefs.available`,
		"{evictionHard: {pid.available: 101%}}": `spec.kubelet.evictionHard[pid.available]: "101%" is not a percentage from 0% to 100%`,
		"{evictionHard: {pid.available: NaN%}}": `spec.kubelet.evictionHard[pid.available]: "NaN%" is not a percentage`,
		"{evictionMinimumReclaim: {nodefs.available: -1Gi}}":                                       `spec.kubelet.evictionMinimumReclaim[nodefs.available]: "-1Gi" is neither`,
		"{evictionSoft: {memory.available: 5%}}":                                                   "spec.kubelet.evictionSoft[memory.available]: has no evictionSoftGracePeriod",
		"{evictionSoftGracePeriod: {memory.available: 1m}}":                                        "spec.kubelet.evictionSoftGracePeriod[memory.available]: has no evictionSoft",
		"{evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: -1m}}": `spec.kubelet.evictionSoftGracePeriod[memory.available]: "-1m" is not a duration`,
		"{kubeReserved: {gpu: '1'}}":                                                               `spec.kubelet.kubeReserved: "gpu" is not one of cpu, memory, ephemeral-storage, pid`,
		"{systemReserved: {cpu: -100m}}":                                                           `spec.kubelet.systemReserved[cpu]: "-100m" is negative`,
		"{imageGCHighThresholdPercent: 101}":                                                       "spec.kubelet.imageGCHighThresholdPercent: 101 is not from 0 to 100",
		"{imageGCHighThresholdPercent: 50, imageGCLowThresholdPercent: 50}":                        "spec.kubelet.imageGCHighThresholdPercent: 50 is not above imageGCLowThresholdPercent, 50",
		"{podsPerCore: -1}":                                                                        "spec.kubelet.podsPerCore: -1 is negative",
		"{maxPods: -1}":                                                                            "spec.kubelet.maxPods: -1 is negative",
		"{clusterDNS: [10.0.0.10, here]}":                                                          `spec.kubelet.clusterDNS[1]: "here" is not an IP address`,
		"{maxPods: -1, podsPerCore: -2}":                                                           "spec.kubelet.maxPods: -1 is negative; spec.kubelet.podsPerCore: -2 is negative",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := kubelet.Parse(raw(t, text))
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Parse() = %v\nwant one line that starts with %s", err, want)
			}
		})
	}
}

func TestEveryFieldOfTheKubeletMayBeThere(t *testing.T) {
	t.Parallel()
	c := parse(t, `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 42
podsPerCore: 10
clusterDNS: [10.0.0.10, "fd00::10"]
evictionHard: {memory.available: 5%, nodefs.available: 1Gi}
evictionSoft: {memory.available: 10%}
evictionSoftGracePeriod: {memory.available: 1m30s}
systemReserved: {cpu: 100m, pid: "1000"}
serializeImagePulls: false
shutdownGracePeriod: 30s
featureGates: {InPlacePodVerticalScaling: true}
`)
	if c.HasExpressions() || c.ExpressionError() != nil {
		t.Errorf("has expressions %t, error %v; want none", c.HasExpressions(), c.ExpressionError())
	}
	got, err := c.Resolve(large)
	if err != nil {
		t.Fatal(err)
	}
	if got.MaxPods != 42 || got.PodsPerCore != 10 || got.Fields["serializeImagePulls"] != false || got.Fields["maxPods"] != int64(42) {
		t.Errorf("settings are %+v", got)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "100m", "pid": "1000"}, got.SystemReserved); diff != "" {
		t.Errorf("systemReserved (-want +got):\n%s", diff)
	}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]kubelet.Settings{
		"{maxPods: 'max_pods * 2'}": {MaxPods: 58},
		"{maxPods: 'min(110, (default_enis - 1) * (ips_per_eni - 1) * 16 + 2)'}": {MaxPods: 110},
		`{maxPods: 'instance_type.startsWith("m5") ? 10.9 : 20.0'}`:              {MaxPods: 10},
		"{kubeReserved: {cpu: 'vcpus * 41', memory: 'max_pods * 11 + 255'}}": {
			MaxPods: 29, KubeReserved: map[string]string{"cpu": "90m", "memory": "576Mi"},
		},
		// Within the amounts, max_pods is what maxPods comes to.
		"{maxPods: '10', kubeReserved: {memory: 'max_pods * 11'}, systemReserved: {memory: 'max(0.5, 16)', ephemeral-storage: '1 + 1', pid: 'vcpus * 500', cpu: 50m}}": {
			MaxPods: 10, KubeReserved: map[string]string{"memory": "112Mi"},
			SystemReserved: map[string]string{"memory": "16Mi", "ephemeral-storage": "2Gi", "pid": "1000", "cpu": "50m"},
		},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c := parse(t, text)
			if err := c.ExpressionError(); err != nil || !c.HasExpressions() {
				t.Fatalf("ExpressionError() = %v, HasExpressions() = %t", err, c.HasExpressions())
			}
			got, err := c.Resolve(large)
			if err != nil {
				t.Fatal(err)
			}
			for field, list := range map[string]map[string]string{"kubeReserved": got.KubeReserved, "systemReserved": got.SystemReserved} {
				if list != nil && !cmp.Equal(got.Fields[field], any(list)) {
					t.Errorf("%s of the fields is %v, want %v", field, got.Fields[field], list)
				}
			}
			got.Fields = nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpressionsThatAreNotValid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{maxPods: 'vcpus +'}":                             `spec.kubelet.maxPods: expression "vcpus +": `,
		"{maxPods: 'gpus'}":                                "undeclared reference to 'gpus'",
		"{kubeReserved: {cpu: 'instance_type'}}":           `spec.kubelet.kubeReserved.cpu: expression "instance_type": gives a string, must give an int or a double`,
		"{kubeReserved: {memory: 'vcpus * 0.5'}}":          "found no matching overload",
		"{maxPods: '" + strings.Repeat("1+", 2000) + "1'}": "expression",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			if err := parse(t, text).ExpressionError(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("ExpressionError() = %v\nwant one line with %s", err, want)
			}
		})
	}
}

func TestAValueThatFailsOnAInstanceIsLeftOut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{maxPods: '1 / (vcpus - 2)', kubeReserved: {pid: '7'}}":                                      "spec.kubelet.maxPods on m5.large: division by zero",
		"{maxPods: 'vcpus - 100', kubeReserved: {pid: '7'}}":                                          "spec.kubelet.maxPods on m5.large: gives -98, which is not a number from 0 on",
		"{maxPods: '1.0 / 0.0', kubeReserved: {pid: '7'}}":                                            "spec.kubelet.maxPods on m5.large: gives +Inf, which is not",
		"{maxPods: '4294967296', kubeReserved: {pid: '7'}}":                                           "spec.kubelet.maxPods on m5.large: gives 4294967296, more than 2147483647",
		"{kubeReserved: {memory: '0.0/0.0', pid: '7'}}":                                               "spec.kubelet.kubeReserved[memory] on m5.large: gives NaN",
		"{kubeReserved: {memory: '[1,2,3].map(x, [1,2,3].map(y, x*y).size()).size() / 0', pid: '7'}}": "spec.kubelet.kubeReserved[memory] on m5.large: division by zero",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c := parse(t, text)
			if err := c.ExpressionError(); err != nil {
				t.Fatal(err)
			}
			got, err := c.Resolve(large)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("Resolve() = %v, want %s", err, want)
			}
			if diff := cmp.Diff(map[string]string{"pid": "7"}, got.KubeReserved); got.MaxPods != 29 || diff != "" {
				t.Errorf("maxPods is %d, kubeReserved (-want +got):\n%s", got.MaxPods, diff)
			}
		})
	}
}

func TestWorkOfAnExpressionIsBounded(t *testing.T) {
	t.Parallel()
	const ten = "[0,1,2,3,4,5,6,7,8,9]"
	c := parse(t, "{maxPods: '"+ten+".map(a, "+ten+".map(b, "+ten+".map(c, "+ten+".map(d, d)))).size()'}")
	if _, err := c.Resolve(large); err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("Resolve() = %v, want that the cost limit is exceeded", err)
	}
}

func TestFamiliesTakeWhatTheyKnow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ family, text, want string }{
		{family.AL2023, "{serializeImagePulls: false, podsPerCore: 3, clusterDNS: [10.0.0.1, 10.0.0.2]}", ""},
		{family.Custom, "{serializeImagePulls: false, clusterDNS: [10.0.0.1, 10.0.0.2]}", ""},
		{family.AL2, "{podsPerCore: 3, cpuCFSQuota: false, apiVersion: kubelet.config.k8s.io/v1beta1}", ""},
		{family.AL2, "{serializeImagePulls: false}", "spec.kubelet.serializeImagePulls: family AL2 cannot set it"},
		{family.Windows2022, "{clusterDNS: [10.0.0.1, 10.0.0.2]}", "spec.kubelet.clusterDNS: has 2 addresses; family Windows2022 takes one"},
		{family.Bottlerocket, "{podsPerCore: 3}", "spec.kubelet.podsPerCore: family Bottlerocket does not know it"},
	} {
		t.Run(c.family+" "+c.text, func(t *testing.T) {
			t.Parallel()
			err := parse(t, c.text).Unsupported(family.Of(&awsv1.EC2NodeClassSpec{AMIFamily: &c.family}))
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("Unsupported() = %v, want %q", err, c.want)
			}
		})
	}
}

func TestThreshold(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int64{"10%": 101, "100%": 0, "0%": 0, "100Mi": 100 << 20, "1k": 1000, "100E": quantity.Max, "1e300%": quantity.Max, "1E2000000000": 0} {
		if got := kubelet.Threshold(value, 1001); got != want {
			t.Errorf("Threshold(%s, 1001) = %d, want %d", value, got, want)
		}
	}
}

func TestJSONIsTheSameForEqualConfigurations(t *testing.T) {
	t.Parallel()
	if got := parse(t, "{}").JSON(); got != "null" {
		t.Errorf("JSON() of nothing is %s, want null", got)
	}
	a, b := parse(t, "{maxPods: 3, podsPerCore: 2}").JSON(), parse(t, "{podsPerCore: 2, maxPods: 3}").JSON()
	if a != b || a == "null" {
		t.Errorf("JSON() = %s and %s, want the same", a, b)
	}
}

// FuzzParse checks that no configuration breaks what reads it, and that what is accepted
// can be worked out.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `{"maxPods":"vcpus*2"}`, `{"kubeReserved":{"cpu":"max(1,2.5)"}}`, `{"evictionHard":{"memory.available":"5%"}}`, `{"maxPods":1e99}`, `[`,
		`{"kubeReserved":{"cpu":"1E2000000000"},"evictionHard":{"memory.available":"1E2000000000"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := kubelet.Parse(&runtime.RawExtension{Raw: text})
		if err != nil || c.ExpressionError() != nil {
			return
		}
		got, err := c.Resolve(large)
		if got.MaxPods < 0 || got.MaxPods > math.MaxInt32 {
			t.Errorf("maxPods is %d, error %v", got.MaxPods, err)
		}
		_ = c.JSON()
	})
}
