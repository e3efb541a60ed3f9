package translate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// scheduled returns a budget for no nodes at an instant, by the clocks of a time zone.
func scheduled(schedule, zone string, duration time.Duration, at time.Time) cluster.Budget {
	np := &karpenterv1.NodePool{}
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{}
	np.Annotations = map[string]string{translate.TimeZoneAnnotationKey: zone}
	np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "0", Schedule: &schedule, Duration: &karpenterv1.Duration{Duration: duration}}}
	return translate.Pool(np, nil, at).Budgets[0]
}

func TestWindowsFollowTheClocksOfTheirZone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		schedule, zone string
		duration       time.Duration
		at             string
		want           bool
	}{
		"nine in Berlin, in winter":                      {"0 9 * * mon-fri", "Europe/Berlin", time.Hour, "2026-11-20T08:30:00Z", true},
		"nine in Berlin, in summer":                      {"0 9 * * mon-fri", "Europe/Berlin", time.Hour, "2026-07-17T07:30:00Z", true},
		"nine in UTC is not nine in Berlin":              {"0 9 * * mon-fri", "Europe/Berlin", time.Hour, "2026-11-20T09:30:00Z", false},
		"its first moment":                               {"0 9 * * *", "", time.Hour, "2026-11-20T09:00:00Z", true},
		"its end":                                        {"0 9 * * *", "", time.Hour, "2026-11-20T10:00:00Z", false},
		"a time of day that is left out":                 {"30 2 * * *", "Europe/Berlin", 23 * time.Hour, "2026-03-29T12:00:00Z", false},
		"a time of day that comes twice, first":          {"30 2 * * *", "Europe/Berlin", 10 * time.Minute, "2026-10-25T00:35:00Z", true},
		"a time of day that comes twice, second":         {"30 2 * * *", "Europe/Berlin", 10 * time.Minute, "2026-10-25T01:35:00Z", true},
		"clocks that move by half an hour":               {"0 3 * * *", "Australia/Lord_Howe", time.Hour, "2026-04-04T17:00:00Z", true},
		"the 13th and Fridays":                           {"0 0 13 * fri", "", 24 * time.Hour, "2026-11-20T12:00:00Z", true},
		"a day that never comes":                         {"0 0 30 2 *", "", 24 * time.Hour, "2026-11-20T12:00:00Z", false},
		"a window of a year, two years and more ago":     {"0 0 29 2 *", "", 8760 * time.Hour, "2026-11-20T12:00:00Z", false},
		"a window of three years, two years ago":         {"0 0 29 2 *", "", 26280 * time.Hour, "2026-11-20T12:00:00Z", true},
		"a window for ever, eight years ago":             {"59 23 29 2 *", "America/New_York", 2562047 * time.Hour, "2104-02-29T23:00:00Z", true},
		"for ever, of a day that never comes":            {"0 0 30 2 *", "Pacific/Apia", 2562047 * time.Hour, "2026-11-20T12:00:00Z", false},
		"for ever, before its first":                     {"0 13 20 11 *", "", 23 * time.Hour, "2026-11-20T12:00:00Z", false},
		"a window of a month that began three weeks ago": {"@monthly", "", 720 * time.Hour, "2026-11-21T12:00:00Z", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(cluster.Budget{Active: tc.want, Scheduled: true}, scheduled(tc.schedule, tc.zone, tc.duration, at)); diff != "" {
				t.Errorf("budget (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUnknownTimeZoneAllowsNothing(t *testing.T) {
	t.Parallel()
	want := cluster.Budget{Active: true, Invalid: `time zone "Mars/Olympus" is not known`}
	if diff := cmp.Diff(want, scheduled("0 9 * * *", "Mars/Olympus", time.Hour, noon)); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}

// TestWindowsAreTheLibrarysInUTC compares with the definition: the first hit later than
// a duration ago is not later than now.
func TestWindowsAreTheLibrarysInUTC(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		field := func(name string, from, to int) string {
			a, b := rapid.IntRange(from, to).Draw(t, name), rapid.IntRange(from, to).Draw(t, name)
			return rapid.SampledFrom([]string{"*", fmt.Sprint(a), fmt.Sprintf("%d-%d", min(a, b), max(a, b)), fmt.Sprintf("%d,%d", a, b), "*/" + fmt.Sprint(max(1, a))}).Draw(t, name)
		}
		schedule := field("minute", 0, 59) + " " + field("hour", 0, 23) + " " + field("day", 1, 31) + " " + field("month", 1, 12) + " " + field("weekday", 0, 6)
		duration := time.Duration(rapid.IntRange(1, 40*24*60).Draw(t, "minutes")) * time.Minute
		at := noon.Add(time.Duration(rapid.IntRange(0, 400*24*3600).Draw(t, "seconds")) * time.Second)
		s, err := cron.ParseStandard(schedule)
		if err != nil {
			t.Skip()
		}
		hit := s.Next(at.Add(-duration))
		want := !hit.IsZero() && !hit.After(at)
		if got := scheduled(schedule, "", duration, at).Active; got != want {
			t.Fatalf("%q for %s at %s: open %t, want %t", schedule, duration, at, got, want)
		}
	})
}

// TestWindowsChangeWhenTheySay compares when a budget changes with whether it is active: up to then nothing
// does, and then it does.
func TestWindowsChangeWhenTheySay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		schedule := fmt.Sprintf("%s %s * * %s", rapid.SampledFrom([]string{"0", "30", "*/20", "*", "7,8,59"}).Draw(t, "minute"),
			rapid.SampledFrom([]string{"*", "9", "0", "22-23", "*/6", "2"}).Draw(t, "hour"), rapid.SampledFrom([]string{"*", "mon-fri", "sun"}).Draw(t, "day"))
		duration := rapid.SampledFrom([]time.Duration{time.Minute, 30 * time.Minute, time.Hour, 8 * time.Hour, 24 * time.Hour, 100 * time.Hour}).Draw(t, "duration")
		zone := rapid.SampledFrom([]string{"", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(t, "zone")
		now := noon.Add(time.Duration(rapid.IntRange(0, 400*24*60).Draw(t, "now")) * time.Minute).Add(time.Duration(rapid.IntRange(0, 59).Draw(t, "second")) * time.Second)
		np := &karpenterv1.NodePool{}
		np.Annotations = map[string]string{translate.TimeZoneAnnotationKey: zone}
		np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "0"}, {Nodes: "0", Schedule: &schedule, Duration: &karpenterv1.Duration{Duration: duration}}}
		active := func(at time.Time) bool { return scheduled(schedule, zone, duration, at).Active }
		changes := translate.BudgetChanges(np, now)
		if len(changes) != 2 || !changes[0].IsZero() {
			t.Fatalf("changes %v", changes)
		}
		last := changes[1]
		if last.IsZero() {
			last = now.Add(8*24*time.Hour - time.Minute)
		} else if active(last) == active(now) {
			t.Fatalf("%q for %s in %q: nothing changes at %s", schedule, duration, zone, last)
		}
		for range 40 {
			at := now.Add(time.Duration(rapid.Int64Range(0, int64(last.Sub(now))-1).Draw(t, "between")))
			if active(at) != active(now) {
				t.Fatalf("%q for %s in %q: it changes at %s, not at %s", schedule, duration, zone, at, changes[1])
			}
		}
	})
}
