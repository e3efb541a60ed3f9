package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cli/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/groupreader"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// nodeGroupsInput is what the flags say.
type nodeGroupsInput struct {
	kubeconfig, dir, cluster string
	families                 bool
	only                     []string
}

func newMigrateNodeGroups() *cobra.Command {
	var input nodeGroupsInput
	cmd := &cobra.Command{
		Use:   "node-groups",
		Short: "Propose NodePools and EC2NodeClasses for the node groups that Cluster Autoscaler scales",
		Long: `Read which node groups a cluster has, and print NodePools and EC2NodeClasses that stand for
them, with the source of each line. Groups that are alike become one NodePool. After that come,
as comments: the price now and then, an order of draining, and all that has no equivalent.

Nothing is changed, and nothing is launched when the manifests are applied: each NodePool has
limits.cpu 0, with the number to raise it to.

What is read: the labels of Nodes, and of Cluster Autoscaler its Deployment's flags and its
ConfigMaps cluster-autoscaler-status and cluster-autoscaler-priority-expander. With
--cluster-name AWS is asked for managed node groups, Auto Scaling groups that have a tag of the
cluster (k8s.io/cluster-autoscaler/NAME or kubernetes.io/cluster/NAME), and launch templates. Else
no right in the cloud is needed, and what only the cloud knows (role, subnets, security groups) is
named in the notes and must be put in (docs/migrate.md).`,
		Example: `  dovetail migrate node-groups
  dovetail migrate node-groups --cluster-name demo -o migration/
  dovetail migrate node-groups --group web --families`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return migrateNodeGroups(cmd, &input) },
	}
	fs := cmd.Flags()
	fs.StringVar(&input.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	fs.StringVar(&input.cluster, "cluster-name", "", "name of the EKS cluster, whose node groups, Auto Scaling groups and launch templates are read from AWS; empty: AWS is not asked")
	fs.StringVarP(&input.dir, "output", "o", "", "directory to write to, a file for each NodePool and REPORT.txt; empty: standard output")
	fs.BoolVar(&input.families, "families", false, "allow all instance types of the families of a group, not only its own")
	fs.StringSliceVar(&input.only, "group", nil, "names of the groups; empty: all")
	return cmd
}

func migrateNodeGroups(cmd *cobra.Command, input *nodeGroupsInput) error {
	reader, _, err := clusterReader(input.kubeconfig)
	if err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := reader.List(cmd.Context(), &nodes); err != nil {
		return fmt.Errorf("read Nodes: %w", err)
	}
	known, err := groupsInAWS(cmd.Context(), input.cluster)
	if err != nil {
		return err
	}
	members := nodegroups.MembershipOf(known)
	in, notes, err := nodegroups.Read(cmd.Context(), reader, nodes.Items, known)
	if err != nil {
		return err
	}
	if in.Groups, err = chosen(in.Groups, input.only); err != nil {
		return err
	}
	types, err := simulate.CatalogNamed("ec2")
	if err != nil {
		return err
	}
	vocabulary := translate.NewVocabulary(types.Vocabulary.WellKnown, types.Vocabulary.RestrictedDomains)
	proposal := nodegroup.Propose(&in, nodegroup.Options{Families: input.families, CPU: cpusOf(types.Types), Restricted: vocabulary.Restricted})
	done := reportWhenLong(cmd.ErrOrStderr(), "reading pods")
	objects, err := simulate.ObjectsWithoutPools(cmd.Context(), reader)
	done()
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for i := range in.Groups {
		has[in.Groups[i].Name] = true
	}
	groups := slices.DeleteFunc(nodegroups.Groups(objects, members, types.Types, time.Now()), func(g nodegroups.Group) bool { return !has[g.Name] })
	after := priceAfter(objects, &proposal, func(n *corev1.Node) bool { return has[members.GroupOf(n)] }, types)
	return writeProposal(cmd, &proposal, input.dir, func(prefix string) string {
		return nodegroups.Report(&proposal, groups, &after, notes, prefix)
	})
}

