package hostile

import (
	"fmt"
	"math"
	"strings"
)

// pool returns a NodePool, which keeps pods away that do not tolerate it: what it does with
// those that it was made for is nobody else's business.
func (g *generator) pool(spec, template m) Object {
	for key, value := range (m{
		"nodeClassRef": pick(g, class("default"), class("default"), class("nowhere"), class("hostile-class-40"), m{"group": "example.com", "kind": "Nothing", "name": "x"}),
		"requirements": list{m{"key": "kubernetes.io/os", "operator": "In", "values": list{"linux"}}}, "expireAfter": "720h",
		"taints": list{m{"key": "hostile", "effect": "NoSchedule"}},
	}) {
		if _, ok := template[key]; !ok {
			template[key] = value
		}
	}
	spec["template"] = m{"metadata": m{"labels": m{"team": "hostile"}}, "spec": template}
	return Object{Unstructured: object("karpenter.sh/v1", "NodePool", "", g.name("pool"), m{"spec": spec})}
}

func poolLimits(g *generator) Object {
	limits := g.amounts(pick(g, g.amount, g.large))
	limits["nodes"] = g.amount()
	spec := m{"limits": limits, "weight": among(g, []int64{1, 100}, 0, math.MaxInt32)}
	if g.IntN(4) == 0 {
		spec = m{"replicas": among(g, []int64{0}, -1), "limits": m{"nodes": g.amount()}}
	}
	return g.pool(spec, m{})
}

func poolBudgets(g *generator) Object {
	schedule := func() string {
		return among(g, []string{
			"* * * * *", "0 0 30 2 *", "0 0 29 2 *", "@hourly", "@yearly", "59 23 31 12 7", "60 24 32 13 8", "*/1 */1 */1 */1 */1", "0-59 0-23 1-31 1-12 0-6", "TZ=nowhere 0 0 * * *",
			strings.Repeat("1,", 500) + "1 * * * *", "a b c d e",
		}, "@reboot", "@every 1s", "x")
	}
	return g.pool(m{"disruption": m{
		"consolidateAfter": g.duration(), "consolidationPolicy": pick(g, "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced", "WhenUnderutilized"),
		"budgets": times(1+g.IntN(50), func(int) any {
			b := m{"nodes": among(g, []string{"0", "0%", "100%", "1", "9223372036854775807", "99999999999999999999", "5%"}, "101%", "-1")}
			if g.IntN(2) == 0 {
				b["schedule"], b["duration"] = schedule(), pick(g, "1m", "2562047h", "0h", "8760h", "9999999999h", "1h30m")
			}
			if g.IntN(3) == 0 {
				b["reasons"] = among(g, []list{{"Underutilized"}, {"Empty", "Drifted"}}, list{"Unhealthy"}, list{"nothing"})
			}
			return b
		}),
	}}, m{})
}

func poolLives(g *generator) Object {
	o := g.pool(m{"disruption": m{"consolidateAfter": g.duration()}}, m{
		"expireAfter": g.duration(), "terminationGracePeriod": pick(g, "0s", "2562047h", "9999999999h", "1s"),
		"taints":        times(g.count(), func(i int) any { return m{"key": fmt.Sprintf("example.com/t%d", i), "effect": "NoSchedule"} }),
		"startupTaints": times(g.count(), func(i int) any { return m{"key": fmt.Sprintf("example.com/s%d", i), "effect": "NoSchedule"} }),
	})
	o.SetAnnotations(map[string]string{
		"dovetail.sh/budget-time-zone": pick(g, "nowhere", "../../etc/passwd", "Local", "Europe/Berlin"), "dovetail.sh/eviction-hourly-dollars": pick(g, "NaN", "-1", "1e400", "Inf", "0x1p-1074"),
		"dovetail.sh/saving-share-min": pick(g, "2", "NaN", ""), "karpenter.sh/nodepool-hash": "x",
	})
	return o
}

func poolRequirements(g *generator) Object {
	requirements := times(1+g.IntN(100), func(int) any { return g.requirement() })
	switch g.IntN(3) {
	case 0: // nothing can be this
		requirements = pick(g,
			list{m{"key": "rack", "operator": "In", "values": list{"a"}}, m{"key": "rack", "operator": "In", "values": list{"b"}}},
			list{m{"key": "rack", "operator": "Lt", "values": list{"0"}}},
			list{m{"key": "rack", "operator": "Gte", "values": list{"5"}}, m{"key": "rack", "operator": "Lte", "values": list{"5"}}, m{"key": "rack", "operator": "NotIn", "values": list{"5"}}},
			list{m{"key": "rack", "operator": "Gt", "values": list{"9"}}, m{"key": "rack", "operator": "Lt", "values": list{"3"}}},
		)
	case 1: // whoever asks for a rack may have it
		requirements = list{m{"key": "rack", "operator": "Exists"}}
	}
	return g.pool(m{"weight": int64(1 + g.IntN(100))}, m{"requirements": requirements, "nodeClassRef": class("default")})
}

