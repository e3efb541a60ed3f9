package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/redact"
)

// toStdout is the name of a file that is standard output.
const toStdout = "-"

// shareFlags say which decision is written where.
type shareFlags struct {
	journalFlags
	file   string
	redact bool
}

func newShare() *cobra.Command {
	f := &shareFlags{}
	cmd := &cobra.Command{
		Use: "share ID", Short: "Write one decision to a file that can be given to others and made again there", Args: cobra.ExactArgs(1),
		Long: `Write one decision with its snapshot to a file: what was seen, how it was set, what was decided, and what was
said about each pod and node. Whoever gets it needs no cluster:

  dovetail replay FILE                     makes it again
  dovetail explain pod NAME --journal FILE
  dovetail decision ID --journal FILE

Images, commands, environment, secrets and annotations are never in it. Names, namespaces, labels, requests,
prices and zones are. With --redact those that people chose are replaced: what was equal stays equal and
sorts as before, so the same is decided. It is tried before the file is written, and said if it is not so.

The ID is in events, logs, the annotation dovetail.sh/decision of NodeClaims, and in dovetail history.
The replica that leads is asked, as by dovetail explain. With --journal a file is read instead.

The exit status is 4 if there is no such decision, and 5 if no controller can be reached.`,
		Example: `  dovetail share 17
  dovetail share 17.6fb9m0 --redact -o decision.txt
  dovetail share 17 --journal /var/lib/dovetail --redact -o - | gzip > decision.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := journal.ParseID(strings.TrimPrefix(args[0], "decision/"))
			if err != nil {
				return wrongUse(cmd, err)
			}
			return f.share(cmd, id)
		},
	}
	f.addPath(cmd)
	f.addController(cmd)
	cmd.Flags().StringVarP(&f.file, "output", "o", "", "file to write; - is standard output, empty decision-ID.txt")
	cmd.Flags().BoolVar(&f.redact, "redact", false, "replace the names, labels and texts that people chose")
	completeDecisions(cmd, &f.journalFlags)
	return cmd
}

// share writes a decision.
func (f *shareFlags) share(cmd *cobra.Command, id journal.ID) error {
	e, err := f.entry(cmd.Context(), cmd.ErrOrStderr(), id)
	if err != nil {
		return err
	}
	d, err := e.Decision()
	if errors.Is(err, journal.ErrNoSnapshot) {
		return fmt.Errorf("%w: it can't be shared (dovetail decision %s shows what is left of it)", err, e.ID)
	}
	if err != nil {
		return err
	}
	shared, notes, err := f.shared(d)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "dovetail: note: %s\n", note)
	}
	var text bytes.Buffer
	if err := journal.WriteShared(&text, []journal.Shared{{Head: e.Head, Decision: shared}}); err != nil {
		return err
	}
	name := cmp.Or(f.file, shareName(e.ID))
	if err := writeFile(name, cmd.OutOrStdout(), text.Bytes()); err != nil {
		return err
	}
	if name == toStdout {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote decision %s with %d pending pods, %d nodes and %d NodePools to %s (%.1f kB)%s\n",
		e.ID, len(d.Snapshot.Pending), len(d.Snapshot.Nodes), len(d.Snapshot.Pools), name, float64(text.Len())/1e3, whatNames(f.redact))
	return nil
}

// shareName returns the name of the file that a decision is written to.
func shareName(id journal.ID) string { return "decision-" + id.String() + ".txt" }

// whatNames says what names are in a file.
func whatNames(redacted bool) string {
	if redacted {
		return "; names, labels and texts are replaced"
	}
	return "; names, namespaces and labels are in it: --redact replaces them"
}

// entry returns the entry of a decision: of a controller that decision alone is asked for.
func (f *shareFlags) entry(ctx context.Context, stderr io.Writer, id journal.ID) (*journal.Entry, error) {
	var file *journal.File
	var err error
	if f.path != "" {
		file, err = f.read(ctx, stderr)
	} else {
		file, err = f.one(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	e, err := file.Find(id)
	if err != nil {
		return nil, &statusError{err, statusNoSubject}
	}
	return e, nil
}

// shared returns the decision as it is to be written, and what whoever shares it should know.
func (f *shareFlags) shared(d *record.Decision) (*record.Decision, []string, error) {
	if !f.redact {
		d, notes := unredacted(d)
		return d, notes, nil
	}
	r, err := redact.Decision(d)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case !r.Same:
		return r.Decision, []string{fmt.Sprintf("redacted, the decision is made otherwise, in %d lines of its plan: say so where you share it", len(r.Differences))}, nil
	case !r.Remade:
		return r.Decision, []string{"this program makes another plan of the decision than the one that is recorded, redacted or not; sentences are redacted word by word"}, nil
	}
	return r.Decision, nil, nil
}

// unredacted returns the decision with the reasons why nodes stay, if they can be found again, and notes.
func unredacted(d *record.Decision) (*record.Decision, []string) {
	again := d.Redo()
	if again.Bug != "" || !record.SamePlan(d, again) {
		return d, []string{"this program makes another plan of the decision (dovetail replay shows both)"}
	}
	whole := *d
	whole.Disruption, whole.Stays = again.Disruption, record.Stays{}
	return &whole, nil
}

// writeFile writes a file that only its owner can read, or to standard output.
func writeFile(name string, stdout io.Writer, text []byte) error {
	if name == toStdout {
		_, err := stdout.Write(text)
		return err
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}
