package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

// statusNo is the exit status when the answer to a check is no.
const statusNo = 3

// Forms of output.
const (
	formTable = "table"
	formWide  = "wide"
	formJSON  = "json"
	formYAML  = "yaml"
	formJSONL = "jsonl"
)

const (
	// viewPatience bounds how long a controller may take to answer, its search included.
	viewPatience = time.Minute
	// watchEvery is how often a view is asked for with --watch.
	watchEvery = 2 * time.Second
	// viewBytesMax bounds an answer: a fleet of 5,000 nodes is 3 MB.
	viewBytesMax = 64 << 20
)

// viewFlags say where a view is asked for and how it is drawn.
type viewFlags struct {
	controllerFlags
	output string
	watch  bool
	holes  bool // of nodes: those whose free room costs most come first
}

func (f *viewFlags) add(cmd *cobra.Command) {
	f.addController(cmd)
	f.addOutput(cmd)
}

func (f *viewFlags) addOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", formTable, "table, wide, json, yaml, or jsonl: of a list an object a line")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms(), cobra.ShellCompDirectiveNoFileComp)) // there is the flag
}

// forms are what a view can be written as.
func forms() []string { return []string{formTable, formWide, formJSON, formYAML, formJSONL} }

// scopeFlags say which part of a list is shown.
type scopeFlags struct {
	namespace, selector string
	allNamespaces       bool
}

func (f *scopeFlags) addNamespace(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "only those of a namespace; empty: all")
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "those of all namespaces, as without --namespace")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
}

func (f *scopeFlags) addSelector(cmd *cobra.Command, of string) {
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "only those whose labels are selected, as kubectl's: key=value, key!=value, 'key in (a,b)', key, '!key'; "+of)
}

// query returns what the controller is asked for.
func (f *scopeFlags) query(cmd *cobra.Command) (url.Values, error) {
	q := url.Values{}
	if f.namespace != "" {
		q.Set("namespace", f.namespace)
	}
	if f.selector != "" {
		if _, err := labels.Parse(f.selector); err != nil {
			return nil, wrongUse(cmd, fmt.Errorf("--selector: %w", err))
		}
		q.Set("selector", f.selector)
	}
	return q, nil
}

// heeded returns an error if a controller did not heed what it was asked for: one of an older version answers with all.
func (f *scopeFlags) heeded(head *view.Head) error {
	if head.Scope == "" && (f.namespace != "" || f.selector != "") {
		return errors.New("the controller is of an older version, which can't choose by namespace or labels: leave out --namespace and --selector")
	}
	return nil
}

// check returns what is wrong with the flags.
func (f *viewFlags) check(cmd *cobra.Command) error {
	if !slices.Contains(forms(), f.output) {
		return wrongUse(cmd, fmt.Errorf("--output is %q, must be %s", f.output, strings.Join(forms(), ", ")))
	}
	return nil
}

// ask fills in a view: name and query are what live.Path is followed by.
func (f *viewFlags) ask(ctx context.Context, name string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	address, err := f.locate(ctx)
	if err != nil {
		return err
	}
	return askAt(ctx, address, name, query, into)
}

// askAt asks the controller at an address.
func askAt(ctx context.Context, address, name string, query url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+live.Path+"/"+name+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return &statusError{error: fmt.Errorf("ask %s: %w; make it reachable (kubectl port-forward -n NAMESPACE deploy/NAME 8082), or let it be found by the lease", address, err), status: statusUnreachable}
	}
	defer answer.Body.Close() //nolint:errcheck // it was read only
	if answer.StatusCode != http.StatusOK {
		return askedInVain(address, answer)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, viewBytesMax))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", address, err)
	}
	return nil
}

// askedInVain returns why there is no answer.
func askedInVain(address string, answer *http.Response) error {
	why, _ := io.ReadAll(io.LimitReader(answer.Body, excuseMost)) // what there is of it
	err := fmt.Errorf("ask %s: %s", address, strings.TrimSpace(string(why)))
	switch answer.StatusCode {
	case http.StatusServiceUnavailable, http.StatusMisdirectedRequest:
		return &statusError{error: err, status: statusUnreachable}
	case http.StatusNotFound:
		if !strings.Contains(string(why), live.ErrUnknown.Error()) {
			err = fmt.Errorf("ask %s: it answers %s; the address must be the debug port of a controller that has views", address, answer.Status)
			return &statusError{error: err, status: statusUnreachable}
		}
		return &statusError{error: errors.New(strings.TrimSpace(string(why))), status: statusNoSubject}
	}
	return err
}

// betweenViews is what separates views that are shown one after the other.
var betweenViews = map[string]string{formTable: "\n", formWide: "\n", formYAML: "---\n"} //nolint:gochecknoglobals // a constant

