module github.com/dovetail-sh/dovetail/tools/capi/earlier

go 1.26.0

require sigs.k8s.io/cluster-api v1.10.6
