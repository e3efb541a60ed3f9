package redact

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// dueShareHidden are the bits of a node's DueShare that are taken away, less than a second of the time: with all of them
// somebody could try whether a NodePool has a name that they guess. With the others, NodeClaims of every name are found.
const dueShareHidden = 1<<16 - 1

// Result is what became of a decision.
type Result struct {
	*record.Decision
	// Same: this program decides the same about the redacted snapshot as about the true one, up to names.
	// Differences say where it does not.
	Same        bool
	Differences []string
	// Remade: this program made the decision again and came to what is recorded; the plan is what it decided about the
	// redacted snapshot, its sentences included. If not, the sentences are those of the record, word by word.
	Remade bool
}

// Decision returns a decision in which all that people chose is replaced.
func Decision(d *record.Decision) (Result, error) {
	list, err := Decisions([]*record.Decision{d}, New())
	if err != nil {
		return Result{}, err
	}
	return list[0], nil
}

// Decisions returns decisions in which all that people chose is replaced, with the same names in all. The names are
// numbered with those that were met before.
func Decisions(list []*record.Decision, n *Names) ([]Result, error) {
	for _, d := range list {
		if _, err := n.decision(d); err != nil {
			return nil, err
		}
	}
	n.Number()
	out := make([]Result, len(list))
	for i, d := range list {
		var err error
		if out[i], err = n.remade(d); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// remade returns a decision with the names that there are now, made again.
func (n *Names) remade(d *record.Decision) (Result, error) {
	renamed, err := n.decision(d)
	if err != nil {
		return Result{}, err
	}
	out := Result{Decision: renamed}
	truly, again := d.Redo(), renamed.Redo()
	if truly.Bug == "" && again.Bug == "" {
		as, err := n.decision(truly)
		if err != nil {
			return Result{}, err
		}
		out.Differences = record.Differences(bare(as), bare(again))
	} else if truly.Bug == "" || again.Bug == "" {
		out.Differences = []string{"- bug: " + n.Text(truly.Bug), "+ bug: " + n.Text(again.Bug)}
	}
	out.Same = len(out.Differences) == 0
	if out.Remade = out.Same && d.Bug == "" && truly.Bug == "" && record.SamePlan(d, truly); out.Remade {
		renamed.Plan, renamed.Disruption, renamed.Scaling, renamed.Stays = again.Plan, again.Disruption, again.Scaling, record.Stays{}
	}
	return out, nil
}

// bare returns a decision without what is made of names: sentences, the ids of commands to be begun, and the effort,
// in which names count by their length.
func bare(d *record.Decision) *record.Decision {
	none := func(string) string { return "" }
	r := &redactor{
		strings:   map[string]func(string) string{"Command.ID": none, "Launch.Replaces": none},
		sentences: func(v *verdict.Verdict) verdict.Verdict { return verdict.Verdict{Reason: v.Reason} },
	}
	short := &record.Decision{Loop: d.Loop, Snapshot: d.Snapshot, Plan: copyOf(r, d.Plan), Disruption: copyOf(r, d.Disruption), Scaling: copyOf(r, d.Scaling)}
	short.Plan.Effort = 0
	return short
}

// decision returns a decision as it is with the names that there are now.
func (n *Names) decision(d *record.Decision) (out *record.Decision, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("redact decision of %s: %v", d.Loop, bug)
		}
	}()
	r := &redactor{names: n, strings: n.rules(), pointers: map[any]reflect.Value{}}
	r.sentences = func(v *verdict.Verdict) verdict.Verdict {
		w := verdict.Verdict{Reason: v.Reason, Subject: n.Text(v.Subject), Detail: n.Text(v.Detail)}
		for i := range v.Causes {
			w.Causes = append(w.Causes, r.sentences(&v.Causes[i]))
		}
		return w
	}
	copied := copyOf(r, *d)
	for i := range copied.Snapshot.Nodes { // when it is due does not follow from the new name
		if n := &copied.Snapshot.Nodes[i]; !n.Expires.IsZero() {
			n.DueShare = max(1, disrupt.DueShare(&d.Snapshot.Nodes[i])&^dueShareHidden)
		}
	}
	return &copied, nil
}

