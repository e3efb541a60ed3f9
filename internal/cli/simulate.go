package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// Exit statuses of simulate, besides 0.
const (
	statusBadInput = 2
	statusRefused  = 3
)

func newSimulate() *cobra.Command {
	var input simulateInput
	var output string
	var saves, prove, spotToSpot bool
	var premium, evictionHourly float64
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Say what would be launched for pods, at what price, and why",
		Long: `Read pods, nodes and pools from files, or from a cluster (--live), and say what the
controller would launch for them, with the same solver. Nothing is changed, and of a cloud
only --provider-address and Cluster API's objects are asked for.

The table shows nodes by type and zone with their pods and price, the lower bound on the
price, what first-fit-decreasing would pay, and why pods are refused.

Manifests (-f) are NodePools and what makes pods: Deployments, StatefulSets, Jobs, Pods;
DaemonSets, PodGroups and running Nodes; or what dovetail snapshot wrote. What can be
launched comes from the catalog that each nodeClassRef asks for (EC2NodeClass: that of EC2,
else that of kwok), from --catalog, from the provider at --provider-address for its kinds
of class, or for ClusterAPINodeClass from Cluster API's objects: in the management cluster
of --cluster-api-kubeconfig or --cluster-api-url, else that of --live, or among -f.

With --feature-gates CapacityBuffer=true, room is planned for CapacityBuffers, too, and the
table says for how many pods of each there is room, how many nodes are launched for it, and
why the others have none. With StaticCapacity=true, NodePools with replicas get the nodes they miss.

With --consolidate, say instead which nodes that run would be removed or replaced to
make them cheaper, step by step, what that saves, and why the others stay.

The exit status is 0 when every pod and every chunk of a buffer found a place, 3 when one
was refused, 2 when the input is wrong.`,
		Example: `  dovetail simulate --scenario cluster.json.gz
  dovetail simulate --scenario cluster.json --output json > plan.json
  dovetail simulate -f pools.yaml -f manifests/
  dovetail simulate --scenario cluster.json --prove
  dovetail simulate --live --kubeconfig ~/.kube/config
  dovetail simulate --consolidate --live
  dovetail simulate -f manifests/ --feature-gates CapacityBuffer=true`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != simulate.Table && output != simulate.JSON {
				return wrongUse(cmd, fmt.Errorf("--output is %q, must be table or json", output))
			}
			if err := input.validate(cmd.Flags(), premium); err != nil {
				return wrongUse(cmd, err)
			}
			done := reportWhenLong(cmd.ErrOrStderr(), "reading")
			c, err := input.read(cmd.Context())
			done()
			if err != nil {
				return &statusError{error: err, status: statusBadInput}
			}
			if saves {
				return simulateSavings(cmd, c, consolidate.Options{Terms: consolidate.Terms{EvictionHourly: evictionHourly, SpotToSpot: spotToSpot}}, output)
			}
			c.Options.ResiliencePremium = premium
			return simulateLaunches(cmd, c, prove, output)
		},
	}
	input.addFlags(cmd)
	cmd.Flags().BoolVar(&saves, "consolidate", false, "say what would make the nodes that run cheaper")
	cmd.Flags().Float64Var(&evictionHourly, "consolidation-eviction-hourly-dollars", 0, "with --consolidate: dollars per hour that evicting a pod must save; 0: a quarter of what the average pod costs")
	cmd.Flags().Float64Var(&evictionHourly, "eviction-hourly", 0, "the older name of --consolidation-eviction-hourly-dollars")
	_ = cmd.Flags().MarkDeprecated("eviction-hourly", "use --consolidation-eviction-hourly-dollars") // the flag is there
	cmd.Flags().BoolVar(&spotToSpot, "spot-to-spot", false, "with --consolidate: spot nodes may be replaced by spot nodes, as with the controller's gate SpotToSpotConsolidation")
	cmd.Flags().BoolVar(&prove, "prove", false, "prove the lower bound as far as possible, which can take a minute; without it the proof ends after some rounds")
	cmd.Flags().Float64Var(&premium, "resilience-premium", 0, "the controller's: how much more a plan may cost so that fewer pods of a workload are lost with one node, zone or spot offering, as a share of its price; 0: the cheapest plan")
	cmd.Flags().StringVarP(&output, "output", "o", simulate.Table, "table, or json for a kplan/1 file")
	return cmd
}

// validate reports what is wrong with the flags.
func (in *simulateInput) validate(given *pflag.FlagSet, premium float64) error {
	if !(premium >= 0 && premium <= 1) {
		return fmt.Errorf("--resilience-premium is %g, must be 0 to 1", premium)
	}
	if in.scenario != "" && in.remote.address != "" {
		return errors.New("--provider-address is for -f and --live: a scenario has its instance types")
	}
	source := ""
	switch {
	case in.scenario != "":
		source = "--scenario"
	case in.catalog != "":
		source = "--catalog"
	}
	if err := in.management.validate(given, source); err != nil {
		return err
	}
	if in.sources() != 1 {
		return errors.New("nothing or too much to simulate: give either --scenario or -f or --live")
	}
	return nil
}

// simulateSavings prints what would make nodes cheaper.
func simulateSavings(cmd *cobra.Command, c simulate.Case, opts consolidate.Options, output string) error {
	saving, err := compute(cmd, fmt.Sprintf("deciding about %d nodes", len(c.Snapshot.Nodes)), func() (*simulate.Saving, error) {
		return simulate.Consolidate(c, opts, simulate.Clock{Now: time.Now, CPU: cpuTime}), nil
	})
	if err != nil {
		return err
	}
	return saving.Print(cmd.OutOrStdout(), output)
}

