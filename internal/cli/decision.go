package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decision/history"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view"
)

const (
	// aroundSpan is how far before and after the time of --around is shown.
	aroundSpan = 30 * time.Minute
	// completionPatience bounds how long a shell waits for suggestions, completionsMost how many there are.
	completionPatience, completionsMost = 3 * time.Second, 20
)

// pastFlags say which journal is read, and how what was found is shown.
type pastFlags struct {
	journalFlags
	show viewFlags
}

func (f *pastFlags) add(cmd *cobra.Command) {
	f.addPath(cmd)
	f.addController(cmd)
	f.show.addOutput(cmd)
}

// plans returns the decisions of a file, or those of a controller without their snapshots.
func (f *journalFlags) plans(ctx context.Context, cmd *cobra.Command) (*journal.File, error) {
	if f.path != "" {
		return f.read(ctx, cmd.ErrOrStderr())
	}
	return f.fileAt(ctx, journal.Path+journal.PlansPath)
}

// whole returns a decision of a controller with its snapshot; nil: that is not kept any more.
func (f *journalFlags) whole(ctx context.Context, id journal.ID) (*record.Decision, error) {
	file, err := f.one(ctx, id)
	if err != nil {
		return nil, err
	}
	return file.Whole(id)
}

func newDecision() *cobra.Command {
	f := &pastFlags{}
	cmd := &cobra.Command{
		Use: "decision ID", Short: "Show what one decision did, and what came of it", Args: cobra.ExactArgs(1),
		Long: `Show one decision: what it launched, removed, placed and refused, for how much, and what came of that:
which of its commands ended with their nodes deleted, which were cancelled and why, and what the nodes
cost afterwards. What ended a command stands in a later decision, whose ID is in brackets.

The ID is in events, logs, the annotation dovetail.sh/decision of NodeClaims, and in dovetail history. Its
number alone is the newest decision of that number.

The signs are + for nodes that come, - for nodes that go, -/+ for nodes that are replaced, ~ for nodes that
are changed, = for pods that nodes have room for, ! for what was refused, cancelled or failed.

The replica that leads is asked, as by dovetail explain. With --journal a file is read instead.

The exit status is 4 if there is no such decision, and 5 if no controller can be reached.`,
		Example: `  dovetail decision 17
  dovetail decision 17.6fb9m0 -o json
  dovetail decision 17 --journal /var/lib/dovetail`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.show.check(cmd); err != nil {
				return err
			}
			id, err := journal.ParseID(strings.TrimPrefix(args[0], "decision/"))
			if err != nil {
				return wrongUse(cmd, err)
			}
			v, err := f.decision(cmd.Context(), cmd, id)
			if err != nil {
				return err
			}
			return f.show.print(cmd.OutOrStdout(), &v)
		},
	}
	f.add(cmd)
	completeDecisions(cmd, &f.journalFlags)
	return cmd
}

// completeDecisions suggests decisions where a command's argument is one.
func completeDecisions(cmd *cobra.Command, f *journalFlags) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.completions(cmd), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completions returns the newest decisions, those that changed something, if they can be had quickly.
func (f *journalFlags) completions(cmd *cobra.Command) (names []string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	file, err := f.plans(ctx, cmd)
	if err != nil {
		return nil // whoever types sees no suggestion
	}
	for i := range slices.Backward(file.Decisions) {
		h := &file.Decisions[i].Head
		if h.Launches+h.Removals+h.Steps == 0 {
			continue
		}
		names = append(names, fmt.Sprintf("%s\t%s %s, %d launched, %d removed", h.ID, h.At.Local().Format(time.DateTime), h.Loop, h.Launches, h.Removals))
		if len(names) == completionsMost {
			break
		}
	}
	return names
}

func (f *pastFlags) decision(ctx context.Context, cmd *cobra.Command, id journal.ID) (view.Decision, error) {
	file, err := f.plans(ctx, cmd)
	if err != nil {
		return view.Decision{}, err
	}
	e, err := file.Find(id)
	if err != nil {
		return view.Decision{}, &statusError{err, statusNoSubject}
	}
	var whole *record.Decision
	if f.path == "" {
		if whole, err = f.whole(ctx, e.ID); err != nil {
			return view.Decision{}, err
		}
	}
	return history.DecisionOf(file, id, whole)
}

