package aws

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

func claimNamed(name string, isDeleted bool) *karpenterv1.NodeClaim {
	c := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Finalizers: []string{"test/held"}}}
	if isDeleted {
		c.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return c
}

func claimsAPI(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := karpenterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&karpenterv1.NodeClaim{}).WithObjects(objects...).Build()
}

// TestWaits asks which claims still wait for their instance.
func TestWaits(t *testing.T) {
	t.Parallel()
	away := false
	c := claims{client: interceptor.NewClient(claimsAPI(t, claimNamed("there", false), claimNamed("going", true)), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if away {
				return errCut
			}
			return c.Get(ctx, k, obj, opts...)
		},
	})}
	for m, want := range map[member]bool{
		{"there-uid", "there"}: true, {"going-uid", "going"}: false, {"gone-uid", "gone"}: false, {"older-uid", "there"}: false,
	} {
		if got := c.isWanted(t.Context(), m); got != want {
			t.Errorf("waits(%+v) = %t, want %t", m, got, want)
		}
	}
	away = true
	if !c.isWanted(t.Context(), member{"gone-uid", "gone"}) {
		t.Error("a claim does not wait of which nobody can say whether it is there")
	}
}

// TestNote writes marks on claims that are there, are to go, are others of that name, and that
// another process has marked since they were last seen.
func TestNote(t *testing.T) {
	t.Parallel()
	api := claimsAPI(t, claimNamed("there", false), claimNamed("going", true), claimNamed("stale", false), claimNamed("behind", false))
	stale := &karpenterv1.NodeClaim{}
	if err := api.Get(t.Context(), named("stale"), stale); err != nil {
		t.Fatal(err)
	}
	cached := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if k.Name == "behind" { // as apply.ReadYourWrites has it
				return apierrors.NewConflict(schema.GroupResource{}, k.Name, nil)
			}
			if k.Name == "stale" {
				stale.DeepCopyInto(obj.(*karpenterv1.NodeClaim))
				return nil
			}
			return c.Get(ctx, k, obj, opts...)
		},
	})
	c := claims{cached, cached, api}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	of := func(name, uid, batch string) mark { return mark{member{uid, name}, batch, 1, 3, now} }
	var asked []string
	holds := func(m mark) bool {
		asked = append(asked, m.batch)
		return m.batch == "launch-2"
	}
	for _, step := range []struct {
		mark mark
		want error
	}{
		{of("there", "there-uid", "launch-1"), nil},
		{of("there", "there-uid", "launch-2"), nil}, // the first does not hold
		{of("there", "there-uid", "launch-3"), errElsewhere},
		{of("there", "older-uid", "launch-1"), errLeft},
		{of("going", "going-uid", "launch-1"), errLeft},
		{of("gone", "gone-uid", "launch-1"), errLeft},
		{of("behind", "behind-uid", "launch-1"), nil},
		{of("stale", "stale-uid", "launch-2"), nil},
		{of("stale", "stale-uid", "launch-3"), errElsewhere}, // which the cache does not show
	} {
		if err := c.note(t.Context(), step.mark, holds); !errors.Is(err, step.want) {
			t.Errorf("note(%s on %s) = %v, want %v", &step.mark, step.mark.Claim, err, step.want)
		}
	}
	has := claimNamed("has", false)
	has.Annotations = map[string]string{awsv1.AnnotationLaunch: "launch-2 0/1 2026-11-01T12:00:00Z"}
	has.Status.ProviderID = "aws:///a/i-0123456789abcdef0"
	if err := api.Create(t.Context(), has); err != nil {
		t.Fatal(err)
	}
	if err := api.Status().Update(t.Context(), has); err != nil {
		t.Fatal(err)
	}
	marks, adopted, err := c.marks(t.Context())
	if err != nil || len(marks) != 3 || len(adopted) != 1 || !adopted["i-0123456789abcdef0"] {
		t.Errorf("marks() = %v, %v, %v; want those of three claims and the instance of the fourth", marks, adopted, err)
	}
	for _, m := range marks {
		want := of(m.Claim, m.Token, "launch-2")
		if m.Claim == "behind" {
			want.batch = "launch-1"
		}
		if m != want {
			t.Errorf("read back %+v, want %+v", m, want)
		}
	}
}
