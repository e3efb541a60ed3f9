package awssim

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
)

// The capacity types as pools, quotas and DescribeInstances' lifecycles have them.
const (
	capacityOnDemand = "on-demand"
	capacitySpot     = "spot"
	capacityBlock    = "capacity-block"
)

// ec2Type is an instance type.
type ec2Type struct {
	name, family, size string
	vcpus              int
	memoryMiB          int64
	arch               string // x86_64, arm64
	maker              string // Intel, AMD, AWS
	enis, addresses    int
	cards, efas        int
	ebsMbps, nvmeGB    int
	gpuMaker, gpuName  string
	gpus, gpuMemoryMiB int
	accelerator        string
	accelerators       int
	metal, nitro       bool
	// prices in dollars an hour: on demand, and spot by zone id.
	onDemand float64
	spot     map[string]float64
	zoneIDs  []string
	// described is the answer of DescribeInstanceTypes, without and with what is left unsaid.
	described, terse fields
}

// types are what EC2 sells: the shipped catalog. They are shared by all accounts of the
// process and never changed.
type types struct {
	byName map[string]*ec2Type
	names  []string // in order
}

var shippedTypes = sync.OnceValues(readTypes) //nolint:gochecknoglobals // never changes

func readTypes() (types, error) {
	t := types{byName: map[string]*ec2Type{}}
	rows, err := ec2catalog.Rows()
	if err != nil {
		return t, fmt.Errorf("awssim: %w", err)
	}
	for _, row := range rows {
		m, err := newType(row)
		if err != nil {
			return t, fmt.Errorf("awssim: %s: %w", row["name"], err)
		}
		m.described, m.terse = m.write(false), m.write(true)
		t.byName[m.name] = m
		t.names = append(t.names, m.name)
	}
	slices.Sort(t.names)
	return t, nil
}

// of returns the types of these families; nil: all.
func (t types) of(families []string) (types, error) {
	if families == nil {
		return t, nil
	}
	some, found := types{byName: map[string]*ec2Type{}}, map[string]bool{}
	for _, name := range t.names {
		if m := t.byName[name]; slices.Contains(families, m.family) {
			some.byName[name], found[m.family] = m, true
			some.names = append(some.names, name)
		}
	}
	for _, family := range families {
		if !found[family] {
			return some, fmt.Errorf("awssim: the catalog has no family %s", family)
		}
	}
	return some, nil
}

func newType(row map[string]string) (*ec2Type, error) {
	var err error
	number := func(column string) int {
		n, e := strconv.Atoi(row[column])
		if e != nil && err == nil {
			err = fmt.Errorf("%s: %w", column, e)
		}
		return n
	}
	family, size, _ := strings.Cut(row["name"], ".")
	m := &ec2Type{
		name: row["name"], family: family, size: size, vcpus: number("vcpu"), memoryMiB: int64(number("memory_mib")),
		arch: "x86_64", maker: map[string]string{"intel": "Intel", "amd": "AMD", "aws": "AWS"}[row["cpu_maker"]],
		enis: number("enis"), addresses: number("ips_per_eni"), ebsMbps: number("ebs_mbps"), nvmeGB: number("nvme_gb"),
		gpuMaker: row["gpu_maker"], gpuName: row["gpu_name"], gpus: number("gpu_count"), gpuMemoryMiB: number("gpu_memory_mib"),
		accelerator: row["accelerator_name"], accelerators: number("accelerator_count"),
		metal: strings.HasPrefix(size, "metal"), nitro: isNitro(family, size), spot: map[string]float64{},
	}
	if row["arch"] == "arm64" {
		m.arch = "arm64"
	}
	m.cards = cards(m.name)
	m.efas = efas(m)
	price := func(text string) float64 {
		p, e := strconv.ParseFloat(text, 64)
		if e != nil && err == nil {
			err = fmt.Errorf("price: %w", e)
		}
		return p
	}
	m.onDemand = price(row["on_demand_usd"])
	for part := range strings.SplitSeq(row["zones"], "|") {
		zone, quote, hasSpot := strings.Cut(part, "=")
		if zone == "" {
			continue
		}
		m.zoneIDs = append(m.zoneIDs, zone)
		if hasSpot {
			m.spot[zone] = price(quote)
		}
	}
	return m, err
}

// isNitro reports whether a family runs on the hypervisor Nitro; the rest is on Xen.
func isNitro(family, size string) bool {
	xen := []string{
		"t1", "t2", "m1", "m2", "m3", "m4", "c1", "c3", "c4", "cc2", "cr1", "r3", "r4", "d2", "h1", "hs1", "i2", "i3",
		"g2", "g3", "g3s", "p2", "p3", "x1", "x1e", "f1",
	}
	return !slices.Contains(xen, family) || strings.HasPrefix(size, "metal")
}

