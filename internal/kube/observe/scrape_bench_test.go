package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fleet is a cache with nodes and pods.
type fleet struct {
	client.Reader
	nodes []corev1.Node
	pods  []corev1.Pod
}

func (f *fleet) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.NodeList:
		list.Items = f.nodes
	case *corev1.PodList:
		list.Items = f.pods
	default:
		return errors.New("it has no such objects")
	}
	return nil
}

// newFleet returns nodes with twenty pods each, which are of a hundred workloads.
func newFleet(nodes int) *fleet {
	f := &fleet{}
	var specs []corev1.PodSpec
	for w := range 100 {
		specs = append(specs, corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(w+1), resource.DecimalSI), "memory": resource.MustParse("1Gi")},
			Limits:   corev1.ResourceList{"memory": resource.MustParse("1Gi")},
		}}}})
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("20Gi")}
	for n := range nodes {
		name := fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", n/250, n%250)
		f.nodes = append(f.nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				"karpenter.sh/nodepool": "general", "karpenter.test/class": "x", corev1.LabelTopologyZone: "a", corev1.LabelInstanceTypeStable: "m7i.4xlarge",
				corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", "karpenter.sh/capacity-type": "spot",
			}},
			Status: corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
		})
		for p := range 20 {
			pod := corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("web-%d-7d9c8b5f6d-%05d", n%100, p), Namespace: "default",
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d9c8b5f6d"}},
				},
				Spec: specs[(n+p)%len(specs)], Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			pod.Spec.NodeName = name
			f.pods = append(f.pods, pod)
		}
	}
	return f
}

// BenchmarkScrape measures a scrape of 5,000 nodes and 100,000 pods.
func BenchmarkScrape(b *testing.B) {
	objects := NewObjects([]schema.GroupVersionKind{{Group: "karpenter.test", Kind: "Class"}}, nil, time.Now)
	objects.Use(newFleet(5000))
	s := NewScrape(prometheus.NewRegistry(), LevelDefault)
	s.Add(objects)
	for _, encoding := range []string{"identity", "gzip"} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		b.Run(encoding, func(b *testing.B) {
			b.ReportAllocs()
			var written counter
			for b.Loop() {
				written = 0
				s.ServeHTTP(&written, r)
			}
			b.ReportMetric(float64(written)/1e6, "answer-MB")
		})
	}
}

// counter counts what is written.
type counter int

func (*counter) Header() http.Header           { return http.Header{} }
func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }
func (*counter) WriteHeader(int)               {}
