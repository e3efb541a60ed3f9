package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wiretest"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// joinPatience is how long an instance may take to join.
const joinPatience = 5 * time.Minute

// providerTest is what the flags say.
type providerTest struct {
	address, file, kubeconfig, output string
	files                             remote.Files
	plaintext, registered             bool
	class, unready, slow, uid         string
	accepts, fails                    string
}

func newProviderTest() *cobra.Command {
	var in providerTest
	cmd := &cobra.Command{
		Use:   "provider-test",
		Short: "Test a provider of instances that runs in a process of its own",
		Long: `Ask a provider that speaks the protocol of --cloud-provider=remote for all that the
controller will ask of it, a line for each test: PASS, FAIL with the reason, or SKIP.
Instances are launched, and ended after each test; they may cost money.

Node classes are read from the file, or with --kubeconfig from a cluster. Then the
instances must join that cluster, and what they are as Nodes is tested, too.

The exit status is 0 if no test has failed, else 1.`,
		Example: `  dovetail provider-test --address unix:///run/provider/p.sock -f class.yaml
  dovetail provider-test --address dns:///127.0.0.1:7400 --plaintext -f class.yaml -o json
  dovetail provider-test --address unix:///run/provider/p.sock --kubeconfig ~/.kube/config --class default`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return in.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&in.address, "address", "", "where the provider listens: unix:///path/to/socket or dns:///host:port")
	fs.StringVarP(&in.file, "file", "f", "", "file with node class objects, YAML or JSON; - is standard input")
	fs.StringVar(&in.kubeconfig, "kubeconfig", "", "cluster that instances join, and that has the node classes; not with --file")
	fs.StringVar(&in.class, "class", "default", "name of the class to launch with")
	fs.StringVar(&in.unready, "unready", "", "name of a class that is not ready; empty: that is not tested")
	fs.StringVar(&in.slow, "slow", "", "name of a class whose instances do not join; empty: that is not tested")
	fs.StringVar(&in.accepts, "accepts", "", "name of a class whose launches are accepted and get their IDs later; empty: that is not tested")
	fs.StringVar(&in.fails, "fails", "", "name of a class whose launches are accepted and then fail for want of capacity; empty: that is not tested")
	fs.StringVar(&in.uid, "cluster-uid", "provider-test", "UID of the cluster that instances are launched for")
	fs.BoolVar(&in.registered, "registered", false, "instances join with the labels of their request only; the rest comes with the registration")
	fs.StringVar(&in.files.CA, "ca", "", "file with the CA certificate that signed the provider's certificate")
	fs.StringVar(&in.files.Cert, "cert", "", "file with the certificate to show to the provider")
	fs.StringVar(&in.files.Key, "key", "", "file with its key")
	fs.StringVar(&in.files.ServerName, "server-name", "", "name in the provider's certificate; empty: the host of the address")
	fs.BoolVar(&in.plaintext, "plaintext", false, "connect to dns:/// without TLS; to this computer only")
	fs.StringVarP(&in.output, "output", "o", "table", "table or json")
	return cmd
}

func (in *providerTest) run(cmd *cobra.Command) error {
	switch {
	case in.output != "table" && in.output != "json":
		return wrongUse(cmd, fmt.Errorf("--output is %q, must be table or json", in.output))
	case in.address == "":
		return wrongUse(cmd, fmt.Errorf("--address is not set: where does the provider listen?"))
	case (in.file == "") == (in.kubeconfig == ""):
		return wrongUse(cmd, fmt.Errorf("set --file or --kubeconfig: where are the node classes?"))
	}
	opts := wiretest.Options{
		Class: in.class, Unready: in.unready, Slow: in.slow, Accepts: in.accepts, Fails: in.fails, Registered: in.registered, Run: strconv.FormatInt(time.Now().UnixNano(), 36),
		Remote: remote.Options{
			Address: in.address, Files: in.files, Plaintext: in.plaintext, Cluster: remote.Cluster{Name: "provider-test", UID: in.uid},
			Version: version, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		},
	}
	var err error
	if in.file != "" {
		opts.Classes, err = readClasses(cmd.InOrStdin(), in.file)
	} else {
		err = in.cluster(&opts)
	}
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if in.output == "table" {
		opts.Report = func(r cloudtest.Result) {
			fmt.Fprintf(out, "%s  %s\n", r.Verdict, r.Name)
			for _, why := range r.Why {
				fmt.Fprintf(out, "      %s\n", strings.ReplaceAll(why, "\n", "\n      "))
			}
		}
	}
	results, err := wiretest.Run(cmd.Context(), opts)
	if err != nil {
		return err
	}
	return in.conclude(out, results)
}

// conclude prints what became of all tests.
func (in *providerTest) conclude(out io.Writer, results []cloudtest.Result) error {
	count := map[cloudtest.Verdict]int{}
	for _, r := range results {
		count[r.Verdict]++
	}
	if in.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(struct {
			Results []cloudtest.Result `json:"results"`
		}{results}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", count[cloudtest.Passed], count[cloudtest.Failed], count[cloudtest.Skipped])
	}
	if count[cloudtest.Failed] > 0 {
		return &statusError{status: 1}
	}
	return nil
}

// cluster has classes and Nodes read from a cluster.
func (in *providerTest) cluster(opts *wiretest.Options) error {
	config, err := restConfig(in.kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return err
	}
	opts.Classes = c
	opts.Node = func(t cloudtest.T, id string) *corev1.Node {
		ctx, cancel := context.WithTimeout(t.Context(), joinPatience)
		defer cancel()
		for {
			var nodes corev1.NodeList
			err := c.List(ctx, &nodes)
			for i := range nodes.Items {
				if nodes.Items[i].Spec.ProviderID == id {
					return &nodes.Items[i]
				}
			}
			select {
			case <-ctx.Done():
				t.Fatalf("no Node has the providerID %s after %s: %v", id, joinPatience, err)
			case <-time.After(time.Second):
			}
		}
	}
	return nil
}

func readClasses(stdin io.Reader, path string) (client.Reader, error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	f := &objectFiles{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(in, 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(o.Object) > 0 {
			f.objects = append(f.objects, o)
		}
	}
	if len(f.objects) == 0 {
		return nil, fmt.Errorf("%s has no objects; it must have a node class", path)
	}
	return f, nil
}
