package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
)

// answerMost bounds what is read of an answer.
const answerMost = 64 << 20

func newExplain() *cobra.Command {
	var from journalFlags
	var output, namespace string
	var types bool
	cmd := &cobra.Command{
		Use:   "explain [KIND] NAME",
		Short: "Say why a pod is where it is, and why a node was launched, stays or goes",
		Long: `Ask a controller about a pod, a node, a NodeClaim, a NodePool, a CapacityBuffer, a workload or an
instance type. The first line says what it does or waits for now, the second until when or what
would end that. Below stands what was decided about it, the newest first: the target node of a pod,
or why no node can take it (the nearest miss of each pool), since when, and how often; what a node
was launched for, why it stays, or why it is removed; what was launched from a NodePool; where a
CapacityBuffer has room. Of a workload the pods are counted by what they wait for; of an instance type
it is said which pools launch it, for how much, and what is short. With --types it is said of a node or NodeClaim why it
is of its instance type: which types hold its pods, and why each cheaper one was passed over.

The name is NAME, NAMESPACE/NAME, KIND NAME or KIND/NAME. The kinds are pod, node, nodeclaim, nodepool,
capacitybuffer, type, deployment, statefulset, daemonset, replicaset and job, and their short forms.
Without a kind it is a pod, node, NodeClaim or CapacityBuffer.

The replica that leads is asked on its debug port, through the API server, as kubectl port-forward
does; that needs the rights to list leases and to create pods/portforward. With --address another
address is asked. With --journal a file is read instead: it does not have what is now, nor workloads.

The exit status is 4 if there is no such subject, and 5 if no controller can be reached.`,
		Example: `  dovetail explain pod web-7x2kq -n shop
  dovetail explain shop/web-7x2kq --address http://localhost:9090
  dovetail explain node/general-9f6mz --journal /var/lib/dovetail
  dovetail explain deployment web -n shop
  dovetail explain nodeclaim general-9f6mz --types
  dovetail explain nodepool/baseline
  dovetail explain type m7g.large
  dovetail explain capacitybuffer/shop/headroom
  dovetail explain web-7x2kq -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(cmd, output); err != nil {
				return err
			}
			subject, err := parseSubject(args, namespace)
			if err != nil {
				return wrongUse(cmd, err)
			}
			answers, err := from.explain(cmd.Context(), subject, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if types {
				if err := from.rank(cmd.Context(), answers); err != nil {
					return err
				}
			}
			if output == simulate.JSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(answers)
			}
			return journal.Print(cmd.OutOrStdout(), answers, time.Now())
		},
	}
	from.addPath(cmd)
	from.addController(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the pod, workload or CapacityBuffer; empty: any")
	cmd.Flags().StringVarP(&output, "output", "o", simulate.Table, "table or json")
	cmd.Flags().BoolVar(&types, "types", false, "of a node or NodeClaim: which instance types hold its pods, and why each cheaper one was passed over")
	return cmd
}

// rank adds to answers about nodes why they are of their instance types.
func (f *journalFlags) rank(ctx context.Context, answers []journal.Answer) error {
	for i := range answers {
		if err := f.rankOne(ctx, &answers[i]); err != nil {
			return fmt.Errorf("--types: %w; the rest is said without it", err)
		}
	}
	return nil
}

// rankOne adds to an answer about a node why it is of its instance type.
func (f *journalFlags) rankOne(ctx context.Context, a *journal.Answer) error {
	id, ok := a.LaunchedBy()
	if !ok {
		return &statusError{fmt.Errorf("no decision is known to have launched %s %s", a.Kind, a.Name), statusNoSubject}
	}
	d, err := f.decisionOf(ctx, id)
	if err == nil && d == nil {
		err = &statusError{fmt.Errorf("the snapshot of decision %s is not kept any more", id), statusNoSubject}
	}
	if err != nil {
		return err
	}
	return a.Rank(d)
}

// decisionOf returns a decision with its snapshot; nil: that is not kept any more.
func (f *journalFlags) decisionOf(ctx context.Context, id journal.ID) (*record.Decision, error) {
	if f.path == "" {
		return f.whole(ctx, id)
	}
	file, err := f.read(ctx, io.Discard) // what cannot be read of it was said before
	if err != nil {
		return nil, err
	}
	return file.Whole(id)
}

// parseSubject reads what a command is asked about, which may be in a namespace.
func parseSubject(args []string, namespace string) (journal.Subject, error) {
	subject, err := journal.ParseSubject(args...)
	if err == nil && namespace != "" && subject.Namespace != "" && subject.Namespace != namespace {
		err = fmt.Errorf("%s and --namespace %s name two namespaces", subject, namespace)
	}
	subject.Namespace = cmp.Or(subject.Namespace, namespace)
	return subject, err
}

// explain returns what a journal or a controller says of a subject.
func (f *journalFlags) explain(ctx context.Context, s journal.Subject, stderr io.Writer) ([]journal.Answer, error) {
	if f.path == "" {
		return f.askAbout(ctx, s)
	}
	file, err := f.read(ctx, stderr)
	if err != nil {
		return nil, err
	}
	if journal.IsWorkload(s.Kind) || s.Kind == journal.KindType {
		return nil, fmt.Errorf("a journal does not say which %ss there are: ask the controller, or about one of its pods", s.Kind)
	}
	answers, err := file.Explain(s)
	if err == nil && len(answers) == 0 {
		err = &statusError{fmt.Errorf("no decision is about %s; %s", s, known(file, f.where())), statusNoSubject}
	}
	return answers, err
}

// askAbout asks a controller about a subject.
func (f *journalFlags) askAbout(ctx context.Context, s journal.Subject) ([]journal.Answer, error) {
	q := url.Values{"name": {s.Name}}
	if s.Kind != "" {
		q.Set("kind", s.Kind)
	}
	if s.Namespace != "" {
		q.Set("namespace", s.Namespace)
	}
	var explained journal.Explained
	err := f.ask(ctx, journal.Path+journal.ExplainPath+"?"+q.Encode(), func(answer *http.Response) error {
		if answer.Header.Get(journal.HeaderNoSubject) != "" {
			return &statusError{fmt.Errorf("there is no %s, and no decision is about one; pods that have ended are not known", s), statusNoSubject}
		}
		if err := refusal(answer); err != nil {
			return err
		}
		return json.NewDecoder(io.LimitReader(answer.Body, answerMost)).Decode(&explained)
	})
	return explained.Answers, err
}

// known says what a journal has.
func known(file *journal.File, where string) string {
	n := len(file.Decisions)
	if n == 0 {
		return fmt.Sprintf("%s has none yet", where)
	}
	return fmt.Sprintf("%s has %d, the oldest of %s; pods that kube-scheduler placed without help are in none",
		where, n, file.Decisions[0].At.Local().Format(time.DateTime))
}

func checkOutput(cmd *cobra.Command, output string) error {
	if output != simulate.Table && output != simulate.JSON {
		return wrongUse(cmd, fmt.Errorf("--output is %q, must be table or json", output))
	}
	return nil
}
