package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
)

const (
	// statusOther is the exit status of a replay that gave another plan.
	statusOther = 3
	// differencesShown is how many lines of a difference are shown.
	differencesShown = 40
)

// redone is one decision that was decided again.
type redone struct {
	journal.Head
	Same bool `json:"same"`
	// Differences are the lines of the plans in which they differ.
	Differences []string      `json:"differences,omitempty"`
	RedoneIn    time.Duration `json:"redoneInNanoseconds"`
	// Skipped says why it was not decided again; empty: it was.
	Skipped string `json:"skipped,omitempty"`
}

func newReplay() *cobra.Command {
	var from journalFlags
	var output, id string
	var all bool
	cmd := &cobra.Command{
		Use:   "replay [FILE]",
		Short: "List past decisions, and make one of them again",
		Long: `List the decisions of a journal: when which loop decided, about how many pods, and the
result. With --id, or when there is just one, make it again from its recorded snapshot,
with this program's solver, and say whether the plan is the same. No cluster and no cloud
is asked or changed.

$/H is the known price of the nodes that were not being deleted, AFTER is their price with
the plan. NEW is how many nodes are launched, GO how many are removed.

FILE is a journal file, a directory of them, or a single record. Without it the
replica that leads is asked, as by dovetail explain.

With --all the decisions whose snapshots are no longer kept are skipped, and counted: a controller
keeps plans for longer than snapshots.

The exit status is 0 when the plan is the same (or nothing was to be decided again), 3 when it
is another, 4 when there is no decision with the ID, and 1 when there is no snapshot to decide again from.`,
		Example: `  dovetail replay
  dovetail replay 17.dovetail-journal
  dovetail replay /var/lib/dovetail --id 17
  dovetail replay --id 17.6fb9m0
  dovetail replay /var/lib/dovetail --all`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(cmd, output); err != nil {
				return err
			}
			if len(args) > 0 {
				from.path = args[0]
			}
			file, err := from.readFor(cmd, id)
			if err != nil {
				return err
			}
			var chosen []journal.Entry
			switch {
			case id != "":
				e, err := find(cmd, file, id)
				if err != nil {
					return err
				}
				chosen = []journal.Entry{*e}
			case all || len(file.Decisions) == 1:
				chosen = file.Decisions
			}
			return replay(cmd.OutOrStdout(), file, chosen, output)
		},
	}
	from.addController(cmd)
	cmd.Flags().StringVar(&id, "id", "", "make this one again: its ID, or its number alone, which is the newest of that number")
	cmd.Flags().BoolVar(&all, "all", false, "make all of them again")
	cmd.Flags().StringVarP(&output, "output", "o", simulate.Table, "table or json")
	cmd.MarkFlagsMutuallyExclusive("id", "all")
	return cmd
}

// readFor returns the journal; of a controller, if an ID is given, that decision alone, which may be on its
// disk only.
func (f *journalFlags) readFor(cmd *cobra.Command, text string) (*journal.File, error) {
	if f.path != "" || text == "" {
		return f.read(cmd.Context(), cmd.ErrOrStderr())
	}
	id, err := journal.ParseID(text)
	if err != nil {
		return nil, wrongUse(cmd, fmt.Errorf("--id: %w", err))
	}
	return f.one(cmd.Context(), id)
}

// find returns the decision that a person names.
func find(cmd *cobra.Command, file *journal.File, text string) (*journal.Entry, error) {
	id, err := journal.ParseID(text)
	if err != nil {
		return nil, wrongUse(cmd, fmt.Errorf("--id: %w", err))
	}
	e, err := file.Find(id)
	if err != nil {
		return nil, &statusError{err, statusNoSubject}
	}
	return e, nil
}

