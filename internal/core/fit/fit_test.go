package fit_test

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// TestToleratesLikeKubernetes compares the rule with the API's own function.
func TestToleratesLikeKubernetes(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"", "a", "b", "1", "2", "-3", "007", "+4"})
	effect := rapid.SampledFrom([]corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute})
	operator := rapid.SampledFrom([]corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists, "Lt", "Gt", "Like"})
	rapid.Check(t, func(t *rapid.T) {
		toleration := corev1.Toleration{Key: word.Draw(t, "key"), Operator: operator.Draw(t, "operator"), Value: word.Draw(t, "value"), Effect: effect.Draw(t, "effect")}
		taint := corev1.Taint{Key: word.Draw(t, "taint key"), Value: word.Draw(t, "taint value"), Effect: effect.Draw(t, "taint effect")}
		want := toleration.ToleratesTaint(logr.Discard(), &taint, true)
		got := fit.Tolerates(translate.Tolerations([]corev1.Toleration{toleration}), translate.Taints([]corev1.Taint{taint})[0])
		if got != want {
			t.Fatalf("%+v tolerates %+v: %v, Kubernetes says %v", toleration, taint, got, want)
		}
	})
}

// TestLabelsLikeKubernetes compares nodeSelector and required node affinity, read from a
// pod, with the function that kube-scheduler uses.
func TestLabelsLikeKubernetes(t *testing.T) {
	t.Parallel()
	key := rapid.SampledFrom([]string{"zone", "team", "size"})
	value := rapid.SampledFrom([]string{"a", "b", "1", "2", "10"})
	operator := rapid.SampledFrom([]corev1.NodeSelectorOperator{
		corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
		corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt,
	})
	expression := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
		e := corev1.NodeSelectorRequirement{Key: key.Draw(t, "key"), Operator: operator.Draw(t, "operator")}
		switch e.Operator {
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			e.Values = []string{rapid.SampledFrom([]string{"0", "1", "5"}).Draw(t, "bound")}
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			e.Values = rapid.SliceOfN(value, 1, 3).Draw(t, "values")
		default:
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: rapid.MapOfN(key, value, 0, 2).Draw(t, "selector")}}
		var terms []corev1.NodeSelectorTerm
		for range rapid.IntRange(0, 3).Draw(t, "terms") {
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: rapid.SliceOfN(expression, 1, 3).Draw(t, "expressions")})
		}
		if len(terms) > 0 {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
			}}
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: rapid.MapOf(key, value).Draw(t, "labels")}}
		want, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if err != nil {
			t.Skip("Kubernetes would not have taken the pod:", err)
		}
		sh := translate.PodConstraints(pod, translate.Vocabulary{})
		if got := fit.Labels(sh.Terms, node.Labels).IsYes(); got != want {
			t.Fatalf("selector %v and terms %v on %v: %v, Kubernetes says %v", pod.Spec.NodeSelector, terms, node.Labels, got, want)
		}
		if got := fit.Matches(sh.Terms, node.Labels); got != want {
			t.Fatalf("selector %v and terms %v on %v match: %v, Kubernetes says %v", pod.Spec.NodeSelector, terms, node.Labels, got, want)
		}
	})
}

// TestPortsLikeKubernetes compares host ports of pods with what kube-scheduler keeps of a
// node's.
func TestPortsLikeKubernetes(t *testing.T) {
	t.Parallel()
	port := rapid.Custom(func(t *rapid.T) corev1.ContainerPort {
		return corev1.ContainerPort{
			HostPort: rapid.SampledFrom([]int32{80, 80, 80, 81, 0}).Draw(t, "port"),
			HostIP:   rapid.SampledFrom([]string{"", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1"}).Draw(t, "ip"),
			Protocol: rapid.SampledFrom([]corev1.Protocol{"", corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP}).Draw(t, "protocol"),
		}
	})
	pod := func(ports []corev1.ContainerPort) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}}}
	}
	rapid.Check(t, func(t *rapid.T) {
		has, wants := rapid.SliceOfN(port, 1, 2).Draw(t, "has"), rapid.SliceOfN(port, 1, 1).Draw(t, "wants")
		taken, free := make(framework.HostPortInfo), true
		for _, p := range has {
			taken.Add(p.HostIP, string(p.Protocol), p.HostPort)
		}
		for _, p := range wants {
			free = free && !taken.CheckConflict(p.HostIP, string(p.Protocol), p.HostPort)
		}
		if got := fit.Ports(translate.HostPorts(pod(wants)), translate.HostPorts(pod(has))).IsYes(); got != free {
			t.Fatalf("%v beside %v: %v, kube-scheduler says %v", wants, has, got, free)
		}
	})
}

func TestRefusalsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	space := quantity.Space{quantity.CPU, quantity.Memory, quantity.Pods}
	for name, tc := range map[string]struct{ got, want string }{
		"a taint":      {fit.Taints(nil, []cluster.Taint{{Key: "gpu", Value: "a", Effect: cluster.NoSchedule}}).String(), "taint gpu=a:NoSchedule not tolerated"},
		"a preference": {fit.Taints(nil, []cluster.Taint{{Key: "gpu", Effect: cluster.PreferNoSchedule}}).String(), ""},
		"a label":      {fit.Labels([]label.Requirements{{"zone": label.In("a")}}, map[string]string{"zone": "b"}).String(), "zone must be In [a], is b"},
		"no label":     {fit.Labels([]label.Requirements{{"zone": label.In("a")}}, nil).String(), "zone must be In [a], is nothing"},
		"some cpu":     {fit.Resources(space, quantity.Vector{1500, 0, 1}, quantity.Vector{1000, 0, 9}).String(), "500m cpu short"},
		"bytes, rounded": {
			fit.Resources(space, quantity.Vector{0, 3<<20 + 1, 1}, quantity.Vector{0, 1 << 20, 9}).String(),
			"3Mi memory short",
		},
		"less than nothing is nothing": {fit.Resources(space, quantity.Vector{1000, 0, 1}, quantity.Vector{-500, 0, 9}).String(), "1 cpu short"},
		"nothing of what is short":     {fit.Resources(space, quantity.Vector{0, 0, 1}, quantity.Vector{-500, 0, 9}).String(), ""},
		"a port": {
			fit.Ports([]cluster.HostPort{{Protocol: "TCP", Port: 80}}, []cluster.HostPort{{IP: "10.0.0.1", Protocol: "TCP", Port: 80}}).String(),
			"host port 80/TCP taken",
		},
		"another protocol": {fit.Ports([]cluster.HostPort{{Protocol: "UDP", Port: 80}}, []cluster.HostPort{{Protocol: "TCP", Port: 80}}).String(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.got != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
}
