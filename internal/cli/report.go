package cli

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/redact"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

// reportedMost is how many decisions are in a report.
const reportedMost = 5

// reportFlags say what a report is about and where it is written.
type reportFlags struct {
	journalFlags
	subjectNamespace, file string
	redact, list           bool
}

// subjectReport is what is known of a subject.
type subjectReport struct {
	subject  journal.Subject
	answers  []journal.Answer
	overview *view.Overview // nil: no controller was asked
	shared   []journal.Shared
	notes    []string
}

// part is one file of a report.
type part struct {
	name, what string
	text       []byte
}

func newReport() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use: "report [KIND] NAME", Short: "Write what is known of a pod, node or pool to one file that can be attached to an issue", Args: cobra.RangeArgs(1, 2),
		Long: fmt.Sprintf(`Write to a zip archive what is known of a subject, which is named as for dovetail explain: what it does now, what
was decided about it, the state of the cluster, versions, and the newest decisions about it (%d at most) with
their snapshots. Names, labels and texts that people chose are replaced, the same ones by the same in all
parts, unless --redact=false is given. What is in the archive is listed before it is written, and with
--list nothing is written.

The archive can be read in the place of a journal:

  dovetail replay FILE --all
  dovetail explain pod NAME --journal FILE

The replica that leads is asked, as by dovetail explain. With --journal a file is read instead; then there is
no state of the cluster.

The exit status is 4 if there is no such subject, and 5 if no controller can be reached.`, reportedMost),
		Example: `  dovetail report pod shop/web-1
  dovetail report node ip-10-0-1-7 --list
  dovetail report nodepool general -o general.zip --redact=false`,
		RunE: func(cmd *cobra.Command, args []string) error {
			subject, err := parseSubject(args, f.subjectNamespace)
			if err != nil {
				return wrongUse(cmd, err)
			}
			return f.report(cmd, subject)
		},
	}
	f.addPath(cmd)
	f.addController(cmd)
	cmd.Flags().StringVarP(&f.subjectNamespace, "namespace", "n", "", "namespace of the pod, workload or CapacityBuffer; empty: any")
	cmd.Flags().StringVarP(&f.file, "output", "o", "", "file to write; - is standard output, empty dovetail-report-TIME.zip")
	cmd.Flags().BoolVar(&f.redact, "redact", true, "replace the names, labels and texts that people chose")
	cmd.Flags().BoolVar(&f.list, "list", false, "say what would be in the archive, and write nothing")
	return cmd
}

// report gathers what is known, says what that is, and writes it.
func (f *reportFlags) report(cmd *cobra.Command, subject journal.Subject) error {
	r, err := f.gather(cmd, subject)
	if err != nil {
		return err
	}
	if f.redact {
		if err := r.redacted(); err != nil {
			return err
		}
	}
	now := time.Now()
	parts, err := r.parts(f.redact, now)
	if err != nil {
		return err
	}
	say := cmd.ErrOrStderr()
	for _, p := range parts {
		fmt.Fprintf(say, "%-34s %9.1f kB  %s\n", p.name, float64(len(p.text))/1e3, p.what)
	}
	for _, note := range r.notes {
		fmt.Fprintf(say, "dovetail: note: %s\n", note)
	}
	if f.list {
		return nil
	}
	archive, err := zipOf(parts, now)
	if err != nil {
		return err
	}
	name := cmp.Or(f.file, "dovetail-report-"+now.UTC().Format("20060102-150405")+".zip")
	if err := writeFile(name, cmd.OutOrStdout(), archive); err != nil || name == toStdout {
		return err
	}
	fmt.Fprintf(say, "wrote %s (%.1f kB)%s\n", name, float64(len(archive))/1e3, whatNames(f.redact))
	return nil
}

// gather asks for all that is known.
func (f *reportFlags) gather(cmd *cobra.Command, subject journal.Subject) (*subjectReport, error) {
	ctx := cmd.Context()
	r := &subjectReport{subject: subject}
	var file *journal.File
	var err error
	if f.path == "" {
		if f.address, err = f.locate(ctx); err != nil { // once for all questions
			return nil, err
		}
		r.answers, err = f.askAbout(ctx, subject)
		if err == nil {
			r.overview = &view.Overview{}
			if failed := askAt(ctx, f.address, "overview", nil, r.overview); failed != nil {
				r.overview, r.notes = nil, append(r.notes, "the state of the cluster is not in it: "+failed.Error())
			}
		}
	} else {
		if r.answers, err = f.explain(ctx, subject, cmd.ErrOrStderr()); err == nil {
			file, err = journal.Read(f.path)
		}
	}
	if err != nil {
		return nil, err
	}
	return r, f.decisions(ctx, r, file)
}

// decisions adds the newest decisions about the subject that have their snapshots. file is nil if a controller is asked.
func (f *reportFlags) decisions(ctx context.Context, r *subjectReport, file *journal.File) error {
	for _, id := range decisionsIn(r.answers) {
		from, err := file, error(nil)
		if from == nil {
			from, err = f.one(ctx, id)
		}
		var e *journal.Entry
		if err == nil {
			e, err = from.Find(id)
		}
		var d *record.Decision
		if err == nil {
			d, err = e.Decision()
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.notes = append(r.notes, fmt.Sprintf("decision %s is not in it: %v", id, err))
			continue
		}
		r.shared = append(r.shared, journal.Shared{Head: e.Head, Decision: d})
	}
	slices.SortFunc(r.shared, func(a, b journal.Shared) int { return a.Head.At.Compare(b.Head.At) })
	return nil
}