// redactor copies values, with other strings.
type redactor struct {
	names *Names
	// strings says by "Type.Field" what becomes of strings. One that is not in it is a bug if names are redacted, and
	// stays if not.
	strings   map[string]func(string) string
	sentences func(*verdict.Verdict) verdict.Verdict
	pointers  map[any]reflect.Value
}

func copyOf[T any](r *redactor, v T) T {
	return r.copy(reflect.ValueOf(&v).Elem(), "").Interface().(T) //nolint:forcetypeassert // copy returns a value of the same type
}

// copy returns a value with other strings; field names the struct field that it is in.
func (r *redactor) copy(v reflect.Value, field string) reflect.Value {
	switch own := v.Interface().(type) {
	case time.Time, quantity.List:
		return v
	case label.Requirements:
		return reflect.ValueOf(r.requirements(own))
	case verdict.Verdict:
		return reflect.ValueOf(r.sentences(&own))
	case cluster.Taint:
		own.Key, own.Value = r.names.pair(own.Key, own.Value)
		return reflect.ValueOf(own)
	case cluster.Toleration:
		own.Key, own.Value = r.names.pair(own.Key, own.Value)
		return reflect.ValueOf(own)
	}
	switch v.Kind() {
	case reflect.String:
		return r.string(v, field)
	case reflect.Pointer:
		return r.pointer(v, field)
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			out.Field(i).Set(r.copy(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name))
		}
		return out
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(r.copy(v.Index(i), field))
		}
		return out
	case reflect.Map:
		return r.mapping(v, field)
	default:
		return v
	}
}

// string returns what a string becomes. Types of strings of their own are words of this program.
func (r *redactor) string(v reflect.Value, field string) reflect.Value {
	if v.Type() != reflect.TypeFor[string]() {
		return v
	}
	rule, ok := r.strings[field]
	if !ok && r.names != nil {
		panic(field + " has no rule")
	}
	if rule == nil {
		return v
	}
	return reflect.ValueOf(rule(v.String()))
}

// pointer copies what is pointed to once: to the core equal pointers are equal pods.
func (r *redactor) pointer(v reflect.Value, field string) reflect.Value {
	if v.IsNil() || r.pointers == nil {
		return v
	}
	if known, ok := r.pointers[v.Interface()]; ok {
		return known
	}
	out := reflect.New(v.Type().Elem())
	r.pointers[v.Interface()] = out
	out.Elem().Set(r.copy(v.Elem(), field))
	return out
}

