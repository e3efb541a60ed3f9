package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/tui"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// topPatience bounds how long top waits for one answer.
const topPatience = 15 * time.Second

// topFlags are those of top.
type topFlags struct {
	controllerFlags
	session, record      string
	journal, cast        string
	columns, nodeLabels  []string
	live, noColor, ascii bool
	management           clusterAPIInput
}

func newTop() *cobra.Command { return newTopWith(&topFlags{}) }

func newTopWith(f *topFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "top", Short: "Watch the cluster in the terminal: nodes, pending pods, NodePools, decisions, and why",
		Long: `Show the cluster in the terminal, once a second: the nodes with price and use, pending pods and what would
help, NodeClaims, NodePools, decisions, what keeps nodes, what is next, what is short, who uses the money.
Enter explains what the row under the cursor is about; / filters, and asks about a name that no row has;
e shows its events, T why a node is of its instance type, x saves a decision to a file in this directory, as dovetail share does, u copies the address of its page in
the browser, $ shows the price over time; ? lists the keys. No key changes the cluster.

The replica that leads is asked on its debug port, through the API server, as dovetail status does. Where
no controller can be asked, the cluster is read from the API server alone, at most every five seconds (with
--live always): then there is no journal, reasons are what Dovetail would decide, and prices are those of
dovetail savings; those of a ClusterAPINodeClass are those of Cluster API's objects (docs/clusterapi.md), in the
cluster itself or, with --live, in the management cluster of --cluster-api-kubeconfig or --cluster-api-url. That needs the
right to list what dovetail snapshot lists, and works beside Karpenter.

--record writes what is shown to a file, which --session plays: names and labels of the cluster are in it.

--cast writes what the terminal shows to a file that asciinema plays (asciicast, version 2), also while --session
plays a recording.

The file dovetail/top.yaml in the configuration directory of the user (on Linux ~/.config, or XDG_CONFIG_HOME) may
have columns, nodeLabels, noColor and ascii, which hold where the flag is not given:

  columns: [name, price, cpu, state]
  nodeLabels: [topology.kubernetes.io/rack]

--journal shows a file: one of a journal, its directory, or what dovetail share or report wrote. It begins with
the newest decision that has its snapshot; [ and ] go to the one before and after.

Without colors: --no-color, NO_COLOR or TERM=dumb. --ascii, or TERM=dumb, draws with ASCII characters alone.

The exit status is 0 after q, 5 when nothing can be reached, 2 when the command is called wrongly, 1 when
anything else fails.`,
		Example: `  dovetail top
  dovetail top --kubeconfig prod.yaml
  dovetail top --live
  dovetail top --record night.dovetail-session
  dovetail top --session night.dovetail-session --cast night.cast
  dovetail top --node-label kubernetes.io/arch,example.com/team
  dovetail top --journal decision-17.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.configure(cmd); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	f.addController(cmd)
	cmd.Flags().BoolVar(&f.live, "live", false, "read the API server alone, even where a controller runs")
	cmd.Flags().StringVar(&f.session, "session", "", "play a recording instead of asking a cluster")
	cmd.Flags().StringVar(&f.journal, "journal", "", "show a journal file, or the directory of controller --journal-dir, instead of asking a cluster")
	cmd.Flags().StringVar(&f.record, "record", "", "write what is shown to a file as well")
	cmd.Flags().StringSliceVar(&f.columns, "columns", nil, "the columns of nodes to show, the most important first: "+strings.Join(tui.NodeColumns(), ", "))
	cmd.Flags().StringSliceVar(&f.nodeLabels, "node-label", nil, "labels of nodes that have a column of their own; recordings have those that were asked for")
	cmd.Flags().StringVar(&f.cast, "cast", "", "write what the terminal shows to a file for asciinema as well")
	cmd.Flags().BoolVar(&f.noColor, "no-color", false, "draw without colors")
	cmd.Flags().BoolVar(&f.ascii, "ascii", false, "draw with ASCII characters alone")
	f.management.addFlags(cmd.Flags())
	return cmd
}

// check returns what is wrong with the flags.
func (f *topFlags) check(cmd *cobra.Command) error {
	switch {
	case f.journal != "" && (f.session != "" || f.record != "" || f.live || f.address != "" || f.kubeconfig != "" || f.namespace != ""):
		return wrongUse(cmd, errors.New("--journal shows a file: nothing else is read or recorded"))
	case f.session != "" && (f.record != "" || f.live || f.address != "" || f.kubeconfig != "" || f.namespace != ""):
		return wrongUse(cmd, errors.New("--session plays a recording: nothing else is read or recorded"))
	case f.live && (f.address != "" || f.namespace != ""):
		return wrongUse(cmd, errors.New("--live asks no controller: leave out --address and --controller-namespace"))
	case !f.live && f.management.givenOf(cmd.Flags()) != "":
		return wrongUse(cmd, fmt.Errorf("--%s has no effect without --live: a controller that is asked has settings of its own", f.management.givenOf(cmd.Flags())))
	}
	if err := f.management.validate(cmd.Flags(), ""); err != nil {
		return wrongUse(cmd, err)
	}
	if err := tui.CheckColumns(f.columns); err != nil {
		return wrongUse(cmd, fmt.Errorf("--columns: %w", err))
	}
	return nil
}

func (f *topFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	out, isFile := cmd.OutOrStdout().(*os.File)
	if !isFile || !term.IsTerminal(out.Fd()) || !term.IsTerminal(os.Stdin.Fd()) {
		return errors.New("top draws on a terminal, and this is none; dovetail status, nodes, pending and the others print the same")
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	source, err := f.source(ctx, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	dumb := os.Getenv("TERM") == "dumb"
	opts := tui.Options{
		Source: source, Columns: f.columns, NodeLabels: f.nodeLabels, Helpers: f.helpers(source), Now: time.Now, In: os.Stdin, Out: out, Environ: os.Environ(),
		Colors: !f.noColor && os.Getenv("NO_COLOR") == "" && !dumb, ASCII: f.ascii || dumb,
	}
	if f.record != "" {
		file, err := os.OpenFile(f.record, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("--record: %w", err)
		}
		opts.Recorder = tui.NewRecorder(file, source.Name())
	}
	var cast *os.File
	if f.cast != "" {
		if cast, err = os.OpenFile(f.cast, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return errors.Join(fmt.Errorf("--cast: %w", err), opts.Recorder.Close())
		}
		opts.Cast = cast
	}
	err = errors.Join(tui.Run(ctx, opts), opts.Recorder.Err(), opts.Recorder.Close())
	if cast != nil {
		err = errors.Join(err, cast.Close())
	}
	return err
}

// source returns whom to ask: a recording, a controller, or else the API server.
func (f *topFlags) source(ctx context.Context, stderr io.Writer) (tui.Source, error) {
	if f.journal != "" {
		v, err := openViews(ctx, f.journal, stderr)
		if err != nil {
			return nil, err
		}
		return v.session(f.nodeLabels...)
	}
	if f.session != "" {
		s, err := tui.OpenSession(f.session)
		if err != nil {
			return nil, fmt.Errorf("--session: %w", err)
		}
		return s, nil
	}
	if !f.live {
		r := &controllerSource{flags: f.controllerFlags, ctx: ctx}
		err := r.Fill(ctx, "overview", "", &view.Overview{})
		if err == nil || r.reached() {
			return r, nil // it may have nothing to say yet
		}
		if f.address != "" || f.namespace != "" {
			return nil, err
		}
		fmt.Fprintf(stderr, "dovetail: no controller can be asked (%s): reading the API server\n", err)
	}
	return newClusterSource(ctx, f.kubeconfig, &f.management)
}

// controllerSource asks a controller. It finds the one that leads again after that did not answer.
type controllerSource struct {
	flags controllerFlags
	ctx   context.Context // forwarded ports live as long as it does

	mu      sync.Mutex // protects everything below, and is held while a controller is looked for
	address string     // empty: it is to be looked for
	end     context.CancelFunc
	were    bool // it was reached once
}

// Name says where it was found.
func (s *controllerSource) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address == "" {
		return "controller"
	}
	return s.address
}

// reached reports whether something answers there, though not what was asked.
func (s *controllerSource) reached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.were
}

// locate returns where to ask.
func (s *controllerSource) locate() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address != "" {
		return s.address, nil
	}
	ctx, end := context.WithCancel(s.ctx)
	address, err := s.flags.locate(ctx)
	if err != nil {
		end()
		return "", err
	}
	s.address, s.end = address, end
	return address, nil
}

// judge forgets the address if nobody answers there.
func (s *controllerSource) judge(ctx context.Context, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status *statusError
	if err == nil || !errors.As(err, &status) || status.status != statusUnreachable {
		s.were = s.were || err == nil
		return err
	}
	if ctx.Err() == nil && s.end != nil {
		s.end()
		s.address, s.end = "", nil
	}
	return err
}

// Fill asks for a part of a moment.
func (s *controllerSource) Fill(ctx context.Context, part, by string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, topPatience)
	defer cancel()
	address, err := s.locate() //nolint:contextcheck // what is forwarded outlives the question
	if err != nil {
		return err
	}
	if part == tui.PartDecisions {
		from := journalFlags{controllerFlags: controllerFlags{address: address}}
		return s.judge(ctx, from.fetch(ctx, journal.Path, func(answer *http.Response) error {
			if err := refusal(answer); err != nil {
				return err
			}
			return json.NewDecoder(io.LimitReader(answer.Body, answerMost)).Decode(into)
		}))
	}
	query := url.Values{}
	if by != "" {
		query.Set("by", by)
	}
	return s.judge(ctx, askAt(ctx, address, part, query, into))
}

// Explain asks about a subject.
func (s *controllerSource) Explain(ctx context.Context, subject journal.Subject) ([]journal.Answer, error) {
	address, err := s.locate() //nolint:contextcheck // what is forwarded outlives the question
	if err != nil {
		return nil, err
	}
	from := journalFlags{controllerFlags: controllerFlags{address: address}}
	answers, err := from.askAbout(ctx, subject)
	return answers, s.judge(ctx, err)
}
