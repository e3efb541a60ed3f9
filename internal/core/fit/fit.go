// Package fit has the rules that decide whether one pod may be on one node, each as a pure
// function of the two: resources, labels, taints and host ports. They agree with kube-scheduler, so
// callers add no rule of their own. Rules between pods are in package topology. It may import
// cluster, label, quantity and verdict.
package fit

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Tolerates reports whether one of the tolerations covers the taint.
func Tolerates(tolerations []cluster.Toleration, t cluster.Taint) bool {
	for i := range tolerations {
		if tolerates(&tolerations[i], t) {
			return true
		}
	}
	return false
}

func tolerates(o *cluster.Toleration, t cluster.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
		return false
	}
	switch o.Operator {
	case "Exists":
		return true
	case "", "Equal":
		return o.Value == t.Value
	case "Lt", "Gt":
		return compares(o, t)
	default:
		return false
	}
}

// compares is for the numeric operators: Lt tolerates taints whose value is below the
// toleration's, Gt those above. Both must be plain decimal integers.
func compares(o *cluster.Toleration, t cluster.Taint) bool {
	limit, ok := decimal(o.Value)
	value, okTaint := decimal(t.Value)
	if !ok || !okTaint {
		return false
	}
	if o.Operator == "Lt" {
		return value < limit
	}
	return value > limit
}

func decimal(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// Taints returns a refusal for the first taint that is not tolerated. A taint with
// effect PreferNoSchedule is a preference, not a rule.
func Taints(tolerations []cluster.Toleration, taints []cluster.Taint) verdict.Verdict {
	for _, t := range taints {
		if t.Effect != cluster.PreferNoSchedule && !Tolerates(tolerations, t) {
			return verdict.Of(verdict.TaintNotTolerated, "", "taint %s not tolerated", t)
		}
	}
	return verdict.Verdict{}
}

// Tolerated reports whether Taints refuses nothing.
func Tolerated(tolerations []cluster.Toleration, taints []cluster.Taint) bool {
	for _, t := range taints {
		if t.Effect != cluster.PreferNoSchedule && !Tolerates(tolerations, t) {
			return false
		}
	}
	return true
}

// Undesired reports whether a PreferNoSchedule taint is not tolerated.
func Undesired(tolerations []cluster.Toleration, taints []cluster.Taint) bool {
	for _, t := range taints {
		if t.Effect == cluster.PreferNoSchedule && !Tolerates(tolerations, t) {
			return true
		}
	}
	return false
}

// Labels returns a refusal unless the labels satisfy at least one of the terms. The
// refusal is about the first term.
func Labels(terms []label.Requirements, labels map[string]string) verdict.Verdict {
	var refusal verdict.Verdict
	for _, term := range terms {
		key, ok := term.Matches(labels)
		if ok {
			return verdict.Verdict{}
		}
		if refusal.IsYes() {
			has, defined := labels[key]
			if !defined {
				has = "nothing"
			}
			refusal = verdict.Of(verdict.RequirementUnmet, "", "%s must be %s, is %s", key, term[key], has)
		}
	}
	return refusal
}

// Matches reports whether Labels refuses nothing: the labels satisfy one of the terms, or there
// are none.
func Matches(terms []label.Requirements, labels map[string]string) bool {
	for _, term := range terms {
		if _, ok := term.Matches(labels); ok {
			return true
		}
	}
	return len(terms) == 0
}

// Ports returns a refusal when a wanted host port is taken.
func Ports(want, taken []cluster.HostPort) verdict.Verdict {
	for _, w := range want {
		for _, t := range taken {
			if w.Conflicts(t) {
				return verdict.Of(verdict.HostPortTaken, "", "host port %d/%s taken", w.Port, w.Protocol)
			}
		}
	}
	return verdict.Verdict{}
}

// Resources returns a refusal that names the first resource, in the space's order, of
// which there is too little. What is not asked for may be short already.
func Resources(space quantity.Space, need, free quantity.Vector) verdict.Verdict {
	for i := range need {
		if need[i] > 0 && need[i] > free[i] {
			return verdict.Of(verdict.ResourceShort, "", "%s short", Amount(space[i], need[i]-max(0, free[i])))
		}
	}
	return verdict.Verdict{}
}

// Amount returns an amount with its unit and resource as people write it: "200m cpu",
// "512Mi memory", "3 pods". Bytes are rounded up.
func Amount(resource string, n int64) string {
	switch resource {
	case quantity.CPU:
		if n%1000 == 0 {
			return strconv.FormatInt(n/1000, 10) + " cpu"
		}
		return strconv.FormatInt(n, 10) + "m cpu"
	case quantity.Memory, quantity.EphemeralStorage:
		const mib = 1 << 20
		return strconv.FormatInt((n+mib-1)/mib, 10) + "Mi " + resource
	default:
		return strconv.FormatInt(n, 10) + " " + Resource(resource)
	}
}

// Resource returns the name of a resource as people write it.
func Resource(name string) string {
	if driver, ok := strings.CutPrefix(name, quantity.AttachPrefix); ok {
		return "attachable volumes of " + driver
	}
	if class, ok := strings.CutPrefix(name, quantity.DevicePrefix); ok {
		class, _, _ = strings.Cut(class, "/")
		return "devices for ResourceClaims of DeviceClass " + class
	}
	return name
}

// AtLeast returns an amount, not below zero, without its resource: in the largest unit, rounded up
// to a tenth of it.
func AtLeast(resource string, n int64) string {
	if n >= quantity.Max {
		return rounded(resource, n, true) + " or more"
	}
	return rounded(resource, n, true)
}

// AtMost is AtLeast rounded down.
func AtMost(resource string, n int64) string { return rounded(resource, n, false) }

func rounded(resource string, n int64, up bool) string {
	switch resource {
	case quantity.CPU:
		const large = 10_000
		switch {
		case n < large && n%1000 != 0:
			return strconv.FormatInt(n, 10) + "m"
		case up:
			n += 999
		}
		return strconv.FormatInt(n/1000, 10)
	case quantity.Memory, quantity.EphemeralStorage:
		units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
		at := max(0, bits.Len64(uint64(n))-1) / 10
		unit := uint64(1) << (10 * at)
		tenths := uint64(n)/unit*10 + uint64(n)%unit*10/unit
		if up && uint64(n)%unit*10%unit != 0 {
			tenths++
		}
		text := strconv.FormatUint(tenths/10, 10)
		if tenths%10 != 0 {
			text += "." + strconv.FormatUint(tenths%10, 10)
		}
		return text + units[at]
	default:
		return strconv.FormatInt(n, 10)
	}
}