// mapping copies a map: its keys are strings of the field, and so are its values unless they are labels.
func (r *redactor) mapping(v reflect.Value, field string) reflect.Value {
	if v.IsNil() || r.names == nil {
		return v
	}
	if labels, ok := v.Interface().(map[string]string); ok {
		return reflect.ValueOf(r.names.Labels(labels))
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for _, k := range v.MapKeys() {
		out.SetMapIndex(r.string(k, field), r.copy(v.MapIndex(k), field))
	}
	return out
}

// requirements returns requirements with other keys and values.
func (r *redactor) requirements(from label.Requirements) label.Requirements {
	if from == nil || r.names == nil {
		return from
	}
	to := make(label.Requirements, len(from))
	for _, key := range from.Keys() {
		to[r.names.Key(key)] = r.names.requirement(key, from[key])
	}
	return to
}

// requirement returns what a requirement becomes: its written form has its values in one of two fields.
func (n *Names) requirement(key string, from label.Requirement) (to label.Requirement) {
	written := map[string]any{}
	if text, err := from.MarshalJSON(); err != nil || json.Unmarshal(text, &written) != nil {
		panic("requirement of " + key + " has no written form")
	}
	for _, field := range []string{"in", "notIn"} {
		list, _ := written[field].([]any)
		for i := range list {
			if s, ok := list[i].(string); ok {
				list[i] = n.Value(key, s)
			}
		}
	}
	lower, upper, hasLower, hasUpper := from.Bounds()
	if hasLower { // as JSON they would lose digits
		written["gte"] = lower
	}
	if hasUpper {
		written["lte"] = upper
	}
	text, err := json.Marshal(written)
	if err == nil {
		err = to.UnmarshalJSON(text)
	}
	if err != nil {
		panic(err)
	}
	return to
}

// qualified returns what namespace/name becomes.
func (n *Names) qualified(class Class) func(string) string {
	return func(text string) string {
		namespace, name, ok := strings.Cut(text, "/")
		if !ok {
			return n.Name(class, text)
		}
		return n.Name(Namespace, namespace) + "/" + n.Name(class, name)
	}
}

// plainly returns the word as it is, and keeps it where it stands in a sentence.
func (n *Names) plainly(word string) string {
	n.plain[word] = true
	return word
}

// pair returns what key and value of a taint or toleration become.
func (n *Names) pair(key, value string) (string, string) {
	if value != "" {
		value = n.Value(key, value)
	}
	return n.Key(key), value
}

// address returns what the address of a host port becomes: those that mean all or the host itself stay.
func (n *Names) address(ip string) string {
	switch ip {
	case "0.0.0.0", "::", "127.0.0.1", "::1":
		return ip
	}
	return n.Name(Address, ip)
}

// rules say what becomes of the strings of a decision, by the field they are in; nil: they stay.
func (n *Names) rules() map[string]func(string) string {
	name := func(c Class) func(string) string { return func(s string) string { return n.Name(c, s) } }
	rules := map[string]func(string) string{}
	for what, to := range map[string]func(string) string{
		"PodRef.Namespace Constraints.Namespace Buffer.Namespace BufferRoom.Namespace Gang.Namespace PodTerm.Namespaces Snapshot.Namespaces": name(Namespace),
		"PodRef.Name":                          name(Pod),
		"PodRef.UID Buffer.UID BufferRoom.UID": name(UID),
		"Node.Name Node.Claim Pod.Planned Pod.On ReschedulablePod.TargetNode Memory.Excluded Memory.NodeCooldowns Repair.Escalated Assignment.Claim Assignment.Node": name(Node),
		"Disruption.SoftTaints Disruption.SoftTaintsOver Held.Node Reboot.Claim Reboot.Node Removal.Claim Removal.Node Score.Node Decision.Claims":                   name(Node),
		"Node.Pool Pool.Name Memory.PoolCooldowns Memory.BudgetWaits Memory.LimitsLeft Launch.Pool Reboot.Pool Removal.Pool Scaling.Pool Score.Pool":                 name(Pool),
		"Buffer.Name BufferRoom.Name":                      name(Buffer),
		"Pod.Buffer ReschedulablePod.Buffer Chunks.Buffer": n.qualified(Buffer),
		"Gang.Name Pod.Gang":                               name(PodGroup),
		"Daemon.Name Node.Daemons":                         n.qualified(Daemon),
		"PodDisruptionBudget.Name":                         n.qualified(PDB),
		"Disruption.Step Disruption.Replaces Command.ID Undo.Command Launch.Replaces": name(Command),
		"HostPort.IP":    n.address,
		"Pool.Paused":    name(texts),
		"Offering.Group": name(Other), "Offering.ID": name(Other),
		"Spread.Key PodTerm.Key Snapshot.WellKnown Snapshot.ReservationKey":                                                                                                    n.Key,
		"Constraints.Invalid Budget.Invalid Pool.Unready Disruption.Drifted Node.DoNotDisrupt ReschedulablePod.DoNotDisrupt":                                                   n.Text,
		"Plan.GivenUp Disruption.GivenUp Decision.Error Decision.Bug Reboot.Cause Ailment.Reason":                                                                              n.Text,
		"Type.Name Offering.Zone Offering.CapacityType Offering.Reservation Draw.Supply InFlightClaim.Types Launch.Types Ailment.Condition Removal.Condition Reboot.Condition": n.plainly,
		"Budget.Reasons Pool.Policy ReschedulablePod.Controller HostPort.Protocol Node.DisruptionReason Node.Reclaimed Ailment.Status Command.Reason Command.TerminateFirst":   nil,
		"Eligible.Reason Removal.Reason Undo.Reason Stays.Sum":                                                                                                                 nil,
	} {
		for field := range strings.FieldsSeq(what) {
			rules[field] = to
		}
	}
	return rules
}
