package hostile

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// pod returns a pod with a spec, which gets what every pod must have.
func (g *generator) pod(what string, spec m) Object {
	if _, ok := spec["containers"]; !ok {
		spec["containers"] = list{container(0, m{"cpu": "10m"})}
	}
	if _, ok := spec["terminationGracePeriodSeconds"]; !ok {
		spec["terminationGracePeriodSeconds"] = int64(0)
	}
	if _, ok := spec["tolerations"]; !ok && g.IntN(2) == 0 {
		spec["tolerations"] = list{m{"key": "hostile", "operator": "Exists"}} // of the pools and Nodes that are hostile, too
	}
	o := object("v1", "Pod", Namespace, g.name(what), m{"spec": spec})
	o.SetLabels(map[string]string{"app": fmt.Sprintf("a%d", g.IntN(10)), "hostile": "true"})
	return Object{Unstructured: o}
}

func container(i int, requests m) m {
	return m{"name": fmt.Sprintf("c%d", i), "image": "none.example/none", "resources": m{"requests": requests}}
}

func quantities(g *generator) Object {
	return g.pod("quantities", m{"containers": times(1+g.IntN(4), func(i int) any {
		if g.IntN(2) == 0 {
			return container(i, g.amounts(g.large))
		}
		return container(i, g.amounts(g.amount))
	})})
}

func manyContainers(g *generator) Object {
	amount := pick(g, g.large(), "1n", "1m", "1")
	return g.pod("containers", m{"containers": times(g.count(), func(i int) any { return container(i, m{"cpu": amount, "memory": amount}) })})
}

func initContainers(g *generator) Object {
	sidecars := g.IntN(2) == 0
	return g.pod("init", m{
		"containers": times(1+g.IntN(3), func(i int) any { return container(i, g.amounts(g.large)) }),
		"initContainers": times(g.count(), func(i int) any {
			c := container(1000+i, g.amounts(g.large))
			if sidecars || g.IntN(2) == 0 {
				c["restartPolicy"] = "Always"
			}
			return c
		}),
	})
}

func podLevel(g *generator) Object {
	total := g.large()
	return g.pod("level", m{
		"resources":  m{"requests": m{"cpu": total, "memory": g.large()}, "limits": m{"cpu": total}},
		"containers": times(1+g.IntN(3), func(i int) any { return container(i, m{"cpu": among(g, []string{"1n", "1m"}, g.large())}) }),
	})
}

// overheads are those of the runtime classes.
func overheads() []m {
	return []m{{"cpu": "9E", "memory": "8Ei"}, {"cpu": "1n"}, {"memory": "4Ei"}, {"cpu": "9223372036854775807", "example.com/thing": "9E"}}
}

func runtimeClass(i int) string { return fmt.Sprintf("hostile-%d", i) }

func overhead(g *generator) Object {
	return g.pod("overhead", m{"runtimeClassName": runtimeClass(g.IntN(len(overheads()) + 1)), "containers": list{container(0, g.amounts(g.large))}})
}

func extended(g *generator) Object {
	amounts := m{}
	for i := range g.count() {
		amounts[fmt.Sprintf("example.com/r%d-%d", g.IntN(3), i)] = g.whole()
	}
	for _, name := range []string{"nvidia.com/gpu", "hugepages-2Mi", "attachable-volumes-csi-x", "pods", "nodes"} {
		if g.wild && g.IntN(4) == 0 {
			amounts[name] = g.whole()
		}
	}
	c := container(0, m{"cpu": "1m", "memory": "1Mi"})
	c["resources"] = m{"requests": amounts, "limits": amounts}
	return g.pod("extended", m{"containers": list{c}})
}

// term returns one term of the affinity between pods.
func (g *generator) term(i int) m {
	t := m{"topologyKey": g.topologyKey(), "labelSelector": m{"matchLabels": m{"app": fmt.Sprintf("t-%d-%d", g.index%7, i)}}}
	switch g.IntN(5) {
	case 0:
		t["labelSelector"] = g.selector()
	case 1:
		t["namespaceSelector"] = m{}
	case 2:
		t["namespaces"] = list{Namespace, "nowhere"}
	case 3:
		t["matchLabelKeys"] = list{"hostile", "nobody-has-it"}
	}
	return t
}

