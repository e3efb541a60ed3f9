package aws

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestReboot restarts an instance through everything that EC2 may say to it.
func TestReboot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		id := launchIDs(t, p, requests(t, p, 1, onDemand))["token-0"]
		refuse := func(kind, code string) func() {
			return func() {
				if err := w.sim.Inject(awssim.Fault{Kind: kind, Operation: "ec2:RebootInstances", Target: code, Times: 1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		zone := w.sim.Zones()[slices.IndexFunc(w.sim.Zones(), func(z awssim.Zone) bool { return z.Name == strings.Split(id, "/")[3] })].ID
		later := errors.New("any other error")
		reboots := 0
		for _, c := range []struct {
			name   string
			before func()
			want   error // nil: it is restarted
		}{
			{"it is restarted", func() {}, nil},
			{"EC2 does not know it yet", refuse(awssim.FaultRefused, "InvalidInstanceID.NotFound"), later},
			{"EC2 has forgotten it", func() { time.Sleep(2 * time.Minute); refuse(awssim.FaultRefused, "InvalidInstanceID.NotFound")() }, cloud.ErrNotFound},
			{"the role may not", refuse(awssim.FaultDenied, ""), cloud.ErrRebootRefused},
			{"it cannot be restarted", refuse(awssim.FaultRefused, "UnsupportedOperation"), cloud.ErrRebootRefused},
			{"the credentials have expired", refuse(awssim.FaultExpired, ""), later},
			{"it is in no state for it", refuse(awssim.FaultRefused, "IncorrectInstanceState"), later},
			{"its zone is shifted away from", func() { p.types.shifts.learn(map[string]time.Time{zone: time.Now().Add(time.Hour)}) }, later},
			{"the shift is over", func() { time.Sleep(time.Hour) }, nil},
			{"it is on its way out", func() {
				if err := p.Terminate(t.Context(), id); err != nil {
					t.Error(err)
				}
			}, cloud.ErrNotFound},
			{"it is gone", func() { time.Sleep(2 * time.Hour) }, cloud.ErrNotFound},
		} {
			c.before()
			err := p.Reboot(t.Context(), cloud.RebootRequest{Token: "once", InstanceID: id})
			isFinal := errors.Is(err, cloud.ErrNotFound) || errors.Is(err, cloud.ErrRebootRefused)
			if (c.want == nil) != (err == nil) || errors.Is(c.want, later) && isFinal || !errors.Is(c.want, later) && !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if err == nil {
				reboots++
			}
			for _, in := range w.sim.Instances() {
				if in.Reboots != reboots {
					t.Errorf("%s: the instance has been restarted %d times, want %d", c.name, in.Reboots, reboots)
				}
			}
		}
		if n := w.sim.Calls()["ec2:RebootInstances"]; n < 7 {
			t.Errorf("EC2 was asked %d times", n)
		}
	})
}
