package observe

import (
	"log/slog"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Messages of log lines that tools for Karpenter's logs look for.
const (
	LogFoundPods    = "found provisionable pod(s)"
	LogComputed     = "computed new nodeclaim(s) to fit pod(s)"
	LogCreated      = "created nodeclaim"
	LogLaunched     = "launched nodeclaim"
	LogRegistered   = "registered nodeclaim"
	LogInitialized  = "initialized nodeclaim"
	LogDisrupting   = "disrupting node(s)"
	LogTainted      = "tainted node"
	LogDeletedNode  = "deleted node"
	LogDeletedClaim = "deleted nodeclaim"
	LogInterrupted  = "initiating delete from interruption message"
)

// Named returns an object as a log line names it, under its kind; nothing if it has no name.
func Named(kind, name string) slog.Attr {
	if name == "" {
		return slog.Attr{}
	}
	return slog.Group(kind, slog.String("name", name))
}

// Amounts returns resources as a log line shows them: in Kubernetes' notation.
func Amounts(key string, amounts quantity.List) slog.Attr {
	var attrs []any
	for name, q := range translate.ResourceList(amounts) {
		attrs = append(attrs, slog.String(string(name), q.String()))
	}
	return slog.Group(key, attrs...)
}
