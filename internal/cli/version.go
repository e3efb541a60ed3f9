package cli

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
)

// version and revision are set by the linker where an image is built. What is here is what a build
// without them says.
var version, revision = "0.1.0-dev", "" //nolint:gochecknoglobals // the linker sets no constants

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, and the APIs that are served", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

// versionText is what the command version and the flag of that name print.
func versionText() string {
	var apis []string
	for _, gv := range []schema.GroupVersion{
		karpenterv1.GroupVersion, karpenterv1alpha1.GroupVersion, awsv1.GroupVersion, kwokv1alpha1.GroupVersion, clusterapiv1alpha1.GroupVersion, autoscalingv1beta1.GroupVersion,
	} {
		apis = append(apis, gv.String())
	}
	return fmt.Sprintf("dovetail %s (%s)\nAPIs: %s\n", version, commit(), strings.Join(apis, ", "))
}

// commit returns the revision that the binary was built from, shortened.
func commit() string {
	const length = 7
	if revision != "" {
		return revision[:min(length, len(revision))]
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(length, len(s.Value))]
		}
	}
	return "unknown"
}
