package story

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// Any draws a cluster in the language of stories.
func Any(t *rapid.T) string {
	var b strings.Builder
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	for i := range rapid.IntRange(1, 5).Draw(t, "types") {
		fmt.Fprintf(&b, "type t%d cpu=%d memory=%dGi price=0.%d zones=%s %s label=size:%d\n", i, 1+i*rapid.IntRange(1, 3).Draw(t, "cpu"),
			rapid.IntRange(1, 32).Draw(t, "memory"), rapid.IntRange(1, 9).Draw(t, "price"), pick("zones", "a", "a,b", "b,c"), pick("spot", "", "spot=0.01"), i)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "pools") {
		fmt.Fprintf(&b, "pool p%d weight=%d %s %s %s\n", i, rapid.IntRange(0, 2).Draw(t, "weight"),
			pick("limit", "", "limit.cpu=6", "limit.nodes=2", "limit.cpu=3 limit.memory=20Gi"), pick("taint", "", "", "taint=own:NoSchedule"),
			pick("require", "", "require=zone:In:a", "require=size:Gt:1", "require=team:In:red|blue", "require=type:Exists::2"))
	}
	nodes := rapid.IntRange(0, 3).Draw(t, "nodes")
	for i := range nodes {
		fmt.Fprintf(&b, "node n%d pool=p%d cpu=%d memory=8Gi zone=%s %s %s\n", i, i%2, rapid.IntRange(1, 4).Draw(t, "node cpu"), pick("zone", "a", "b"), pick("state", "", "starting", "deleting"),
			pick("disruption", "", "drifted=Static", "empty last-pod-event=1h"))
	}
	for i := range nodes {
		if rapid.Bool().Draw(t, "runs") {
			fmt.Fprintf(&b, "running r%d on=n%d count=%d cpu=100m app=%s %s\n", i, i, rapid.IntRange(1, 3).Draw(t, "runs"), pick("app", "x", "y"), pick("rule", "", "apart=host:y", "apart=zone:x"))
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "claims") {
		fmt.Fprintf(&b, "claim c%d pool=p%d types=t0,t1 %s\n", i, i%2, pick("claim zones", "", "require=zone:In:a|b"))
	}
	if rapid.Bool().Draw(t, "daemon") {
		fmt.Fprintf(&b, "daemon logs cpu=%dm %s\n", rapid.IntRange(1, 900).Draw(t, "daemon cpu"), pick("daemon select", "", "select=zone:a"))
	}
	if rapid.Bool().Draw(t, "gang") {
		fmt.Fprintf(&b, "gang g minimum=%d\n", rapid.IntRange(1, 8).Draw(t, "minimum"))
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		fmt.Fprintf(&b, "pod w%d cpu=%dm memory=%dMi count=%d app=%s %s %s %s %s planned=%s %s %s\n", i, rapid.IntRange(1, 4000).Draw(t, "pod cpu"), rapid.IntRange(1, 9000).Draw(t, "pod memory"),
			rapid.IntRange(1, 6).Draw(t, "count"), pick("app", "x", "y"), pick("rule", "", "spread=zone:1", "spread=host:2", "apart=host:x", "apart=zone:y", "with=zone:x", "with=host:y", "prefer-apart=host:x", "prefer-node=zone:In:b"),
			pick("rule of others", "", "", "spread=zone:1:0:x", "spread=zone:2:0:x|y", "spread=zone:1:3", "spread=host:1:0:x|y", "with=zone:x|y", "with=host:x", "apart=zone:x|y"), pick("select", "", "select=zone:a", "select=team:red", "affinity=size:Lt:3", "affinity=zone:In:a or=zone:In:b", "port=80"),
			pick("tolerate", "", "tolerate=own"), pick("planned", "", "n0", "c0"), pick("of gang", "", "", "", "gang=g"), pick("stays", "", "", "do-not-disrupt"))
	}
	return b.String()
}
