package translate_test

import (
	"fmt"
	"math/big"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

func TestAmountsAreRoundedAwayFromZeroAndSaturate(t *testing.T) {
	t.Parallel()
	const most = quantity.Max
	sum := func(texts ...string) resource.Quantity {
		var q resource.Quantity
		for _, text := range texts {
			q.Add(resource.MustParse(text))
		}
		return q
	}
	for name, tc := range map[string]struct {
		q           resource.Quantity
		cpu, memory int64
	}{
		"nothing":                      {sum("0"), 0, 0},
		"one":                          {sum("1"), 1000, 1},
		"a part of a unit":             {sum("1n"), 1, 1},
		"less than nothing":            {sum("-1500m"), -1500, -2},
		"a part of it":                 {sum("-1n"), -1, -1},
		"what one number holds":        {sum("1Ei"), most, 1 << 60},
		"the most that one says":       {sum("9Ei"), most, most},
		"beyond, in a decimal form":    {sum("1e30"), most, most},
		"two halves that wrap around":  {sum("4Ei", "4Ei"), most, most},
		"four that come back to zero":  {sum("4Ei", "4Ei", "4Ei", "4Ei"), most, most},
		"far below nothing":            {sum("-8Ei", "-8Ei"), -most, -most},
		"exactly beyond a small digit": {sum("2Pi", "1n"), quantity.Clamp((2<<50)*1000 + 1), 2<<50 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := translate.Quantities(corev1.ResourceList{corev1.ResourceCPU: tc.q, corev1.ResourceMemory: tc.q})
			if got[quantity.CPU] != tc.cpu || got[quantity.Memory] != tc.memory {
				t.Errorf("%s is %s, want cpu=%d memory=%d", tc.q.String(), got, tc.cpu, tc.memory)
			}
			if back := translate.Quantities(translate.ResourceList(got)); back[quantity.CPU] != tc.cpu || back[quantity.Memory] != tc.memory {
				t.Errorf("%s, written and read again, is %s", got, back)
			}
		})
	}
}

// TestSumsOverContainersAgreeWithWholeNumbers adds up containers, init containers, sidecars and
// overhead of any size once more, without bounds.
func TestSumsOverContainersAgreeWithWholeNumbers(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	amount := rapid.Custom(func(t *rapid.T) *big.Int {
		if rapid.Bool().Draw(t, "giant") {
			return big.NewInt(rapid.Int64Range(1<<58, 1<<63-1).Draw(t, "bytes"))
		}
		return big.NewInt(rapid.Int64Range(0, 1<<40).Draw(t, "bytes"))
	})
	larger := func(a, b *big.Int) *big.Int {
		if a.Cmp(b) > 0 {
			return a
		}
		return b
	}
	rapid.Check(t, func(t *rapid.T) {
		asks := func(n *big.Int) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(n.String())}
		}
		pod := &corev1.Pod{}
		running, starting := new(big.Int), new(big.Int)
		for i := range rapid.IntRange(0, 5).Draw(t, "init containers") {
			n := amount.Draw(t, fmt.Sprint("init ", i))
			c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: asks(n)}}
			if rapid.Bool().Draw(t, "sidecar") {
				c.RestartPolicy = &always
				running = new(big.Int).Add(running, n)
				n = new(big.Int)
			}
			starting = larger(starting, new(big.Int).Add(running, n))
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "containers") {
			n := amount.Draw(t, fmt.Sprint("container ", i))
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: asks(n)}})
			running = new(big.Int).Add(running, n)
		}
		overhead := amount.Draw(t, "overhead")
		pod.Spec.Overhead = asks(overhead)
		exact := new(big.Int).Add(larger(running, starting), overhead)
		want := int64(quantity.Max)
		if exact.Cmp(big.NewInt(want)) < 0 {
			want = exact.Int64()
		}
		if got := translate.PodRequests(pod)[quantity.Memory]; got != want {
			t.Fatalf("the pod asks for %d, want %d (%s)", got, want, exact)
		}
	})
}