// cards is how many network cards a type has; most have one.
func cards(name string) int {
	many := map[string]int{
		"p4d.24xlarge": 4, "p4de.24xlarge": 4, "p5.48xlarge": 32, "p5e.48xlarge": 32, "p5en.48xlarge": 16,
		"dl1.24xlarge": 4, "trn1.32xlarge": 8, "trn1n.32xlarge": 16, "trn2.48xlarge": 16, "g6e.24xlarge": 2, "g6e.48xlarge": 4,
		"u7in-16tb.224xlarge": 2, "u7in-24tb.224xlarge": 2, "u7in-32tb.224xlarge": 2,
	}
	if n := many[name]; n > 0 {
		return n
	}
	family, size, _ := strings.Cut(name, ".")
	if slices.Contains([]string{"c6in", "m6in", "m6idn", "r6in", "r6idn"}, family) && (size == "32xlarge" || size == "metal") {
		return 2
	}
	return 1
}

// efas is how many elastic fabric adapters a type takes: one a card, on the large sizes
// of the families that have them.
func efas(m *ec2Type) int {
	if m.cards > 1 && !strings.HasPrefix(m.family, "u7in") {
		return m.cards
	}
	large := slices.Contains([]string{"16xlarge", "18xlarge", "24xlarge", "32xlarge", "48xlarge", "metal", "metal-48xl", "metal-32xl"}, m.size)
	if !large && !strings.HasPrefix(m.family, "hpc") {
		return 0
	}
	if regexp.MustCompile(`^([cmr][5-9]i?d?n|[cmr][6-9][agi]d?(-flex)?|[cmr]8g|i3en|i4i|g4dn|g5|g6|g6e|hpc\w+|x2\w+|inf1|dl1|p3dn)$`).MatchString(m.family) {
		return 1
	}
	return 0
}

// offeredIn reports whether a zone has the type.
func (m *ec2Type) offeredIn(zoneID string) bool { return slices.Contains(m.zoneIDs, zoneID) }

func (m *ec2Type) hypervisor() string {
	switch {
	case m.metal:
		return ""
	case m.nitro:
		return "nitro"
	default:
		return "xen"
	}
}

// clock is the sustained clock speed in GHz; by maker and generation, near the true one.
func (m *ec2Type) clock() float64 {
	generation := 0
	for _, r := range m.family {
		if r >= '0' && r <= '9' {
			generation = int(r - '0')
			break
		}
	}
	base := map[string]float64{"Intel": 2.5, "AMD": 2.3, "AWS": 2.1}[m.maker]
	return math.Round((base+0.1*float64(generation))*10) / 10
}

// encrypts reports whether the cards encrypt what goes between instances.
func (m *ec2Type) encrypts() bool {
	older := []string{"c5n", "c5a", "c5ad", "m5n", "m5dn", "m5zn", "r5n", "r5dn", "g4dn", "g4ad", "p3dn", "i3en", "d3", "d3en", "inf1", "p4d", "p4de", "g5", "dl1"}
	return slices.Contains(older, m.family) || m.nitro && regexp.MustCompile(`^[a-z]+(-\d+tb)?[6-9]`).MatchString(m.family)
}

func (m *ec2Type) usageClasses() []string {
	classes := []string{capacityOnDemand}
	if len(m.spot) > 0 {
		classes = append(classes, capacitySpot)
	}
	if m.sellsBlocks() {
		classes = append(classes, capacityBlock)
	}
	return classes
}

// sellsBlocks reports whether capacity blocks of the type are sold.
func (m *ec2Type) sellsBlocks() bool {
	return slices.Contains([]string{"p4d", "p4de", "p5", "p5e", "p5en", "trn1", "trn2"}, m.family)
}

func (m *ec2Type) strategies() []string {
	if strings.HasPrefix(m.family, "t") && !strings.HasPrefix(m.family, "trn") || strings.HasPrefix(m.family, "m1") || m.family == "m3" {
		return []string{"partition", "spread"}
	}
	return []string{"cluster", "partition", "spread"}
}

// enaSupport reports the enhanced network interface.
func (m *ec2Type) enaSupport() string {
	switch {
	case m.nitro:
		return "required"
	case slices.Contains([]string{"t1", "t2", "m1", "m2", "m3", "c1", "c3", "cc2", "cr1", "hs1", "i2", "g2", "r3", "c4", "d2"}, m.family):
		return "unsupported"
	default:
		return "supported"
	}
}

// describe returns the type as DescribeInstanceTypes does. Unsaid: what the network always
// carries is left out.
func (m *ec2Type) describe(unsaid bool) fields {
	if unsaid {
		return m.terse
	}
	return m.described
}

// enclaves reports whether instances of the type can run Nitro enclaves.
func (m *ec2Type) enclaves() bool {
	return m.nitro && !m.metal && m.vcpus >= 4 && !strings.HasPrefix(m.family, "t")
}

