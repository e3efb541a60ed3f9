package remote_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
)

// storage is a shop that remembers one instance.
type storage struct{ *shop }

func (storage) Get(context.Context, string) (cloud.Instance, error) {
	return cloud.Instance{ID: "shop://t"}, nil
}

func (storage) List(context.Context) ([]cloud.Instance, error) {
	return []cloud.Instance{{ID: "shop://t", Token: "t"}}, nil
}

// TestInstancesOfAnotherFormAreRefused: with a prefix the provider owns what has it, and an instance without it is an error in
// every call, never one that is gone.
func TestInstancesOfAnotherFormAreRefused(t *testing.T) {
	t.Parallel()
	for prefix, isOwner := range map[string]bool{"": false, "shop://": true, "store://": true} {
		t.Run("prefix "+strings.TrimSuffix(prefix, "://"), func(t *testing.T) {
			t.Parallel()
			p := connect(t, listen(t, t, serve.New(storage{large()}, serve.Options{Epoch: epoch(), IDPrefix: prefix})), fakeCluster(t))
			owner, is := p.(cloud.Owner)
			if is != isOwner {
				t.Fatalf("an owner: %t, want %t", is, isOwner)
			}
			if is && (!owner.Owns(prefix+"x") || owner.Owns("kwok://x")) {
				t.Errorf("it owns %sx: %t, kwok://x: %t", prefix, owner.Owns(prefix+"x"), owner.Owns("kwok://x"))
			}
			_, get := p.Get(t.Context(), "shop://t")
			_, list := p.List(t.Context())
			launch := p.Launch(t.Context(), []cloud.LaunchRequest{aRequestOf(t, p, shopClass, "t")})[0].Err
			for call, err := range map[string]error{"Get": get, "List": list, "Launch": launch} {
				if prefix != "store://" {
					if err != nil {
						t.Errorf("%s: %v", call, err)
					}
					continue
				}
				if err == nil || errors.Is(err, cloud.ErrNotFound) || !strings.Contains(err.Error(), "instance shop://t: its ID does not begin with store://, which is the instance_id_prefix of Describe") {
					t.Errorf("%s: %v, want that its ID has another form", call, err)
				}
			}
		})
	}
}
