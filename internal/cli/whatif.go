package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/savings"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/decision/whatif"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// forecastMost bounds the work of a forecast in time, so that an answer comes.
const forecastMost = 40 * time.Second

// whatIfFlags say which cluster is asked about, and how the answer is drawn.
type whatIfFlags struct {
	viewFlags
	snapshot   []string
	spotToSpot bool
	management clusterAPIInput
}

func (f *whatIfFlags) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.addController(cmd)
	fs.StringSliceVar(&f.snapshot, "snapshot", nil, "read files instead of a cluster: what dovetail snapshot wrote, or kubectl get -o yaml; plain or .gz")
	f.management.addFlags(fs)
	fs.BoolVar(&f.spotToSpot, "spot-to-spot", false, "spot nodes may be replaced by spot nodes, as with the controller's gate SpotToSpotConsolidation")
	fs.StringVarP(&f.output, "output", "o", formTable, strings.Join(forms(), ", "))
}

// check returns what is wrong with the flags.
func (f *whatIfFlags) check(cmd *cobra.Command) error {
	if err := f.viewFlags.check(cmd); err != nil {
		return err
	}
	if err := f.management.validate(cmd.Flags(), ""); err != nil {
		return wrongUse(cmd, err)
	}
	return nil
}

// read returns the objects of the cluster or of files, and where they are from.
func (f *whatIfFlags) read(ctx context.Context) ([]client.Object, string, error) {
	if len(f.snapshot) > 0 {
		objects, err := simulate.PresentIn(f.snapshot)
		return objects, f.snapshot[0], err
	}
	reader, host, err := clusterReader(f.kubeconfig)
	if err != nil {
		return nil, "", err
	}
	objects, err := simulate.Present(ctx, reader)
	return objects, host, err
}

// answer asks what a change would do, and prints it. It reports whether it does anything.
func (f *whatIfFlags) answer(cmd *cobra.Command, change *whatif.Change) (different bool, err error) {
	done := reportWhenLong(cmd.ErrOrStderr(), "reading")
	q, err := f.question(cmd.Context(), change, time.Now())
	done()
	if err != nil {
		return false, err
	}
	v, err := compute(cmd, fmt.Sprintf("forecasting from %d objects", len(q.Objects)), q.answer)
	if err != nil {
		return false, err
	}
	return v.IsDifferent(), f.print(cmd.OutOrStdout(), v)
}

// question is what is asked about a change.
type question struct {
	whatif.Input
	// offered is what is asked for what its node classes offer, when a NodePool has one.
	offered *providerTypes
}

// question reads what a change is asked about.
func (f *whatIfFlags) question(ctx context.Context, change *whatif.Change, at time.Time) (*question, error) {
	objects, name, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	from, presumes, err := savings.CatalogFor(objects)
	if err != nil {
		return nil, err
	}
	q := &question{offered: f.management.classes(ctx, f.kubeconfig, f.snapshot)}
	q.offered.join(&from)
	q.Input = whatif.Input{Objects: objects, Cluster: name, At: at, From: from, Presumes: presumes, Change: *change}
	if err := f.askTerms(ctx, &q.Input); err != nil {
		return nil, err
	}
	q.Options.Disrupt.Terms.SpotToSpot = q.Options.Disrupt.Terms.SpotToSpot || f.spotToSpot
	q.Options.Stop = stopAfter(ctx, forecastMost)
	return q, nil
}

// answer says what the change would do.
func (q *question) answer() (*view.WhatIf, error) {
	v, err := whatif.Answer(&q.Input)
	if q.offered.failed != nil {
		return nil, q.offered.failed
	}
	if err != nil {
		return nil, err
	}
	v.Presumes = append(v.Presumes, q.offered.notes...)
	return v, nil
}

// stopAfter returns a function that reports whether it is time to stop.
func stopAfter(ctx context.Context, most time.Duration) func() bool {
	end := time.Now().Add(most)
	return func() bool { return ctx.Err() != nil || time.Now().After(end) }
}

// presumesHelp ends the help of diff and whatif.
const presumesHelp = `

The cluster is only read, or what dovetail snapshot wrote of one (--snapshot), and nothing is asked of a cloud. The
controller's own decisions are carried out on a copy, in time that passes at once, until nothing is left to be
done, a day ahead at most. What the figures presume stands below them.

What can be launched, its prices and the settings are those of the controller that leads, if it can be asked (see
dovetail status). Else, and with --snapshot, they are those of the catalog in this program, and the defaults; those of
a ClusterAPINodeClass are those of Cluster API's objects, in the management cluster of --cluster-api-kubeconfig or
--cluster-api-url, else in the cluster itself, else among the files of --snapshot (docs/clusterapi.md). dovetail snapshot
writes none of these objects: add a file of them.

It needs the right to list what dovetail savings lists.`

