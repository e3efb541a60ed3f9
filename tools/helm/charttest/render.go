// Package charttest renders the charts in deploy/charts as Helm does, without a cluster. Its tests hold
// what every value does.
package charttest

import (
	_ "helm.sh/helm/v4/pkg/action"
	_ "helm.sh/helm/v4/pkg/chart/loader"
	_ "sigs.k8s.io/yaml"
)
