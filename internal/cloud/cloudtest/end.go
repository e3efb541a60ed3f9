package cloudtest

import (
	"errors"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

func endsOnce(t T, h Harness) {
	r := request(t, h.Class, 0, choices(t, h))
	instance := launch(t, h.Provider, r)
	if _, err := h.Provider.Get(t.Context(), instance.ID); err != nil {
		t.Errorf("Get(%s) of a running instance: %v", instance.ID, err)
	}
	h.Node(t, instance.ID)
	terminated(t, h.Provider, instance.ID)
	for name, p := range map[string]cloud.Provider{"the same provider": h.Provider, "one after a crash": h.Restart(t)} {
		if err := p.Terminate(t.Context(), instance.ID); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("%s: Terminate(%s) when gone: error %v, want ErrNotFound", name, instance.ID, err)
		}
		if _, err := p.Get(t.Context(), instance.ID); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("%s: Get(%s) when gone: error %v, want ErrNotFound", name, instance.ID, err)
		}
		if found := withToken(t, p, r.Token); len(found) != 0 {
			t.Errorf("%s: List() still has %+v", name, found)
		}
	}
}

func unknownNotFound(t T, h Harness) {
	instance := launch(t, h.Provider, request(t, h.Class, 0, choices(t, h)))
	for _, id := range []string{instance.ID + "x", "no-such-cloud://x", ""} {
		if err := h.Provider.Terminate(t.Context(), id); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("Terminate(%q): error %v, want ErrNotFound", id, err)
		}
		if _, err := h.Provider.Get(t.Context(), id); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("Get(%q): error %v, want ErrNotFound", id, err)
		}
	}
}

func ownsByID(t T, h Harness) {
	owner, is := h.Provider.(cloud.Owner)
	if !is {
		t.Skip("the IDs of the provider's instances have no form of their own")
	}
	id := launch(t, h.Provider, request(t, h.Class, 0, choices(t, h))).ID
	if !owner.Owns(id) {
		t.Errorf("Owns(%s) is false: that is an instance which it launched", id)
	}
	for _, other := range []string{"no-such-cloud://x", "x" + id, ""} {
		if owner.Owns(other) {
			t.Errorf("Owns(%q) is true: that is no ID of its form", other)
		}
	}
}

func orphanListed(t T, h Harness) {
	r := request(t, h.Class, 0, choices(t, h))
	want := launch(t, h.Provider, r)
	h.Node(t, want.ID) // its life goes on though nobody remembers the claim
	found := withToken(t, h.Restart(t), r.Token)
	if len(found) != 1 {
		t.Fatalf("after a crash %d instances have token %s, want one", len(found), r.Token)
	}
	got := found[0]
	if diff := cmp.Diff([]string{want.ID, r.Claim}, []string{got.ID, got.Claim}); diff != "" {
		t.Errorf("id, claim (-launched +listed):\n%s", diff)
	}
	if got.Created.IsZero() {
		t.Error("the instance does not say when it was created, so its age is not known")
	}
}

func slowInstance(t T, h Harness) {
	if h.Slow.Name == "" {
		t.Skip("the harness has no slow class")
	}
	all := choices(t, h)
	r := request(t, h.Slow, 0, all)
	instance := launch(t, h.Provider, r)
	for name, p := range map[string]cloud.Provider{"the same provider": h.Provider, "one after a crash": h.Restart(t)} {
		got, err := p.Get(t.Context(), instance.ID)
		if err != nil {
			t.Errorf("%s: Get(%s) before it joined: %v", name, instance.ID, err)
		}
		if diff := same(instance, got); diff != "" {
			t.Errorf("%s: Get(%s) before it joined (-launched +got):\n%s", name, instance.ID, diff)
		}
		if found := withToken(t, p, r.Token); len(found) != 1 {
			t.Errorf("%s: %d instances have the token, want one", name, len(found))
		}
		if again := launch(t, p, r); again.ID != instance.ID {
			t.Errorf("%s: the repeated launch was answered with %s, the first with %s", name, again.ID, instance.ID)
		}
	}
	terminated(t, h.Provider, instance.ID)
	if found := withToken(t, h.Provider, r.Token); len(found) != 0 {
		t.Errorf("List() still has %+v", found)
	}
}