func (m *ec2Type) write(unsaid bool) fields {
	enclaves := "unsupported"
	if m.enclaves() {
		enclaves = "supported"
	}
	virtualization := list{"hvm"}
	if slices.Contains([]string{"t1", "m1", "m2", "c1", "hs1"}, m.family) {
		virtualization = list{"paravirtual"}
	}
	out := fields{
		{"instanceType", m.name},
		{"currentGeneration", true},
		{"supportedUsageClasses", texts(m.usageClasses())},
		{"supportedRootDeviceTypes", list{"ebs"}},
		{"supportedVirtualizationTypes", virtualization},
		{"bareMetal", m.metal},
		{"hypervisor", m.hypervisor()},
		{"processorInfo", fields{
			{"supportedArchitectures", list{m.arch}}, {"sustainedClockSpeedInGhz", m.clock()}, {"manufacturer", m.maker},
		}},
		{"vCpuInfo", fields{{"defaultVCpus", m.vcpus}}},
		{"memoryInfo", fields{{"sizeInMiB", m.memoryMiB}}},
		{"instanceStorageSupported", m.nvmeGB > 0},
		{"ebsInfo", m.ebs()},
		{"networkInfo", m.network(unsaid)},
		{"placementGroupInfo", fields{{"supportedStrategies", texts(m.strategies())}}},
		{"burstablePerformanceSupported", strings.HasPrefix(m.family, "t") && !strings.HasPrefix(m.family, "trn")},
		{"nitroEnclavesSupport", enclaves},
	}
	if m.nvmeGB > 0 {
		support := "supported"
		if m.nitro {
			support = "required"
		}
		out = append(out, field{"instanceStorageInfo", fields{{"totalSizeInGB", m.nvmeGB}, {"nvmeSupport", support}}})
	}
	return append(out, m.devices()...)
}

func (m *ec2Type) ebs() fields {
	if m.ebsMbps == 0 {
		return fields{{"ebsOptimizedSupport", "unsupported"}}
	}
	return fields{{"ebsOptimizedSupport", "default"}, {"ebsOptimizedInfo", fields{
		{"baselineBandwidthInMbps", m.ebsMbps}, {"maximumBandwidthInMbps", m.ebsMbps},
	}}}
}

// baseline is what one network card always carries, in Gbit/s; made up, of the true size.
func (m *ec2Type) baseline() float64 { return min(0.375*float64(m.vcpus)/float64(m.cards), 100) }

func (m *ec2Type) network(unsaid bool) fields {
	var cards list
	for i := range m.cards {
		card := fields{{"networkCardIndex", i}, {"maximumNetworkInterfaces", m.enis}}
		if !unsaid {
			card = append(card, field{"baselineBandwidthInGbps", m.baseline()})
		}
		cards = append(cards, card)
	}
	out := fields{
		{"maximumNetworkInterfaces", m.enis * m.cards},
		{"maximumNetworkCards", m.cards},
		{"defaultNetworkCardIndex", 0},
		{"networkCards", cards},
		{"ipv4AddressesPerInterface", m.addresses},
		{"ipv6AddressesPerInterface", m.addresses},
		{"ipv6Supported", m.nitro},
		{"enaSupport", m.enaSupport()},
		{"efaSupported", m.efas > 0},
		{"encryptionInTransitSupported", m.encrypts()},
	}
	if m.efas > 0 {
		out = append(out, field{"efaInfo", fields{{"maximumEfaInterfaces", m.efas}}})
	}
	return out
}

func (m *ec2Type) devices() fields {
	name := strings.ToUpper(strings.ReplaceAll(m.gpuName, "-", " "))
	switch {
	case m.gpus > 0:
		return gpuInfo(name, map[string]string{"nvidia": "NVIDIA", "amd": "AMD"}[m.gpuMaker], m.gpus, m.gpuMemoryMiB)
	case m.accelerator == "gaudi":
		return gpuInfo("Gaudi HL-205", "Habana", m.accelerators, 32768)
	case m.accelerators > 0:
		neuron := field{"neuronInfo", fields{{"neuronDevices", list{fields{
			{"count", m.accelerators}, {"name", title(m.accelerator)}, {"coreInfo", fields{{"count", m.neuronCores()}, {"version", 2}}},
		}}}}}
		if m.family == "inf1" {
			return fields{{"inferenceAcceleratorInfo", fields{{"accelerators", list{fields{
				{"count", m.accelerators}, {"name", "Inferentia"}, {"manufacturer", "AWS"},
			}}}}}, neuron}
		}
		return fields{neuron}
	default:
		return nil
	}
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// neuronCores is how many cores one accelerator has.
func (m *ec2Type) neuronCores() int {
	switch m.family {
	case "inf1":
		return 4
	case "trn2":
		return 8
	default:
		return 2
	}
}

func gpuInfo(name, maker string, count, memoryMiB int) fields {
	return fields{{"gpuInfo", fields{{"gpus", list{fields{
		{"name", name}, {"manufacturer", maker}, {"count", count}, {"memoryInfo", fields{{"sizeInMiB", memoryMiB}}},
	}}}, {"totalGpuMemoryInMiB", count * memoryMiB}}}}
}
