package mirror

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	benchNodes       = 500
	benchPodsPerNode = 20
)

// benchObjects returns nodes full of pods of fifty ReplicaSets.
func benchObjects() []client.Object {
	var objects []client.Object
	yes := true
	for i := range benchNodes {
		node := fmt.Sprintf("n%03d", i)
		objects = append(objects, testNode(node, "kwok://"+node, true), testClaim("c-"+node, "kwok://"+node))
		for j := range benchPodsPerNode {
			owner := fmt.Sprint("r", (i*benchPodsPerNode+j)%50)
			p := boundPod(fmt.Sprintf("p%03d-%02d", i, j), node)
			p.Labels = map[string]string{"app": owner}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &yes}}
			objects = append(objects, p)
		}
	}
	return objects
}

// BenchmarkSnapshot takes snapshots of 500 nodes with 10,000 pods: of a cluster in which
// nothing has happened since the last one, and of one in which the pods of 20 nodes changed.
func BenchmarkSnapshot(b *testing.B) {
	for _, changed := range []int{0, 20} {
		b.Run(fmt.Sprintf("nodes_changed=%d", changed), func(b *testing.B) {
			s := newTestStore(func() time.Time { return noon })
			objects := benchObjects()
			if err := s.Observe(objects...); err != nil {
				b.Fatal(err)
			}
			var again []client.Object
			for i := range changed {
				again = append(again, objects[i*(benchPodsPerNode+2)+2].(*corev1.Pod))
			}
			s.Snapshot()
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Observe(again...); err != nil {
					b.Fatal(err)
				}
				s.Snapshot()
			}
		})
	}
}

// BenchmarkObserve takes 500 nodes with 10,000 pods in.
func BenchmarkObserve(b *testing.B) {
	objects := benchObjects()
	b.ReportAllocs()
	for b.Loop() {
		if err := newTestStore(func() time.Time { return noon }).Observe(objects...); err != nil {
			b.Fatal(err)
		}
	}
}