// historyFlags say what of the past is shown.
type historyFlags struct {
	since, until, around string
	reason, pool         string
	scope                scopeFlags
	all, price           bool
}

func newHistory() *cobra.Command {
	f, h := &pastFlags{}, &historyFlags{}
	cmd := &cobra.Command{
		Use: "history", Short: "Show what was done lately: launches, replacements, removals, cancellations, prices", Args: cobra.NoArgs,
		Long: `Show what past decisions did, the newest first, with what came of it; below that, for each disruption
reason and NodePool, how many nodes went, how many were kept because their commands were cancelled, and
why; and what the nodes cost over that time. dovetail decision ID shows one of them in full.

--since and --until take a duration (90m, 12h, 7d: so long ago) or a time (03:00, "2026-11-26 03:00", RFC 3339).
--around takes a time, and shows half an hour before and after it. --reason is one of Drifted, Empty,
Expired, Interrupted, Underutilized, Unhealthy, provisioning, static; or drift, expiry, consolidation,
interruption, repair.

The replica that leads is asked, as by dovetail explain. With --journal a file is read instead.

The exit status is 0 whether or not anything was done, and 5 if no controller can be reached.`,
		Example: `  dovetail history --since 1h
  dovetail history --since 1h -n shop
  dovetail history --since 1h -o jsonl
  dovetail history --reason drift --since 12h --pool general
  dovetail history --around 03:00 --price
  dovetail history --journal /var/lib/dovetail -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.show.check(cmd); err != nil {
				return err
			}
			filter, err := h.filter(time.Now())
			if err != nil {
				return wrongUse(cmd, err)
			}
			file, err := f.plans(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			v, err := history.Of(file, filter)
			if err != nil {
				return err
			}
			if v.Prices != nil && !h.price {
				v.Prices.Points = nil
			}
			return f.show.print(cmd.OutOrStdout(), &v)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&h.since, "since", "", "from so long ago, or from that time on; empty: from the oldest that is kept")
	cmd.Flags().StringVar(&h.until, "until", "", "until so long ago, or until that time; empty: until now")
	cmd.Flags().StringVar(&h.around, "around", "", "half an hour before and after that time")
	cmd.Flags().StringVar(&h.reason, "reason", "", "only for that reason")
	cmd.Flags().StringVar(&h.pool, "pool", "", "only of that NodePool")
	h.scope.addNamespace(cmd)
	cmd.Flags().BoolVar(&h.all, "all", false, "also what changes no node: pods placed and refused, taints, commands that were not begun")
	cmd.Flags().BoolVar(&h.price, "price", false, "also the price of the nodes at each decision at which it changed")
	cmd.MarkFlagsMutuallyExclusive("around", "since")
	cmd.MarkFlagsMutuallyExclusive("around", "until")
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(history.ReasonNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (h *historyFlags) filter(now time.Time) (*history.Filter, error) {
	out := &history.Filter{Pool: strings.TrimPrefix(h.pool, "nodepool/"), Namespace: h.scope.namespace, All: h.all}
	for _, f := range []struct {
		flag, text string
		into       *time.Time
	}{{"--since", h.since, &out.Since}, {"--until", h.until, &out.Until}, {"--around", h.around, &out.Since}} {
		if f.text == "" {
			continue
		}
		at, err := timeOf(f.text, now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.flag, err)
		}
		*f.into = at
	}
	if h.around != "" {
		out.Since, out.Until = out.Since.Add(-aroundSpan), out.Since.Add(aroundSpan)
	}
	if !out.Until.IsZero() && out.Until.Before(out.Since) {
		return nil, errors.New("--until is before --since")
	}
	if h.reason == "" {
		return out, nil
	}
	if out.Reasons = history.Reasons(h.reason); out.Reasons == nil {
		return nil, fmt.Errorf("--reason is %q, must be %s, or drift, expiry, consolidation, interruption, repair", h.reason, strings.Join(history.ReasonNames(), ", "))
	}
	return out, nil
}

// timeOf reads a time: how long ago, a time of day, which is the last one, or a date and time. Without a zone
// it is in that of this computer.
func timeOf(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days, "%d", &n); err == nil && fmt.Sprint(n) == days && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			today := time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
			if today.After(now) {
				today = today.AddDate(0, 0, -1)
			}
			return today, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: give how long ago (90m, 12h, 7d), a time of day (03:00), or a date and time (2026-11-26 03:00)", text)
}