func antiAffinity(g *generator) Object {
	return g.pod("anti-affinity", m{"affinity": m{"podAntiAffinity": m{"requiredDuringSchedulingIgnoredDuringExecution": times(g.count(), func(i int) any { return g.term(i) })}}})
}

func affinity(g *generator) Object {
	return g.pod("affinity", m{"affinity": m{
		"podAffinity":     m{"requiredDuringSchedulingIgnoredDuringExecution": times(1+g.count()/4, func(i int) any { return g.term(i) })},
		"podAntiAffinity": m{"requiredDuringSchedulingIgnoredDuringExecution": times(g.IntN(3), func(int) any { return m{"topologyKey": g.topologyKey(), "labelSelector": m{}} })},
	}})
}

func labels(g *generator) Object {
	o := g.pod("labels", m{"affinity": m{"podAntiAffinity": m{"requiredDuringSchedulingIgnoredDuringExecution": times(1+g.IntN(5), func(i int) any { return g.term(i) })}}})
	all := map[string]string{"app": fmt.Sprintf("a%d", g.IntN(10)), "hostile": "true"}
	for i := range g.count() * 4 {
		all[fmt.Sprintf("l%d-%d", g.index, i)] = fmt.Sprintf("v%d", g.Uint32())
		all[fmt.Sprintf("shared-%d", i)] = g.value()
	}
	o.SetLabels(all)
	return o
}

func namespaces(g *generator) Object {
	names := times(g.count()*10, func(i int) any { return fmt.Sprintf("ns-%d", i) })
	kind := pick(g, "podAffinity", "podAntiAffinity")
	return g.pod("namespaces", m{"affinity": m{kind: m{"requiredDuringSchedulingIgnoredDuringExecution": times(1+g.IntN(3), func(i int) any {
		t := g.term(i)
		t["namespaces"] = names
		if g.IntN(2) == 0 {
			t["namespaceSelector"] = m{"matchExpressions": list{m{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names}}}
		}
		return t
	})}}})
}

func preferences(g *generator) Object {
	weight := func() any { return among(g, []int64{1, 50, 100}, math.MaxInt32, 0) }
	preferred := func(field string, one func(i int) m) m {
		return m{"preferredDuringSchedulingIgnoredDuringExecution": times(g.count(), func(i int) any { return m{"weight": weight(), field: one(i)} })}
	}
	return g.pod("preferences", m{
		"affinity": m{
			"nodeAffinity":    preferred("preference", func(int) m { return m{"matchExpressions": list{g.expression()}} }),
			"podAffinity":     preferred("podAffinityTerm", g.term),
			"podAntiAffinity": preferred("podAffinityTerm", g.term),
		},
		"topologySpreadConstraints": times(1+g.IntN(5), func(i int) any {
			return m{"maxSkew": int64(1), "topologyKey": fmt.Sprintf("example.com/t%d", i), "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": g.selector()}
		}),
	})
}

func volumes(g *generator) Object {
	return g.pod("volumes", m{"volumes": times(g.count(), func(i int) any {
		v := m{"name": fmt.Sprintf("v%d", i)}
		switch g.IntN(4) {
		case 0:
			v["persistentVolumeClaim"] = m{"claimName": fmt.Sprintf("nowhere-%d", i)}
		case 1:
			v["persistentVolumeClaim"] = m{"claimName": fmt.Sprintf("hostile-pvc-%d", g.IntN(g.index+1))}
		case 2:
			v["ephemeral"] = m{"volumeClaimTemplate": m{"spec": m{
				"accessModes": list{"ReadWriteOncePod"}, "storageClassName": pick(g, "", "nowhere", "hostile-storage-41"), "resources": m{"requests": m{"storage": g.large()}},
			}}}
		default:
			v["csi"] = m{"driver": "nowhere.example"}
		}
		return v
	})})
}

