package hostile

import (
	"fmt"
	"strings"
)

// node returns a Node that nobody stands behind, which keeps pods away so that no innocent pod
// is lost on it. Most say that they are ready.
func (g *generator) node(spec, status m) Object {
	if _, ok := spec["taints"]; !ok {
		spec["taints"] = list{m{"key": "hostile", "effect": "NoSchedule"}}
	}
	status["conditions"] = list{m{
		"type": "Ready", "status": pick(g, "True", "True", "False", "Unknown"), "reason": "Hostile", "message": "x",
		"lastTransitionTime": pick(g, "1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z"), "lastHeartbeatTime": pick(g, "1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z"),
	}}
	return Object{Unstructured: object("v1", "Node", "", g.name("node"), m{"spec": spec}), Status: status}
}

func nodeCapacity(g *generator) Object {
	amounts := func() m {
		out := g.amounts(g.amount)
		out["pods"] = pick(g, "0", "-1", "9223372036854775807", "110")
		out["example.com/thing"] = g.whole()
		return out
	}
	return g.node(m{"providerID": fmt.Sprintf("kwok://nowhere-%d", g.index)}, m{"capacity": amounts(), "allocatable": amounts()})
}

func nodeLabels(g *generator) Object {
	o := g.node(m{}, m{"capacity": m{"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocatable": m{"cpu": "4", "memory": "8Gi", "pods": "110"}})
	all := map[string]string{
		"karpenter.sh/nodepool": pick(g, "nowhere", "", "hostile-pool-34"), "karpenter.sh/registered": pick(g, "true", "false", "maybe"), "karpenter.sh/initialized": pick(g, "true", "no"),
		"karpenter.sh/capacity-type": pick(g, "spot", "reserved", "odd"), "topology.kubernetes.io/zone": pick(g, "a", "b", ""), "failure-domain.beta.kubernetes.io/zone": pick(g, "b", "c"),
		"kubernetes.io/hostname": pick(g, "one-of-many", "", o.GetName()), "node.kubernetes.io/instance-type": pick(g, "nothing", ""),
		"karpenter.kwok.sh/kwoknodeclass": pick(g, "default", "nowhere"), "rack": pick(g, "5", "-5", "x"),
	}
	for i := range g.count() {
		all[fmt.Sprintf("example.com/l%d-%d", g.index, i)] = g.value()
	}
	o.SetLabels(all)
	o.SetAnnotations(map[string]string{"karpenter.sh/do-not-disrupt": pick(g, "true", "-1h"), "karpenter.sh/nodeclaim-termination-timestamp": "soon"})
	if g.IntN(2) == 0 {
		o.SetFinalizers([]string{"karpenter.sh/termination"})
	}
	return o
}

func nodeTaints(g *generator) Object {
	taints := times(g.count()*10, func(i int) any {
		return m{"key": fmt.Sprintf("example.com/t%d", i), "value": g.value(), "effect": pick(g, "NoSchedule", "NoExecute", "PreferNoSchedule")}
	})
	for _, key := range []string{"karpenter.sh/unregistered", "karpenter.sh/disrupted", "dovetail.sh/leaving", "node.kubernetes.io/unschedulable"} {
		if g.IntN(2) == 0 {
			taints = append(taints, m{"key": key, "effect": pick(g, "NoSchedule", "NoExecute")})
		}
	}
	return g.node(m{"taints": append(taints, m{"key": "hostile", "effect": "NoSchedule"})}, m{"capacity": m{"cpu": g.large()}})
}

func providerIDs(g *generator) Object {
	return g.node(m{"providerID": pick(g, "kwok://one-of-many", "kwok://", "kwok:///", "aws:///us-east-1a/i-0123456789abcdef0", "aws://", "gce://a/b/c", strings.Repeat("p", 5000), "kwok://../../etc", "\u202e")},
		m{"capacity": g.amounts(g.large), "allocatable": g.amounts(g.large)})
}

// claim returns a NodeClaim that no pool made.
func (g *generator) claim(spec m) Object {
	if _, ok := spec["requirements"]; !ok {
		spec["requirements"] = list{m{"key": "kubernetes.io/os", "operator": "In", "values": list{"linux"}}}
	}
	if _, ok := spec["nodeClassRef"]; !ok {
		spec["nodeClassRef"] = class("default")
	}
	if _, ok := spec["taints"]; !ok {
		spec["taints"] = list{m{"key": "hostile", "effect": "NoSchedule"}}
	}
	return Object{Unstructured: object("karpenter.sh/v1", "NodeClaim", "", g.name("claim"), m{"spec": spec})}
}

func class(name string) m {
	return m{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name}
}

func orphanClaims(g *generator) Object {
	o := g.claim(m{
		"nodeClassRef": pick(g, class("nowhere"), class("default"), m{"group": "example.com", "kind": "Nothing", "name": "x"}, m{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"}),
		"expireAfter":  g.duration(), "terminationGracePeriod": pick(g, "2562047h", "1s", "9999999999h", "0s"),
		"startupTaints": times(g.count(), func(i int) any { return m{"key": fmt.Sprintf("example.com/t%d", i), "effect": "NoExecute"} }),
	})
	o.SetLabels(map[string]string{"karpenter.sh/nodepool": pick(g, "nowhere", "hostile-pool-34"), "karpenter.sh/capacity-type": "odd"})
	o.SetAnnotations(map[string]string{
		"dovetail.sh/replace-by": pick(g, "1970-01-01T00:00:00Z", "soon"), "dovetail.sh/interruption": "x", "dovetail.sh/disruption-step": pick(g, "a 99999999999999999999 1", "a -1 -1", "a b"),
		"dovetail.sh/replaces": "nothing", "karpenter.sh/nodeclaim-termination-timestamp": pick(g, "soon", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"), "karpenter.sh/nodepool-hash": strings.Repeat("9", 1000),
	})
	o.SetFinalizers(pick(g, nil, []string{"karpenter.sh/termination"}))
	return o
}

func claimAmounts(g *generator) Object {
	o := g.claim(m{
		"resources":    m{"requests": g.amounts(pick(g, g.large, g.amount))},
		"requirements": times(1+g.IntN(20), func(int) any { return g.requirement() }), "expireAfter": pick(g, "Never", "1s", "2562047h"),
	})
	o.Status = m{"capacity": g.amounts(g.amount), "allocatable": g.amounts(g.amount), "providerID": pick(g, "kwok://one-of-many", "kwok://nowhere", "aws:///x/i-1"), "nodeName": pick(g, "nowhere", "hostile-node-30")}
	return o
}

// requirement returns one requirement of a pool or a claim.
func (g *generator) requirement() m {
	r := g.expression()
	r["key"] = g.poolKey()
	if g.IntN(4) == 0 {
		r["operator"], r["values"] = pick(g, "Gte", "Lte"), list{g.number()}
	}
	if values, _ := r["values"].(list); g.IntN(3) == 0 && (r["operator"] != "In" || len(values) > 2 || g.wild) {
		r["minValues"] = among(g, []int64{1, 2}, 50, 51, 0)
	}
	return r
}
