package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

//nolint:gochecknoglobals // constants that Go cannot spell
var (
	signals  = []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"}
	reserves = []string{"cpu", "memory", "ephemeral-storage", "pid"}
)

// check says what is wrong beyond fields that do not exist and values of a wrong type.
func (c *Config) check() error {
	var errs []error
	if _, set := c.fields["registerWithTaints"]; set {
		errs = append(errs, errors.New("spec.kubelet.registerWithTaints: not to be set; taints belong into the NodePool"))
	}
	for field, list := range map[string]map[string]string{
		"evictionHard": c.typed.EvictionHard, "evictionSoft": c.typed.EvictionSoft, "evictionMinimumReclaim": c.typed.EvictionMinimumReclaim,
	} {
		errs = append(errs, checkEntries(field, list, signals, checkThreshold))
	}
	errs = append(errs, checkEntries("evictionSoftGracePeriod", c.typed.EvictionSoftGracePeriod, signals, checkPeriod), c.checkSoft())
	for field, list := range c.reserved() {
		errs = append(errs, checkEntries(field, list, reserves, checkReserve))
	}
	errs = append(errs, c.checkNumbers(), c.checkDNS())
	// Maps have no order; messages have.
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// checkEntries checks each entry of a field that is a map.
func checkEntries(field string, list map[string]string, keys []string, value func(string) error) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(list)) {
		if !slices.Contains(keys, key) {
			errs = append(errs, fmt.Errorf("spec.kubelet.%s: %q is not one of %s", field, key, strings.Join(keys, ", ")))
		} else if err := value(list[key]); err != nil {
			errs = append(errs, fmt.Errorf("spec.kubelet.%s[%s]: %w", field, key, err))
		}
	}
	return errors.Join(errs...)
}

func checkThreshold(value string) error {
	if text, percent := strings.CutSuffix(value, "%"); percent {
		// Whatever is not a number is not within the bounds either.
		if p, err := strconv.ParseFloat(text, 64); err != nil || math.IsNaN(p) || p < 0 || p > 100 {
			return fmt.Errorf("%q is not a percentage from 0%% to 100%%", value)
		}
		return nil
	}
	if q, err := ParseQuantity(value); err != nil || q.Sign() < 0 {
		return fmt.Errorf("%q is neither a percentage nor a quantity such as 100Mi", value)
	}
	return nil
}

func checkPeriod(value string) error {
	if d, err := time.ParseDuration(value); err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration such as 1m30s", value)
	}
	return nil
}

func checkReserve(value string) error {
	if strings.HasPrefix(value, "-") {
		return fmt.Errorf("%q is negative", value)
	}
	return nil
}

// checkSoft checks that soft thresholds and their grace periods come in pairs.
func (c *Config) checkSoft() error {
	var errs []error
	for _, key := range signals {
		_, threshold := c.typed.EvictionSoft[key]
		_, period := c.typed.EvictionSoftGracePeriod[key]
		if threshold && !period {
			errs = append(errs, fmt.Errorf("spec.kubelet.evictionSoft[%s]: has no evictionSoftGracePeriod", key))
		}
		if period && !threshold {
			errs = append(errs, fmt.Errorf("spec.kubelet.evictionSoftGracePeriod[%s]: has no evictionSoft", key))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) checkNumbers() error {
	var errs []error
	high, low := c.typed.ImageGCHighThresholdPercent, c.typed.ImageGCLowThresholdPercent
	for _, n := range []struct {
		field string
		value *int32
		most  int32
	}{
		{"evictionMaxPodGracePeriod", &c.typed.EvictionMaxPodGracePeriod, math.MaxInt32},
		{"imageGCHighThresholdPercent", high, 100},
		{"imageGCLowThresholdPercent", low, 100},
		{"maxPods", &c.typed.MaxPods, math.MaxInt32},
		{"podsPerCore", &c.typed.PodsPerCore, math.MaxInt32},
	} {
		switch {
		case n.value == nil:
		case n.most < math.MaxInt32 && (*n.value < 0 || *n.value > n.most):
			errs = append(errs, fmt.Errorf("spec.kubelet.%s: %d is not from 0 to %d", n.field, *n.value, n.most))
		case *n.value < 0:
			errs = append(errs, fmt.Errorf("spec.kubelet.%s: %d is negative", n.field, *n.value))
		}
	}
	if high != nil && low != nil && *high <= *low {
		errs = append(errs, fmt.Errorf("spec.kubelet.imageGCHighThresholdPercent: %d is not above imageGCLowThresholdPercent, %d", *high, *low))
	}
	return errors.Join(errs...)
}

func (c *Config) checkDNS() error {
	var errs []error
	for i, address := range c.typed.ClusterDNS {
		if _, err := netip.ParseAddr(address); err != nil {
			errs = append(errs, fmt.Errorf("spec.kubelet.clusterDNS[%d]: %q is not an IP address", i, address))
		}
	}
	return errors.Join(errs...)
}
