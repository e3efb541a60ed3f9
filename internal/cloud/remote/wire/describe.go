package wire

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// Minor is the minor version of the protocol that this program speaks.
const Minor = 1

const (
	kindsMax, keysMax, policiesMax = 20, 500, 100
	tolerationMax                  = 7 * 24 * time.Hour
)

// prefixBytesMax bounds a prefix of instance IDs.
const prefixBytesMax = 100

var idPrefix = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[!-~]*$`)

// Description is what a provider says it is.
type Description struct {
	Name, Version, Epoch string
	ClassKinds           []schema.GroupVersionKind
	Vocabulary           cloud.Vocabulary
	Repair               []cloud.RepairPolicy
	Conditions           []cloud.ConditionNotice
	Limits               Limits
	// IDPrefix is what IDs of instances begin with; empty: they have no form of their own.
	IDPrefix string
	// Patience is the longest that launches of any class may take.
	Patience lifecycle.Patience
	// Capabilities has those that this program knows.
	Capabilities map[providerv1.Capability]bool
}

// Limits are what a provider wants to be asked at most; 0: no limit.
type Limits struct{ Batch, Parallel, Offerings, Drift int }

// Describe returns the message for a description.
func Describe(d *Description) *providerv1.DescribeResponse {
	out := &providerv1.DescribeResponse{
		Name: d.Name, Version: d.Version, ProtocolMinor: Minor, Epoch: d.Epoch, InstanceIdPrefix: d.IDPrefix,
		Vocabulary: &providerv1.Vocabulary{
			WellKnown: d.Vocabulary.WellKnown, RestrictedDomains: d.Vocabulary.RestrictedDomains,
			ReservationKey: d.Vocabulary.ReservationKey, ReservationKeys: d.Vocabulary.ReservationKeys,
		},
		Limits: &providerv1.Limits{LaunchBatch: uint32(d.Limits.Batch), LaunchParallel: uint32(d.Limits.Parallel), OfferingsPerItem: uint32(d.Limits.Offerings), DriftBatch: uint32(d.Limits.Drift)},
	}
	if d.Patience != (lifecycle.Patience{}) {
		out.Patience = Patience(d.Patience)
	}
	for _, k := range d.ClassKinds {
		out.ClassKinds = append(out.ClassKinds, &providerv1.ClassKind{Group: k.Group, Version: k.Version, Kind: k.Kind})
	}
	for c := range providerv1.Capability(len(providerv1.Capability_name) + 1) {
		if d.Capabilities[c] {
			out.Capabilities = append(out.Capabilities, c)
		}
	}
	for i := range d.Conditions {
		out.ConditionNotices = append(out.ConditionNotices, conditionNotice(&d.Conditions[i]))
	}
	for i := range d.Repair {
		out.RepairPolicies = append(out.RepairPolicies, repairPolicy(&d.Repair[i]))
	}
	return out
}

func repairPolicy(p *cloud.RepairPolicy) *providerv1.RepairPolicy {
	out := &providerv1.RepairPolicy{
		ConditionType: p.ConditionType, ConditionStatus: p.ConditionStatus, ReasonRegex: p.ReasonRegex,
		TolerationMs: p.Toleration.Milliseconds(), Priority: uint32(max(0, p.Priority)), Action: providerv1.RepairAction_REPAIR_ACTION_REPLACE_NODE,
	}
	if p.Action == cloud.RebootNode {
		out.Action = providerv1.RepairAction_REPAIR_ACTION_REBOOT_NODE
	}
	if p.TerminationGracePeriod != nil {
		ms := p.TerminationGracePeriod.Milliseconds()
		out.TerminationGracePeriodMs = &ms
	}
	return out
}

// ParseDescribe reads a description. The error says what the provider must mend.
func ParseDescribe(in *providerv1.DescribeResponse) (*Description, error) {
	d := &Description{
		Name: in.GetName(), Version: Text(in.GetVersion()), Epoch: in.GetEpoch(), IDPrefix: in.GetInstanceIdPrefix(),
		Vocabulary: cloud.Vocabulary{
			WellKnown: in.GetVocabulary().GetWellKnown(), RestrictedDomains: in.GetVocabulary().GetRestrictedDomains(),
			ReservationKey: in.GetVocabulary().GetReservationKey(), ReservationKeys: in.GetVocabulary().GetReservationKeys(),
		},
		Limits:       limits(in.GetLimits()),
		Capabilities: map[providerv1.Capability]bool{},
	}
	for _, c := range in.GetCapabilities() {
		if _, known := providerv1.Capability_name[int32(c)]; known {
			d.Capabilities[c] = true
		}
	}
	if len(validation.IsDNS1123Label(d.Name)) > 0 {
		return nil, fmt.Errorf("name %q may have lower case letters, digits and dashes", Text(d.Name))
	}
	if err := checkID("epoch", d.Epoch); err != nil {
		return nil, err
	}
	if d.IDPrefix != "" && (len(d.IDPrefix) > prefixBytesMax || !idPrefix.MatchString(d.IDPrefix)) {
		return nil, fmt.Errorf("instance_id_prefix %q must begin with a scheme, as shop://, and have %d bytes at most", Text(d.IDPrefix), prefixBytesMax)
	}
	if err := d.parseKinds(in.GetClassKinds()); err != nil {
		return nil, err
	}
	if err := d.checkVocabulary(); err != nil {
		return nil, err
	}
	if err := checkCount("repair_policies", len(in.GetRepairPolicies()), policiesMax); err != nil {
		return nil, err
	}
	for i, p := range in.GetRepairPolicies() {
		policy, err := parseRepairPolicy(p)
		if err != nil {
			return nil, fmt.Errorf("repair_policies[%d]: %w", i, err)
		}
		d.Repair = append(d.Repair, policy)
	}
	var err error
	if d.Patience, err = ParsePatience(in.GetPatience(), d.Capabilities[providerv1.Capability_CAPABILITY_ACCEPTED_LAUNCHES]); err != nil {
		return nil, err
	}
	return d, d.parseConditions(in.GetConditionNotices())
}

func conditionNotice(n *cloud.ConditionNotice) *providerv1.ConditionNotice {
	return &providerv1.ConditionNotice{
		ConditionType: n.ConditionType, ConditionStatus: n.ConditionStatus, ReasonRegex: n.ReasonRegex,
		Kind: noticeKind(n.Kind), EndsRegex: n.EndsRegex, WithinMs: n.Within.Milliseconds(),
	}
}

func (d *Description) parseConditions(in []*providerv1.ConditionNotice) error {
	if err := checkCount("condition_notices", len(in), policiesMax); err != nil {
		return err
	}
	for i, n := range in {
		if len(n.GetReasonRegex()) > textBytesMax || len(n.GetEndsRegex()) > textBytesMax {
			return fmt.Errorf("condition_notices[%d]: reason_regex and ends_regex may have %d bytes", i, textBytesMax)
		}
		kind, known := noticeKinds[n.GetKind()]
		if !known && n.GetKind() != providerv1.NoticeKind_NOTICE_KIND_UNSPECIFIED {
			continue // of a later version
		}
		d.Conditions = append(d.Conditions, cloud.ConditionNotice{
			ConditionType: Text(n.GetConditionType()), ConditionStatus: Text(n.GetConditionStatus()), ReasonRegex: n.GetReasonRegex(),
			Kind: kind, EndsRegex: n.GetEndsRegex(), Within: Millis(n.GetWithinMs(), tolerationMax),
		})
	}
	_, err := cloud.NewNodeNotices(d.Conditions)
	return err
}

func limits(in *providerv1.Limits) Limits {
	return Limits{Batch: limit(in.GetLaunchBatch()), Parallel: limit(in.GetLaunchParallel()), Offerings: limit(in.GetOfferingsPerItem()), Drift: limit(in.GetDriftBatch())}
}

func limit(n uint32) int { return int(min(n, math.MaxInt32)) }

func (d *Description) parseKinds(kinds []*providerv1.ClassKind) error {
	if len(kinds) == 0 {
		return errors.New("class_kinds is empty; name the kind of the provider's node class objects")
	}
	if err := checkCount("class_kinds", len(kinds), kindsMax); err != nil {
		return err
	}
	for i, k := range kinds {
		if len(validation.IsDNS1123Subdomain(k.GetGroup())) > 0 || len(validation.IsDNS1035Label(k.GetVersion())) > 0 || !IsReason(k.GetKind()) {
			return fmt.Errorf("class_kinds[%d]: group %q, version %q, kind %q is no kind of objects", i, Text(k.GetGroup()), Text(k.GetVersion()), Text(k.GetKind()))
		}
		d.ClassKinds = append(d.ClassKinds, schema.GroupVersionKind{Group: k.GetGroup(), Version: k.GetVersion(), Kind: k.GetKind()})
	}
	return nil
}

func (d *Description) checkVocabulary() error {
	v := &d.Vocabulary
	keys := append(append([]string{}, v.WellKnown...), v.ReservationKeys...)
	if v.ReservationKey != "" {
		keys = append(keys, v.ReservationKey)
	}
	if err := checkCount("labels in vocabulary", len(keys)+len(v.RestrictedDomains), keysMax); err != nil {
		return err
	}
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return fmt.Errorf("vocabulary: %w", err)
		}
	}
	for _, domain := range v.RestrictedDomains {
		if len(validation.IsDNS1123Subdomain(domain)) > 0 {
			return fmt.Errorf("vocabulary: restricted domain %q is no domain", Text(domain))
		}
	}
	return nil
}

func parseRepairPolicy(in *providerv1.RepairPolicy) (cloud.RepairPolicy, error) {
	p := cloud.RepairPolicy{
		ConditionType: Text(in.GetConditionType()), ConditionStatus: Text(in.GetConditionStatus()), ReasonRegex: in.GetReasonRegex(),
		Toleration: Millis(in.GetTolerationMs(), tolerationMax), Priority: limit(in.GetPriority()),
	}
	switch in.GetAction() {
	case providerv1.RepairAction_REPAIR_ACTION_REPLACE_NODE:
		p.Action = cloud.ReplaceNode
	case providerv1.RepairAction_REPAIR_ACTION_REBOOT_NODE:
		p.Action = cloud.RebootNode
	default:
		return p, fmt.Errorf("action %d is not known", in.GetAction())
	}
	if len(p.ReasonRegex) > textBytesMax {
		return p, fmt.Errorf("reason_regex has %d bytes; it may have %d", len(p.ReasonRegex), textBytesMax)
	}
	if _, err := regexp.Compile(p.ReasonRegex); err != nil {
		return p, err
	}
	if in.TerminationGracePeriodMs != nil {
		grace := Millis(in.GetTerminationGracePeriodMs(), tolerationMax)
		p.TerminationGracePeriod = &grace
	}
	return p, nil
}
