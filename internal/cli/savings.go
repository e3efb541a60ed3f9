package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/savings"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
)

// savingsInput is what the flags say.
type savingsInput struct {
	journalFlags // with since
	page, output string
	since        string
	files        []string
	redact       bool
	terms        savings.Terms
	management   clusterAPIInput
}

func newSavings() *cobra.Command {
	var in savingsInput
	cmd := &cobra.Command{
		Use:   "savings",
		Short: "Say what a cluster costs, what it would cost under Dovetail, and the least possible",
		Long: `Read a cluster, whoever scales it now (upstream Karpenter, Cluster Autoscaler, node groups), and
say what its nodes cost, what they would cost when Dovetail had consolidated them, and what nodes
for these pods must cost at least. Nothing needs to be installed, the cluster is only read, no
cloud is asked, and nothing leaves this computer.

A table goes to the terminal and one HTML page to a file (--html), which needs nothing else and can
be passed on: nodes by price, NodePools, workloads, the steps and evictions, what was left alone
and why, and what the figures presume. --redact replaces the names that people chose.

Nodes that are of no NodePool are taken to be of NodePools that are proposed and printed. Prices are
those of the catalog in this program (EC2, us-east-1, May 2025; KWOK's own). A node without a known
price is left alone, and said to be.

Of Cluster API prices are those that its MachineDeployments, ClusterAPINodeClasses and
--cluster-api-prices-file say (docs/clusterapi.md): without them there is no answer. Its objects are
read, with get and list, in the management cluster of --cluster-api-kubeconfig or --cluster-api-url,
else in the cluster itself, else among the files of -f. Nodes of a MachineDeployment that somebody else
scales are a node group. With --redact nothing of Cluster API is read: instance types have its names.

--since answers the same about the pods that asked for a node in a span of time, by the decisions that
Dovetail's controller keeps, or a file of them (--journal): what the nodes cost that were launched for
them, what they must cost at least, and what one decision about all these pods at once would launch. That
needs Dovetail's controller: nothing else records what it decided about. It takes a duration (90m, 12h,
7d: so long ago) or a time (03:00, RFC 3339), and writes no page.

The right to list is enough (deploy/kubernetes/optional/savings-reader.yaml), on: pods, nodes, namespaces,
limitranges, persistentvolumes, persistentvolumeclaims; apps daemonsets; policy
poddisruptionbudgets; storage.k8s.io storageclasses, csinodes, volumeattachments; node.k8s.io
runtimeclasses; scheduling.k8s.io podgroups; karpenter.sh nodepools, nodeclaims.

The exit status is 0 when there is an answer, 1 when there is none, 2 when it was called wrongly; with
--since 5 if no controller can be reached.`,
		Example: `  dovetail savings
  dovetail savings --redact --html for-the-team.html
  dovetail savings -f cluster.json.gz --spot
  dovetail savings --html= -o json | jq .afterPerHour
  dovetail savings --since 24h
  dovetail savings --since 7d --journal /var/lib/dovetail`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.validate(cmd.Flags()); err != nil {
				return wrongUse(cmd, err)
			}
			if in.since != "" {
				return runSavingsWindow(cmd, &in)
			}
			return runSavings(cmd, &in)
		},
	}
	fs := cmd.Flags()
	in.addPath(cmd)
	in.addController(cmd)
	fs.StringVar(&in.since, "since", "", "about the pods that asked for a node from so long ago, or from that time on; empty: about the nodes that there are")
	fs.StringSliceVarP(&in.files, "filename", "f", nil, "read files instead of a cluster: what dovetail snapshot wrote, or kubectl get -o yaml; plain or .gz")
	in.management.addFlags(fs)
	fs.StringVar(&in.page, "html", "savings.html", "where to write the page; empty: nowhere")
	fs.StringVarP(&in.output, "output", "o", simulate.Table, "table, or json")
	fs.BoolVar(&in.redact, "redact", false, "replace the names and labels that people chose")
	fs.BoolVar(&in.terms.Spot, "spot", false, "let proposed NodePools launch spot where nodes are on demand now")
	fs.BoolVar(&in.terms.OwnTypes, "own-types", false, "let proposed NodePools launch only the instance types that their nodes have")
	return cmd
}

// validate returns what is wrong with the flags.
func (in *savingsInput) validate(given *pflag.FlagSet) error {
	if in.output != simulate.Table && in.output != simulate.JSON {
		return fmt.Errorf("--output is %q, must be table or json", in.output)
	}
	if len(in.files) > 0 && in.kubeconfig != "" {
		return errors.New("give either --kubeconfig or -f: one says which cluster to read, the other what was read of one")
	}
	if err := in.validateClusterAPI(given); err != nil || in.since != "" {
		return err
	}
	for _, flag := range windowFlags {
		if given.Changed(flag) {
			return fmt.Errorf("--%s is for --since: without it lists of the cluster are read", flag)
		}
	}
	return nil
}

// validateClusterAPI returns what is wrong with the flags of Cluster API.
func (in *savingsInput) validateClusterAPI(given *pflag.FlagSet) error {
	if name := in.management.givenOf(given); in.redact && name != "" {
		return fmt.Errorf("--redact can't be given with --%s: instance types have the names and labels of MachineDeployments", name)
	}
	source := ""
	if in.since != "" {
		source = "--since"
	}
	return in.management.validate(given, source)
}