func newDiff() *cobra.Command {
	f := &whatIfFlags{}
	var files []string
	var check bool
	cmd := &cobra.Command{
		Use: "diff -f FILE", Short: "Say what changed NodePools would do before they are applied", Args: cobra.NoArgs,
		Long: `Compare the NodePools of files with those of the cluster, and say what the controller would do if they
were applied: which nodes drift, which are replaced and when by the budgets, how many pods are evicted, what the
nodes cost before and after and at least, and which pods no node could take any more. Fields that a file leaves
out get the API's defaults. NodePools that are in no file stay as they are.` + presumesHelp + `

The exit status is 0 when there is an answer. With --exit-code it is 3 if anything would be different.`,
		Example: `  dovetail diff -f pools.yaml
  dovetail diff -f pools.yaml --exit-code -o wide
  dovetail diff -f pools.yaml --snapshot cluster.json.gz -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if len(files) == 0 {
				return wrongUse(cmd, errors.New("give the changed NodePools with -f"))
			}
			change := &whatif.Change{}
			var err error
			if change.Pools, change.Notes, err = whatif.ReadPools(files); err != nil {
				return err
			}
			different, err := f.answer(cmd, change)
			if err == nil && check && different {
				return &statusError{status: statusNo}
			}
			return err
		},
	}
	f.addFlags(cmd)
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "the NodePools as they are to be: YAML or JSON")
	cmd.Flags().BoolVar(&check, "exit-code", false, "exit with 3 if anything would be different")
	return cmd
}

func newWhatIf() *cobra.Command {
	f := &whatIfFlags{}
	var change whatif.Change
	var files []string
	var spot string
	cmd := &cobra.Command{
		Use: "whatif", Short: "Say what the cluster would cost with more spot, other limits, another policy, fewer types", Args: cobra.NoArgs,
		Long: `Say what becomes of the cluster if something were different: its nodes and their price now, if nothing is
changed, and with the change; the least possible price of each; and the evictions to get there.

  --pool NAME.FIELD=VALUE sets a field of a NodePool's spec; null unsets it
  --policy sets consolidationPolicy of all NodePools
  --without-type lets no NodePool launch instance types of these names
  --spot lets all NodePools launch spot, for up to such a share of each workload's pods: of 10 pods and 80 %,
         2 are kept from spot nodes, and are evicted if they are on one
  -f     takes NodePools from files, as dovetail diff does

Several can be given together.` + presumesHelp + `

The exit status is 0 when there is an answer, 1 when there is none, 2 when the command is called wrongly.`,
		Example: `  dovetail whatif --spot 80%
  dovetail whatif --pool general.limits.cpu=2000
  dovetail whatif --policy WhenEmpty --without-type 'm5.*'
  dovetail whatif -f pools.yaml --snapshot cluster.json.gz -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			var err error
			if spot != "" {
				share, err := parseShare(spot)
				if err != nil {
					return wrongUse(cmd, fmt.Errorf("--spot: %w", err))
				}
				change.Spot = &share
			}
			if len(files) > 0 {
				if change.Pools, change.Notes, err = whatif.ReadPools(files); err != nil {
					return err
				}
			}
			if change.IsNothing() {
				return wrongUse(cmd, errors.New("say what is to be different: --spot, --pool, --policy, --without-type or -f"))
			}
			_, err = f.answer(cmd, &change)
			return err
		},
	}
	f.addFlags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&spot, "spot", "", "share of each workload's pods that may be on spot nodes, as 80% or 0.8")
	fs.StringArrayVar(&change.Settings, "pool", nil, "NAME.FIELD=VALUE: a field of a NodePool's spec, as general.limits.cpu=2000")
	fs.StringVar(&change.Policy, "policy", "", "consolidationPolicy of all NodePools: WhenEmpty, WhenEmptyOrUnderutilized or Balanced")
	fs.StringSliceVar(&change.WithoutTypes, "without-type", nil, "instance types that nothing is launched from, as 'm5.*'")
	fs.StringSliceVarP(&files, "filename", "f", nil, "NodePools as they are to be: YAML or JSON")
	return cmd
}

// parseShare reads 80% or 0.8.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("%q is no share: it must be 0%% to 100%%, or 0 to 1", text)
	}
	return share, nil
}
