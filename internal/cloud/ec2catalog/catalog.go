package ec2catalog

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

//go:embed ec2.csv.gz
var table []byte

const (
	// Domain is that of the labels below; users may not make up more.
	Domain = "karpenter.k8s.aws"
	// Region is where the prices were taken.
	Region = "us-east-1"
	// PricesOf is when they were.
	PricesOf = "May 2025"

	zoneID = "topology.k8s.aws/zone-id"

	mebibyte = 1 << 20
	gibibyte = 1 << 30
	// vmOverhead is the part of the memory that the hypervisor keeps, at the default of
	// VM_MEMORY_OVERHEAD_PERCENT.
	vmOverhead = 0.075
	// armReservedMiB is what arm64 instances keep for contiguous allocations besides.
	armReservedMiB = 64
	rootVolume     = 20 * gibibyte
)

// record is one line of the table by column.
type record map[string]string

// Types returns all types, in the order of their names. Each call decodes them anew. A
// type that is sold in no zone is there without offerings.
func Types() ([]*catalog.Type, error) {
	rows, err := Rows()
	if err != nil {
		return nil, err
	}
	name := regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+)`)
	var types []*catalog.Type
	for _, row := range rows {
		t, err := record(row).catalogType(name)
		if err != nil {
			return nil, fmt.Errorf("ec2 catalog: %s: %w", row["name"], err)
		}
		types = append(types, t)
	}
	return types, nil
}

// Rows returns the table as it is, a line a type, each by column. It is read once in a
// process and shared: callers must not change it.
func Rows() ([]map[string]string, error) { return rows() }

var rows = sync.OnceValues(readRows) //nolint:gochecknoglobals // never changes

func readRows() ([]map[string]string, error) {
	zr, err := gzip.NewReader(bytes.NewReader(table))
	if err != nil {
		return nil, fmt.Errorf("ec2 catalog: %w", err)
	}
	lines, err := csv.NewReader(zr).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("ec2 catalog: %w", err)
	}
	var all []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, column := range lines[0] {
			row[column] = line[i]
		}
		all = append(all, row)
	}
	return all, nil
}

// WellKnown returns the label keys that a pool without a word on them leaves open.
func WellKnown() []string {
	keys := []string{zoneID}
	for _, k := range []string{
		"category", "family", "generation", "size", "cpu", "cpu-manufacturer", "cpu-sustained-clock-speed-mhz", "memory", "hypervisor",
		"ebs-bandwidth", "network-bandwidth", "local-nvme", "capability-flex", "encryption-in-transit-supported", "tenancy",
		"gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory", "accelerator-name", "accelerator-manufacturer", "accelerator-count",
	} {
		keys = append(keys, instance(k))
	}
	return keys
}

func instance(name string) string { return Domain + "/instance-" + name }

// number returns a column that is a number; the first error of several sticks.
func (r record) number(column string, err *error) int64 {
	n, e := strconv.ParseInt(r[column], 10, 64)
	if e != nil && *err == nil {
		*err = fmt.Errorf("%s: %w", column, e)
	}
	return n
}

func (r record) catalogType(name *regexp.Regexp) (*catalog.Type, error) {
	var err error
	cpus, memory := r.number("vcpu", &err), r.number("memory_mib", &err)
	pods := podsMax(r.number("enis", &err), r.number("ips_per_eni", &err))
	gpus, accelerators := r.number("gpu_count", &err), r.number("accelerator_count", &err)
	offerings, e := r.offerings()
	if err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	t := &catalog.Type{Name: r["name"], Requirements: r.labels(name), Offerings: offerings}
	if r["arch"] == "arm64" {
		memory -= armReservedMiB
	}
	memory -= int64(math.Ceil(float64(memory) * vmOverhead))
	t.Capacity = quantity.List{
		quantity.CPU: cpus * 1000, quantity.Memory: memory * mebibyte, quantity.Pods: pods, quantity.EphemeralStorage: rootVolume,
	}
	for _, d := range []struct {
		resource string
		count    int64
	}{{gpuResource(r["gpu_maker"]), gpus}, {acceleratorResource(r["accelerator_maker"]), accelerators}} {
		if d.resource != "" && d.count > 0 {
			t.Capacity[d.resource] = d.count
		}
	}
	// What kubelet keeps, and the eviction thresholds (100Mi, a tenth of the disk).
	t.Overhead = quantity.List{
		quantity.CPU: kubeletCPU(cpus * 1000), quantity.Memory: (11*pods + 255 + 100) * mebibyte,
		quantity.EphemeralStorage: gibibyte + rootVolume/10,
	}
	var zones, kinds []string
	for _, o := range offerings {
		zones, kinds = append(zones, o.Zone), append(kinds, o.CapacityType)
	}
	t.Requirements[label.Zone], t.Requirements[zoneID] = label.In(zones...), label.In(zones...)
	t.Requirements[label.CapacityType] = label.In(kinds...)
	return t, nil
}

// podsMax is how many pods have an address, with one address of each interface kept for
// the instance and two pods on the instance's own.
func podsMax(enis, addresses int64) int64 {
	if enis == 0 || addresses == 0 {
		return 0
	}
	return enis*(addresses-1) + 2
}

// kubeletCPU is what kubelet keeps of an instance's cpu, both in millicores.
func kubeletCPU(milli int64) int64 {
	kept := int64(0)
	for _, step := range []struct{ from, to, share int64 }{{0, 1000, 600}, {1000, 2000, 100}, {2000, 4000, 50}, {4000, math.MaxInt64, 25}} {
		if milli > step.from {
			kept += (min(milli, step.to) - step.from) * step.share / 10000
		}
	}
	return kept
}

func gpuResource(maker string) string {
	if maker == "" {
		return ""
	}
	return maker + ".com/gpu"
}

func acceleratorResource(maker string) string {
	switch maker {
	case "aws":
		return "aws.amazon.com/neuron"
	case "habana":
		return "habana.ai/gaudi"
	default:
		return ""
	}
}

// labels returns what the type decides. Of devices that it does not have it says so.
func (r record) labels(name *regexp.Regexp) label.Requirements {
	family, size, _ := strings.Cut(r["name"], ".")
	labels := label.Requirements{
		label.InstanceType:              label.In(r["name"]),
		"kubernetes.io/arch":            label.In(r["arch"]),
		"kubernetes.io/os":              label.In("linux"),
		"topology.kubernetes.io/region": label.In(Region),
		instance("family"):              label.In(family),
		instance("size"):                label.In(size),
		instance("cpu"):                 label.In(r["vcpu"]),
		instance("cpu-manufacturer"):    label.In(r["cpu_maker"]),
		instance("memory"):              label.In(r["memory_mib"]),
		instance("capability-flex"):     label.In(strconv.FormatBool(strings.Contains(family, "-flex"))),
	}
	if m := name.FindStringSubmatch(family); m != nil {
		labels[instance("category")], labels[instance("generation")] = label.In(m[1]), label.In(m[2])
	}
	for key, column := range map[string]string{
		"local-nvme": "nvme_gb", "ebs-bandwidth": "ebs_mbps",
		"gpu-name": "gpu_name", "gpu-manufacturer": "gpu_maker", "gpu-count": "gpu_count", "gpu-memory": "gpu_memory_mib",
		"accelerator-name": "accelerator_name", "accelerator-manufacturer": "accelerator_maker", "accelerator-count": "accelerator_count",
	} {
		labels[instance(key)] = label.DoesNotExist()
		if v := r[column]; v != "" && v != "0" {
			labels[instance(key)] = label.In(v)
		}
	}
	return labels
}

// offerings returns the zones of the type, on demand everywhere, spot where there is a price.
func (r record) offerings() ([]catalog.Offering, error) {
	if r["zones"] == "" {
		return nil, nil
	}
	onDemand, err := strconv.ParseFloat(r["on_demand_usd"], 64)
	if err != nil {
		return nil, fmt.Errorf("on_demand_usd: %w", err)
	}
	var out []catalog.Offering
	for part := range strings.SplitSeq(r["zones"], "|") {
		zone, quote, hasSpot := strings.Cut(part, "=")
		own := map[string]string{zoneID: zone}
		out = append(out, catalog.Offering{Zone: zone, CapacityType: label.OnDemand, Labels: own, PriceHourly: onDemand, Priced: true, Available: true})
		if !hasSpot {
			continue
		}
		spot, err := strconv.ParseFloat(quote, 64)
		if err != nil {
			return nil, fmt.Errorf("zones: %w", err)
		}
		out = append(out, catalog.Offering{Zone: zone, CapacityType: label.Spot, Labels: own, PriceHourly: spot, Priced: true, Available: true})
	}
	return out, nil
}