// drawn returns a view as text; of JSON one line.
func (f *viewFlags) drawn(v any) (string, error) {
	if f.output == formJSON { // print would take several lines
		b, err := json.Marshal(v)
		return string(b) + "\n", err
	}
	var b strings.Builder
	err := f.print(&b, v)
	return b.String(), err
}

// print writes a view as the flags say.
func (f *viewFlags) print(w io.Writer, v any) error {
	switch f.output {
	case formJSON:
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case formJSONL:
		enc := json.NewEncoder(w)
		for _, row := range table.Rows(v) {
			if err := enc.Encode(row); err != nil {
				return err
			}
		}
		return nil
	case formYAML:
		b, err := yaml.Marshal(v)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	default:
		return table.Write(w, v, table.Options{Wide: f.output == formWide, Holes: f.holes, Now: time.Now()})
	}
}

// reachHelp ends the help of each command that shows a view.
const reachHelp = `

It is read from the debug port of the replica that leads, through the API server, as kubectl port-forward
does; that needs the rights to list leases and to create pods/portforward. With --address another address
is asked. Nothing is changed.

The exit status is 0 when there is an answer, 4 when there is no such subject, 5 when no controller can be
reached, 2 when the command is called wrongly, 1 when anything else fails.`

// newViewCommands returns the commands that show what is now.
func newViewCommands() []*cobra.Command {
	return []*cobra.Command{newStatus(), newNodes(), newPending(), newPools(), newBlockers(), newOfferings(), newCost(), newNext(), newTop(), newUI(), newDiff(), newWhatIf(), newDecision(), newHistory(), newReport(), newShare()}
}

// viewCommand returns a command that shows one view: the one that ask fills in for the arguments.
func viewCommand(cmd *cobra.Command, show func(cmd *cobra.Command, f *viewFlags, args []string) (any, error)) *cobra.Command {
	f := &viewFlags{}
	cmd.Long += reachHelp
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd); err != nil {
			return err
		}
		if f.watch {
			return f.follow(cmd.Context(), cmd.OutOrStdout(), func() (any, error) { return show(cmd, f, args) })
		}
		v, err := show(cmd, f, args)
		if v == nil {
			return err
		}
		if failed := f.print(cmd.OutOrStdout(), v); failed != nil {
			return failed
		}
		return err
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it again every 2 s if it is another, until Ctrl-C; with -o json an object a line each time")
	return cmd
}

