package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// noticePatience is how much later than Get a notice may be.
	noticePatience = 10 * time.Second
	// noticesMax bounds the notices that a test reads; there are those of the tests beside it.
	noticesMax = 1000
)

// accepted launches with a class whose launches are not decided at once, and returns the request with the answer.
func accepted(t T, h Harness, class cloud.ClassRef) (cloud.LaunchRequest, cloud.Instance) {
	t.Helper()
	if class.Name == "" {
		t.Skip("the harness has no class whose launches are decided later")
	}
	r := request(t, class, 0, choices(t, h))
	return r, launch(t, h.Provider, r)
}

// decided waits until the launch of an instance is decided, as two providers see it by the ID of the answer.
func decided(t T, h Harness, id string) (instance, restarted cloud.Instance) {
	t.Helper()
	again := h.Restart(t)
	eventually(t, func() (err error) {
		if instance, err = h.Provider.Get(t.Context(), id); err == nil {
			restarted, err = again.Get(t.Context(), id)
		}
		if errors.Is(err, cloud.ErrNotFound) {
			t.Fatalf("the launch of %s was accepted, and nobody has ended it: %v", id, err)
		}
		if err != nil {
			return err
		}
		if instance.Failed == nil && instance.Provisional || restarted.Failed == nil && restarted.Provisional {
			return fmt.Errorf("the launch of %s is not decided", id)
		}
		return nil
	})
	return instance, restarted
}

func idLater(t T, h Harness) {
	r, first := accepted(t, h, h.Accepts)
	if !first.Provisional {
		t.Fatalf("Launch with %s was answered with provider ID %s, want a provisional one", h.Accepts, first.ID)
	}
	for name, p := range map[string]cloud.Provider{"the same provider": h.Provider, "one after a crash": h.Restart(t)} {
		if _, err := p.Get(t.Context(), first.ID); err != nil {
			t.Errorf("%s: Get(%s) before the ID is known: %v", name, first.ID, err)
		}
		if found := withToken(t, p, r.Token); len(found) != 1 {
			t.Errorf("%s: %d instances have the token, want one", name, len(found))
		}
	}
	final, restarted := decided(t, h, first.ID)
	end(t, h.Provider, final.ID)
	if final.ID == "" || final.ID == first.ID || final.Token != r.Token || final.Failed != nil {
		t.Fatalf("Get(%s) when decided: %+v, want the final ID of the same launch", first.ID, final)
	}
	if diff := same(final, restarted); diff != "" {
		t.Errorf("decided (-the same provider +one after a crash):\n%s", diff)
	}
	if diff := cmp.Diff(final.ID, launch(t, h.Provider, r).ID); diff != "" {
		t.Errorf("ID (-decided +launched again):\n%s", diff)
	}
	if got, err := h.Provider.Get(t.Context(), final.ID); err != nil || got.ID != final.ID {
		t.Errorf("Get(%s) = %s, %v", final.ID, got.ID, err)
	}
	if found := withToken(t, h.Provider, r.Token); len(found) != 1 || found[0].ID != final.ID {
		t.Errorf("the list has %+v, want %s alone", found, final.ID)
	}
	if node := h.Node(t, final.ID); node.Spec.ProviderID != final.ID {
		t.Errorf("the Node has providerID %s, want %s", node.Spec.ProviderID, final.ID)
	}
	terminated(t, h.Provider, first.ID) // by the ID that it had
	for _, id := range []string{first.ID, final.ID} {
		if _, err := h.Provider.Get(t.Context(), id); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("Get(%s) when gone: error %v, want ErrNotFound", id, err)
		}
	}
}

func endsUndecided(t T, h Harness) {
	r, first := accepted(t, h, h.Accepts)
	terminated(t, h.Provider, first.ID)
	if found := withToken(t, h.Restart(t), r.Token); len(found) != 0 {
		t.Errorf("List() still has %+v", found)
	}
}

// failureNotified launches what fails late and waits for the notice of that, which is repeated until it is taken.
func failureNotified(t T, h Harness) {
	watcher, is := h.Provider.(cloud.Watcher)
	if !is || !h.Notified {
		t.Skip("the provider has no notices of launches")
	}
	ctx, cancel := context.WithCancel(t.Context())
	reported := make(chan cloud.Notice, noticesMax)
	var watching sync.WaitGroup
	watching.Go(func() {
		watcher.Watch(ctx, func(_ context.Context, n cloud.Notice) error {
			select {
			case reported <- n:
				return nil
			default:
				return errors.New("the test reads no further")
			}
		})
	})
	defer watching.Wait()
	defer cancel()
	_, first := accepted(t, h, h.Fails)
	failed, _ := decided(t, h, first.ID)
	late := time.NewTimer(noticePatience)
	defer late.Stop()
	for {
		select {
		case n := <-reported:
			if n.Kind == cloud.LaunchFailed && (n.InstanceID == first.ID || n.InstanceID == failed.ID) {
				if n.Failure == nil || n.Failure.Kind != cloud.NoCapacity || n.Failure.Message == "" {
					t.Errorf("the notice has the failure %+v, want one for want of capacity, and some words", n.Failure)
				}
				return
			}
		case <-late.C:
			t.Fatalf("no notice says that the launch of %s has failed, %s after Get did", first.ID, noticePatience)
		}
	}
}

func failsLate(t T, h Harness) {
	r, first := accepted(t, h, h.Fails)
	if first.Failed != nil {
		t.Fatalf("Launch with %s was answered with an instance that has failed: the error says that", h.Fails)
	}
	failed, restarted := decided(t, h, first.ID)
	for name, got := range map[string]cloud.Instance{"the same provider": failed, "one after a crash": restarted} {
		if got.Failed == nil || got.Failed.Kind != cloud.NoCapacity || got.Failed.Message == "" {
			t.Fatalf("%s: Get(%s) = %+v, want a failure for want of capacity, and some words", name, first.ID, got)
		}
		if len(got.Failed.Short) == 0 && (got.Labels[label.InstanceType] == "" || got.Labels[label.CapacityType] == "") {
			t.Errorf("%s: neither the failure nor the labels %v say which offering had no capacity", name, got.Labels)
		}
	}
	result := h.Provider.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
	var failure *cloud.Failure
	if !errors.As(result.Err, &failure) && result.Instance.Failed == nil {
		t.Errorf("launched again: %+v, want the failure", result)
	}
	if found := withToken(t, h.Provider, r.Token); len(found) != 1 || found[0].Failed == nil {
		t.Errorf("the list has %+v, want the one that failed until it is terminated", found)
	}
	terminated(t, h.Provider, first.ID)
	if found := withToken(t, h.Restart(t), r.Token); len(found) != 0 {
		t.Errorf("List() still has %+v", found)
	}
}
