package awssim

import (
	"math"
	"slices"
	"strings"
	"time"
)

// pools counts what capacity pools and quotas have left.
type pools struct {
	base *base

	capacity map[poolKey]int
	quotas   map[string]int
	used     map[string]int // in use, by quota
}

// poolKey names a capacity pool.
type poolKey struct{ capacityType, instanceType, zone string }

// quotaFamilies are the classes that EC2 counts vCPUs by; a family in none is standard.
func quotaFamilies() map[string][]string {
	return map[string][]string{
		"f": {"f"}, "g": {"g", "gr", "vt"}, "p": {"p"}, "x": {"x"}, "inf": {"inf"}, "trn": {"trn"}, "dl": {"dl"}, "hpc": {"hpc"}, "high-memory": {"u"},
	}
}

// defaultQuotas are those of an account that has asked for more.
func defaultQuotas() map[string]int {
	out := map[string]int{}
	for class := range quotaFamilies() {
		out[capacityOnDemand+"/"+class], out[capacitySpot+"/"+class] = 100_000, 100_000
	}
	out[capacityOnDemand+"/standard"], out[capacitySpot+"/standard"] = 1_000_000, 1_000_000
	return out
}

// quotaOf names the quota that an instance counts against.
func (s *pools) quotaOf(m *ec2Type, capacityType string) string {
	letters := m.family
	if i := strings.IndexFunc(letters, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
		letters = letters[:i]
	}
	if capacityType != capacitySpot {
		capacityType = capacityOnDemand
	}
	for class, families := range quotaFamilies() {
		if s.base.opts.Beliefs.OneQuota {
			break
		}
		if slices.Contains(families, letters) || class == "high-memory" && strings.HasPrefix(m.family, "u") {
			return capacityType + "/" + class
		}
	}
	return capacityType + "/standard"
}

// capacityLeft is how many instances a pool has.
func (s *pools) capacityLeft(k poolKey, now time.Time) int {
	for _, kind := range []string{FaultShort, FaultZone} {
		for _, f := range s.base.faultsOf(kind, now) {
			if matches(f.CapacityType, k.capacityType) && matches(f.InstanceType, k.instanceType) && matches(f.Zone, k.zone) {
				return 0
			}
		}
	}
	if n, ok := s.capacity[k]; ok {
		return n
	}
	if s.base.opts.Capacity == nil {
		return math.MaxInt
	}
	n := s.base.opts.Capacity(k.capacityType, k.instanceType, k.zone)
	s.capacity[k] = n
	return n
}

// reservedShort reports whether there is no capacity even for those who have reserved it.
func (s *pools) reservedShort(r *Reservation, now time.Time) bool {
	return slices.ContainsFunc(s.base.faultsOf(FaultShort, now), func(f *Fault) bool {
		return f.CapacityType == "reserved" && matches(f.InstanceType, r.InstanceType) && matches(f.Zone, r.Zone)
	})
}

// quota is how many vCPUs may run of an instance's class.
func (s *pools) quota(m *ec2Type, capacityType string, now time.Time) int {
	name := s.quotaOf(m, capacityType)
	for _, f := range s.base.faultsOf(FaultQuota, now) {
		if matches(f.Target, name) {
			return f.Count
		}
	}
	return s.quotas[name]
}

func (s *pools) overQuota(o *launchOption, now time.Time) bool {
	name := s.quotaOf(o.typ, o.capacityType)
	return s.used[name]+o.typ.vcpus > s.quota(o.typ, o.capacityType, now)
}