// replay lists the decisions, or decides those that were chosen again.
func replay(w io.Writer, file *journal.File, chosen []journal.Entry, output string) error {
	listed := chosen
	if len(chosen) == 0 {
		listed = file.Decisions
	}
	if output == simulate.Table {
		if err := list(w, listed); err != nil {
			return err
		}
	}
	again, others, skipped := make([]redone, 0, len(chosen)), 0, 0
	for i := range chosen {
		r, err := redo(&chosen[i])
		switch {
		case errors.Is(err, journal.ErrNoSnapshot) && len(chosen) > 1:
			r = redone{Head: chosen[i].Head, Skipped: err.Error()}
			skipped++
		case err != nil:
			return err
		case !r.Same:
			others++
		}
		again = append(again, r)
		if output == simulate.Table && r.Skipped == "" && (!r.Same || len(chosen) == 1) {
			r.print(w)
		}
	}
	if output == simulate.JSON {
		if err := printJSON(w, listed, again); err != nil {
			return err
		}
	} else if len(again) > 1 {
		fmt.Fprintf(w, "\n%d decided again: %d with the same plan, %d with another%s\n", len(again)-skipped, len(again)-others-skipped, others, skippedText(skipped))
	}
	switch {
	case others > 0:
		return &statusError{status: statusOther}
	case skipped > 0 && skipped == len(again):
		return errors.New("no decision has its snapshot any more, so none was decided again")
	}
	return nil
}

// skippedText says how many decisions were not decided again; none: nothing.
func skippedText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d skipped, whose snapshots are no longer kept", n)
}

func list(w io.Writer, entries []journal.Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintln(w, "the journal is empty")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "ID\tAT\tLOOP\tPODS\tPLACED\tLAUNCHED\tREFUSED\tNODES\tNEW\tGO\t$/H\tAFTER\tTOOK\tAGAIN\t\n")
	for i := range entries {
		e := &entries[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.2f\t%.2f\t%s\t%d\t%s\n", e.ID, e.At.Local().Format(time.DateTime), e.Loop, e.Pending,
			e.Placed, e.Launched, e.Refused, e.Nodes, e.Launches, e.Removals, e.PriceBefore, e.PriceAfter, e.Took.Round(time.Millisecond/10), e.Again, wrong(&e.Head))
	}
	return t.Flush()
}

// wrong says what went wrong with a decision.
func wrong(h *journal.Head) string {
	switch {
	case h.Bug != "":
		return "  bug: " + h.Bug
	case h.Error != "":
		return "  error: " + h.Error
	default:
		return ""
	}
}

// redo decides a decision again.
func redo(e *journal.Entry) (redone, error) {
	d, err := e.Decision()
	if err != nil {
		return redone{}, err
	}
	start := time.Now()
	again := d.Redo()
	r := redone{Head: e.Head, RedoneIn: time.Since(start)}
	switch {
	case again.Bug != d.Bug:
		r.Differences = []string{"- bug: " + d.Bug, "+ bug: " + again.Bug}
	default:
		r.Differences = record.Differences(d, again)
	}
	r.Same = len(r.Differences) == 0
	return r, nil
}

func (r *redone) print(w io.Writer) {
	took := r.RedoneIn.Round(time.Millisecond / 10)
	if r.Same {
		fmt.Fprintf(w, "\n%s decided again in %s: same plan\n", r.ID, took)
		return
	}
	fmt.Fprintf(w, "\n%s decided again in %s: another plan (- then, by version %s; + now, by version %s)\n", r.ID, took, orUnknown(r.Written), version)
	for i, line := range r.Differences {
		if i == differencesShown {
			fmt.Fprintf(w, "  and %d more lines\n", len(r.Differences)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", line)
	}
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// printJSON writes the heads of the decisions, and where they were decided again what
// came of it.
func printJSON(w io.Writer, listed []journal.Entry, again []redone) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if len(again) > 0 {
		return enc.Encode(again)
	}
	heads := make([]journal.Head, len(listed))
	for i := range listed {
		heads[i] = listed[i].Head
	}
	return enc.Encode(heads)
}