// groupsInAWS returns what AWS says of the groups of a cluster; nothing if the cluster is not named.
func groupsInAWS(ctx context.Context, cluster string) ([]nodegroup.Group, error) {
	if cluster == "" {
		return nil, nil
	}
	config, err := aws.LoadConfig(ctx)
	if err != nil {
		return nil, err
	}
	return groupreader.Read(ctx, config, cluster)
}

// chosen returns the groups of these names.
func chosen(groups []nodegroup.Group, names []string) ([]nodegroup.Group, error) {
	var known []string
	for i := range groups {
		known = append(known, groups[i].Name)
	}
	if len(groups) == 0 {
		return nil, errors.New("no Node has a label of a node group (eks.amazonaws.com/nodegroup, alpha.eksctl.io/nodegroup-name, kops.k8s.io/instancegroup), and AWS names none, so there is nothing to translate; with --cluster-name NAME AWS is asked")
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--group %s: there is no such group; there are %s", name, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return groups, nil
	}
	return slices.DeleteFunc(groups, func(g nodegroup.Group) bool { return !slices.Contains(names, g.Name) }), nil
}

func cpusOf(types []*catalog.Type) func(string) int {
	cpus := make(map[string]int, len(types))
	for _, t := range types {
		cpus[t.Name] = int(t.Capacity[quantity.CPU] / 1000)
	}
	return func(name string) int { return cpus[name] }
}

// priceAfter simulates that the nodes of the groups are gone and the limits of the proposed NodePools raised.
func priceAfter(objects []client.Object, p *nodegroup.Proposal, isGone func(*corev1.Node) bool, types simulate.Catalog) (after nodegroups.After) {
	var pools []*karpenterv1.NodePool
	for i := range p.Pools {
		np := &karpenterv1.NodePool{}
		text, _, _ := strings.Cut(p.Pools[i].Manifest, "\n---\n")
		if err := yaml.UnmarshalStrict([]byte(text), np); err != nil {
			return nodegroups.After{Unknown: err.Error()}
		}
		// The catalog names zones by their ids, which no label of a Node has.
		requirements := &np.Spec.Template.Spec.Requirements
		*requirements = slices.DeleteFunc(*requirements, func(r karpenterv1.NodeSelectorRequirementWithMinValues) bool {
			return r.Key == corev1.LabelTopologyZone
		})
		np.Spec.Limits = nil
		if n := p.Pools[i].CPUMax; n > 0 {
			np.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(n), resource.DecimalSI)}
		}
		pools = append(pools, np)
	}
	c, err := simulate.Replacing(objects, pools, isGone, types, time.Now())
	if err != nil {
		return nodegroups.After{Unknown: err.Error()}
	}
	answer, err := simulate.Run(c, simulate.Clock{Now: time.Now, CPU: cpuTime})
	if err != nil {
		return nodegroups.After{Unknown: err.Error()}
	}
	after = nodegroups.After{Nodes: len(answer.Plan.Launches), Pods: len(c.Snapshot.Pending), Refused: answer.Refused(), PriceHourly: answer.Plan.PriceHourly()}
	if after.Refused > 0 {
		after.Why = answer.Plan.Refusals[0].Why.String()
	}
	return after
}

// writeProposal writes manifests and the report: to a directory, or to standard output, where the report is a comment.
func writeProposal(cmd *cobra.Command, p *nodegroup.Proposal, dir string, report func(prefix string) string) error {
	if dir == "" {
		for i := range p.Pools {
			fmt.Fprintf(cmd.OutOrStdout(), "---\n%s", p.Pools[i].Manifest)
		}
		fmt.Fprint(cmd.OutOrStdout(), report("# "))
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	files := map[string]string{"REPORT.txt": report("")}
	for i := range p.Pools {
		files[p.Pools[i].Name+".yaml"] = p.Pools[i].Manifest
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %d manifests and REPORT.txt to %s\n", len(p.Pools), dir)
	return nil
}