func classes(g *generator) Object {
	o := object("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", "", g.name("class"), m{"spec": m{"nodeRegistrationDelay": among(g, []string{"99999h", "0s", "1s", "1h1h1h"}, "2562047h", "9999999999h")}})
	o.SetFinalizers(pick(g, nil, []string{"karpenter.k8s.aws/termination"}, []string{"example.com/for-ever"}))
	return Object{Unstructured: o, Status: m{"conditions": list{m{"type": "Ready", "status": pick(g, "False", "Unknown", "True"), "reason": "Hostile", "message": strings.Repeat("x", 1000), "lastTransitionTime": "2999-01-01T00:00:00Z"}}}}
}

func storageClasses(g *generator) Object {
	return Object{Unstructured: object("storage.k8s.io/v1", "StorageClass", "", g.name("storage"), m{
		"provisioner": pick(g, "kubernetes.io/no-provisioner", "nowhere.example", "kubernetes.io/aws-ebs"), "volumeBindingMode": pick(g, "WaitForFirstConsumer", "Immediate"),
		"allowedTopologies": times(g.IntN(3), func(int) any {
			return m{"matchLabelExpressions": times(g.IntN(3), func(int) any { return m{"key": g.key(), "values": g.values(g.count())} })}
		}),
	})}
}

func volumeClaims(g *generator) Object {
	o := object("v1", "PersistentVolumeClaim", Namespace, g.name("pvc"), m{"spec": m{
		"accessModes": list{pick(g, "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")}, "resources": m{"requests": m{"storage": g.large()}},
		"storageClassName": pick(g, "", "nowhere", "hostile-storage-41"), "volumeName": pick(g, "", "nowhere", "hostile-pv-43"),
	}})
	o.SetAnnotations(map[string]string{"volume.kubernetes.io/selected-node": pick(g, "nowhere", "hostile-node-30"), "pv.kubernetes.io/bind-completed": "yes"})
	return Object{Unstructured: o}
}

func persistentVolumes(g *generator) Object {
	o := object("v1", "PersistentVolume", "", g.name("pv"), m{"spec": m{
		"capacity": m{"storage": g.large()}, "accessModes": list{"ReadWriteOnce"}, "storageClassName": pick(g, "nowhere", "hostile-storage-41"),
		"csi":          m{"driver": "nowhere.example", "volumeHandle": pick(g, "one-of-many", strings.Repeat("h", 1000))},
		"nodeAffinity": m{"required": m{"nodeSelectorTerms": times(g.count(), func(int) any { return m{"matchExpressions": list{g.expression()}} })}},
		"claimRef":     m{"namespace": Namespace, "name": fmt.Sprintf("hostile-pvc-%d", g.IntN(g.index+1))}, "persistentVolumeReclaimPolicy": "Retain",
	}})
	o.SetLabels(map[string]string{"topology.kubernetes.io/zone": pick(g, "a__b__c", "", "nowhere")})
	return Object{Unstructured: o}
}

func attachLimits(g *generator) Object {
	node := fmt.Sprintf("hostile-node-%d", max(0, g.index-14)) // one of the same round
	return Object{Unstructured: object("storage.k8s.io/v1", "CSINode", "", node, m{"spec": m{"drivers": times(g.count(), func(i int) any {
		return m{"name": fmt.Sprintf("d%d.example", i), "nodeID": "one-of-many", "topologyKeys": list{g.topologyKey()}, "allocatable": m{"count": among(g, []int64{0, math.MaxInt32}, -1)}}
	})}})}
}

func limitRanges(g *generator) Object {
	return Object{Unstructured: object("v1", "LimitRange", Namespace, g.name("range"), m{"spec": m{"limits": list{m{"type": "PersistentVolumeClaim", "max": m{"storage": g.large()}, "min": m{"storage": among(g, []string{"1n", "0"}, g.amount())}}}}})}
}

func config(g *generator) Object {
	data := m{}
	for i := range g.count() {
		data[fmt.Sprintf("k%d", i)] = strings.Repeat("\u0000", g.IntN(1000))
	}
	o := object("v1", "ConfigMap", Namespace, g.name("config"), m{"data": data})
	o.SetLabels(map[string]string{"karpenter.sh/nodepool": "nowhere", "dovetail.sh/launch": "true", "app.kubernetes.io/name": "dovetail"})
	return Object{Unstructured: o}
}
