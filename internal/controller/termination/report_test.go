package termination

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

func TestAnEvictedPodHasAnEventWhyItsAnnotationDidNotHold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ annotation, want string }{
		"it has none":          {"", ""},
		"it means nothing":     {"maybe", "Warning InvalidDoNotDisruptAnnotation"},
		"its time has elapsed": {"1h", "Normal DoNotDisruptGracePeriodElapsed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := record.NewFakeRecorder(1)
			clock := func() time.Time { return now }
			c := &Controller{Now: clock, Events: observe.NewRecorder(sink, clock)}
			started := metav1.NewTime(now.Add(-2 * time.Hour))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"}, Status: corev1.PodStatus{StartTime: &started}}
			if tc.annotation != "" {
				pod.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: tc.annotation}
			}
			c.reportNotHeld(pod)
			close(sink.Events)
			if got := <-sink.Events; !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("event %q, want %q", got, tc.want)
			}
		})
	}
}
