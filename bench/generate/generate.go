// Package generate makes scenarios: families of clusters that the public ones leave out,
// of any size, from a seed. The same family, size and seed make the same scenario.
//
// What can be launched is the EC2 catalog of the product. Pods come as deployments: many
// small ones and few large ones, with requests that people would write.
package generate

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// CatalogFile is the file that the scenarios name as their catalog.
const CatalogFile = "catalog-ec2.json.gz"

const instance = ec2catalog.Domain + "/instance-"

// labels are those of a type that pods and pools of the families ask about, and a few
// that they could. More of them would only slow Karpenter down.
func labels() []string {
	return []string{
		"kubernetes.io/arch", "kubernetes.io/os", instance + "category", instance + "family", instance + "generation", instance + "size",
		instance + "cpu", instance + "memory", instance + "gpu-name", instance + "gpu-count",
	}
}

// Catalog returns every type of the EC2 catalog that is sold.
func Catalog() ([]scenario.InstanceType, error) {
	types, err := ec2catalog.Types()
	if err != nil {
		return nil, err
	}
	var out []scenario.InstanceType
	for _, t := range types {
		if len(t.Offerings) > 0 {
			out = append(out, instanceType(t))
		}
	}
	return out, nil
}

func instanceType(t *catalog.Type) scenario.InstanceType {
	const mebibyte = 1 << 20
	out := scenario.InstanceType{
		Name: t.Name, CPU: t.Capacity[quantity.CPU], Mem: t.Capacity[quantity.Memory] / mebibyte, Pods: t.Capacity[quantity.Pods],
		ReservedCPU: t.Overhead[quantity.CPU], ReservedMem: t.Overhead[quantity.Memory] / mebibyte,
	}
	for name, n := range t.Capacity {
		switch name {
		case quantity.CPU, quantity.Memory, quantity.Pods, quantity.EphemeralStorage:
		default:
			out.Ext = map[string]int64{name: n}
		}
	}
	for _, key := range labels() {
		if r, ok := t.Requirements[key]; ok && r.Operator() == label.OpIn {
			out.Reqs = append(out.Reqs, scenario.Requirement{Key: key, Op: "In", Values: r.Values()})
		}
	}
	for _, o := range t.Offerings {
		out.Offerings = append(out.Offerings, scenario.Offering{Zone: o.Zone, CapacityType: o.CapacityType, Price: o.PriceHourly, Unavailable: !o.Available})
	}
	slices.SortFunc(out.Offerings, func(a, b scenario.Offering) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}

// WriteCatalog writes the catalog to the directory.
func WriteCatalog(dir string) error {
	types, err := Catalog()
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, CatalogFile), &scenario.Scenario{Format: scenario.Format, Name: "catalog-ec2", InstanceTypes: types})
}

// Write writes one scenario to the directory, in which the catalog is, and returns its path.
func Write(dir string, f Family, pods int, seed uint64) (string, error) {
	s := f.Scenario(pods, seed)
	path := filepath.Join(dir, s.Name+".json.gz")
	return path, write(path, s)
}

func write(path string, s *scenario.Scenario) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the error that counts is that of the second Close
	zw := gzip.NewWriter(f)
	if err := json.NewEncoder(zw).Encode(s); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}
