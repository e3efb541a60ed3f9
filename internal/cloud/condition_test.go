package cloud_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// TestConditionsThatAreNotices has the conditions of an agent that sees scheduled events of a virtual machine.
func TestConditionsThatAreNotices(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	rules, err := cloud.NewNodeNotices([]cloud.ConditionNotice{
		{ConditionType: "PreemptionScheduled", ConditionStatus: "True", Kind: cloud.Reclaimed, EndsRegex: `Scheduled: (.*?)(?:\. |$)`, Within: 30 * time.Second},
		{ConditionType: "VMEventScheduled", ConditionStatus: "True", ReasonRegex: "^(Reboot|Freeze)", Kind: cloud.MaintenanceScheduled, Within: 15 * time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		condition corev1.NodeCondition
		kind      cloud.NoticeKind // empty: no notice
		after     time.Duration    // noon
	}{
		"the message says when":         {corev1.NodeCondition{Type: "PreemptionScheduled", Status: "True", Message: "Preempt Scheduled: Sun, 01 Nov 2026 12:00:25 GMT. EventId: 1"}, cloud.Reclaimed, 25 * time.Second},
		"in another zone":               {corev1.NodeCondition{Type: "PreemptionScheduled", Status: "True", Message: "Preempt Scheduled: 2026-11-01T13:00:20+01:00"}, cloud.Reclaimed, 20 * time.Second},
		"the message does not say when": {corev1.NodeCondition{Type: "PreemptionScheduled", Status: "True", Message: "soon"}, cloud.Reclaimed, 30 * time.Second},
		"the message has no time":       {corev1.NodeCondition{Type: "PreemptionScheduled", Status: "True", Message: "Preempt Scheduled: soon"}, cloud.Reclaimed, 30 * time.Second},
		"it is over":                    {corev1.NodeCondition{Type: "PreemptionScheduled", Status: "False"}, "", 0},
		"by its reason":                 {corev1.NodeCondition{Type: "VMEventScheduled", Status: "True", Reason: "FreezeScheduled"}, cloud.MaintenanceScheduled, 15 * time.Minute},
		"another reason":                {corev1.NodeCondition{Type: "VMEventScheduled", Status: "True", Reason: "Preempt"}, "", 0},
		"a condition that is nobody's":  {corev1.NodeCondition{Type: "Ready", Status: "True"}, "", 0},
	} {
		c.condition.LastTransitionTime = metav1.NewTime(noon)
		node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "vm://1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{c.condition}}}
		var want []cloud.Notice
		if c.kind != "" {
			want = []cloud.Notice{{Kind: c.kind, InstanceID: "vm://1", Ends: noon.Add(c.after)}}
		}
		if diff := cmp.Diff(want, rules.Of(node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestConditionNoticesThatCannotBe(t *testing.T) {
	t.Parallel()
	good := cloud.ConditionNotice{ConditionType: "A", ConditionStatus: "True", Kind: cloud.Reclaimed}
	for want, change := range map[string]func(*cloud.ConditionNotice){
		"its condition type is empty":       func(n *cloud.ConditionNotice) { n.ConditionType = "" },
		`its condition status is "true"`:    func(n *cloud.ConditionNotice) { n.ConditionStatus = "true" },
		`its kind is "instance_terminated"`: func(n *cloud.ConditionNotice) { n.Kind = cloud.Ended },
		"its time is -1s":                   func(n *cloud.ConditionNotice) { n.Within = -time.Second },
		"missing closing":                   func(n *cloud.ConditionNotice) { n.ReasonRegex = "(" },
		"must have one group":               func(n *cloud.ConditionNotice) { n.EndsRegex = "a" },
	} {
		bad := good
		change(&bad)
		if _, err := cloud.NewNodeNotices([]cloud.ConditionNotice{good, bad}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "condition notice 1") {
			t.Errorf("%v, want that of notice 1 %s", err, want)
		}
	}
	if rules, err := cloud.NewNodeNotices(nil); rules.Of(&corev1.Node{}) != nil || err != nil {
		t.Errorf("without any: %v", err)
	}
}
