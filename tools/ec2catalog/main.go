// Command ec2catalog writes the EC2 catalog that internal/cloud/ec2catalog embeds: a CSV
// table, gzip-compressed. It reads the data of a Go module from the module cache, which
// go mod download fills; the module's own package is not linked, because its data alone
// is 96 MB. Usage: ec2catalog FILE.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	source = "github.com/cristim/ec2-instances-info@v0.0.0-20250528091325-32acf84f42eb"
	region = "us-east-1"
)

// instance is what we read of one type.
type instance struct {
	Name      string              `json:"instance_type"`
	Arch      []string            `json:"arch"`
	VCPU      int                 `json:"vCPU"`
	MemoryGiB float64             `json:"memory"`
	Processor string              `json:"physical_processor"`
	GPU       float64             `json:"GPU"`
	GPUModel  string              `json:"GPU_model"`
	GPUMemory float64             `json:"GPU_memory"` // GiB, all together
	EBSMbps   float64             `json:"ebs_max_bandwidth"`
	Zones     map[string][]string `json:"availability_zones"`
	VPC       *struct {
		ENIs int `json:"max_enis"`
		IPs  int `json:"ips_per_eni"`
	} `json:"vpc"`
	Storage *struct {
		Devices int     `json:"devices"`
		Size    float64 `json:"size"` // GB each
		NVMe    bool    `json:"nvme_ssd"`
	} `json:"storage"`
	// Pricing by region, then by system. Not all systems have the same form.
	Pricing map[string]map[string]json.RawMessage `json:"pricing"`
}

