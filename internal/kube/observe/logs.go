package observe

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Messages of log lines that tools for Karpenter's logs look for, but for LogDeleting, which is ours.
const (
	LogFoundPods    = "found provisionable pod(s)"
	LogComputed     = "computed new nodeclaim(s) to fit pod(s)"
	LogCreated      = "created nodeclaim"
	LogLaunched     = "launched nodeclaim"
	LogRegistered   = "registered nodeclaim"
	LogInitialized  = "initialized nodeclaim"
	LogDisrupting   = "disrupting node(s)"
	LogAnnotated    = "annotated nodeclaim"
	LogTainted      = "tainted node"
	LogDeletedNode  = "deleted node"
	LogDeletedClaim = "deleted nodeclaim"
	LogDeleting     = "deleting nodeclaim"
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

// Logged writes a line of level Info under one of these messages. Keys may be Karpenter's, which are
// not all in snake case, and the line's place is the caller's.
//
//nolint:contextcheck,nolintlint // a handler takes nothing from the context; contextcheck heeds this, and nolintlint does not see it
func Logged(log *slog.Logger, message string, args ...any) {
	ctx := context.Background()
	if !log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	var caller [1]uintptr
	runtime.Callers(2, caller[:])                                       // without this function and Callers
	r := slog.NewRecord(time.Now(), slog.LevelInfo, message, caller[0]) //nolint:forbidigo // as slog.Logger does
	r.Add(args...)
	_ = log.Handler().Handle(ctx, r) // as slog.Logger does
}
