package simulate

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

// BenchmarkSolve is the solver alone on the larger public scenarios.
func BenchmarkSolve(b *testing.B) {
	for _, name := range []string{"p1a-diverse-aws-5000", "p1b-plain-aws-1000", "p1b-plain-aws-20000", "p1c-deploys-aws-10000", "p2-web-zonespread"} {
		c, err := Scenario(filepath.Join("testdata", name+".json.gz"), time.Unix(0, 0))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pack.Solve(c.Snapshot, pack.Options{})
			}
			b.ReportMetric(float64(b.N)*float64(len(c.Snapshot.Pending))/b.Elapsed().Seconds(), "pods/s")
		})
	}
}

// BenchmarkSolveEC2 is the part of a solve that does not depend on the pods: two pools of
// the whole EC2 catalog.
func BenchmarkSolveEC2(b *testing.B) {
	from, err := CatalogNamed("ec2")
	if err != nil {
		b.Fatal(err)
	}
	c, err := Manifests([]string{filepath.Join("testdata", "gpu.yaml")}, from, time.Unix(0, 0))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		pack.Solve(c.Snapshot, pack.Options{})
	}
}
