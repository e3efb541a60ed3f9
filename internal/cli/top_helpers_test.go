package cli

import (
	"errors"
	"io/fs"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

func TestEventsAreThoseOfTheSubjectNewestFirst(t *testing.T) {
	t.Parallel()
	event := func(name, kind, namespace, about string, minutes int, count int32) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: "default", CreationTimestamp: metav1.NewTime(story.Now())},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: about}, LastTimestamp: metav1.NewTime(story.Now().Add(time.Duration(minutes) * time.Minute)),
			Type: "Normal", Reason: "Reason" + name, Message: "says\n", Count: count,
		}
	}
	r := fake.NewClientBuilder().WithScheme(operator.Scheme()).WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string {
		return []string{o.(*corev1.Event).InvolvedObject.Name}
	}).WithObjects(
		event("a", "Pod", "shop", "web", 1, 1), event("b", "Pod", "shop", "web", 5, 7), event("c", "Pod", "other", "web", 2, 1), event("d", "NodeClaim", "", "web", 3, 1), event("e", "Pod", "shop", "api", 4, 1),
	).Build()
	for about, want := range map[journal.Subject]string{
		{Kind: journal.KindPod, Namespace: "shop", Name: "web"}: "Reasonb Reasona",
		{Kind: journal.KindClaim, Name: "web"}:                  "Reasond",
		{Kind: journal.KindNode, Name: "web"}:                   "",
	} {
		lines, err := eventsOf(t.Context(), r, about)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range lines {
			got = append(got, strings.Fields(line)[3])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("events of %s: %q, want %s", about, lines, want)
		}
		if want == "Reasonb Reasona" && !strings.HasSuffix(lines[0], "says (7 times)") {
			t.Errorf("%q does not say how often", lines[0])
		}
	}
}

// TestADecisionIsSavedAsItIsShared saves one from top and reads it; a file that is there stays.
func TestADecisionIsSavedAsItIsShared(t *testing.T) {
	j, _ := keptDecision(t)
	srv := httptest.NewServer(j.Handler())
	t.Cleanup(srv.Close)
	t.Chdir(t.TempDir())
	s := &controllerSource{flags: controllerFlags{address: srv.URL}, ctx: t.Context()}
	file, err := s.save(t.Context(), "1")
	if err != nil || s.link() != srv.URL {
		t.Fatalf("%v, pages at %q", err, s.link())
	}
	if says := called(t, 0, "replay "+file); !strings.Contains(says, "same plan") {
		t.Errorf("replay of %s: %s", file, says)
	}
	if _, err := s.save(t.Context(), "1"); err == nil || !errors.Is(err, fs.ErrExist) {
		t.Errorf("saved again: %v", err)
	}
	if _, err := s.save(t.Context(), "99"); err == nil || !strings.Contains(err.Error(), "there is no such decision") {
		t.Errorf("a decision that there is not: %v", err)
	}
}

// TestTopSaysWhyAnInstanceType as dovetail explain --types does.
func TestTopSaysWhyAnInstanceType(t *testing.T) {
	t.Parallel()
	address, _ := questionable(t)
	s := &controllerSource{flags: controllerFlags{address: address}, ctx: t.Context()}
	lines, err := s.types(t.Context(), journal.Subject{Kind: journal.KindClaim, Name: "general-1"})
	if text := strings.Join(lines, "\n"); err != nil || !strings.Contains(text, "too small: it has 2 of 8 cpu") || !strings.HasPrefix(text, "Instance types, as decision ") {
		t.Errorf("%v:\n%s", err, text)
	}
	for name, says := range map[string]string{"old-1": "no decision is known to have launched node old-1", "none": "there is no node none"} {
		if _, err := s.types(t.Context(), journal.Subject{Kind: journal.KindNode, Name: name}); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("of node %s: %v", name, err)
		}
	}
}
