package hostile

import (
	"fmt"
	"math"
)

// template returns the template of a hostile pod, and labels that select it.
func (g *generator) template(restart string) (selector, template m) {
	made := pick(g, quantities, manyContainers, antiAffinity, preferences, orTerms, bounds, spread, impossible, hostPorts)(g)
	spec, _ := made.Object["spec"].(m)
	if restart != "" {
		spec["restartPolicy"] = restart
	}
	own := m{"workload": g.name("w")}
	return m{"matchLabels": own}, m{"metadata": m{"labels": own}, "spec": spec}
}

func workload(kind, apiVersion, name string, spec m) Object {
	return Object{Unstructured: object(apiVersion, kind, Namespace, name, m{"spec": spec})}
}

func deployments(g *generator) Object {
	selector, template := g.template("")
	return workload("Deployment", "apps/v1", g.name("deployment"), m{
		"replicas": among(g, []int64{0, 3, 7}, -1), "selector": selector, "template": template, "progressDeadlineSeconds": int64(math.MaxInt32),
		"strategy": m{"rollingUpdate": m{"maxSurge": pick[any](g, "1000%", int64(math.MaxInt32), "0%"), "maxUnavailable": pick[any](g, "100%", int64(1))}},
	})
}

func statefulSets(g *generator) Object {
	selector, template := g.template("")
	return workload("StatefulSet", "apps/v1", g.name("set"), m{
		"replicas": pick(g, int64(1), int64(3)), "selector": selector, "template": template, "serviceName": "nowhere", "podManagementPolicy": pick(g, "Parallel", "OrderedReady"),
		"volumeClaimTemplates": list{m{"metadata": m{"name": "v"}, "spec": m{"accessModes": list{"ReadWriteOnce"}, "storageClassName": pick(g, "nowhere", "hostile-storage-41"), "resources": m{"requests": m{"storage": g.large()}}}}},
	})
}

func jobs(g *generator) Object {
	_, template := g.template("Never")
	delete(template, "metadata")
	return workload("Job", "batch/v1", g.name("job"), m{
		"parallelism": pick(g, int64(0), int64(5)), "completions": pick(g, int64(5), int64(math.MaxInt32)), "backoffLimit": int64(0), "activeDeadlineSeconds": int64(math.MaxInt32), "template": template,
		"suspend": g.IntN(3) == 0,
	})
}

// daemonSets want a place on every node, or on those of nobody.
func daemonSets(g *generator) Object {
	selector, template := g.template("")
	spec, _ := template["spec"].(m)
	if g.IntN(2) == 0 {
		spec = m{"containers": list{container(0, g.amounts(g.large))}}
		template["spec"] = spec
	}
	switch g.IntN(3) {
	case 0:
		spec["nodeSelector"] = m{"example.com/nobody-has-it": "true"}
	case 1:
		spec["tolerations"] = list{m{"operator": "Exists"}}
	}
	return workload("DaemonSet", "apps/v1", g.name("daemon"), m{"selector": selector, "template": template, "updateStrategy": m{"type": "OnDelete"}})
}

func podBudgets(g *generator) Object {
	spec := m{}
	spec[pick(g, "minAvailable", "maxUnavailable")] = among(g, []any{"0%", "100%", int64(0), int64(math.MaxInt32)}, "101%", "999999999%", "-1%", "0.5%", any(int64(-1)), "many")
	switch g.IntN(4) {
	case 0: // none at all
	default:
		spec["selector"] = g.selector()
	}
	if g.IntN(2) == 0 {
		spec["unhealthyPodEvictionPolicy"] = pick(g, "AlwaysAllow", "IfHealthyBudget")
	}
	o := object("policy/v1", "PodDisruptionBudget", Namespace, g.name("budget"), m{"spec": spec})
	status := m{
		"disruptionsAllowed": pick(g, int64(0), int64(math.MaxInt32)), "currentHealthy": int64(0), "desiredHealthy": int64(math.MaxInt32), "expectedPods": int64(0), "observedGeneration": int64(math.MaxInt64),
		"disruptedPods": m{"nowhere": "2999-01-01T00:00:00Z", fmt.Sprintf("hostile-owned-%d", g.IntN(50)): "1970-01-01T00:00:00Z"},
	}
	return Object{Unstructured: o, Status: status}
}
