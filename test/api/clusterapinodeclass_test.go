package api

import (
	"fmt"
	"strings"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
)

var clusterAPINodeClass = kind{
	crd:      "karpenter.cluster.x-k8s.io_clusterapinodeclasses.yaml",
	resource: clusterapiv1alpha1.GroupVersion.WithResource("clusterapinodeclasses"),
	base: `
apiVersion: karpenter.cluster.x-k8s.io/v1alpha1
kind: ClusterAPINodeClass
`,
	entries: clusterAPIEntries(),
}

// clusterAPIEntries is the table of a ClusterAPINodeClass.
func clusterAPIEntries() map[string]entry {
	const (
		expressions = "spec.scalableResourceSelector.matchExpressions"
		cluster     = "spec.clusterRef"
		types       = "spec.types"
	)
	named := func(n int) string { return list(n, func(i int) string { return fmt.Sprintf("{name: t%d}", i) }) }
	text := func(n int) string { return strings.Repeat("a", n) }
	return map[string]entry{
		expressions + "[].key required":      {at: expressions, field: expressions + "[0].key", accept: "[{key: a, operator: Exists}]", refuse: "[{operator: Exists}]", why: "Required"},
		expressions + "[].operator required": {at: expressions, field: expressions + "[0].operator", accept: "[{key: a, operator: Exists}]", refuse: "[{key: a}]", why: "Required"},
		cluster + ".name required":           {at: cluster, field: cluster + ".name", accept: "{namespace: a, name: a}", refuse: "{namespace: a}", why: "Required"},
		cluster + ".name minLength":          {at: cluster, field: cluster + ".name", accept: "{namespace: a, name: a}", refuse: "{namespace: a, name: ''}", why: "at least 1 char"},
		cluster + ".name maxLength":          {at: cluster, field: cluster + ".name", accept: "{namespace: a, name: " + text(253) + "}", refuse: "{namespace: a, name: " + text(254) + "}", why: "Too long"},
		cluster + ".namespace required":      {at: cluster, field: cluster + ".namespace", accept: "{namespace: a, name: a}", refuse: "{name: a}", why: "Required"},
		cluster + ".namespace minLength":     {at: cluster, field: cluster + ".namespace", accept: "{namespace: a, name: a}", refuse: "{namespace: '', name: a}", why: "at least 1 char"},
		cluster + ".namespace maxLength":     {at: cluster, field: cluster + ".namespace", accept: "{namespace: " + text(63) + ", name: a}", refuse: "{namespace: " + text(64) + ", name: a}", why: "Too long"},
		types + " maxItems":                  {accept: named(500), refuse: named(501), why: "Too many"},
		types + "[].name required":           {at: types, field: types + "[0].name", accept: "[{name: a}]", refuse: "[{priceHourly: '1'}]", why: "Required"},
		types + "[].name minLength":          {at: types, field: types + "[0].name", accept: "[{name: a}]", refuse: "[{name: ''}]", why: "at least 1 char"},
		types + "[].name maxLength":          {at: types, field: types + "[0].name", accept: "[{name: " + text(63) + "}]", refuse: "[{name: " + text(64) + "}]", why: "Too long"},
		types + "[].priceHourly pattern":     {at: types, field: types + "[0].priceHourly", accept: "[{name: a, priceHourly: '0.25'}]", refuse: "[{name: a, priceHourly: '-1'}]", why: "should match"},
		types + "[].capacity{} pattern":      {at: types, field: types + "[0].capacity.cpu", accept: "[{name: a, capacity: {cpu: 100m}}]", refuse: "[{name: a, capacity: {cpu: some}}]", why: "should match"},
		types + "[].overhead{} pattern":      {at: types, field: types + "[0].overhead.cpu", accept: "[{name: a, overhead: {cpu: 100m}}]", refuse: "[{name: a, overhead: {cpu: some}}]", why: "should match"},
		"spec.patience.launch pattern":       {accept: "45m", refuse: "2562048h", why: "should match"},
		"spec.patience.registration pattern": {accept: "1h30m", refuse: "soon", why: "should match"},
	}
}