// simulateLaunches prints what would be launched, with a lower bound that is proven as far as possible, if asked for.
func simulateLaunches(cmd *cobra.Command, c simulate.Case, prove bool, output string) error {
	c.Options.Prove = true
	if !prove {
		c.Options.ProofRounds = pack.ProofRoundsShort
	}
	answer, err := compute(cmd, fmt.Sprintf("deciding about %d pods", len(c.Snapshot.Pending)), func() (*simulate.Answer, error) {
		answer, err := simulate.Run(c, simulate.Clock{Now: time.Now, CPU: cpuTime})
		if err == nil && output == simulate.Table {
			answer.AskFirstFit()
		}
		return answer, err
	})
	if err != nil {
		return err
	}
	if err := answer.Print(cmd.OutOrStdout(), output); err != nil {
		return err
	}
	if answer.Refused() > 0 {
		return &statusError{status: statusRefused}
	}
	return nil
}

// simulateInput says where the question comes from.
type simulateInput struct {
	scenario, catalog, kubeconfig string
	gates                         string
	manifests                     []string
	live                          bool
	remote                        remoteInput
	management                    clusterAPIInput
}

func (in *simulateInput) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&in.scenario, "scenario", "", "a kscen/1 file, plain or .gz")
	cmd.Flags().StringSliceVarP(&in.manifests, "filename", "f", nil, "manifests: a file, or a directory with all that is below it")
	cmd.Flags().StringVar(&in.catalog, "catalog", "", "what can be launched with -f or --live: kwok, or ec2 (us-east-1, Linux, prices of May 2025); empty: the one of each NodePool's nodeClassRef, kwok where there is none")
	in.remote.addFlags(cmd.Flags())
	in.management.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&in.live, "live", false, "read the cluster that --kubeconfig leads to, as dovetail snapshot does; nothing is changed there")
	cmd.Flags().StringVar(&in.gates, "feature-gates", "", "with -f or --live: the controller's, of which CapacityBuffer and StaticCapacity decide something here; Name=true|false, comma separated")
	cmd.Flags().StringVar(&in.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
}

// sources returns how many places were named; there must be one.
func (in *simulateInput) sources() (n int) {
	for _, named := range []bool{in.scenario != "", len(in.manifests) > 0, in.live} {
		if named {
			n++
		}
	}
	return n
}

// read returns the case of a scenario file, of manifests, or of a cluster.
func (in *simulateInput) read(ctx context.Context) (simulate.Case, error) {
	if in.scenario != "" {
		return simulate.Scenario(in.scenario, time.Now())
	}
	types, err := simulate.CatalogNamed(in.catalog)
	if err != nil {
		return simulate.Case{}, err
	}
	on, err := (&operator.Settings{FeatureGates: in.gates}).Gates()
	if err != nil {
		return simulate.Case{}, err
	}
	types.Gates = simulate.Gates{CapacityBuffer: on["CapacityBuffer"], StaticCapacity: on["StaticCapacity"]}
	var reader client.Reader
	read := func() (simulate.Case, error) { return simulate.Manifests(in.manifests, types, time.Now()) }
	if in.live {
		cluster, host, err := clusterReader(in.kubeconfig)
		if err != nil {
			return simulate.Case{}, err
		}
		reader, read = cluster, func() (simulate.Case, error) { return simulate.Live(ctx, cluster, host, types, time.Now()) }
	}
	var offered []*providerTypes
	if in.catalog == "" {
		offered = append(offered, in.management.classes(ctx, in.kubeconfig, in.manifests))
	}
	if in.remote.address != "" {
		if !in.live {
			others, err := simulate.Others(in.manifests)
			if err != nil {
				return simulate.Case{}, err
			}
			reader = &objectFiles{objects: others}
		}
		remote, err := in.remote.connect(ctx, reader)
		if err != nil {
			return simulate.Case{}, err
		}
		defer remote.close()
		offered = append(offered, remote)
	}
	for _, p := range offered {
		p.join(&types)
	}
	c, err := read()
	for _, p := range offered {
		c.Notes = append(c.Notes, p.notes...)
		if p.failed != nil {
			err = p.failed
		}
	}
	return c, err
}

// reportWhenLong writes a line when what goes on takes longer than a moment, and again
// every ten seconds, until the function that it returns is called.
func reportWhenLong(w io.Writer, what string) (end func()) {
	const moment, again = 2 * time.Second, 10 * time.Second
	start := time.Now()
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for pause := moment; ; pause = again {
			select {
			case <-ended:
				return
			case <-time.After(pause):
				fmt.Fprintf(w, "dovetail: %s, for %s now\n", what, time.Since(start).Round(time.Second))
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

// compute returns what a computation does, which knows nothing of contexts. It says so when that
// takes long, and does not wait for it when the command is interrupted: the process ends then.
func compute[T any](cmd *cobra.Command, what string, computation func() (T, error)) (T, error) {
	defer reportWhenLong(cmd.ErrOrStderr(), what)()
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := computation()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-cmd.Context().Done():
		var none T
		return none, fmt.Errorf("interrupted while %s", what)
	}
}

// cpuTime returns the user time that the process has used, all threads together.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano())
}
