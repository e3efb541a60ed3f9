// Package earlier pins the release of Cluster API that the earlier Karpenter provider for it was made for. Make bin/capi
// copies its definitions, which serve v1beta1 alone. It is a module of its own since a module has one version of another.
package earlier

import _ "sigs.k8s.io/cluster-api/errors" // the smallest of its packages
