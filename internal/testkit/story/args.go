package story

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// args are the key=value pairs of a line. Reading one marks it as known; rest complains
// about the others. The first value that cannot be read is kept for rest too.
type args struct {
	keys, values []string
	known        []bool
	err          error
}

func parseArgs(words []string) (*args, error) {
	a := &args{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		if k == "" {
			return nil, fmt.Errorf("%q is no key=value", w)
		}
		a.keys, a.values, a.known = append(a.keys, k), append(a.values, v), append(a.known, false)
	}
	return a, nil
}

func (a *args) rest() error {
	if a.err != nil {
		return a.err
	}
	if i := slices.Index(a.known, false); i >= 0 {
		return fmt.Errorf("%s is not known here", a.keys[i])
	}
	return nil
}

func (a *args) fail(key string, err error) {
	if a.err == nil && err != nil {
		a.err = fmt.Errorf("%s: %w", key, err)
	}
}

// all returns the values of a key that may stand several times.
func (a *args) all(key string) (values []string) {
	for i, k := range a.keys {
		if k == key {
			a.known[i] = true
			values = append(values, a.values[i])
		}
	}
	return values
}

func (a *args) text(key, def string) string {
	if v := a.all(key); len(v) > 0 {
		return v[len(v)-1]
	}
	return def
}

func (a *args) is(key string) bool { return len(a.all(key)) > 0 }