// follow shows a view again and again, when it is another one, until the context ends or there is no answer. The
// controller is looked for once: when another replica leads, the one that is asked says so, and that ends it.
func (f *viewFlags) follow(ctx context.Context, w io.Writer, show func() (any, error)) error {
	var err error
	if f.address, err = f.locate(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for last := ""; ; {
		v, err := show()
		if ctx.Err() != nil {
			return nil
		}
		if v != nil {
			text, failed := f.drawn(v)
			if failed != nil {
				return failed
			}
			between := betweenViews[f.output]
			if last == "" {
				between = ""
			}
			if text != last {
				if _, failed := io.WriteString(w, between+text); failed != nil {
					return failed
				}
				last = text
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func newStatus() *cobra.Command {
	var check bool
	cmd := viewCommand(&cobra.Command{
		Use: "status", Short: "Say how the cluster is: price, least possible price, nodes, pods, what needs a person", Args: cobra.NoArgs,
		Long: `Show the cluster at a glance: whether anything needs a person, nodes and pods, what the nodes cost, what
they would cost at least and what that presumes, how much of them is used, what keeps nodes, and what is
next. With --exit-code the exit status is 3 if something needs a person.`,
		Example: `  dovetail status
  dovetail status -o json
  dovetail status --exit-code`,
	}, func(cmd *cobra.Command, f *viewFlags, _ []string) (any, error) {
		v := &view.Overview{}
		if err := f.ask(cmd.Context(), "overview", nil, v); err != nil {
			return nil, err
		}
		if check && !v.Health.Healthy {
			return v, &statusError{status: statusNo}
		}
		return v, nil
	})
	cmd.Flags().BoolVar(&check, "exit-code", false, "exit with 3 if something needs a person")
	return cmd
}

func newNodes() *cobra.Command {
	scope, holes := &scopeFlags{}, false
	cmd := viewCommand(&cobra.Command{
		Use: "nodes [NAME]", Short: "Show the nodes: price, use, what each is doing and why it stays", Args: cobra.MaximumNArgs(1),
		Long: `Show every node with its price and how much of it pods ask for, what it is doing, and until when that
holds or which reason keeps it. With -o wide also why, in words. With a name, that node with its pods by
workload. With --holes the nodes come first whose free room costs most, and what it costs is shown.`,
		Example: `  dovetail nodes
  dovetail nodes -o wide
  dovetail nodes -l karpenter.sh/nodepool=general,karpenter.sh/capacity-type=spot
  dovetail nodes --holes
  dovetail nodes -o jsonl
  dovetail nodes ip-10-0-1-7`,
	}, func(cmd *cobra.Command, f *viewFlags, args []string) (any, error) {
		if f.holes = holes; holes && (len(args) == 1 || f.output != formTable && f.output != formWide) {
			return nil, wrongUse(cmd, errors.New("--holes is the order of the table of all nodes: leave out the name, and --output but for wide"))
		}
		if len(args) == 1 {
			if scope.selector != "" {
				return nil, wrongUse(cmd, errors.New("a node is named: --selector chooses among all of them"))
			}
			v := &view.NodeView{}
			return orNil(v, f.ask(cmd.Context(), "node/"+url.PathEscape(strings.TrimPrefix(args[0], "node/")), nil, v))
		}
		q, err := scope.query(cmd)
		if err != nil {
			return nil, err
		}
		v := &view.Fleet{}
		if err := f.ask(cmd.Context(), "fleet", q, v); err != nil {
			return nil, err
		}
		return orNil(v, scope.heeded(&v.Head))
	})
	scope.addSelector(cmd, "labels of nodes")
	cmd.Flags().BoolVar(&holes, "holes", false, "those first whose free room costs most")
	return cmd
}

func newPending() *cobra.Command {
	scope := &scopeFlags{}
	cmd := viewCommand(&cobra.Command{
		Use: "pending", Short: "Show the pods that ask for a node, by why they have none, and what would help", Args: cobra.NoArgs,
		Long: `Show the pods that ask for a node: those that are refused, by reason, with the nearest miss of each
NodePool, since when, and what would end it; and which nodes the others are planned for. Pods for which
nothing is launched because of their priority or their own annotation have no labels here.`,
		Example: `  dovetail pending
  dovetail pending -n shop -l app=web
  dovetail pending -o json`,
	}, func(cmd *cobra.Command, f *viewFlags, _ []string) (any, error) {
		q, err := scope.query(cmd)
		if err != nil {
			return nil, err
		}
		v := &view.Pending{}
		if err := f.ask(cmd.Context(), "pending", q, v); err != nil {
			return nil, err
		}
		return orNil(v, scope.heeded(&v.Head))
	})
	scope.addNamespace(cmd)
	scope.addSelector(cmd, "labels of pods")
	return cmd
}

func newPools() *cobra.Command {
	return viewCommand(&cobra.Command{
		Use: "pools [NAME...]", Short: "Show the NodePools: limits and use, how many nodes may go now, price, spot share, drift", Args: cobra.ArbitraryArgs,
		Long: `Show the NodePools, or those named: how many nodes each has, what they cost and how much of that is spot,
its limits and how much of them is used, how many nodes its budgets allow to go now and when more, how
many nodes are drifted, and whether it is ready.`,
		Example: `  dovetail pools
  dovetail pools general batch -o wide`,
	}, func(cmd *cobra.Command, f *viewFlags, args []string) (any, error) {
		v := &view.Pools{}
		if err := f.ask(cmd.Context(), "pools", nil, v); err != nil {
			return nil, err
		}
		return orNil(v, pick(v, args))
	})
}

// pick leaves the NodePools that are named; none: all.
func pick(v *view.Pools, names []string) error {
	if len(names) == 0 {
		return nil
	}
	all := v.Pools
	v.Pools = []view.Pool{}
	for _, name := range names {
		name = strings.TrimPrefix(name, "nodepool/")
		at := slices.IndexFunc(all, func(p view.Pool) bool { return p.Name == name })
		if at < 0 {
			known := make([]string, len(all))
			for i := range all {
				known[i] = all[i].Name
			}
			return &statusError{error: fmt.Errorf("there is no NodePool %q; there are %s", name, strings.Join(known, ", ")), status: statusNoSubject}
		}
		v.Pools = append(v.Pools, all[at])
	}
	return nil
}

func newBlockers() *cobra.Command {
	scope := &scopeFlags{}
	cmd := viewCommand(&cobra.Command{
		Use: "blockers", Short: "Show what keeps nodes from being removed, by cause, in dollars", Args: cobra.NoArgs,
		Long: `Show what keeps nodes from being removed or replaced, by cause, the most expensive first: what the nodes
cost, how many there are, the PodDisruptionBudget, NodePool or annotation that keeps them, and what ends
that. Nodes that only their pods' needs keep come last. With --namespace only what a PodDisruptionBudget
or pod of that namespace keeps is shown; --selector chooses nodes.`,
		Example: `  dovetail blockers
  dovetail blockers -o wide
  dovetail blockers -n shop
  dovetail blockers -l karpenter.sh/nodepool=general`,
	}, func(cmd *cobra.Command, f *viewFlags, _ []string) (any, error) {
		q, err := scope.query(cmd)
		if err != nil {
			return nil, err
		}
		v := &view.Blockers{}
		if err := f.ask(cmd.Context(), "blockers", q, v); err != nil {
			return nil, err
		}
		return orNil(v, scope.heeded(&v.Head))
	})
	scope.addNamespace(cmd)
	scope.addSelector(cmd, "labels of nodes")
	return cmd
}

func newOfferings() *cobra.Command {
	scope := &scopeFlags{}
	cmd := viewCommand(&cobra.Command{
		Use: "offerings", Short: "Show which instance types are short where, learned from what, until when", Args: cobra.NoArgs,
		Long: `Show the instance types, zones and capacity types that nothing is launched from now because there was no
capacity, and those that count as dearer because instances were short or taken back lately: from what that
is known, and until when it holds. --selector chooses by the labels that nodes launched from them have.`,
		Example: `  dovetail offerings
  dovetail offerings -l topology.kubernetes.io/zone=us-east-1a,karpenter.sh/capacity-type=spot
  dovetail offerings -o json`,
	}, func(cmd *cobra.Command, f *viewFlags, _ []string) (any, error) {
		q, err := scope.query(cmd)
		if err != nil {
			return nil, err
		}
		v := &view.Offerings{}
		if err := f.ask(cmd.Context(), "offerings", q, v); err != nil {
			return nil, err
		}
		return orNil(v, scope.heeded(&v.Head))
	})
	scope.addSelector(cmd, "labels of the nodes that would be launched")
	return cmd
}

func newCost() *cobra.Command {
	var by string
	scope := &scopeFlags{}
	cmd := viewCommand(&cobra.Command{
		Use: "cost", Short: "Show who uses the money: by namespace, workload or label", Args: cobra.NoArgs,
		Long: `Show what the pods of each namespace, workload or value of a label cost. Each node's price is divided
among its pods by the larger share of its cpu or memory that they ask for; what no pod asks for is idle.
--namespace and --selector choose pods; what all other pods cost is one row then.`,
		Example: `  dovetail cost
  dovetail cost --by workload
  dovetail cost --by workload -n shop -l app=web
  dovetail cost --by label:team -o json`,
	}, func(cmd *cobra.Command, f *viewFlags, _ []string) (any, error) {
		divided, ok := view.ParseBy(by)
		if !ok {
			return nil, wrongUse(cmd, fmt.Errorf("--by is %q, must be namespace, workload or label:KEY", by))
		}
		q, err := scope.query(cmd)
		if err != nil {
			return nil, err
		}
		q.Set("by", divided)
		v := &view.Cost{}
		if err := f.ask(cmd.Context(), "cost", q, v); err != nil {
			return nil, err
		}
		return orNil(v, scope.heeded(&v.Head))
	})
	scope.addNamespace(cmd)
	scope.addSelector(cmd, "labels of pods")
	cmd.Flags().StringVar(&by, "by", view.ByNamespace, "namespace, workload, or label:KEY")
	return cmd
}

func newNext() *cobra.Command {
	scope := &scopeFlags{}
	cmd := viewCommand(&cobra.Command{
		Use: "next", Short: "Show what will be done next, when, and what can still stop it", Args: cobra.NoArgs,
		Long: `Show what goes on now, what time will bring (a consolidateAfter that elapses, a budget that opens, a node
that expires, an offering that is tried again), and what waits for a condition. With --namespace only
what pending pods of that namespace wait for is shown, and --selector chooses among them; without it
--selector chooses nodes, and shows what becomes of them.`,
		Example: `  dovetail next
  dovetail next -n shop
  dovetail next -l karpenter.sh/nodepool=general
  dovetail next -o json`,
	}, func(cmd *cobra.Command, f *viewFlags, _ []string) (any, error) {
		q, err := scope.query(cmd)
		if err != nil {
			return nil, err
		}
		v := &view.Next{}
		if err := f.ask(cmd.Context(), "next", q, v); err != nil {
			return nil, err
		}
		return orNil(v, scope.heeded(&v.Head))
	})
	scope.addNamespace(cmd)
	scope.addSelector(cmd, "labels of nodes; with --namespace of pods")
	return cmd
}

// orNil returns a view unless asking for it failed.
func orNil(v any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}
