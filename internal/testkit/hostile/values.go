package hostile

import (
	"fmt"
	"strings"
)

// amount returns an amount of a resource: mostly one that arithmetic does not like.
func (g *generator) amount() string {
	return among(g, []string{
		"9223372036854775807", "9223372036854775806", "8Ei", "7.999Ei", "4Ei", "9E", "4611686018427387904", "9223372036854775807m",
		"1n", "1u", "0.000000001", "0", "-0", "1", "1e18", "1e-9", "100e30", "999999999Ei", "+1", "1500m",
	}, "-1", "-8Ei", "-9223372036854775808", "1e1.5", "-1n")
}

// large returns an amount that the API server takes and no node has.
func (g *generator) large() string {
	return pick(g, "9223372036854775807", "8Ei", "7.999Ei", "4Ei", "9E", "4611686018427387904", "9223372036854775", "2Ei", "100e15")
}

// whole returns an amount of something that comes in whole numbers.
func (g *generator) whole() string {
	return pick(g, "9223372036854775807", "9E", "4611686018427387904", "2147483648", "1", "0")
}

// amounts returns amounts of what every node has.
func (g *generator) amounts(amount func() string) m {
	out := m{}
	for _, name := range []string{"cpu", "memory", "ephemeral-storage"} {
		if g.IntN(3) > 0 {
			out[name] = amount()
		}
	}
	return out
}

// number returns the operand of a bound.
func (g *generator) number() string {
	return among(g, []string{"0", "1", "5", "9223372036854775807", "9223372036854775806", "007"}, "-1", "-9223372036854775808", "9223372036854775808", "18446744073709551616", "+5", "1e3")
}

// key returns a label's key: one that the scheduler, the cloud or we understand, one that is
// ours alone, one of nobody's.
func (g *generator) key() string {
	return pick(g, "kubernetes.io/hostname", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region",
		"node.kubernetes.io/instance-type", "karpenter.sh/capacity-type", "karpenter.sh/nodepool", "karpenter.sh/registered", "karpenter.kwok.sh/instance-cpu",
		"karpenter.kwok.sh/kwoknodeclass", "kubernetes.io/arch", "kubernetes.io/os", "rack", "example.com/"+strings.Repeat("k", 63), fmt.Sprintf("example.com/k%d", g.IntN(1000)))
}

// value returns a label's value.
func (g *generator) value() string {
	return pick(g, "", "a", "linux", "amd64", "spot", "true", "5", "007", strings.Repeat("v", 63), fmt.Sprintf("v%d", g.IntN(1000)))
}

// values returns many values, no two alike.
func (g *generator) values(n int) list {
	return times(n, func(i int) any { return fmt.Sprintf("v-%d-%d", g.index, i) })
}

// duration returns a time span as our own kinds have it.
func (g *generator) duration() string {
	return among(g, []string{"0s", "1s", "2562047h", "2562048h", "9999999999h", "99999999999999999999h", "1h1m1s", "0h", "Never", "720h"}, "-1s", "1ns", "")
}

// expression returns one requirement of a node affinity.
func (g *generator) expression() m {
	switch op := pick(g, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"); op {
	case "In", "NotIn":
		return m{"key": g.key(), "operator": op, "values": g.values(g.count())}
	case "Gt", "Lt":
		return m{"key": g.key(), "operator": op, "values": list{g.number()}}
	default:
		return m{"key": g.key(), "operator": op}
	}
}

// selector returns a selector of pods' labels: of one workload, of nothing, or of everything.
func (g *generator) selector() m {
	switch g.IntN(5) {
	case 0:
		return m{}
	case 1:
		return m{"matchExpressions": list{m{"key": "app", "operator": "Exists"}}}
	case 2:
		return m{"matchExpressions": list{m{"key": "app", "operator": "NotIn", "values": g.values(g.count())}}}
	case 3:
		return m{"matchExpressions": list{m{"key": "app", "operator": "DoesNotExist"}, m{"key": "app", "operator": "Exists"}}}
	default:
		return m{"matchLabels": m{"app": fmt.Sprintf("a%d", g.IntN(10))}}
	}
}

func (g *generator) topologyKey() string {
	return pick(g, "kubernetes.io/hostname", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type", "rack", "example.com/nobody-has-it", "karpenter.sh/nodepool",
		"node.kubernetes.io/instance-type", "app.kubernetes.io/name")
}

// poolKey returns a label's key that a pool or a claim may speak of.
func (g *generator) poolKey() string {
	return among(g, []string{
		"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type",
		"karpenter.kwok.sh/instance-cpu", "kubernetes.io/arch", "kubernetes.io/os", "rack", fmt.Sprintf("example.com/k%d", g.IntN(1000)),
	}, "kubernetes.io/hostname", "karpenter.sh/nodepool", "karpenter.sh/registered")
}