// windowFlags mean something with --since alone, clusterFlags only without it.
var windowFlags, clusterFlags = []string{"journal", "address", "controller-namespace"}, []string{"filename", "html", "redact", "spot", "own-types"} //nolint:gochecknoglobals // constants

// runSavingsWindow answers about the pending pods of a span of time.
func runSavingsWindow(cmd *cobra.Command, in *savingsInput) error {
	for _, flag := range clusterFlags {
		if cmd.Flags().Changed(flag) {
			return wrongUse(cmd, fmt.Errorf("--%s can't be given with --since, which reads the decisions of a controller and not the cluster", flag))
		}
	}
	since, err := timeOf(in.since, time.Now())
	if err != nil {
		return wrongUse(cmd, fmt.Errorf("--since: %w", err))
	}
	file, err := in.journalFlags.read(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return noJournal(err, in.path)
	}
	w, err := compute(cmd, fmt.Sprintf("deciding about %d decisions", len(file.Decisions)), func() (*savings.Window, error) {
		return savings.MakeWindow(file, in.where(), since)
	})
	if errors.Is(err, savings.ErrNoDemand) {
		return fmt.Errorf("%w since %s: %s", err, since.Format(time.RFC3339), known(file, in.where()))
	}
	if err != nil {
		return err
	}
	if in.output == simulate.JSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(w)
	}
	fmt.Fprint(cmd.OutOrStdout(), w.Table())
	return nil
}

// noJournal says what is needed when no controller hands a journal over.
func noJournal(err error, path string) error {
	var status *statusError
	if path != "" || !errors.As(err, &status) || status.status != statusUnreachable {
		return err
	}
	return &statusError{fmt.Errorf("--since needs the decisions that Dovetail's controller keeps, and none hands them over (%w); "+
		"Karpenter and Cluster Autoscaler keep none: leave out --since to ask about the nodes that there are, or give a file of a journal with --journal", err), statusUnreachable}
}

func runSavings(cmd *cobra.Command, in *savingsInput) error {
	done := reportWhenLong(cmd.ErrOrStderr(), "reading")
	objects, name, err := in.read(cmd.Context())
	done()
	if err != nil {
		return err
	}
	report, err := compute(cmd, fmt.Sprintf("deciding about %d objects", len(objects)), func() (*savings.Report, error) {
		return in.report(cmd.Context(), savings.Input{
			Objects: objects, Cluster: name, At: time.Now(), Redact: in.redact, Terms: in.terms, Clock: simulate.Clock{Now: time.Now, CPU: cpuTime},
		})
	})
	if err != nil {
		return err
	}
	if in.output == simulate.JSON {
		b, err := json.Marshal(report)
		if err != nil {
			return fmt.Errorf("print the report: %w", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
	} else {
		fmt.Fprint(cmd.OutOrStdout(), report.Table())
	}
	if in.page == "" {
		return nil
	}
	f, err := os.OpenFile(in.page, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	err = report.WritePage(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote the page %s\n", in.page)
	return nil
}

// report returns the report, with what Cluster API's objects say of prices. That these could not be read is an error if they were
// asked for, or if there is no answer without them.
func (in *savingsInput) report(ctx context.Context, of savings.Input) (*savings.Report, error) {
	if in.redact {
		return savings.Make(of)
	}
	isAskedFor := in.management.isNamed() || in.management.settings.ClusterAPIPricesFile != ""
	var unread []error
	groups, err := in.management.groups(ctx, in.kubeconfig, in.files, of.Objects)
	if err != nil {
		unread = append(unread, fmt.Errorf("node groups of Cluster API: %w", err))
	}
	offered := in.management.classes(ctx, in.kubeconfig, in.files)
	of.Groups, of.Join = groups, offered.join
	r, err := savings.Make(of)
	if offered.failed != nil {
		unread = append(unread, offered.failed)
	}
	if len(unread) > 0 && (isAskedFor || err != nil || r.Nodes == 0) {
		return nil, errors.Join(unread...)
	}
	if err != nil {
		return nil, err
	}
	if r.Nodes == 0 && len(r.Alone) > 0 && len(offered.notes) > 0 {
		return nil, errors.New("no node has a price: " + strings.Join(offered.notes, "; "))
	}
	for _, err := range unread {
		r.Presumed = append(r.Presumed, "No price is known from there: "+err.Error()+".")
	}
	r.Presumed = append(r.Presumed, offered.notes...)
	if groups != nil {
		r.Presumed = append(r.Presumed, groups.Notes...)
	}
	return r, nil
}

// read returns the objects and the name of where they are from.
func (in *savingsInput) read(ctx context.Context) ([]client.Object, string, error) {
	if len(in.files) > 0 {
		objects, err := simulate.PresentIn(in.files)
		return objects, in.files[0], err
	}
	reader, host, err := clusterReader(in.kubeconfig)
	if err != nil {
		return nil, "", err
	}
	objects, err := simulate.Present(ctx, reader)
	return objects, host, err
}
