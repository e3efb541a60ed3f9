package hostile

import "math/rand/v2"

// family makes objects of one kind of hostility.
type family struct {
	name string
	make func(*generator) Object
}

// families are in the order in which they are gone through.
func families() []family {
	return []family{
		{"quantities", quantities},
		{"many containers", manyContainers},
		{"init containers", initContainers},
		{"pod-level resources", podLevel},
		{"overhead", overhead},
		{"extended resources", extended},
		{"anti-affinity", antiAffinity},
		{"affinity", affinity},
		{"labels", labels},
		{"namespaces", namespaces},
		{"preferences", preferences},
		{"volumes", volumes},
		{"OR terms", orTerms},
		{"NotIn", notIn},
		{"bounds", bounds},
		{"impossible values", impossible},
		{"spread", spread},
		{"tolerations", tolerations},
		{"host ports", hostPorts},
		{"deadlines", deadlines},
		{"gates", gates},
		{"resource claims", resourceClaims},
		{"schedulers", schedulers},
		{"owners", owners},
		{"long texts", longTexts},
		{"deployments", deployments},
		{"stateful sets", statefulSets},
		{"jobs", jobs},
		{"daemon sets", daemonSets},
		{"budgets of pods", podBudgets},
		{"node capacity", nodeCapacity},
		{"node labels", nodeLabels},
		{"node taints", nodeTaints},
		{"provider ids", providerIDs},
		{"pool limits", poolLimits},
		{"pool budgets", poolBudgets},
		{"pool lives", poolLives},
		{"pool requirements", poolRequirements},
		{"claims without a pool", orphanClaims},
		{"claims' amounts", claimAmounts},
		{"classes", classes},
		{"storage classes", storageClasses},
		{"volume claims", volumeClaims},
		{"persistent volumes", persistentVolumes},
		{"attach limits", attachLimits},
		{"limit ranges", limitRanges},
		{"config", config},
	}
}

// Families returns the names of the families.
func Families() []string {
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	return names
}

// Setup returns what the others refer to and nobody would mind: the namespace, and runtime
// classes with an overhead.
func Setup() []Object {
	objects := []Object{{Family: "setup", Unstructured: object("v1", "Namespace", "", Namespace, nil)}}
	for i, amounts := range overheads() {
		o := object("node.k8s.io/v1", "RuntimeClass", "", runtimeClass(i), m{"handler": "runc", "overhead": m{"podFixed": amounts}})
		objects = append(objects, Object{Family: "setup", Unstructured: o})
	}
	return objects
}

// Generate returns the objects.
func Generate(o Options) []Object {
	if o.Most <= 0 {
		o.Most = 100
	}
	all := families()
	var out []Object
	for i := range o.Objects {
		f := all[i%len(all)]
		// Each object has a source of its own: more objects leave those before them as they are.
		g := &generator{Rand: rand.New(rand.NewPCG(o.Seed, uint64(i))), index: i, most: o.Most}
		g.wild = g.IntN(4) == 0
		made := f.make(g)
		made.Family = f.name
		out = append(out, made)
	}
	return out
}
