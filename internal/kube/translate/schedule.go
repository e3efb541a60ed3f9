package translate

import (
	"fmt"
	"time"
	_ "time/tzdata" // images often have no time zones of their own

	"github.com/robfig/cron/v3"
)

// quarter divides every offset from UTC that is in use, so that no clock is moved within a quarter
// of an hour.
const quarter = 15 * time.Minute

// historyMax bounds how far back the begin of a window is sought. Every schedule that has a time
// at all has one within eight years: the longest gap is between two 29ths of February.
const historyMax = 8 * 366 * 24 * time.Hour

// windows are the spans of time that begin when a schedule says so, by the clocks of a
// zone, and last as long as duration.
type windows struct {
	spec     *cron.SpecSchedule
	zone     *time.Location
	duration time.Duration
}

func parseWindows(schedule string, zone *time.Location, duration time.Duration) (*windows, error) {
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("schedule: %q is no five fields", schedule)
	}
	return &windows{spec, zone, duration}, nil
}

// open reports whether one has begun and is not over: begun at now or before, by less than
// the duration. Where clocks are put back, times of day come twice, and both count; where
// they are put forward, those that are left out do not come at all. (The library's own
// search loses a day when clocks move by less than an hour.)
func (w *windows) open(now time.Time) bool { return !w.begun(now).IsZero() }

// begun returns when the last window began that is open; zero: none is.
func (w *windows) begun(now time.Time) time.Time {
	after := now.Add(-min(w.duration, historyMax))
	for from := now.Truncate(quarter); from.Add(quarter).After(after); from = from.Add(-quarter) {
		local := from.In(w.zone)
		if !w.onDay(local) {
			// To the small hours of the same day: no zone's clocks move by more than two hours.
			from = from.Add(-time.Duration(max(0, local.Hour()-3)) * time.Hour)
			continue
		}
		if !has(w.spec.Hour, local.Hour()) {
			continue
		}
		for i := int(quarter/time.Minute) - 1; i >= 0; i-- {
			begin := from.Add(time.Duration(i) * time.Minute)
			if has(w.spec.Minute, local.Minute()+i) && begin.After(after) && !begin.After(now) {
				return begin
			}
		}
	}
	return time.Time{}
}

// starred is how the library marks a field that was given as a star.
const starred = 1 << 63

// onDay reports whether a day is in the schedule. If both the day of the month and the day of the
// week are given, one of them suffices.
func (w *windows) onDay(t time.Time) bool {
	ofMonth, ofWeek := has(w.spec.Dom, t.Day()), has(w.spec.Dow, int(t.Weekday()))
	either := w.spec.Dom&starred == 0 && w.spec.Dow&starred == 0
	return has(w.spec.Month, int(t.Month())) && (ofMonth && ofWeek || either && (ofMonth || ofWeek))
}

func has(set uint64, n int) bool { return set&(1<<uint(n)) != 0 }

// changeMax is how far ahead it is sought when a budget becomes active, or ceases to be.
const changeMax = 8 * 24 * time.Hour

// changes returns when open next changes after now; zero: not within changeMax.
func (w *windows) changes(now time.Time) time.Time {
	most := now.Add(changeMax)
	begun := w.begun(now)
	if begun.IsZero() {
		return w.begins(now, most)
	}
	// One that begins before the last is over goes on for it.
	end := begun.Add(w.duration)
	for after := now; end.Before(most); {
		begin := w.begins(after, end)
		if begin.IsZero() {
			return end
		}
		after, end = begin, begin.Add(w.duration)
	}
	return time.Time{}
}

// begins returns when the first window begins that begins after an instant, and not after another; zero: none
// does.
func (w *windows) begins(after, most time.Time) time.Time {
	for from := after.Truncate(quarter); !from.After(most); from = from.Add(quarter) {
		local := from.In(w.zone)
		if !w.onDay(local) || !has(w.spec.Hour, local.Hour()) {
			continue
		}
		for i := range int(quarter / time.Minute) {
			begin := from.Add(time.Duration(i) * time.Minute)
			if has(w.spec.Minute, local.Minute()+i) && begin.After(after) && !begin.After(most) {
				return begin
			}
		}
	}
	return time.Time{}
}