type price struct {
	OnDemand string   `json:"ondemand"`
	Spot     []string `json:"spot"` // ascending, without zones
	// Interrupted is the share of spot instances that are interrupted in a month, as a band.
	Interrupted string `json:"pct_interrupt"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ec2catalog FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "ec2catalog:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	all, err := read()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b instance) int { return strings.Compare(a.Name, b.Name) })
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := csv.NewWriter(zw)
	rows := [][]string{{
		"name", "vcpu", "memory_mib", "arch", "cpu_maker", "gpu_maker", "gpu_name", "gpu_count", "gpu_memory_mib",
		"accelerator_maker", "accelerator_name", "accelerator_count", "nvme_gb", "ebs_mbps", "enis", "ips_per_eni", "on_demand_usd", "interrupted", "zones",
	}}
	for i := range all {
		row, ok, err := row(&all[i])
		if err != nil {
			return fmt.Errorf("%s: %w", all[i].Name, err)
		}
		if ok {
			rows = append(rows, row)
		}
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	if err := zw.Close(); err != nil {
		return err
	}
	fmt.Printf("%d types, %d bytes\n", len(rows)-1, buf.Len())
	return os.WriteFile(out, buf.Bytes(), 0o644)
}

// read returns all types of the source.
func read() ([]instance, error) {
	cmd := exec.Command("go", "mod", "download", "-json", source)
	cmd.Dir = os.TempDir() // outside of any module
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", source, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(b, &module); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(module.Dir, "data", "instances.json"))
	if err != nil {
		return nil, err
	}
	var all []instance
	return all, json.Unmarshal(content, &all)
}

// row returns the line of a type; false if it has no price in the region.
func row(in *instance) ([]string, bool, error) {
	raw, ok := in.Pricing[region]["linux"]
	if !ok {
		return nil, false, nil
	}
	var p price
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, false, err
	}
	onDemand, err := strconv.ParseFloat(p.OnDemand, 64)
	if err != nil || onDemand <= 0 {
		return nil, false, nil
	}
	if len(in.Arch) == 0 {
		return nil, false, fmt.Errorf("no architecture")
	}
	arch := "amd64"
	if slices.Contains(in.Arch, "arm64") {
		arch = "arm64"
	}
	gpu, accelerator := devices(in)
	nvme, enis, ips := 0, 0, 0
	if in.Storage != nil && in.Storage.NVMe {
		nvme = in.Storage.Devices * int(in.Storage.Size)
	}
	if in.VPC != nil {
		enis, ips = in.VPC.ENIs, in.VPC.IPs
	}
	if n, ok := defaultCardENIs()[in.Name]; ok {
		enis = n
	}
	itoa := func(n int) string { return strconv.Itoa(n) }
	return []string{
		in.Name, itoa(in.VCPU), itoa(int(in.MemoryGiB * 1024)), arch, maker(in.Processor),
		gpu.maker, gpu.name, itoa(gpu.count), itoa(gpu.memoryMiB), accelerator.maker, accelerator.name, itoa(accelerator.count),
		itoa(nvme), itoa(int(in.EBSMbps)), itoa(enis), itoa(ips), p.OnDemand, p.Interrupted, zones(in, p.Spot),
	}, true, nil
}

// zones returns the zones in which the type is offered, each with a spot price as long
// as there are any. The source has spot prices without their zones: which is whose is
// an assignment, the same at every run. It starts at another zone for each type, lest one
// zone have the lowest price of them all.
func zones(in *instance, spot []string) string {
	ids := slices.Clone(in.Zones[region])
	slices.Sort(ids)
	if len(ids) == 0 {
		return ""
	}
	h := fnv.New32a()
	h.Write([]byte(in.Name))
	start := int(h.Sum32() % uint32(len(ids)))
	for i, quote := range spot {
		if i < len(ids) {
			ids[(start+i)%len(ids)] += "=" + strings.TrimRight(strings.TrimRight(quote, "0"), ".")
		}
	}
	return strings.Join(ids, "|")
}

// maker returns who made the processor, as the label has it.
func maker(processor string) string {
	for _, name := range []string{"Intel", "AMD", "AWS"} {
		if strings.Contains(processor, name) {
			return strings.ToLower(name)
		}
	}
	return "intel" // "Variable" and the like: the oldest families
}

// device is a kind of GPU or accelerator.
type device struct {
	maker, name      string
	count, memoryMiB int
}

// devices returns a type's GPUs, or its accelerators, with the names that labels have.
func devices(in *instance) (gpu, accelerator device) {
	family, _, _ := strings.Cut(in.Name, ".")
	switch {
	case in.Name == "dl1.24xlarge": // the source has none of its eight
		return gpu, device{"habana", "gaudi", 8, 0}
	case in.GPU == 0:
		return gpu, accelerator
	case strings.HasPrefix(family, "trn1"): // the source calls them Inferentia
		return gpu, device{"aws", "trainium", int(in.GPU), 0}
	case strings.HasPrefix(in.GPUModel, "AWS "):
		return gpu, device{"aws", strings.ToLower(strings.TrimPrefix(in.GPUModel, "AWS ")), int(in.GPU), 0}
	}
	brand, name, _ := strings.Cut(in.GPUModel, " ")
	for _, word := range []string{"Tesla ", "GRID ", " Tensor Core"} {
		name = strings.ReplaceAll(name, word, "")
	}
	return device{
		strings.ToLower(brand), strings.ReplaceAll(strings.ToLower(name), " ", "-"), int(in.GPU), int(in.GPUMemory*1024) / int(in.GPU),
	}, accelerator
}

// defaultCardENIs returns how many interfaces the default network card takes, of the
// types with several cards: pods get addresses from that card only, and the source counts
// all cards. The figures follow from the table of pod limits that AWS publishes with its
// VPC CNI plugin (misc/eni-max-pods.txt: pods = interfaces x (addresses - 1) + 2); those
// of dl1, trn1, trn1n and u7in, which it lacks, are the source's divided by the cards.
func defaultCardENIs() map[string]int {
	return map[string]int{
		"c6in.32xlarge": 8, "c6in.metal": 8, "m6in.32xlarge": 8, "m6in.metal": 8, "m6idn.32xlarge": 8, "m6idn.metal": 8,
		"r6in.32xlarge": 8, "r6in.metal": 8, "r6idn.32xlarge": 8, "r6idn.metal": 8,
		"g6e.24xlarge": 10, "g6e.48xlarge": 10, "p4d.24xlarge": 15, "p5.48xlarge": 2, "p5en.48xlarge": 4,
		"dl1.24xlarge": 15, "trn1.32xlarge": 5, "trn1n.32xlarge": 5,
		"u7in-16tb.224xlarge": 8, "u7in-24tb.224xlarge": 8, "u7in-32tb.224xlarge": 8,
	}
}