// required returns the required node affinity of the terms.
func required(terms list) m {
	return m{"affinity": m{"nodeAffinity": m{"requiredDuringSchedulingIgnoredDuringExecution": m{"nodeSelectorTerms": terms}}}}
}

func orTerms(g *generator) Object {
	return g.pod("or", required(times(g.count()*2, func(int) any {
		if g.IntN(20) == 0 {
			return m{}
		}
		return m{"matchExpressions": times(1+g.IntN(4), func(int) any { return g.expression() })}
	})))
}

func notIn(g *generator) Object {
	return g.pod("notin", required(list{m{"matchExpressions": times(1+g.IntN(3), func(int) any {
		return m{"key": g.key(), "operator": "NotIn", "values": g.values(g.count() * 10)}
	})}}))
}

func bounds(g *generator) Object {
	return g.pod("bounds", required(times(1+g.IntN(3), func(int) any {
		return m{"matchExpressions": times(1+g.IntN(4), func(int) any {
			return m{"key": pick(g, "karpenter.kwok.sh/instance-cpu", "rack", "example.com/size"), "operator": pick(g, "Gt", "Lt"), "values": list{g.number()}}
		})}
	})))
}

// impossible asks for a value of a label that pools leave open, and that there is none of.
func impossible(g *generator) Object {
	const key = "rack"
	n := int64(g.IntN(100))
	expressions := pick(g,
		list{m{"key": key, "operator": "Lt", "values": list{"0"}}},
		list{m{"key": key, "operator": "Gt", "values": list{fmt.Sprint(n)}}, m{"key": key, "operator": "Lt", "values": list{fmt.Sprint(n + 2)}}, m{"key": key, "operator": "NotIn", "values": list{fmt.Sprint(n + 1)}}},
		list{m{"key": key, "operator": "Gt", "values": list{"9223372036854775807"}}},
		list{m{"key": key, "operator": "In", "values": list{"a"}}, m{"key": key, "operator": "In", "values": list{"b"}}},
		list{m{"key": key, "operator": "Exists"}, m{"key": key, "operator": "DoesNotExist"}},
		list{m{"key": key, "operator": "Gt", "values": list{"9223372036854775806"}}, m{"key": key, "operator": "NotIn", "values": list{"9223372036854775807"}}},
	)
	return g.pod("impossible", required(list{m{"matchExpressions": expressions}}))
}

func spread(g *generator) Object {
	return g.pod("spread", m{"topologySpreadConstraints": times(1+g.IntN(8), func(i int) any {
		c := m{
			"maxSkew": pick(g, int64(1), int64(math.MaxInt32), int64(2)), "topologyKey": pick(g, g.topologyKey(), fmt.Sprintf("example.com/t%d", i)),
			"whenUnsatisfiable": pick(g, "DoNotSchedule", "ScheduleAnyway"), "labelSelector": g.selector(),
		}
		if c["whenUnsatisfiable"] == "DoNotSchedule" && g.IntN(2) == 0 {
			c["minDomains"] = pick(g, int64(1), int64(1000), int64(math.MaxInt32))
		}
		if g.IntN(3) == 0 {
			c["nodeTaintsPolicy"], c["nodeAffinityPolicy"] = pick(g, "Honor", "Ignore"), pick(g, "Honor", "Ignore")
		}
		if g.IntN(3) == 0 {
			c["matchLabelKeys"] = list{"hostile", "nobody-has-it"}
		}
		return c
	})})
}

func tolerations(g *generator) Object {
	return g.pod("tolerations", m{"tolerations": times(g.count()*10, func(i int) any {
		t := m{"key": fmt.Sprintf("example.com/t%d", i), "operator": pick(g, "Exists", "Equal"), "effect": pick(g, "NoSchedule", "NoExecute", "PreferNoSchedule", "")}
		if t["operator"] == "Equal" {
			t["value"] = g.value()
		}
		if t["effect"] == "NoExecute" {
			t["tolerationSeconds"] = pick(g, int64(math.MaxInt64), int64(math.MinInt64), int64(0))
		}
		return t
	})})
}

