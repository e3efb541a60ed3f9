package api

import (
	"fmt"
	"maps"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
)

// The parts that NodePool, NodeClaim and NodeOverlay have in common have their
// entries made here, with the path under which a kind has them.

// list returns a YAML list of n items.
func list(n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func same(item string) func(int) string { return func(int) string { return item } }

// both merges tables.
func both(tables ...map[string]entry) map[string]entry {
	out := map[string]entry{}
	for _, t := range tables {
		maps.Copy(out, t)
	}
	return out
}

// requirementEntries is what the requirements of every kind have.
func requirementEntries(at string) map[string]entry {
	const numeric = " rule requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have exactly one value, a non-negative integer"
	key, first := at+"[].key", at+"[0].key"
	return map[string]entry{
		at + " maxItems":            {accept: list(100, same("{key: a, operator: Exists}")), refuse: list(101, same("{key: a, operator: Exists}")), why: "Too many"},
		key + " required":           {at: at, field: first, accept: "[{key: a, operator: Exists}]", refuse: "[{operator: Exists}]", why: "Required"},
		key + " maxLength":          {at: at, field: first, accept: fmt.Sprintf("[{key: %s/a, operator: Exists}]", strings.Repeat("d", 314)), refuse: fmt.Sprintf("[{key: %s/a, operator: Exists}]", strings.Repeat("d", 315)), why: "Too long"},
		key + " pattern":            {at: at, field: first, accept: "[{key: example.com/a_b.c, operator: Exists}]", refuse: "[{key: a/b/c, operator: Exists}]", why: "should match"},
		at + "[].operator enum":     {at: at, field: at + "[0].operator", accept: allOperators, refuse: "[{key: a, operator: Like}]", why: `supported values: "In", "NotIn"`},
		at + "[].operator required": {at: at, field: at + "[0].operator", accept: "[{key: a, operator: Exists}]", refuse: "[{key: a}]", why: "Required"},
		key + " rule labels in the domain 'karpenter.sh' are restricted":      {at: at, field: first, accept: "[{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]", refuse: "[{key: notkarpenter.sh/x, operator: Exists}]"},
		key + " rule labels in the domain 'karpenter.k8s.aws' are restricted": {at: at, field: first, accept: awsLabels(), refuse: "[{key: karpenter.k8s.aws/x, operator: Exists}]"},
		key + " rule label 'kubernetes.io/hostname' is restricted":            {at: at, field: first, accept: "[{key: kubernetes.io/os, operator: Exists}]", refuse: "[{key: kubernetes.io/hostname, operator: Exists}]"},
		at + numeric: {accept: "[{key: a, operator: Gt, values: ['0']}]", refuse: "[{key: a, operator: Gte, values: [many]}]"},
	}
}

const allOperators = "[{key: a, operator: In, values: [x]}, {key: a, operator: NotIn, values: [x]}, {key: a, operator: Exists}, {key: a, operator: DoesNotExist}, " +
	"{key: a, operator: Gt, values: ['1']}, {key: a, operator: Lt, values: ['9']}, {key: a, operator: Gte, values: ['1']}, {key: a, operator: Lte, values: ['9']}]"

// nodeEntries is what the template of a pool and the spec of a claim have.
func nodeEntries(at string) map[string]entry {
	requirements, class := at+".requirements", at+".nodeClassRef"
	key, first := requirements+"[].key", requirements+"[0].key"
	table := map[string]entry{
		requirements + " required": {accept: "[]", refuse: "null", why: "Required"},
		requirements + " rule requirements with operator 'In' must have a value":                                 {accept: "[{key: a, operator: In, values: [x]}]", refuse: "[{key: a, operator: In}]"},
		requirements + " rule requirements with operator 'In' and minValues must have at least that many values": {accept: "[{key: a, operator: In, values: [v, w], minValues: 2}]", refuse: "[{key: a, operator: In, values: [x], minValues: 2}]"},
		requirements + "[].minValues minimum":                                                                    {at: requirements, field: requirements + "[0].minValues", accept: "[{key: a, operator: Exists, minValues: 1}]", refuse: "[{key: a, operator: Exists, minValues: 0}]", why: "greater than or equal to 1"},
		requirements + "[].minValues maximum":                                                                    {at: requirements, field: requirements + "[0].minValues", accept: "[{key: a, operator: Exists, minValues: 50}]", refuse: "[{key: a, operator: Exists, minValues: 51}]", why: "less than or equal to 50"},
		key + " rule labels in the domain 'karpenter.kwok.sh' are restricted":                                    {at: requirements, field: first, accept: kwokLabels, refuse: "[{key: karpenter.kwok.sh/x, operator: Exists}]"},
		class + ".name required":                                                                                 {accept: "default", refuse: "null", why: "Required"},
		class + ".group rule nodeClassRef.group may not be empty":                                                {accept: "a.example", refuse: "''"},
		class + ".kind rule nodeClassRef.kind may not be empty":                                                  {accept: "A", refuse: "''"},
		class + ".name rule nodeClassRef.name may not be empty":                                                  {accept: "a", refuse: "''"},
		class + ".group pattern":                                                                                 {accept: "a.example", refuse: "a.example/v1", why: "should match"},
		at + ".terminationGracePeriod pattern":                                                                   {accept: "1h30m", refuse: "Never", why: "should match"},
		at + ".expireAfter pattern":                                                                              {accept: "Never", refuse: "1d", why: "should match"},
		at + ".expireAfter default":                                                                              {accept: "720h"},
	}
	return both(table, requirementEntries(requirements), taintEntries(at+".taints"), taintEntries(at+".startupTaints"))
}

const kwokLabels = "[{key: karpenter.kwok.sh/instance-cpu, operator: Exists}, {key: karpenter.kwok.sh/instance-memory, operator: Exists}, {key: karpenter.kwok.sh/instance-family, operator: Exists}, " +
	"{key: karpenter.kwok.sh/instance-size, operator: Exists}, {key: karpenter.kwok.sh/kwoknodeclass, operator: Exists}]"

// awsLabels requires every label that the AWS provider's types decide.
func awsLabels() string {
	keys := instance.WellKnown()
	return list(len(keys), func(i int) string { return "{key: " + keys[i] + ", operator: Exists}" })
}

func taintEntries(at string) map[string]entry {
	key, value, effect := at+"[0].key", at+"[0].value", at+"[0].effect"
	return map[string]entry{
		at + "[].key required":    {at: at, field: key, accept: "[{key: a, effect: NoSchedule}]", refuse: "[{effect: NoSchedule}]", why: "Required"},
		at + "[].key minLength":   {at: at, field: key, accept: "[{key: a, effect: NoSchedule}]", refuse: "[{key: '', effect: NoSchedule}]", why: "at least 1 char"},
		at + "[].key pattern":     {at: at, field: key, accept: "[{key: example.com/a, effect: NoSchedule}]", refuse: "[{key: a b, effect: NoSchedule}]", why: "should match"},
		at + "[].value pattern":   {at: at, field: value, accept: "[{key: a, value: b, effect: NoSchedule}]", refuse: "[{key: a, value: b c, effect: NoSchedule}]", why: "should match"},
		at + "[].effect enum":     {at: at, field: effect, accept: "[{key: a, effect: NoSchedule}, {key: a, effect: PreferNoSchedule}, {key: a, effect: NoExecute}]", refuse: "[{key: a, effect: Never}]", why: `supported values: "NoSchedule"`},
		at + "[].effect required": {at: at, field: effect, accept: "[{key: a, effect: NoExecute}]", refuse: "[{key: a}]", why: "Required"},
	}
}
