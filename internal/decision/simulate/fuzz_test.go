package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

// fuzzPodsMax is how many pods are packed at most, so that one input takes no time to speak of.
const fuzzPodsMax = 20

// FuzzManifests reads what may be manifests. The error says where, and a question that was
// understood has an answer for each of its pods.
func FuzzManifests(f *testing.F) {
	const pod = `containers: [{name: a, image: a, resources: {requests: {cpu: "1", memory: 8Ei}}}]`
	for _, seed := range []string{
		poolText, poolText + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {" + pod + "}\n",
		poolText + "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 3, template: {spec: {" + pod + "}}}\n",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Node, metadata: {name: n}, status: {capacity: {cpu: \"-1\", pods: \"9223372036854775807\"}}}]\n",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {parallelism: 2147483647, completions: -1}\n",
		"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {minAvailable: \"200%\", selector: {}}\n---\n\n---\n{}\n---\n# nothing\n",
		"apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: c}\nspec: {expireAfter: 2562047h, requirements: [{key: a, operator: Gt, values: [\"1\"]}]}\n",
		"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\n---\napiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: n}\nspec: {drivers: [{name: d, allocatable: {count: -1}}]}\n",
		`{"apiVersion":"v1","kind":"PodList","items":[null,{}]}`, "--- # here\na: [", "\x1f\x8b",
	} {
		f.Add(seed)
	}
	from, err := CatalogNamed("kwok")
	if err != nil {
		f.Fatal(err)
	}
	from.Types, from.Gates = from.Types[:12], Gates{CapacityBuffer: true, StaticCapacity: true}
	f.Fuzz(func(t *testing.T, text string) {
		docs := split("m.yaml", []byte(text))
		m, err := readManifests(docs)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "m.yaml: document ") {
				t.Errorf("the error does not say where: %v", err)
			}
			return
		}
		pods := len(m.pods)
		for _, w := range m.workloads {
			pods += w.pods
		}
		if pods > fuzzPodsMax {
			return
		}
		c, err := m.question("m.yaml", from, time.Unix(1790000000, 0))
		if err != nil {
			return
		}
		if len(c.Snapshot.Pending) > pods {
			t.Fatalf("%d pods ask for a node, of %d", len(c.Snapshot.Pending), pods)
		}
		p := pack.Solve(c.Snapshot, c.Options)
		answered := len(p.Assignments) + len(p.Refusals)
		for i := range p.Launches {
			answered += len(p.Launches[i].Pods)
			for name, amount := range p.Launches[i].Requests {
				if amount < 0 {
					t.Errorf("a launch for %d of %s", amount, name)
				}
			}
		}
		if answered != len(c.Snapshot.Pending) {
			t.Errorf("%d pods of %d have an answer", answered, len(c.Snapshot.Pending))
		}
	})
}
