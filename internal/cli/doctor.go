package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/doctor"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// doctorInput is what the flags say.
type doctorInput struct {
	kubeconfig, provider, cluster, queue, role, gates, output, from string
	// management and namespace are of Cluster API.
	management, namespace string
}

func (in *doctorInput) providers() []string { return strings.Split(in.provider, ",") }

func newDoctor() *cobra.Command {
	var input doctorInput
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what a cluster and an AWS account lack before the autoscaler is installed",
		Long: `Check whether a cluster, and the AWS account that the environment names, have what the
autoscaler needs: credentials, clock, versions, definitions, subnets and security groups by
tag, images, roles, the interruption queue, permissions; of Cluster API the management cluster,
rights in it, and what node classes would launch from.
Nothing is changed: calls that would change something are dry runs. Permissions are those
of the caller: run it with the controller's role to check that role.

The exit status is 0 if nothing has failed, else 1 (docs/reference/doctor.md).`,
		Example: `  dovetail doctor --cluster-name demo --interruption-queue demo
  dovetail doctor --cluster-name demo --output json | jq '.findings[] | select(.status == "failed")'
  dovetail doctor --cloud-provider clusterapi --cluster-api-kubeconfig mgmt.kubeconfig --cluster-api-namespace metal
  dovetail doctor --cloud-provider kwok
  dovetail doctor --cluster-name demo --migrate-from cluster-autoscaler`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return examine(cmd, &input) },
	}
	fs := cmd.Flags()
	fs.StringVar(&input.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	fs.StringVar(&input.provider, "cloud-provider", cmp.Or(os.Getenv("CLOUD_PROVIDER"), "aws"), "as of the controller: aws, clusterapi, kwok or remote, or several with commas between; of aws the account is checked, of clusterapi the management cluster")
	fs.StringVar(&input.management, "cluster-api-kubeconfig", "", "clusterapi: how to reach the management cluster; empty: it is the same cluster")
	fs.StringVar(&input.namespace, "cluster-api-namespace", "", "clusterapi: the namespace of the management cluster that has the Cluster; empty: any")
	fs.StringVar(&input.cluster, "cluster-name", os.Getenv("CLUSTER_NAME"), "name of the EKS cluster, and value of the tag karpenter.sh/discovery")
	fs.StringVar(&input.queue, "interruption-queue", os.Getenv("INTERRUPTION_QUEUE"), "name of the SQS queue with EC2's notices")
	fs.StringVar(&input.role, "node-role", "", "name of the role that instances get; empty: KarpenterNodeRole-<cluster>")
	fs.StringVar(&input.gates, "aws-feature-gates", os.Getenv("AWS_FEATURE_GATES"), "as of the controller; with RebootForRepair=true it is tried whether instances may be rebooted")
	fs.StringVar(&input.from, "migrate-from", "", "cluster-autoscaler: say besides what a migration from it must look out for")
	fs.StringVarP(&input.output, "output", "o", "table", "table or json")
	return cmd
}

func examine(cmd *cobra.Command, input *doctorInput) error {
	switch {
	case input.output != "table" && input.output != "json":
		return wrongUse(cmd, fmt.Errorf("--output is %q, must be table or json", input.output))
	case input.from != "" && input.from != "cluster-autoscaler":
		return wrongUse(cmd, fmt.Errorf("--migrate-from is %q, must be cluster-autoscaler", input.from))
	case slices.ContainsFunc(input.providers(), func(p string) bool { return !slices.Contains([]string{"aws", "clusterapi", "kwok", "remote"}, p) }):
		return wrongUse(cmd, fmt.Errorf("--cloud-provider is %q, must be aws, clusterapi, kwok or remote, or several of these with commas between", input.provider))
	case !slices.Contains(input.providers(), "clusterapi") && input.management+input.namespace != "":
		return wrongUse(cmd, errors.New("--cluster-api-kubeconfig and --cluster-api-namespace need --cloud-provider clusterapi"))
	case slices.Contains(input.providers(), "aws") && input.cluster == "":
		return wrongUse(cmd, errors.New("--cluster-name is empty; it must be the name of the EKS cluster"))
	}
	reboots, err := operator.RebootForRepair(input.gates)
	if err != nil {
		return wrongUse(cmd, err)
	}
	found := examineCluster(cmd.Context(), input)
	if slices.Contains(input.providers(), "aws") {
		found = append(found, examineAccount(cmd.Context(), input, reboots)...)
	}
	show := doctor.Table
	if input.output == "json" {
		show = doctor.JSON
	}
	if err := show(cmd.OutOrStdout(), found); err != nil {
		return err
	}
	if doctor.Failures(found) > 0 {
		return &statusError{status: 1}
	}
	return nil
}

func examineCluster(ctx context.Context, input *doctorInput) []doctor.Finding {
	config, err := restConfig(input.kubeconfig)
	if err != nil {
		return []doctor.Finding{{Check: "Kubernetes", Status: checkup.Failed, Found: err.Error(), Remedy: "give --kubeconfig"}}
	}
	found := doctor.Cluster(ctx, config, input.providers(), time.Now())
	if slices.Contains(input.providers(), "clusterapi") {
		found = append(found, examineClusterAPI(ctx, config, input)...)
	}
	if input.from != "" {
		found = append(found, doctor.ClusterAutoscaler(ctx, config)...)
	}
	return found
}

func examineClusterAPI(ctx context.Context, config *rest.Config, input *doctorInput) []doctor.Finding {
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return nil // that the cluster cannot be reached is said already
	}
	management, err := managementOf(config, input.management, input.namespace)
	if err != nil {
		return []doctor.Finding{{Check: "management cluster", Status: checkup.Failed, Found: err.Error(), Remedy: "give --cluster-api-kubeconfig for a management cluster that can be reached from here"}}
	}
	return doctor.ClusterAPI(ctx, c, management)
}

func examineAccount(ctx context.Context, input *doctorInput, reboots bool) []doctor.Finding {
	config, err := aws.LoadConfig(ctx)
	if err != nil {
		return []doctor.Finding{{Check: "credentials", Status: checkup.Failed, Found: err.Error(), Remedy: "set AWS_REGION, and AWS_PROFILE or keys"}}
	}
	return checkup.Check(ctx, checkup.Options{
		Config: config, Cluster: input.cluster, Queue: input.queue, NodeRole: cmp.Or(input.role, "KarpenterNodeRole-"+input.cluster), Now: time.Now, Reboots: reboots,
	})
}