// decisionsIn returns the newest decisions that answers name.
func decisionsIn(answers []journal.Answer) (ids []journal.ID) {
	var says []journal.Say
	for i := range answers {
		says = append(says, answers[i].Says...)
	}
	slices.SortStableFunc(says, func(a, b journal.Say) int { return b.Last.Compare(a.Last) })
	for i := range says {
		if id := says[i].Decision; !id.IsZero() && !slices.Contains(ids, id) && len(ids) < reportedMost {
			ids = append(ids, id)
		}
	}
	return ids
}

// redacted replaces what people chose, the same by the same everywhere.
func (r *subjectReport) redacted() error {
	n := redact.New()
	for i := range r.answers {
		meet(n, &r.answers[i])
	}
	list := make([]*record.Decision, len(r.shared))
	for i := range r.shared {
		list[i] = r.shared[i].Decision
	}
	results, err := redact.Decisions(list, n)
	if err != nil {
		return err
	}
	for i := range results {
		r.shared[i].Decision = results[i].Decision
		if !results[i].Same {
			r.notes = append(r.notes, fmt.Sprintf("redacted, decision %s is made otherwise", r.shared[i].ID))
		}
	}
	for i := range r.notes {
		r.notes[i] = n.Text(r.notes[i])
	}
	if r.overview != nil {
		if err := n.JSON(r.overview); err != nil {
			return err
		}
	}
	subject := []string{r.subject.Namespace, r.subject.Name}
	if err := n.JSON(&subject); err != nil {
		return err
	}
	r.subject.Namespace, r.subject.Name = subject[0], subject[1]
	return n.JSON(&r.answers)
}

// meet shows the names in an answer.
func meet(n *redact.Names, a *journal.Answer) {
	class := map[string]redact.Class{
		journal.KindPod: redact.Pod, journal.KindNode: redact.Node, journal.KindClaim: redact.Node, journal.KindPool: redact.Pool, journal.KindBuffer: redact.Buffer,
	}[a.Kind]
	namespace, name, ok := strings.Cut(a.Name, "/")
	if !ok {
		namespace, name = "", a.Name
	}
	n.Name(redact.Namespace, namespace)
	if a.Kind != journal.KindType {
		n.Name(cmp.Or(class, redact.Owner), name)
	}
	n.Name(redact.UID, a.UID)
	n.Name(redact.Node, a.Node)
	n.Name(redact.Node, a.Claim)
	n.Name(redact.Pool, a.Pool)
}

// parts are the files of the report.
func (r *subjectReport) parts(redacted bool, now time.Time) ([]part, error) {
	var text, decisions, answers bytes.Buffer
	fmt.Fprintf(&text, "Report about %s, %s\n%s", r.subject, now.UTC().Format(time.RFC3339), versionText())
	if n := len(r.shared); n > 0 {
		fmt.Fprintf(&text, "controller: %s\n", orUnknown(r.shared[n-1].Written))
	}
	if redacted {
		fmt.Fprintln(&text, "Names, labels and texts that people chose are replaced.")
	}
	fmt.Fprintln(&text)
	err := journal.Print(&text, r.answers, now)
	if err == nil && r.overview != nil {
		fmt.Fprintln(&text)
		err = table.Write(&text, r.overview, table.Options{Now: now})
	}
	for _, note := range r.notes {
		fmt.Fprintf(&text, "\nnote: %s\n", note)
	}
	if err == nil {
		enc := json.NewEncoder(&answers)
		enc.SetIndent("", "  ")
		err = enc.Encode(r.answers)
	}
	parts := []part{
		{"report.txt", "what it does now, what was decided about it, state of the cluster, versions", nil},
		{"explain.json", "what was decided about it, for programs", answers.Bytes()},
	}
	if err == nil && len(r.shared) > 0 {
		err = r.writeDecisions(&decisions, redacted)
		what := fmt.Sprintf("decisions %s, with what was seen of the cluster", r.ids())
		parts = append(parts, part{"decisions" + journal.Suffix, what, decisions.Bytes()})
	}
	parts[0].text = text.Bytes()
	return parts, err
}

func (r *subjectReport) writeDecisions(to *bytes.Buffer, redacted bool) error {
	if !redacted {
		for i := range r.shared {
			r.shared[i].Decision, _ = unredacted(r.shared[i].Decision)
		}
	}
	return journal.WriteShared(to, r.shared)
}

func (r *subjectReport) ids() string {
	names := make([]string, len(r.shared))
	for i := range r.shared {
		names[i] = r.shared[i].ID.String()
	}
	return strings.Join(names, ", ")
}

// zipOf returns an archive.
func zipOf(parts []part, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, p := range parts {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: p.name, Method: zip.Deflate, Modified: at})
		if err == nil {
			_, err = w.Write(p.text)
		}
		if err != nil {
			return nil, errors.Join(errors.New("write the archive"), err)
		}
	}
	err := archive.Close()
	return b.Bytes(), err
}