func (a *args) words(key, def string) []string {
	text := a.text(key, def)
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (a *args) number(key string, def int64) int64 {
	text := a.text(key, "")
	if text == "" {
		return def
	}
	n, err := strconv.ParseInt(text, 10, 64)
	a.fail(key, err)
	return n
}

func (a *args) duration(key string, def time.Duration) time.Duration {
	switch text := a.text(key, ""); text {
	case "":
		return def
	case "Never":
		return -1
	default:
		d, err := time.ParseDuration(text)
		a.fail(key, err)
		return d
	}
}

// list returns the amounts given under the names of resources.
func (a *args) list(names ...string) quantity.List {
	l := quantity.List{}
	for _, name := range names {
		if text := a.text(name, ""); text != "" {
			n, err := amount(name, text)
			a.fail(name, err)
			l[name] = n
		}
	}
	return l
}

// under returns the amounts given as prefix+resource.
func (a *args) under(prefix string) quantity.List {
	l := quantity.List{}
	for i, k := range a.keys {
		if name, ok := strings.CutPrefix(k, prefix); ok {
			a.known[i] = true
			n, err := amount(name, a.values[i])
			a.fail(k, err)
			l[name] = n
		}
	}
	return l
}

func fullKey(key string) string {
	switch key {
	case "zone":
		return label.Zone
	case "capacity":
		return label.CapacityType
	case "type":
		return label.InstanceType
	case "arch":
		return arch
	case "host":
		return label.Hostname
	}
	return key
}

// requirements reads key:Operator:v1|v2[:minValues] of every value of the key.
func (a *args) requirements(key string) label.Requirements {
	r := label.Requirements{}
	for _, text := range a.all(key) {
		r = r.Intersect(a.requirement(text))
	}
	return r
}

func (a *args) requirement(text string) label.Requirements {
	parts := strings.Split(text, ":")
	if len(parts) < 2 {
		a.fail(text, fmt.Errorf("want key:Operator:values"))
		return nil
	}
	var values []string
	if len(parts) > 2 && parts[2] != "" {
		values = strings.Split(parts[2], "|")
	}
	q, err := label.Parse(label.Operator(parts[1]), values)
	a.fail(text, err)
	if len(parts) > 3 {
		q.MinValues, err = strconv.Atoi(parts[3])
		a.fail(text, err)
	}
	return label.Requirements{fullKey(parts[0]): q}
}

func (a *args) labels() map[string]string {
	labels := map[string]string{}
	for _, kv := range a.all("label") {
		k, v, _ := strings.Cut(kv, ":")
		labels[fullKey(k)] = v
	}
	return labels
}

// taints reads key:Effect or key:value:Effect.
func (a *args) taints() (taints []cluster.Taint) {
	for _, text := range a.all("taint") {
		parts := strings.Split(text, ":")
		t := cluster.Taint{Key: parts[0], Effect: parts[len(parts)-1]}
		if len(parts) == 3 {
			t.Value = parts[1]
		}
		taints = append(taints, t)
	}
	return taints
}

// constraints reads what decides where a pod can go. Each "or" starts another term of node
// affinity; "affinity" before the first "or" belongs to the first.
func (a *args) constraints() *cluster.Constraints {
	sh := &cluster.Constraints{Requests: a.list("cpu", "memory", "ephemeral-storage", "gpu")}
	sh.Requests[quantity.Pods] = 1
	sh.Invalid = strings.ReplaceAll(a.text("invalid", ""), "_", " ")
	selector := label.Requirements{}
	for _, kv := range a.all("select") {
		k, v, _ := strings.Cut(kv, ":")
		selector = selector.With(fullKey(k), label.In(v))
	}
	sh.Terms = []label.Requirements{selector.Intersect(a.requirements("affinity"))}
	for _, text := range a.all("or") {
		sh.Terms = append(sh.Terms, selector.Intersect(a.requirement(text)))
	}
	for _, text := range a.all("tolerate") {
		o := cluster.Toleration{Operator: "Exists"}
		o.Key, o.Value, _ = strings.Cut(text, ":")
		if o.Value != "" {
			o.Operator = "Equal"
		}
		sh.Tolerations = append(sh.Tolerations, o)
	}
	for _, text := range a.all("port") {
		n, err := strconv.ParseInt(text, 10, 32)
		a.fail("port", err)
		sh.Ports = append(sh.Ports, cluster.HostPort{Protocol: "TCP", Port: int32(n)})
	}
	a.addRules(sh)
	return a.withVolumes(sh)
}

// withVolumes reads the pod's volumes: each "volume" is one place where they can be
// used, attach.x how many of them driver x must attach.
func (a *args) withVolumes(sh *cluster.Constraints) *cluster.Constraints {
	v := cluster.Volumes{Attach: a.attach()}
	for _, text := range a.all("volume") {
		v.Terms = append(v.Terms, a.requirement(text))
	}
	if v.Terms == nil && len(v.Attach) == 0 {
		return sh
	}
	if v.Terms == nil {
		v.Terms = []label.Requirements{{}}
	}
	return sh.WithVolumes(&v)
}

// attach returns counts of volumes, by the names of the drivers.
func (a *args) attach() quantity.List {
	l := quantity.List{}
	for driver, n := range a.under("attach.") {
		l[quantity.AttachPrefix+driver] = n
	}
	return l
}

// addRules reads the rules between pods.
func (a *args) addRules(sh *cluster.Constraints) {
	sh.Namespace, sh.Labels = "default", map[string]string{}
	if app := a.text("app", ""); app != "" {
		sh.Labels["app"] = app
	}
	for _, text := range a.all("spread") {
		sh.Spread = append(sh.Spread, a.spread(text, sh))
	}
	for _, text := range a.all("with") {
		sh.Affinity = append(sh.Affinity, podTerm(text))
	}
	for _, text := range a.all("apart") {
		sh.AntiAffinity = append(sh.AntiAffinity, podTerm(text))
	}
	for _, text := range a.all("prefer-with") {
		t := podTerm(text)
		sh.Preferences = append(sh.Preferences, cluster.Preference{Affinity: &t})
	}
	for _, text := range a.all("prefer-apart") {
		t := podTerm(text)
		sh.Preferences = append(sh.Preferences, cluster.Preference{AntiAffinity: &t})
	}
	for _, text := range a.all("prefer-node") {
		sh.Preferences = append(sh.Preferences, cluster.Preference{Node: a.requirement(text)})
	}
	for _, text := range a.all("prefer-spread") {
		s := a.spread(text, sh)
		sh.Preferences = append(sh.Preferences, cluster.Preference{Spread: &s})
	}
}

func selectApp(app string) cluster.Selector {
	return cluster.Selector{Some: true, Requirements: label.Requirements{"app": label.In(strings.Split(app, "|")...)}}
}

// spread reads key:maxSkew[:minDomains[:app]].
func (a *args) spread(text string, sh *cluster.Constraints) cluster.Spread {
	parts := strings.Split(text, ":")
	s := cluster.Spread{Key: fullKey(parts[0]), MaxSkew: 1, Selector: selectApp(sh.Labels["app"])}
	for i, p := range map[int]*int32{1: &s.MaxSkew, 2: &s.MinDomains} {
		if i < len(parts) {
			n, err := strconv.ParseInt(parts[i], 10, 32)
			a.fail(text, err)
			*p = int32(n)
		}
	}
	if len(parts) > 3 {
		s.Selector = selectApp(parts[3])
	}
	return s
}

// podTerm reads key:app, and key:app:* with a selector of every namespace.
func podTerm(text string) cluster.PodTerm {
	key, app, _ := strings.Cut(text, ":")
	if app, isEverywhere := strings.CutSuffix(app, ":*"); isEverywhere {
		return cluster.PodTerm{Key: fullKey(key), Selector: selectApp(app), NamespaceSelector: cluster.Selector{Some: true}}
	}
	return cluster.PodTerm{Key: fullKey(key), Selector: selectApp(app), Namespaces: []string{"default"}}
}

// disruption reads why a node is or would be disrupted: drifted=reason,
// command=id:removes:launches, replaces=id.
func (a *args) disruption() cluster.Disruption {
	d := cluster.Disruption{
		DoNotDisruptByPods: a.is("do-not-disrupt-by-pods"), HasGrace: a.is("grace"), Ending: a.is("ending"), SoftTaint: a.is("soft-taint"), DeletionCandidate: a.is("deletion-candidate"),
		Grace: a.duration("grace", 0), Ailments: a.ailments(), DoNotRepair: a.is("do-not-repair"), Rebooting: a.is("rebooting"),
		Drifted: a.text("drifted", ""), DriftedSince: Now().Add(-a.duration("drifted-for", time.Hour)), Replaces: a.text("replaces", ""),
	}
	if text := a.text("command", ""); text != "" {
		text, d.StepTerminatesFirst = strings.CutSuffix(text, ":terminate-first")
		_, err := fmt.Sscanf(strings.ReplaceAll(text, ":", " "), "%s %d %d", &d.Step, &d.StepRemoves, &d.StepLaunches)
		a.fail("command", err)
	}
	return d
}

// ailments reads sick=Condition:Status:due, where due is how long ago it may have been repaired, and
// perhaps :rank=1, :bound=45s and :reboot.
func (a *args) ailments() (all []cluster.Ailment) {
	for _, text := range a.all("sick") {
		parts := strings.Split(text, ":")
		if len(parts) < 3 {
			a.fail("sick", fmt.Errorf("want Condition:Status:due"))
			return nil
		}
		ago, err := time.ParseDuration(parts[2])
		a.fail("sick", err)
		one := cluster.Ailment{Condition: parts[0], Status: parts[1], Due: Now().Add(-ago)}
		for _, part := range parts[3:] {
			switch key, value, _ := strings.Cut(part, "="); key {
			case "rank":
				one.Rank, err = strconv.Atoi(value)
			case "bound":
				one.Bound.IsSet = true
				one.Bound.Within, err = time.ParseDuration(value)
			case "reboot":
				one.Reboot = true
			default:
				err = fmt.Errorf("%s is not known here", key)
			}
			a.fail("sick", err)
		}
		all = append(all, one)
	}
	return all
}
