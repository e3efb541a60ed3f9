package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Settings is the configuration of the kubelet on one instance type.
type Settings struct {
	// Fields is all that was written, expressions replaced by what they give; maxPods is
	// always there. It is shared, and not to be changed.
	Fields map[string]any

	MaxPods                                             int64
	PodsPerCore                                         int64 // 0: not set
	ClusterDNS                                          []string
	SystemReserved, KubeReserved                        map[string]string
	EvictionHard, EvictionSoft, EvictionSoftGracePeriod map[string]string
	EvictionMaxPodGracePeriod                           int32 // 0: not set
	ImageGCHighThresholdPercent                         *int32
	ImageGCLowThresholdPercent                          *int32
	CPUCFSQuota                                         *bool
}

// Resolve works the configuration out for an instance type. Where an expression fails,
// the error says so, and the settings are as if the value were not there.
func (c *Config) Resolve(m InstanceType) (Settings, error) {
	s := Settings{
		Fields: maps.Clone(c.fields), MaxPods: m.Pods, PodsPerCore: int64(c.typed.PodsPerCore), ClusterDNS: c.typed.ClusterDNS,
		EvictionHard: c.typed.EvictionHard, EvictionSoft: c.typed.EvictionSoft, EvictionSoftGracePeriod: c.typed.EvictionSoftGracePeriod,
		EvictionMaxPodGracePeriod:   c.typed.EvictionMaxPodGracePeriod,
		ImageGCHighThresholdPercent: c.typed.ImageGCHighThresholdPercent, ImageGCLowThresholdPercent: c.typed.ImageGCLowThresholdPercent,
		CPUCFSQuota: c.typed.CPUCFSQuota,
	}
	var errs []error
	var err error
	s.MaxPods, err = c.MaxPods(m)
	errs = append(errs, err)
	m.Pods = s.MaxPods
	s.SystemReserved, err = c.resolveReserved("systemReserved", c.typed.SystemReserved, m)
	errs = append(errs, err)
	s.KubeReserved, err = c.resolveReserved("kubeReserved", c.typed.KubeReserved, m)
	errs = append(errs, err)
	s.Fields["maxPods"] = s.MaxPods
	for field, list := range map[string]map[string]string{"systemReserved": s.SystemReserved, "kubeReserved": s.KubeReserved} {
		if _, set := s.Fields[field]; set {
			s.Fields[field] = list
		}
	}
	return s, oneLine(errors.Join(errs...))
}

// MaxPods returns how many pods the kubelet takes on an instance type. Where an expression fails,
// the error says so, and the number is the one without it.
func (c *Config) MaxPods(m InstanceType) (int64, error) {
	if c.typed.MaxPods > 0 {
		return int64(c.typed.MaxPods), nil
	}
	p, ok := c.programs["maxPods"]
	if !ok {
		return m.Pods, nil
	}
	n, err := p.number(m)
	if err == nil && n > math.MaxInt32 {
		err = fmt.Errorf("gives %d, more than %d", n, math.MaxInt32)
	}
	if err != nil {
		return m.Pods, fmt.Errorf("spec.kubelet.maxPods on %s: %w", m.Type, err)
	}
	return n, nil
}

// WithoutExpressions returns the configuration without the values that are expressions.
func (c *Config) WithoutExpressions() *Config {
	without := *c
	without.programs = nil
	return &without
}

func (c *Config) resolveReserved(field string, list map[string]string, m InstanceType) (map[string]string, error) {
	out := maps.Clone(list)
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(list)) {
		if _, err := ParseQuantity(list[key]); err == nil {
			continue
		}
		delete(out, key)
		p, ok := c.programs[field+"."+key]
		if !ok {
			continue // ExpressionError says why
		}
		n, err := p.number(m)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.kubelet.%s[%s] on %s: %w", field, key, m.Type, err))
			continue
		}
		out[key] = amount(key, n)
	}
	return out, errors.Join(errs...)
}

// amount writes what an expression gives: cpu in steps of 10m, memory in steps of 16Mi,
// storage in Gi, processes as they are.
func amount(key string, n int64) string {
	const cpuStep, memoryStep = 10, 16
	switch key {
	case "cpu":
		return strconv.FormatInt(stepUp(n, cpuStep), 10) + "m"
	case "memory":
		return strconv.FormatInt(stepUp(n, memoryStep), 10) + "Mi"
	case "ephemeral-storage":
		return strconv.FormatInt(n, 10) + "Gi"
	default:
		return strconv.FormatInt(n, 10)
	}
}

func stepUp(n, step int64) int64 { return quantity.Add(n, step-1) / step * step }

// Threshold returns how much an eviction threshold keeps free of a capacity in bytes; 100%
// turns the threshold off. A value that Parse would refuse keeps nothing.
func Threshold(value string, capacity int64) int64 {
	if text, percent := strings.CutSuffix(value, "%"); percent {
		p, err := strconv.ParseFloat(text, 64)
		if err != nil || p == 100 {
			return 0
		}
		return quantity.Clamp(int64(math.Ceil(min(float64(capacity)*p/100, quantity.Max))))
	}
	q, err := ParseQuantity(value)
	if err != nil {
		return 0
	}
	return translate.Amount(corev1.ResourceMemory, q)
}
