package cloudtest

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

func rebooted(t T, h Harness) {
	p, can := h.Provider.(cloud.Rebooter)
	if !can {
		t.Skip("the provider reboots no instances")
	}
	r := request(t, h.Class, 0, choices(t, h))
	instance := launch(t, h.Provider, r)
	before := h.Node(t, instance.ID)
	reboot := cloud.RebootRequest{Token: "once", InstanceID: instance.ID, Node: before.Name}
	// The answer to the first request may have been lost, and so may have been who asked.
	for name, p := range map[string]cloud.Rebooter{"the same provider": p, "one after a crash": h.Restart(t).(cloud.Rebooter)} {
		if err := p.Reboot(t.Context(), reboot); err != nil {
			t.Fatalf("%s: Reboot(%s): %v", name, instance.ID, err)
		}
	}
	after := awaitBoot(t, h, before)
	if after.Name != before.Name || after.Spec.ProviderID != instance.ID {
		t.Errorf("the Node is %s of %s, and was %s of %s", after.Name, after.Spec.ProviderID, before.Name, instance.ID)
	}
	got, err := h.Provider.Get(t.Context(), instance.ID)
	if err != nil {
		t.Fatalf("Get(%s) after the reboot: %v", instance.ID, err)
	}
	if diff := same(instance, got); diff != "" {
		t.Errorf("the instance (-launched +rebooted):\n%s", diff)
	}
	if found := withToken(t, h.Provider, r.Token); len(found) != 1 {
		t.Errorf("%d instances have the token of the launch, want one", len(found))
	}
	reboot.Token = "again"
	if err := p.Reboot(t.Context(), reboot); err != nil {
		t.Fatalf("Reboot(%s) with another token: %v", instance.ID, err)
	}
	awaitBoot(t, h, after)
}

// awaitBoot waits until the Node has another boot ID, and returns it.
func awaitBoot(t T, h Harness, before *corev1.Node) *corev1.Node {
	t.Helper()
	var after *corev1.Node
	eventually(t, func() error {
		after = h.Node(t, before.Spec.ProviderID)
		if id := after.Status.NodeInfo.BootID; id == "" || id == before.Status.NodeInfo.BootID {
			return fmt.Errorf("the boot ID of %s is %q, as before", before.Name, id)
		}
		return nil
	})
	return after
}

func rebootUnknown(t T, h Harness) {
	p, can := h.Provider.(cloud.Rebooter)
	if !can {
		t.Skip("the provider reboots no instances")
	}
	instance := launch(t, h.Provider, request(t, h.Class, 0, choices(t, h)))
	node := h.Node(t, instance.ID).Name
	terminated(t, h.Provider, instance.ID)
	for _, id := range []string{instance.ID, instance.ID + "x", "no-such-cloud://x", ""} {
		if err := p.Reboot(t.Context(), cloud.RebootRequest{Token: "once", InstanceID: id, Node: node}); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("Reboot(%q): error %v, want ErrNotFound", id, err)
		}
	}
}