func hostPorts(g *generator) Object {
	c := container(0, m{"cpu": "1m"})
	c["ports"] = times(g.count()*4, func(i int) any {
		port := int64(1 + i%65535)
		return m{"containerPort": port, "hostPort": port, "protocol": pick(g, "TCP", "UDP", "SCTP"), "hostIP": pick(g, "", "0.0.0.0", "127.0.0.1", "::", fmt.Sprintf("10.0.%d.%d", i/256%256, i%256))}
	})
	return g.pod("ports", m{"containers": list{c}})
}

func deadlines(g *generator) Object {
	o := g.pod("deadlines", m{
		"terminationGracePeriodSeconds": among(g, []int64{math.MaxInt64, math.MaxInt64/1_000_000_000 + 1, 0}, -1, math.MinInt64),
		"activeDeadlineSeconds":         among(g, []int64{math.MaxInt32, 1}, math.MaxInt64),
	})
	o.SetAnnotations(map[string]string{
		"karpenter.sh/do-not-disrupt":                pick(g, "true", "2562047h", "99999999999h", "-1h", "false", "", "forever"),
		"controller.kubernetes.io/pod-deletion-cost": among(g, []string{"2147483647", "-2147483648"}, "NaN", "1e300", ""),
		"dovetail.sh/replace-by":                     "9999-12-31T23:59:59Z",
	})
	return o
}

func gates(g *generator) Object {
	return g.pod("gates", m{"schedulingGates": times(g.count(), func(i int) any { return m{"name": fmt.Sprintf("example.com/g%d", i)} }), "containers": list{container(0, g.amounts(g.large))}})
}

func resourceClaims(g *generator) Object {
	return g.pod("claims", m{"resourceClaims": times(1+g.IntN(32), func(i int) any {
		c := m{"name": fmt.Sprintf("r%d", i)}
		c[pick(g, "resourceClaimName", "resourceClaimTemplateName")] = fmt.Sprintf("nowhere-%d", i)
		return c
	})})
}

func schedulers(g *generator) Object {
	spec := m{"schedulerName": pick(g, "nobody", "", strings.Repeat("s", 253), "default-scheduler"), "nodeSelector": m{g.key(): g.value()}}
	switch g.IntN(4) {
	case 0:
		spec["nodeName"] = pick(g, "nowhere", "hostile-node-30", "hostile-node-33")
	case 1:
		spec["priorityClassName"], spec["preemptionPolicy"] = pick(g, "system-node-critical", "system-cluster-critical", "nowhere"), "Never"
	case 2:
		spec["hostNetwork"], spec["preemptionPolicy"] = true, "Never"
	}
	return g.pod("scheduler", spec)
}

func owners(g *generator) Object {
	o := g.pod("owned", m{})
	references := times(1+g.IntN(3), func(i int) any {
		kind := pick(g, [2]string{"apps/v1", "DaemonSet"}, [2]string{"v1", "Node"}, [2]string{"v1", "Pod"}, [2]string{"apps/v1", "StatefulSet"}, [2]string{"example.com/v9", "Nothing"}, [2]string{"karpenter.sh/v1", "NodeClaim"})
		return m{"apiVersion": kind[0], "kind": kind[1], "name": pick(g, o.GetName(), "nowhere", "hostile-owned-23"), "uid": fmt.Sprintf("00000000-0000-0000-0000-%012d", g.IntN(5)), "controller": i == 0, "blockOwnerDeletion": true}
	})
	if err := unstructured.SetNestedSlice(o.Object, references, "metadata", "ownerReferences"); err != nil {
		panic(err) // it has metadata: its name
	}
	return o
}

func longTexts(g *generator) Object {
	o := g.pod("long", m{"containers": list{container(0, g.amounts(g.large))}})
	o.SetName(fmt.Sprintf("hostile-%d-%s", g.index, strings.Repeat("n", 230)))
	o.SetAnnotations(map[string]string{"example.com/" + strings.Repeat("a", 63): strings.Repeat("\u0000\u202e🙂\n", min(g.most*60, 25_000)), "karpenter.sh/nodepool": "x"})
	return o
}
